"""The archived baselines say what the account states, and no more."""

import re
from importlib import resources
from pathlib import Path

import pytest

from repro import baselines
from repro.errors import RecordError
from repro.model import Baseline

NAMES = (
    "auto",
    "autoregressive",
    "b12_graph",
    "b16t8_eager",
    "b16t8_graph",
    "b32_sm_120",
    "b32t8_graph",
    "b8t4_acceptance",
    "b8t4_w2048",
    "nvls_b8t4",
)
NOT_STATED = "not stated in the archived account"


def by_name() -> dict[str, Baseline]:
    return {baseline.name: baseline for baseline in baselines.load()}


def test_every_row_of_the_account_has_a_record() -> None:
    assert tuple(by_name()) == NAMES


@pytest.mark.parametrize(
    ("name", "number", "at", "value", "basis"),
    [
        ("nvls_b8t4", "output_rate", {"concurrency": 1}, 303.0, "stated"),
        ("nvls_b8t4", "output_rate", {"concurrency": 128}, 4723.0, "stated"),
        ("nvls_b8t4", "ready", {}, 150.0, "stated"),
        ("b8t4_w2048", "output_rate", {"concurrency": 1}, 285.0, "inferred"),
        ("b8t4_acceptance", "acceptance", {}, 4.48, "stated"),
        ("b16t8_eager", "output_rate", {"concurrency": 1}, 111.0, "stated"),
        ("b16t8_eager", "coding_correct", {}, 5.0, "stated"),
        ("b32t8_graph", "coding_correct", {}, 0.0, "stated"),
        ("b32t8_graph", "acceptance", {}, 1.0, "stated"),
        ("autoregressive", "output_rate", {"concurrency": 1}, 140.9, "derived"),
    ],
)
def test_figures(name: str, number: str, at: dict[str, int], value: float, basis: str) -> None:
    (found,) = [m for m in by_name()[name].measurements if m.name == number and m.at == at]
    assert (found.value, found.basis) == (value, basis)


def test_the_derived_figure_follows_from_the_stated_ratio() -> None:
    assert round(303 / 2.15, 1) == 140.9
    assert "2.15" in by_name()["autoregressive"].unknown["output_rate"]


def test_a_range_stays_a_range() -> None:
    (acceptance,) = [m for m in by_name()["b16t8_eager"].measurements if m.name == "acceptance"]
    assert (acceptance.value, acceptance.low, acceptance.high) == (None, 5.3, 6.4)


def test_a_crash_has_no_figure() -> None:
    for name in ("b12_graph", "b16t8_graph"):
        assert by_name()[name].outcome == "crashed"
        assert by_name()[name].measurements == ()


def test_auto_is_named_and_has_no_figure() -> None:
    auto = by_name()["auto"]
    assert auto.measurements == ()
    assert {auto.budget, auto.topk, auto.graph, auto.nvls, auto.outcome} == {None}


@pytest.mark.parametrize("baseline", baselines.load(), ids=lambda baseline: baseline.name)
def test_what_is_not_stated_is_null_with_a_reason(baseline: Baseline) -> None:
    for field in ("target", "budget", "topk", "shape", "graph", "nvls", "outcome"):
        assert (getattr(baseline, field) is None) == (field in baseline.unknown), field
    for name in ("gpu_driver", "engine_commit", "image_digest", "load_shape", "model_digest"):
        assert baseline.facts[name].value is None
        assert baseline.facts[name].reason == NOT_STATED


def test_architecture_is_the_one_of_the_machine() -> None:
    for baseline in baselines.load():
        expected = "sm_120" if baseline.target == "rtxpro6000" else "sm_103"
        assert baseline.facts["architecture"].value == expected


def test_every_archived_file_is_accounted_for() -> None:
    assert set(baselines.ARCHIVED_FILES) == {"b8t4_w2048", "auto", "nvls_b8t4", "b16t8", "b32t8"}
    assert {name for names in baselines.ARCHIVED_FILES.values() for name in names} <= set(NAMES)
    assert baselines.archived_file("b16t8_graph") == "b16t8"
    assert baselines.archived_file("b12_graph") is None


def test_the_doubtful_statements_of_the_account_are_not_repeated() -> None:
    folder = resources.files("repro.baselines")
    for file in folder.iterdir():
        if file.name.endswith(".json"):
            text = file.read_text(encoding="utf-8").lower()
            assert not re.search(r"8\.9|non-uniform|kernel bug|compute was idle", text), file.name


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "b8t4.json").write_text('{"record": "baseline", "schema_version": 1}', encoding="utf-8")
    with pytest.raises(RecordError, match=r"b8t4\.json"):
        baselines.load_folder(tmp_path)
