"""What is said beside the failures of a run; and that it is only said."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from repro import codec
from repro.errors import SpecError
from repro.ledger import entries, known, store
from repro.model import Ledger, Result, Signature, Subject, Verdict

RESULT = codec.read(Path(__file__).parents[3] / "data" / "records" / "result-v2.json", Result)


def failed(signature: Signature, **changes: Any) -> tuple[Result, Verdict]:
    diagnosis = replace(RESULT.diagnosis, kind=signature.kind, signature=signature)  # type: ignore[type-var]
    result = replace(RESULT, diagnosis=diagnosis, rescoring=None, **changes)
    verdict = Verdict(
        run_id=result.run_id,
        cell=result.cell,
        attempt=result.attempt,
        verdict="fail",
        reasons=("crashed",),
        statement="crashed",
    )
    return result, verdict


def test_a_known_failure_is_named_with_its_issue(desk: Any, signatures: Sequence[Signature]) -> None:
    entry = desk.add(desk.bundle("a"), issue="https://example.org/7").entry
    assert known.of_launches(desk.ledger, [failed(signatures[0])] * 2, planted=False) == (
        f"known: {entry.id} https://example.org/7",
    )


def test_a_new_failure_is_not_known(desk: Any, signatures: Sequence[Signature]) -> None:
    desk.add(desk.bundle("a"))
    assert known.of_launches(desk.ledger, [failed(signatures[1])], planted=False) == ()
    assert known.of_launches(Ledger(entries=()), [failed(signatures[0])], planted=False) == ()


def test_a_vague_failure_is_only_maybe_known(
    desk: Any, about: Callable[..., Subject], signatures: Sequence[Signature]
) -> None:
    first = desk.add(desk.bundle("a")).entry.id
    vague = replace(signatures[0], subsystem=None)
    assert known.of_launches(desk.ledger, [failed(vague)], planted=False) == (f"maybe known: {first}",)
    both = [failed(vague), failed(signatures[0])]
    assert known.of_launches(desk.ledger, both, planted=False) == (f"known: {first}",)
    second = desk.add(desk.bundle("b"), about(signature=replace(signatures[0], subsystem="moe"))).entry.id
    assert known.of_launches(desk.ledger, [failed(vague)], planted=False) == (
        f"maybe known: {first}",
        f"maybe known: {second}",
    )


def test_a_closed_failure_that_is_seen_again_says_so(desk: Any, signatures: Sequence[Signature]) -> None:
    desk.add(desk.bundle("a"))
    closed = replace(desk.entry, status="closed", closed_at="2026-10-01T12:00:00Z")
    desk.ledger = entries.changed(desk.ledger, closed)
    assert known.of_launches(desk.ledger, [failed(signatures[0])], planted=False) == (
        f"known, closed 2026-10-01: seen again: {closed.id}",
    )


def test_planted_faults_and_self_tests_are_not_known(desk: Any, signatures: Sequence[Signature]) -> None:
    desk.add(desk.bundle("a"))
    assert known.of_launches(desk.ledger, [failed(signatures[0])], planted=True) == ()
    assert known.of_launches(desk.ledger, [failed(signatures[0], role="self-test")], planted=False) == ()


def test_a_launch_that_passed_is_nothing_to_the_ledger(desk: Any, signatures: Sequence[Signature]) -> None:
    desk.add(desk.bundle("a"))
    result, verdict = failed(signatures[0])
    assert known.of_launches(desk.ledger, [(result, replace(verdict, verdict="pass", reasons=()))], planted=False) == ()


def test_by_cell(desk: Any, signatures: Sequence[Signature]) -> None:
    entry = desk.add(desk.bundle("a")).entry
    launches = [failed(signatures[0], cell="sm_103-b1"), failed(signatures[1], cell="sm_103-b2")]
    results, verdicts = zip(*launches, strict=True)
    assert known.by_cell(desk.ledger, results, verdicts, planted=False) == {"sm_103-b1": (f"known: {entry.id}",)}


def test_which_ledger(desk: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert known.load(None) == Ledger(entries=())
    with pytest.raises(SpecError, match="no such ledger"):
        known.load(tmp_path / "other.json")
    desk.add(desk.bundle("a"))
    store.update(Path("ledger.json"), lambda _: (desk.ledger, None))
    assert known.load(None) == desk.ledger
    assert known.load(tmp_path / "ledger.json") == desk.ledger
