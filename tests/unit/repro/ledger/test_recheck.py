"""Asking again: fixed, still there, another failure, a regression; and that evidence never weakens."""

import os
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from repro import codec
from repro.errors import BundleError, InterruptedRunError, UnavailableError
from repro.ledger import recheck
from repro.model import Recheck, Replay, Signature

Told = Callable[..., Replay]


def test_fixed(desk: Any, replay_of: Told) -> None:
    desk.add(desk.bundle("b"))
    answer = desk.recheck(lambda _, launches: replay_of("c" * launches))
    assert desk.asked == [("sm_103", 21)]
    assert (answer.status_before, answer.status, answer.missing) == ("open", "closed", ())
    (check,) = answer.checks
    assert (check.answer, check.launches, check.needed) == ("not_seen", 21, 21)
    assert check.upper == pytest.approx(0.1329, abs=1e-4)
    assert "not seen in 21 launches: below 13 % at 95 % confidence; n was chosen from the old rate" in answer.statement
    assert "at least 14 %, from 2 of 3" in answer.statement
    assert desk.entry.engine_versions_good == ("0.5.24",)
    assert desk.entry.closed_at == check.at
    assert recheck.exit_code([answer]) == 0


def test_still_there_once_is_enough(desk: Any, replay_of: Told) -> None:
    desk.add(desk.bundle("b"))
    answer = desk.recheck(lambda _, launches: replay_of("c" * (launches - 1) + "r"))
    assert answer.status == "open"
    assert "still there: 1 of 21" in answer.statement
    assert desk.entry.engine_versions_bad == ("0.5.23", "0.5.24")
    assert recheck.exit_code([answer]) == 1


def test_another_failure_instead(desk: Any, replay_of: Told) -> None:
    desk.add(desk.bundle("b"))
    answer = desk.recheck(lambda _, launches: replay_of("a" * 3 + "c" * (launches - 3)))
    assert (answer.status, answer.checks[0].answer) == ("open", "another_failure")
    assert answer.checks[0].other == Signature(kind="oom_gpu_serving", phase="serving", subsystem=None)
    assert answer.checks[0].upper is None, "it may hide behind the other one"
    assert (
        "another failure instead, in 3 of 21 launches: oom_gpu_serving, phase serving (not in the" in answer.statement
    )
    assert answer.missing == ("sm_103: another failure hides it with 0.5.24",)
    assert recheck.exit_code([answer]) == 1


def test_another_failure_that_the_ledger_has_is_named(
    desk: Any, replay_of: Told, about: Callable[..., Any], signatures: Sequence[Signature]
) -> None:
    desk.add(desk.bundle("b"))
    known = desk.add(desk.bundle("other"), about(signature=signatures[1])).entry.id
    answer = desk.recheck(lambda _, launches: replay_of("a" * launches))
    assert f"the ledger has it as {known}" in answer.statement
    unnamed = desk.recheck(lambda _, launches: replay_of("a" * launches, other=None))
    assert "it has no signature" in unnamed.statement


def test_seen_beside_another_failure_is_still_there(desk: Any, replay_of: Told) -> None:
    desk.add(desk.bundle("b"))
    answer = desk.recheck(lambda _, launches: replay_of("ra" + "c" * (launches - 2)))
    assert answer.checks[0].answer == "still_there"
    assert "1 of 21" in answer.statement


def test_a_regression_after_a_fix(desk: Any, replay_of: Told) -> None:
    desk.add(desk.bundle("b"))
    desk.recheck(lambda _, launches: replay_of("c" * launches))
    answer = desk.recheck(lambda _, launches: replay_of("r" + "c" * (launches - 1)), version="0.5.25")
    assert (answer.status_before, answer.status) == ("closed", "reopened")
    assert answer.statement.endswith("So it is open again: a regression after a fix.")
    assert desk.entry.closed_at is None
    assert desk.entry.engine_versions_bad == ("0.5.23", "0.5.25")
    assert desk.entry.engine_versions_good == ("0.5.24",)
    assert recheck.exit_code([answer]) == 1
    again = desk.recheck(lambda _, launches: replay_of("c" * launches), version="0.5.26")
    assert (again.status_before, again.status) == ("reopened", "closed")


def test_a_sighting_on_an_engine_called_good_takes_that_back(desk: Any, replay_of: Told) -> None:
    desk.add(desk.bundle("b"))
    desk.recheck(lambda _, launches: replay_of("c" * launches))
    desk.recheck(lambda _, launches: replay_of("r" * launches))
    assert (desk.entry.status, desk.entry.engine_versions_good) == ("reopened", ())
    assert "0.5.24" in desk.entry.engine_versions_bad


def test_one_clean_architecture_is_not_enough(desk: Any, replay_of: Told) -> None:
    desk.add(desk.bundle("a"))
    desk.add(desk.bundle("b", architecture="sm_120", k=3, n=3))

    def only_sm_103(bundle: Any, launches: int) -> Replay:
        if bundle.architecture == "sm_120":
            raise UnavailableError("it needs a GPU of sm_120, and here is sm_103")
        return replay_of("c" * launches)

    answer = desk.recheck(only_sm_103)
    assert answer.status == "open"
    assert answer.missing == ("sm_120: not asked with 0.5.24",)
    assert "sm_120: could not run: it needs a GPU of sm_120" in answer.statement
    assert recheck.exit_code([answer]) == 7

    def only_sm_120(bundle: Any, launches: int) -> Replay:
        if bundle.architecture == "sm_103":
            raise UnavailableError("it needs a GPU of sm_103, and here is sm_120")
        return replay_of("c" * launches)

    later = desk.recheck(only_sm_120, version="0.5.25")
    assert later.status == "open", "clean on two engines is clean on none of them"
    assert later.missing == ("sm_103: not asked with 0.5.25",)
    assert desk.recheck(only_sm_103, version="0.5.25").status == "closed"


def test_too_few_launches_do_not_close_and_add_up(desk: Any, replay_of: Told) -> None:
    desk.add(desk.bundle("b"))
    first = desk.recheck(lambda _, launches: replay_of("c" * launches), count=10)
    assert first.status == "open"
    assert first.missing == ("sm_103: 10 clean launches of the 21 needed with 0.5.24",)
    assert (
        "too few: at the old rate (at least 14 %, from 2 of 3) these show it with 77 % probability" in first.statement
    )
    assert recheck.exit_code([first]) == 7
    second = desk.recheck(lambda _, launches: replay_of("c" * launches))
    assert desk.asked == [("sm_103", 10), ("sm_103", 11)]
    assert "not seen in 21 launches, 10 of them before: below 13 %" in second.statement
    assert second.status == "closed"


def test_launches_of_another_engine_do_not_add_up(desk: Any, replay_of: Told) -> None:
    desk.add(desk.bundle("b"))
    desk.recheck(lambda _, launches: replay_of("c" * launches), count=20)
    answer = desk.recheck(lambda _, launches: replay_of("c" * launches), count=20, version="0.5.25")
    assert answer.missing == ("sm_103: 20 clean launches of the 21 needed with 0.5.25",)


def test_a_sighting_ends_what_was_clean_before(desk: Any, replay_of: Told) -> None:
    desk.add(desk.bundle("b"))
    desk.recheck(lambda _, launches: replay_of("c" * launches), count=20)
    desk.recheck(lambda _, launches: replay_of("rc"), count=2)
    answer = desk.recheck(lambda _, launches: replay_of("c" * launches), count=20)
    assert answer.status == "open"
    assert answer.missing == ("0.5.24 is an engine that it was seen on: what else was changed is not known here",)


def test_void_launches_count_nowhere(desk: Any, replay_of: Told) -> None:
    desk.add(desk.bundle("b"))
    answer = desk.recheck(lambda _, __: replay_of("v" * 30 + "c" * 20))
    assert (answer.checks[0].launches, answer.checks[0].void, answer.status) == (20, 30, "open")
    none = desk.recheck(lambda _, __: replay_of("v" * 30))
    assert none.checks[0].answer == "could_not_run"
    assert none.checks[0].void == 30
    assert desk.recheck(lambda _, __: replay_of("c")).status == "closed", "20 and 1, and nothing between them counts"


def test_the_engine_that_it_was_seen_on_cannot_be_clean(desk: Any, replay_of: Told) -> None:
    desk.add(desk.bundle("b"))
    answer = desk.recheck(lambda _, launches: replay_of("c" * launches), version="0.5.23")
    assert answer.status == "open"
    assert answer.missing == ("0.5.23 is an engine that it was seen on: what else was changed is not known here",)


def test_an_engine_that_nobody_names_closes_nothing(desk: Any, replay_of: Told) -> None:
    desk.add(desk.bundle("b"))
    answer = desk.recheck(lambda _, launches: replay_of("c" * launches), version=None)
    assert answer.missing == ("which engine it was is not known: name it with --engine-version",)
    named = desk.recheck(lambda _, launches: replay_of("c" * launches, version="0.5.24"), version=None)
    assert (named.status, named.checks[0].engine_version) == ("closed", "0.5.24")


@pytest.mark.parametrize("error", [UnavailableError("no docker"), BundleError("does not verify")])
def test_what_cannot_run_changes_nothing(desk: Any, error: Exception) -> None:
    desk.add(desk.bundle("b"))

    def fail(_: object, __: int) -> Replay:
        raise error

    before = desk.entry
    answer = desk.recheck(fail)
    assert answer.statement.startswith(f"sm_103: could not run: {error}")
    assert recheck.exit_code([answer]) == 7
    assert (desk.entry.status, desk.entry.engine_versions_bad) == (before.status, before.engine_versions_bad)


def test_an_interruption_is_passed_on(desk: Any) -> None:
    desk.add(desk.bundle("b"))

    def stop(_: object, __: int) -> Replay:
        raise InterruptedRunError("interrupted")

    with pytest.raises(InterruptedRunError):
        desk.recheck(stop)


def test_a_bundle_that_changed_on_disk_is_refused(desk: Any, replay_of: Told) -> None:
    bundle = desk.bundle("b")
    desk.add(bundle)
    (desk.folder / bundle.path).write_bytes(b"something else")
    answer = desk.recheck(lambda _, launches: replay_of("c" * launches))
    assert "is not the file that was added to the ledger (SHA-256): it is refused" in answer.statement
    assert not desk.asked
    (desk.folder / bundle.path).unlink()
    assert "cannot be read" in desk.recheck(lambda _, launches: replay_of("c" * launches)).statement


def test_a_pipe_or_a_device_in_the_place_of_a_bundle_is_not_read(desk: Any, replay_of: Told) -> None:
    bundle = desk.bundle("b")
    desk.add(bundle)
    (desk.folder / bundle.path).unlink()
    os.mkfifo(desk.folder / bundle.path)
    answer = desk.recheck(lambda _, launches: replay_of("c" * launches))
    assert "is not a regular file" in answer.statement
    assert not desk.asked


def test_the_bundle_that_needs_the_fewest_launches_is_asked(desk: Any, replay_of: Told) -> None:
    desk.add(desk.bundle("rare", k=1, n=10))
    desk.add(desk.bundle("always", k=5, n=5))
    desk.recheck(lambda bundle, launches: replay_of("c" * launches))
    assert desk.asked == [("sm_103", 4)]


def test_a_closed_entry_that_stays_clean_stays_closed(desk: Any, replay_of: Told) -> None:
    desk.add(desk.bundle("b"))
    desk.recheck(lambda _, launches: replay_of("c" * launches))
    closed = desk.entry.closed_at
    answer = desk.recheck(lambda _, launches: replay_of("c" * launches), version="0.5.25", count=3)
    assert answer.statement.endswith("So it stays closed.")
    assert desk.entry.closed_at == closed
    assert recheck.exit_code([answer]) == 0


def test_answers_and_the_ledger_are_records(desk: Any, replay_of: Told) -> None:
    desk.add(desk.bundle("b"))
    answers = (
        desk.recheck(lambda _, launches: replay_of("ra")),
        desk.recheck(lambda _, launches: replay_of("av")),
        desk.recheck(lambda _, launches: replay_of("c" * launches), version="0.5.25"),
    )
    assert codec.encode(Recheck(answers=answers))
    assert codec.decode(codec.encode(desk.ledger), type(desk.ledger), where="ledger") == desk.ledger
