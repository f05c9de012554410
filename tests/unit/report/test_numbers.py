"""Correctness gates performance."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from report.load import LoadedCell, load
from report.numbers import cell_numbers, shown_checks, shown_numbers

CELL = "cpu-b8t4-eager-nonvls"


def cell_with(tmp_path: Path, make: SimpleNamespace, *launches: object) -> LoadedCell:
    make.write_run(tmp_path, make.run_record(), launches, planned={CELL: len(launches)})
    return load([tmp_path]).newest()[0].cells[0]


def rates(cell: LoadedCell) -> list[tuple[float | None, str | None]]:
    shown = (number for attempt in cell.attempts for number in shown_numbers(attempt))
    return [(number.value, number.withheld) for number in shown if number.measurement.name == "output_rate"]


def test_a_launch_whose_content_is_right_shows_its_numbers(tmp_path: Path, make: SimpleNamespace) -> None:
    cell = cell_with(tmp_path, make, make.Launch(CELL))
    assert rates(cell) == [(245.0, None), (735.0, None)]
    assert {n.name: n.middle for n in cell_numbers(cell)}["acceptance"] == 3.37


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("fail", "content_wrong"),
        ("inconclusive", "content_inconclusive"),
        ("not_run", "content_not_checked"),
        ("not_applicable", "content_not_checked"),
    ],
)
def test_no_speed_without_right_content(tmp_path: Path, make: SimpleNamespace, state: str, reason: str) -> None:
    bad = make.check("lossless", state, "code", "words")
    cell = cell_with(tmp_path, make, make.Launch(CELL, checks=make.checks(lossless=bad)))
    assert rates(cell) == [(None, reason), (None, reason)]
    assert all(number.middle is None and number.reason == reason for number in cell_numbers(cell))


def test_no_speed_from_a_configuration_that_is_not_proven(tmp_path: Path, make: SimpleNamespace) -> None:
    cell = cell_with(tmp_path, make, make.Launch(CELL, proof=(make.proof(observed=False),)))
    assert {reason for _, reason in rates(cell)} == {"configuration_not_proven"}


def test_no_speed_from_a_launch_that_crashed(tmp_path: Path, make: SimpleNamespace) -> None:
    cell = cell_with(tmp_path, make, make.Launch(CELL, outcome="crashed", detail="late"))
    assert {reason for _, reason in rates(cell)} == {"launch_crashed"}


def test_acceptance_is_shown_where_it_tells_what_happened_and_never_compared(
    tmp_path: Path, make: SimpleNamespace
) -> None:
    cell = cell_with(tmp_path, make, make.Launch(CELL, checks=make.checks(1.0, lossless=make.wrong())))
    shown = {number.measurement.name: number.value for number in shown_numbers(cell.attempts[0])}
    assert shown["acceptance"] == 1.0
    assert {n.name: n.middle for n in cell_numbers(cell)}["acceptance"] is None


def test_a_planted_launch_gives_nothing_to_compare(tmp_path: Path, make: SimpleNamespace) -> None:
    cell = cell_with(tmp_path, make, make.Launch(CELL, planted=make.Planted(fault="slow", number=None)))
    assert {number.reason for number in cell_numbers(cell)} == {"planted_fault"}


def test_a_cell_takes_its_numbers_over_the_launches_that_count(tmp_path: Path, make: SimpleNamespace) -> None:
    cell = cell_with(
        tmp_path,
        make,
        make.Launch(CELL, 1, checks=make.checks(rate=100.0)),
        make.Launch(CELL, 2, checks=make.checks(rate=300.0)),
        make.Launch(CELL, 3, checks=make.checks(rate=900.0, lossless=make.wrong())),
    )
    found = next(n for n in cell_numbers(cell) if n.name == "output_rate" and n.at == (("concurrency", 1),))
    assert (found.values, found.middle) == ((100.0, 300.0), 200.0)


def throughput(cell: LoadedCell) -> tuple[str, str]:
    (check,) = [check for check in shown_checks(cell.attempts[0]) if check.check == "throughput"]
    return check.state, check.detail


def test_the_words_of_throughput_are_shown_with_its_numbers(tmp_path: Path, make: SimpleNamespace) -> None:
    assert throughput(cell_with(tmp_path, make, make.Launch(CELL))) == ("pass", "245.0 tok/s at 1, 735.0 tok/s at 8")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"outcome": "crashed", "detail": "late"}, "launch crashed"),
        ({"proof": "unproven"}, "configuration not proven"),
        ({"checks": "wrong"}, "content wrong"),
    ],
)
def test_the_words_of_throughput_are_withheld_with_its_numbers(
    tmp_path: Path, make: SimpleNamespace, changes: dict[str, object], reason: str
) -> None:
    made = {"unproven": (make.proof(observed=False),), "wrong": make.checks(lossless=make.wrong())}
    given = {name: made.get(str(value), value) for name, value in changes.items()}
    cell = cell_with(tmp_path, make, make.Launch(CELL, **given))
    assert throughput(cell) == ("withheld", f"withheld: {reason}")


def test_a_throughput_check_that_measured_nothing_keeps_its_words(tmp_path: Path, make: SimpleNamespace) -> None:
    silent = make.check("throughput", "not_run", "no_evidence", "no request of this check was sent")
    cell = cell_with(tmp_path, make, make.Launch(CELL, checks=(make.wrong(), silent)))
    assert throughput(cell) == ("not_run", "no request of this check was sent")
