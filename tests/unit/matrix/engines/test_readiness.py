"""The texts that announce a phase, against logs."""

from pathlib import Path

import pytest

from matrix.engines.flags import FlagTable
from matrix.engines.overlay import load_overlay
from matrix.engines.readiness import phase_marks
from repro.errors import SpecError

STOCK = load_overlay("stock")
RECORDED = Path(__file__).parents[3] / "data" / "sglang-0.5.23"


@pytest.mark.parametrize("version", FlagTable.load().versions)
def test_each_release_announces_three_phases(version: str) -> None:
    assert [mark.phase for mark in phase_marks(version, STOCK)] == ["weights_load", "graph_capture", "warmup"]


@pytest.mark.parametrize("cell", ["ar", "b16t8"])
def test_a_recorded_start_without_graphs(cell: str) -> None:
    lines = (RECORDED / f"{cell}-server.log").read_text().splitlines()
    first = {}
    for mark in phase_marks("0.5.23", STOCK):
        first[mark.phase] = next(
            (place for place, line in enumerate(lines) if any(text in line for text in mark.texts)), None
        )
    assert first["graph_capture"] is None
    weights, warmup = first["weights_load"], first["warmup"]
    assert weights is not None
    assert warmup is not None
    assert weights < warmup


@pytest.mark.parametrize(
    ("version", "line"),
    [
        ("0.5.9", "Capture cuda graph begin. This can take up to several minutes. avail mem=58.10 GB"),
        ("0.5.13.post1", "Capture piecewise CUDA graph begin. avail mem=1.00 GB"),
        ("0.5.15.post1", "Capture target verify CUDA graph begin. backend=full, num_tokens_per_bs=17, bs=[1]"),
        ("0.5.23", "Capture draft extend CUDA graph begin. backend=full, num_tokens_per_req=9"),
    ],
)
def test_capture_begins(version: str, line: str) -> None:
    assert any(text in line for text in phase_marks(version, STOCK)[1].texts)


def test_an_unknown_release_is_an_error() -> None:
    with pytest.raises(SpecError, match="unknown SGLang release"):
        phase_marks("1.0", STOCK)
    with pytest.raises(SpecError, match="unknown SGLang release"):
        phase_marks("1.0")


def test_a_private_build_and_the_simulated_engine() -> None:
    assert phase_marks("0.5.16.dev1", load_overlay("pr29907")) == phase_marks("0.5.15.post1", STOCK)
    assert phase_marks("0.5.23") == phase_marks("0.5.23", STOCK)
    assert phase_marks("1", load_overlay("simulated")) == phase_marks(FlagTable.load().newest(), STOCK)
