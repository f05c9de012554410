"""Words for what is gained, from a run in which a tree stops gaining."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from report.best import best_configurations, crossovers
from report.gains import BEST_HEADINGS, best_rows, changed_words, crossover_words, speedup_words
from report.load import LoadedRun, load
from repro import codec
from repro.model import Crossover, Findings

RECORDS = Path(__file__).parents[2] / "data" / "records"
TREE, AR, CHAIN = "cpu-b8t4-eager-nonvls", "cpu-ar-eager-nonvls", "cpu-c7-eager-nonvls"


@pytest.fixture
def run(tmp_path: Path, make: SimpleNamespace) -> LoadedRun:
    """A tree that is twice as fast as no speculation at concurrency 1, 10 % faster at 8, and 10 % slower at 64."""
    rates = {TREE: (200.0, 1100.0, 3600.0), AR: (100.0, 1000.0, 4000.0)}
    launches = []
    for cell, levels in rates.items():
        at = make.coordinates(cell)
        drafts = cell == TREE
        proof = [
            make.proof("graph_replayed", False, False),
            make.proof("algorithm", *["DDTREE" if drafts else None] * 2),
        ]
        proof += [make.proof("width", 9, 9), make.proof("topk", at.topk, at.topk)] if drafts else []
        for number in (1, 2, 3):
            measurements = [
                make.number("output_rate", rate * (1 + number / 1000), "tok/s", concurrency=level)
                for level, rate in zip((1, 8, 64), levels, strict=True)
            ]
            measurements += [make.number("step_time", 20.0 if drafts else 10.0, "ms", concurrency=1)]
            checks = tuple(
                make.check("throughput", measurements=measurements) if check.check == "throughput" else check
                for check in make.checks(4.0 if drafts else None)
            )
            role = "cell" if drafts else "reference"
            launches.append(make.Launch(cell, number, checks=checks, proof=tuple(proof), role=role))
    make.write_run(tmp_path, make.run_record(), launches, planned=dict.fromkeys(rates, 3))
    return load([tmp_path]).newest()[0]


def test_the_crossover_is_a_bracket_of_measured_levels(run: LoadedRun) -> None:
    (found,) = crossovers(run)
    assert (found.cell, found.over, found.other) == (TREE, "ar", AR)
    assert (found.state, found.last_faster, found.first_slower) == ("crosses", 8, 64)
    assert [level.state for level in found.levels] == ["faster", "faster", "slower"]
    assert crossover_words(found).endswith("faster up to concurrency 8, slower at 64")


def test_steps_and_time_a_step_apart(run: LoadedRun) -> None:
    first, second, third = best_configurations(run)
    assert [found.cell for found in (first, second, third)] == [TREE, TREE, AR]
    ar, chain = first.speedups
    assert (ar.ratio, ar.steps, ar.step_time, ar.step_time_basis) == (2.0, 4.0, 2.0, "measured")
    assert "at 2 \N{MULTIPLICATION SIGN} the time" in speedup_words(ar)
    assert speedup_words(chain) == "no stable cell of a flat chain of at most this budget"
    assert second.speedups[0].step_time_basis == "derived"
    assert speedup_words(second.speedups[0]).endswith("the time (derived)")
    assert third.speedups[0].reason == "it is this arm itself"


def test_rows_fit_their_headings(run: LoadedRun) -> None:
    rows = best_rows(best_configurations(run))
    assert {len(row) for row in rows} == {len(BEST_HEADINGS)}
    assert rows[0][:2] == ("1", TREE)
    assert rows[0][3] == "below 63 %"


def test_a_sentence_for_every_state() -> None:
    record = codec.read(RECORDS / "findings-v2.json", Findings)
    (found,) = record.crossovers
    told = set()
    for state in ("crosses", "stops_between", "always_faster", "never_faster", "mixed"):
        document = codec.encode(record)
        document["crossovers"][0]["state"] = state
        (one,) = codec.decode(document, Findings, where="it").crossovers
        assert isinstance(one, Crossover)
        told.add(crossover_words(one))
    assert len(told) == 5
    assert crossover_words(found) in told


def test_what_changed_is_said() -> None:
    record = codec.read(RECORDS / "findings-v2.json", Findings)
    assert [changed_words(item) for item in record.comparisons] == [
        "",
        "",
        "what changed: engine_version is 0.5.23 here and 0.5.22 there",
    ]
