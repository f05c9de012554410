"""From a finding or a cell to what a bundle is made of."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from repro import store
from repro.bundle.contents import gather
from repro.errors import RecordError, SpecError
from repro.model import EvidenceLink

BAD, GOOD, AR = "sim-b16t8-graph-nvls", "sim-b8t4-graph-nvls", "sim-ar-graph-nvls"
RUN = "20260914T081502Z-sim"


def findings_of(
    example: Any, place: Path, cell: str = BAD, run: str = RUN, kind: str = "cuda_illegal_memory_access"
) -> Path:
    document = example("findings")
    link = EvidenceLink(cell=cell, attempt=2, path=f"sim/{run}/cells/{cell}/2/evidence/server.log", text="line 4")
    finding = dataclasses.replace(document.findings[0], id="f-3a91c07d42", kind=kind, cells=(cell,), evidence=(link,))
    place.parent.mkdir(parents=True, exist_ok=True)
    store.write_record(place, dataclasses.replace(document, findings=(finding,)))
    return place


@pytest.fixture
def example() -> Any:
    import schemas
    from repro import codec
    from repro.model import RECORDS

    files = Path(__file__).parents[3] / "data" / "records"
    return lambda name: codec.read(files / f"{name}-v{schemas.version(name)}.json", RECORDS[name])


def test_failing_launches_of_a_cell(failing: Any) -> None:
    found = gather(BAD, failing.root)
    assert [(item.result.attempt, item.fails) for item in found.attempts] == [(1, True), (2, True)]
    assert found.k_of_n == (2, 3)
    assert found.subject.cells == (BAD,)
    assert found.subject.attempts == (f"{RUN}/{BAD}/1", f"{RUN}/{BAD}/2")
    assert found.subject.signature.kind == "cuda_illegal_memory_access"
    assert found.subject.architecture == "sim"
    assert {result.cell for result, _ in found.others} == {GOOD, AR}
    assert found.first.step is not None
    assert found.first.place == f"sim/{RUN}/cells/{BAD}/1"
    assert not found.healthy


def test_reference_says_what_was_to_be_answered(failing: Any) -> None:
    oracle = gather(BAD, failing.root).oracle
    assert oracle is not None
    assert (oracle.reference_cell, oracle.cell, oracle.attempt) == (AR, BAD, 1)
    assert [(answer.prompt, answer.expected_ids, answer.got_ids) for answer in oracle.answers] == [
        ("topic-017", (5, 6, 7), ()),
        ("topic-027", (1, 2), ()),
    ]
    assert oracle.answers[0].input_ids == (12, 404, 77, 3)


def test_first_divergence(disk: Callable[..., Any], lossless_of: Callable[..., bytes], corrupt: Any) -> None:
    made = disk()
    made.attempt(
        BAD, 1, {"evidence/checks/lossless.json": lossless_of({"topic-017": (5, 9, 7), "topic-027": (1, 2)})}, **corrupt
    )
    made.attempt(AR, 1, {"evidence/checks/lossless.json": lossless_of({"topic-017": (5, 6, 7), "topic-027": (1, 2)})})
    found = gather(BAD, made.root)
    assert found.subject.signature.kind == "corrupt_output"
    assert found.oracle is not None
    first = found.oracle.answers[0]
    assert (first.first_difference, first.expected_ids, first.got_ids) == (1, (5, 6, 7), (5, 9, 7))
    assert found.oracle.answers[1].first_difference is None


def test_healthy_cell_can_be_packed_too(failing: Any) -> None:
    found = gather(GOOD, failing.root)
    assert found.healthy
    assert found.k_of_n == (0, 1)
    assert found.subject.signature.kind == "ok"
    assert any("holds a working cell" in note for note in found.notes)


def test_finding_gives_cells_and_launches(failing: Any, example: Any) -> None:
    findings_of(example, failing.root / "report" / "findings.json")
    found = gather("F-3a91c07d42", failing.root)
    assert found.finding is not None
    assert found.subject.finding == "f-3a91c07d42"
    assert [item.result.attempt for item in found.attempts] == [1, 2]


def test_finding_without_a_failure_has_nothing_to_reproduce(failing: Any, example: Any, tmp_path: Path) -> None:
    path = findings_of(example, tmp_path / "other.json", cell=GOOD, kind="no_failure")
    with pytest.raises(SpecError, match=r"not about launches that failed .*; give one of its cells"):
        gather("f-3a91c07d42", failing.root, findings=path)


def test_newest_run_is_taken_unless_one_is_named(failing: Any, disk: Callable[..., Any], death: bytes) -> None:
    newer = disk(run_id="20260915T081502Z-sim")
    newer.attempt(BAD, 1, {"evidence/server.log": death})
    assert gather(BAD, failing.root).first.result.run_id == "20260915T081502Z-sim"
    assert gather(BAD, failing.root, run_id=RUN).first.result.run_id == RUN
    assert gather(GOOD, failing.root).first.result.run_id == RUN


def test_a_cell_whose_launches_are_not_finished_says_so(failing: Any) -> None:
    for result in failing.run.path.glob("cells/sim-b16t8-graph-nvls/*/result.json"):
        result.unlink()
    with pytest.raises(SpecError, match=r"20260914T081502Z-sim has \d launch(es)? of it without a result"):
        gather("sim-b16t8-graph-nvls", failing.root)


def test_a_cell_behind_a_link_says_so(failing: Any, tmp_path: Path) -> None:
    cell = failing.run.path / "cells" / "sim-b16t8-graph-nvls"
    cell.rename(tmp_path / "elsewhere")
    cell.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SpecError, match=r"cells/sim-b16t8-graph-nvls is not the directory of a cell.*not followed"):
        gather("sim-b16t8-graph-nvls", failing.root)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("sim-b16t8-grph-nvls", "near it: sim-b16t8-graph-nvls"),
        ("zzz", "there are: sim-ar-graph-nvls"),
        ("f-0000000000", "make it with `python -m report build"),
        ("../..", "no run has a finished launch of a cell"),
    ],
)
def test_unknown_names_list_near_ones(failing: Any, asked: str, said: str) -> None:
    with pytest.raises(SpecError) as refused:
        gather(asked, failing.root)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_unknown_finding_and_run_list_near_ones(failing: Any, example: Any) -> None:
    findings_of(example, failing.root / "report" / "findings.json")
    with pytest.raises(SpecError, match="near it: f-3a91c07d42"):
        gather("f-3a91c07d43", failing.root)
    with pytest.raises(SpecError, match=f"near it: {RUN}"):
        gather(BAD, failing.root, run_id="20260914T081503Z-sim")


def test_finding_of_a_run_that_is_not_here(failing: Any, example: Any) -> None:
    findings_of(example, failing.root / "report" / "findings.json", run="20250101T000000Z-sim")
    with pytest.raises(SpecError, match="are not below the results directory"):
        gather("f-3a91c07d42", failing.root)


def test_changed_evidence_is_refused(failing: Any) -> None:
    log = failing.root / "sim" / RUN / "cells" / BAD / "2" / "evidence" / "server.log"
    log.write_bytes(b"another log\n")
    with pytest.raises(RecordError, match=f"sim/{RUN}/cells/{BAD}/2/evidence/server.log: is not the file") as refused:
        gather(BAD, failing.root)
    assert "\n" not in str(refused.value)
    assert refused.value.exit_code == 5


@pytest.mark.parametrize("name", ["evidence/server.log", "step.json"])
def test_links_are_not_followed(failing: Any, tmp_path: Path, name: str) -> None:
    path = failing.root / "sim" / RUN / "cells" / BAD / "1" / name
    moved = tmp_path / "elsewhere"
    path.rename(moved)
    path.symlink_to(moved)
    with pytest.raises(RecordError, match="link"):
        gather(BAD, failing.root)


def test_many_failing_launches_are_named_and_not_held(disk: Callable[..., Any], death: bytes) -> None:
    made = disk()
    for number in range(1, 16):
        made.attempt(BAD, number, {"evidence/server.log": death})
    found = gather(BAD, made.root)
    assert len(found.attempts) == 12
    assert [result.attempt for result in found.more] == [13, 14, 15]
    assert found.k_of_n == (15, 15)


def test_armed_launch_comes_last(failing: Any, death: bytes) -> None:
    failing.attempt(BAD, 4, {"evidence/server.log": death}, explains=1)
    found = gather(BAD, failing.root)
    assert [(item.result.attempt, item.fails, item.verdict is None) for item in found.attempts] == [
        (1, True, False),
        (2, True, False),
        (4, False, True),
    ]
    assert found.k_of_n == (2, 3)


def test_cell_without_a_usable_result(failing: Any) -> None:
    (failing.root / "sim" / RUN / "cells" / GOOD / "1" / "result.json").write_text("{}")
    with pytest.raises(RecordError, match=f"no launch of {GOOD} in run {RUN} has a usable result: .*; restore it"):
        gather(GOOD, failing.root)
