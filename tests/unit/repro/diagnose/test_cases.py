"""Every labelled log gets its label. The table of the thirty given ones is printed (`pytest -s`)."""

from collections import Counter
from pathlib import Path
from typing import Any

from tabulate import tabulate

from repro import codec
from repro.diagnose.kinds import KIND_SAYS, KIND_STEPS

KINDS = Path(__file__).parents[3] / "data" / "diagnosis" / "given" / "kinds.md"


def test_the_thirty_given_logs(given: list[Any]) -> None:
    rows, wrong = [], Counter[str]()
    for case in given:
        found = case.diagnose()
        right = (found.kind == case.kind, found.phase == case.phase, found.role == case.role)
        wrong.update(name for name, good in zip(("kind", "phase", "role"), right, strict=True) if not good)
        assert (found.kind == "ok") == (case.kind == "ok"), case.id
        rows.append([case.id, case.kind, found.kind, case.phase, found.phase, case.role, found.role, all(right)])
    headers = ["log", "kind", "got", "phase", "got", "role", "got", "right"]
    print("\n" + tabulate(rows, headers=headers))
    assert wrong["kind"] == 0
    assert wrong["phase"] <= 1
    assert wrong["role"] <= 1
    assert len(rows) == 30


def test_every_labelled_log(case: Any) -> None:
    found = case.diagnose()
    codec.encode(found)
    assert (found.kind, found.phase, found.role) == (case.kind, case.phase, case.role)


def test_evidence_is_where_it_is_said_to_be(case: Any) -> None:
    """Byte offset and line number point at the line in the file."""
    found = case.diagnose()
    data = case.log.read_bytes()
    for line in (*found.evidence, *found.follow_ons):
        if line.file != f"{case.id}.log":
            continue
        assert data[: line.offset_bytes].count(b"\n") == line.line - 1
        assert line.offset_bytes == 0 or data[line.offset_bytes - 1 : line.offset_bytes] == b"\n"


def test_every_kind_has_words_and_every_fallback_a_kind() -> None:
    listed = {
        word for line in KINDS.read_text().splitlines() if line.startswith("| `") for word in line.split("`")[1::2]
    }
    kinds = {word for word in listed if word in KIND_SAYS}
    assert set(KIND_SAYS) == kinds
    assert {
        key.removesuffix("_unmarked").removesuffix("_silent").removesuffix("_foreign") for key in KIND_STEPS
    } <= kinds


def test_every_kind_is_decided_by_two_logs_of_our_own(given: list[Any]) -> None:
    from collections import Counter as Count

    own = Count(case.kind for case in _own(given))
    assert {kind for kind in KIND_SAYS if own[kind] < 2} == set()


def _own(given: list[Any]) -> list[Any]:
    import json

    folder = KINDS.parents[1] / "own"
    labels = [
        json.loads(line) for path in folder.glob("cases-*.jsonl") for line in path.read_text().splitlines() if line
    ]
    return [type("Label", (), {"kind": label["kind"]}) for label in labels]
