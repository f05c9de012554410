"""Runs before and after a change, through the report itself: what may differ, and what is said of it."""

import random
from math import exp
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from report.best import best_configurations
from report.cli import main
from report.load import load
from repro import codec
from repro.environment import subject_fields
from repro.errors import SpecError
from repro.model import Baseline, Comparison, Fact, Findings

CELL = "cpu-b8t4-eager-nonvls"
ARMS = ("cpu-ar-eager-nonvls", CELL, "cpu-c7-eager-nonvls")
BETWEEN, WITHIN, ROUNDS = 0.01, 0.006, 5


def rates(chance: random.Random, count: int, rate: float) -> list[float]:
    """Launch means with the noise model of docs/report.md: 0.6 % within and 1 % between launches, log-normal."""
    launches = [chance.gauss(0, BETWEEN) for _ in range(count)]
    return [rate * sum(exp(at + chance.gauss(0, WITHIN)) for _ in range(ROUNDS)) / ROUNDS for at in launches]


def proofs(make: SimpleNamespace, cell: str) -> tuple[Any, ...]:
    at = make.coordinates(cell)
    found = [make.proof("graph_replayed", at.graph == "graph", at.graph == "graph")]
    found.append(
        make.proof("algorithm", None if at.shape == "none" else "DDTREE", None if at.shape == "none" else "DDTREE")
    )
    if at.budget:
        found += [make.proof("width", at.budget + 1, at.budget + 1), make.proof("topk", at.topk, at.topk)]
    return tuple(found)


def write(make: SimpleNamespace, root: Path, name: str, measured: dict[str, list[float]], **facts: Fact) -> Path:
    """A run with these output rates at concurrency 1, one launch for each; three times as much at 8."""
    launches = [
        make.Launch(
            cell,
            number,
            checks=make.checks(None if "-ar-" in cell else 3.3, rate),
            proof=proofs(make, cell),
            role="reference" if "-ar-" in cell else "cell",
            facts=facts,
        )
        for cell, values in measured.items()
        for number, rate in enumerate(values, start=1)
    ]
    planned = {cell: len(values) for cell, values in measured.items()}
    return Path(make.write_run(root / name, make.run_record(run_id=name), launches, planned=planned))


def build(root: Path, *more: str) -> Findings:
    command = ["build", "--results", str(root / "after"), "--against", str(root / "before"), "--out", str(root / "out")]
    assert main([*command, *more]) == 0
    return codec.read(root / "out/findings.json", Findings)


def compared(found: Findings) -> Comparison:
    (item,) = [item for item in found.comparisons if item.baseline == "run-before" and item.cell == CELL]
    return item


def rate_of(item: Comparison, concurrency: int = 1) -> Any:
    return next(n for n in item.numbers if n.name == "output_rate" and n.at == {"concurrency": concurrency})


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("slowdown", [0.05, 0.0])
def test_a_planted_slowdown_through_the_whole_report(
    tmp_path: Path, make: SimpleNamespace, seed: int, slowdown: float
) -> None:
    chance = random.Random(seed)
    for name, rate in (("before", 245.0), ("after", 245.0 * (1 - slowdown))):
        write(make, tmp_path, name, {CELL: rates(chance, 10, rate), ARMS[0]: rates(chance, 10, 140.0)})
    item = compared(build(tmp_path))
    number = rate_of(item)
    assert item.comparable == "comparable"
    assert (number.ours_n, number.baseline_n, number.margin) == (10, 10, 0.03)
    assert number.ratio_low < number.ratio < number.ratio_high
    if slowdown:
        assert (item.change, number.change) == ("regression", "regression")
        assert number.ratio == pytest.approx(0.95, abs=0.02)
        assert number.ratio_high < 1
    else:
        assert number.change in {"equivalent", "undecided"}


def facts_of(make: SimpleNamespace, **values: str) -> dict[str, Fact]:
    return {name: make.fact(value) for name, value in values.items()}


@pytest.mark.parametrize("field", ["gpu_driver", "cuda_toolkit", "model_digest", "gpu_power_limit_w", "image_digest"])
def test_one_difference_that_nobody_declared_makes_it_incomparable(
    tmp_path: Path, make: SimpleNamespace, field: str
) -> None:
    known = facts_of(make, gpu_driver="580.95", cuda_toolkit="13.0", gpu_power_limit_w="1100", image_digest="sha256:1")
    known |= {"gpu_count": make.fact(8), "gpu_name": make.fact("a GPU"), "gpu_max_sm_clock_mhz": make.fact(1920.0)}
    write(make, tmp_path, "before", {CELL: [245.0] * 5}, **known)
    write(make, tmp_path, "after", {CELL: [245.0] * 5}, **{**known, field: make.fact("another")})
    item = compared(build(tmp_path))
    assert (item.comparable, item.change) == ("not_comparable", None)
    assert item.reasons[0].startswith(f"{field} is another here")
    names = {"gpu_driver": "driver", "cuda_toolkit": "cuda", "model_digest": "model", "image_digest": "image"}
    declared = compared(build(tmp_path, "--changed", names.get(field, field)))
    assert declared.comparable == "comparable"
    assert declared.changed[0].startswith(f"{field} is another here")


def test_before_and_after_an_upgrade_of_the_engine_compares_by_rule(tmp_path: Path, make: SimpleNamespace) -> None:
    write(make, tmp_path, "before", {CELL: [245.0] * 5}, **facts_of(make, engine_version="0.5.23", engine_commit="a"))
    write(make, tmp_path, "after", {CELL: [245.0] * 5}, **facts_of(make, engine_version="0.5.24", engine_commit="b"))
    item = compared(build(tmp_path))
    assert (item.comparable, item.reasons == ()) == ("comparable", False)
    assert item.changed == ("engine_version is 0.5.24 here and 0.5.23 there", "engine_commit is b here and a there")


def test_an_upgrade_excuses_no_other_difference(tmp_path: Path, make: SimpleNamespace) -> None:
    write(make, tmp_path, "before", {CELL: [245.0] * 5}, **facts_of(make, engine_version="0.5.23"))
    write(make, tmp_path, "after", {CELL: [245.0] * 5}, **facts_of(make, engine_version="0.5.24", dtype="float16"))
    item = compared(build(tmp_path))
    assert item.comparable == "not_comparable"
    assert item.reasons == ("dtype is float16 here and float32 there",)


def test_a_declared_change_that_is_none_is_told(tmp_path: Path, make: SimpleNamespace) -> None:
    for name in ("before", "after"):
        write(make, tmp_path, name, {CELL: [245.0] * 5})
    item = compared(build(tmp_path, "--changed", "engine_version"))
    assert any("was declared as changed, and is 0.5.23 on both sides" in said for said in item.changed)


def test_the_margin_can_be_stated(tmp_path: Path, make: SimpleNamespace) -> None:
    chance = random.Random(3)
    for name in ("before", "after"):
        write(make, tmp_path, name, {CELL: rates(chance, 10, 245.0)})
    assert rate_of(compared(build(tmp_path, "--margin", "0.1"))).change == "undecided"
    assert rate_of(compared(build(tmp_path, "--margin", "10"))).change == "equivalent"


@pytest.mark.parametrize(
    "wrong", [["--changed", "colour"], ["--margin", "0"], ["--margin", "x"], ["--baselines", "no"]]
)
def test_what_cannot_be_declared_is_refused(tmp_path: Path, make: SimpleNamespace, wrong: list[str]) -> None:
    write(make, tmp_path, "after", {CELL: [245.0]})
    assert main(["build", "--results", str(tmp_path / "after"), "--out", str(tmp_path / "out"), *wrong]) == 2


def test_names_of_what_may_change() -> None:
    assert subject_fields(["driver", "dtype"]) == {"gpu_driver", "dtype"}
    with pytest.raises(SpecError, match="'colour' is nothing that can be declared"):
        subject_fields(["colour"])


# --- promoted baselines -----------------------------------------------------------------------------------------------


def promote(root: Path, name: str, cell: str = CELL, *more: str) -> int:
    return main(["promote", str(root / "before"), cell, "--as", name, "--baselines", str(root / "own"), *more])


def test_a_promoted_baseline_compares_like_the_run_it_is_from(tmp_path: Path, make: SimpleNamespace) -> None:
    chance = random.Random(5)
    write(make, tmp_path, "before", {CELL: rates(chance, 10, 245.0)})
    write(make, tmp_path, "after", {CELL: rates(chance, 10, 225.0)})
    assert promote(tmp_path, "last_week") == 0
    record = codec.read(tmp_path / "own/last_week.json", Baseline)
    number = next(n for n in record.measurements if n.name == "output_rate" and n.at == {"concurrency": 1})
    assert (number.n, len(number.values), number.basis) == (10, 10, "measured")
    assert number.low is not None
    assert number.low < (number.value or 0) < (number.high or 0)
    assert record.facts["cpu_model"].status == "verified"
    assert record.failures is not None
    assert (record.failures.k, record.failures.n) == (0, 10)
    found = build(tmp_path, "--baselines", str(tmp_path / "own"))
    (item,) = [item for item in found.comparisons if item.baseline == "last_week"]
    assert (item.comparable, item.change) == ("comparable", "regression")
    wanted = rate_of(compared(found))
    assert (rate_of(item).ratio, rate_of(item).change) == (wanted.ratio, wanted.change)


def test_a_promoted_baseline_from_before_an_upgrade_compares_too(tmp_path: Path, make: SimpleNamespace) -> None:
    write(make, tmp_path, "before", {CELL: [245.0] * 5}, **facts_of(make, engine_version="0.5.23"))
    write(make, tmp_path, "after", {CELL: [245.0] * 5}, **facts_of(make, engine_version="0.5.24"))
    assert promote(tmp_path, "old") == 0
    found = build(tmp_path, "--baselines", str(tmp_path / "own"))
    (item,) = [item for item in found.comparisons if item.baseline == "old"]
    assert (item.comparable, item.change) == ("comparable", "equivalent")
    assert item.changed == ("engine_version is 0.5.24 here and 0.5.23 there",)


def test_promote_refuses_what_is_no_baseline(
    tmp_path: Path, make: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    write(make, tmp_path, "before", {CELL: [245.0], "cpu-b16t8-eager-nonvls+tp1": [200.0]})
    assert promote(tmp_path, "x", "cpu-nothing") == 2
    assert CELL in capsys.readouterr().err
    assert promote(tmp_path, "x", "cpu-b16t8-eager-nonvls+tp1") == 2
    assert promote(tmp_path, "x") == 0
    assert promote(tmp_path, "x") == 2
    assert promote(tmp_path, "x", CELL, "--replace") == 0
    fault = make.Planted(fault="hang", number=None)
    make.write_run(
        tmp_path / "bad", make.run_record(run_id="bad"), [make.Launch(CELL, planted=fault)], planned={CELL: 1}
    )
    assert main(["promote", str(tmp_path / "bad"), CELL, "--as", "y", "--baselines", str(tmp_path / "own")]) == 2


def test_a_baseline_that_cannot_be_read_is_named_and_the_rest_is_used(tmp_path: Path, make: SimpleNamespace) -> None:
    for name in ("before", "after"):
        write(make, tmp_path, name, {CELL: [245.0]})
    assert promote(tmp_path, "good") == 0
    (tmp_path / "own/bad.json").write_text("{", encoding="utf-8")
    (tmp_path / "own/other.json").write_bytes((tmp_path / "own/good.json").read_bytes())
    found = build(tmp_path, "--baselines", str(tmp_path / "own"))
    assert {problem.path for problem in found.problems} == {"own/bad.json", "own/other.json"}
    assert "good" in {item.baseline for item in found.comparisons}


# --- the best stable configuration ------------------------------------------------------------------------------------


def test_the_best_stable_configuration_and_what_it_gains(tmp_path: Path, make: SimpleNamespace) -> None:
    chance = random.Random(7)
    measured = {cell: rates(chance, 5, rate) for cell, rate in zip(ARMS, (140.0, 280.0, 210.0), strict=True)}
    write(make, tmp_path, "before", measured)
    (run,) = load([tmp_path / "before"]).newest()
    first, second = best_configurations(run)
    assert (first.concurrency, second.concurrency) == (1, 8)
    assert (first.cell, first.n, first.not_shown_slower) == (CELL, 5, ())
    assert first.rate == pytest.approx(280, rel=0.02)
    assert first.failure_bound == pytest.approx(0.4507, abs=1e-4)
    ar, chain = first.speedups
    assert (ar.over, ar.cell, chain.over, chain.cell) == ("ar", ARMS[0], "chain", ARMS[2])
    assert ar.ratio == pytest.approx(2, rel=0.03)
    assert ar.low is not None
    assert ar.low < (ar.ratio or 0)
    assert (ar.steps, ar.step_time_basis) == (3.3, "derived")
    assert ar.step_time == pytest.approx(3.3 / (ar.ratio or 1), rel=1e-3)
    assert chain.ratio == pytest.approx(280 / 210, rel=0.03)


def test_a_failing_cell_is_never_the_best(tmp_path: Path, make: SimpleNamespace) -> None:
    crashed = make.Launch(CELL, 2, "crashed", "ended in serving", checks=(), diagnosis=make.illegal_access())
    fast = make.Launch(CELL, checks=make.checks(3.3, 900.0), proof=proofs(make, CELL))
    slow = make.Launch(ARMS[2], checks=make.checks(2.0, 200.0), proof=proofs(make, ARMS[2]))
    make.write_run(tmp_path, make.run_record(), [fast, crashed, slow], planned={CELL: 2, ARMS[2]: 1})
    (run,) = load([tmp_path]).newest()
    assert {found.cell for found in best_configurations(run)} == {ARMS[2]}
    assert all(one.ratio is None and one.reason for found in best_configurations(run) for one in found.speedups)


def test_a_cell_that_may_be_as_fast_is_named(tmp_path: Path, make: SimpleNamespace) -> None:
    write(make, tmp_path, "before", {CELL: [280.0, 281.0, 279.5], ARMS[2]: [279.0, 280.5, 280.0], ARMS[0]: [100.0] * 3})
    (run,) = load([tmp_path / "before"]).newest()
    assert best_configurations(run)[0].not_shown_slower == (ARMS[2],)


def test_a_planted_run_has_no_best_configuration(planted: Path) -> None:
    assert [best_configurations(run) for run in load([planted]).newest()] == [()]
