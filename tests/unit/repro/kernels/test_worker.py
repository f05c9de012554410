"""One process beside torch: whatever it does, each case has a result, and nothing of it is left."""

import asyncio
from collections.abc import Callable
from typing import Any

import psutil
import pytest

from repro.errors import UnavailableError
from repro.kernels.case import Case
from repro.kernels.conversation import Finished
from repro.kernels.worker import NeverBegunError, Program, serve
from repro.model.kernels import KernelResult, KernelSubject


def ask(program: Program, cases: tuple[Case, ...], subject: KernelSubject) -> list[Finished]:
    async def collect() -> list[Finished]:
        return [finished async for finished in serve(program, cases, subject)]

    return asyncio.run(collect())


@pytest.fixture
def results(
    fake: Callable[..., Program],
    make_case: Callable[..., Case],
    subject: KernelSubject,
    left_over: Callable[[], list[psutil.Process]],
) -> Callable[..., dict[int, KernelResult]]:
    """Results by budget, of cases of budgets 4, 8 and 9 with this behaviour; nothing may be left behind."""

    def of(*, limit_s: float = 30.0, **behaviour: str) -> dict[int, KernelResult]:
        cases = tuple(make_case(budget, limit_s=limit_s) for budget in (4, 8, 9))
        finished = ask(fake(**behaviour), cases, subject)
        assert left_over() == []
        return {entry.case.cell.budget or 0: entry.results[-1] for entry in finished}

    return of


def test_cases_end_in_their_order_with_what_the_program_says(results: Callable[..., dict[int, KernelResult]]) -> None:
    found = results(b8="fails")
    assert [(budget, row.state) for budget, row in found.items()] == [(4, "pass"), (8, "fail"), (9, "pass")]
    assert found[4].cell.tile == "64x64"
    assert found[8].faults[0].tensor == "o"
    assert found[4].wall_s == 0.5


def test_segmentation_fault_is_a_fault_at_its_line(results: Callable[..., dict[int, KernelResult]]) -> None:
    found = results(b8="dies")
    assert list(found) == [4, 8]
    assert (found[8].state, found[8].reason) == ("fail", "out_of_bounds")
    assert found[8].faults[0].source == "extend_attention.py:740"


@pytest.mark.parametrize(
    ("does", "state", "reason", "said"),
    [
        ("is_killed", "inconclusive", "killed", "SIGKILL from outside"),
        ("exits", "inconclusive", "died", "exit status 3: RuntimeError: no more"),
        ("floods", "inconclusive", "flooded", "more than 1000 lines"),
    ],
)
def test_end_of_the_process_ends_its_case(
    results: Callable[..., dict[int, KernelResult]], does: str, state: str, reason: str, said: str
) -> None:
    found = results(b8=does)
    assert list(found) == [4, 8]
    assert (found[8].state, found[8].reason) == (state, reason)
    assert said in found[8].detail


@pytest.mark.parametrize("does", ["hangs", "hangs_with_child"])
def test_hanging_case_is_ended_with_all_its_processes(
    results: Callable[..., dict[int, KernelResult]], does: str
) -> None:
    found = results(b8=does, limit_s=1.5)
    assert (found[8].state, found[8].reason) == ("inconclusive", "hung")
    assert found[8].wall_s >= 1.5


def test_what_libraries_print_means_nothing(results: Callable[..., dict[int, KernelResult]]) -> None:
    found = results(b8="prints_between")
    assert {row.state for row in found.values()} == {"pass"}
    assert len(found) == 3


@pytest.mark.parametrize(
    ("does", "reason", "said"),
    [("says_nonsense", "invalid_row", "/state"), ("says_nothing", "program_error", "0 results")],
)
def test_bad_row_is_inconclusive(
    results: Callable[..., dict[int, KernelResult]], does: str, reason: str, said: str
) -> None:
    found = results(b8=does)
    assert (found[8].state, found[8].reason) == ("inconclusive", reason)
    assert said in found[8].detail
    assert found[9].state == "pass"


def test_more_rows_of_a_case_come_before_its_own(
    fake: Callable[..., Program], make_case: Callable[..., Case], subject: KernelSubject
) -> None:
    (finished,) = ask(fake(b8="says_more"), (make_case(8),), subject)
    assert [row.detail for row in finished.results] == ["first", "well"]
    assert finished.results[0].cell.id == f"{finished.case.cell.id}.one"


def test_rows_belong_to_the_code_that_the_program_named_last(results: Callable[..., dict[int, KernelResult]]) -> None:
    found = results(b8="other_release")
    assert [(row.subject.sglang, row.subject.origin) for row in found.values()] == [
        ("0.5.23", "pinned"),
        ("0.5.15", "release"),
        ("0.5.15", "release"),
    ]


def test_process_that_never_begins_blames_no_case(
    fake: Callable[..., Program], make_case: Callable[..., Case], subject: KernelSubject
) -> None:
    with pytest.raises(NeverBegunError, match=r"ended before its first case .*ModuleNotFoundError: no kernel here"):
        ask(fake(start="fails"), (make_case(8),), subject)


def test_python_that_is_not_there_is_said(
    fake: Callable[..., Program], make_case: Callable[..., Case], subject: KernelSubject, tmp_path: Any
) -> None:
    program = fake()
    broken = Program(
        python=tmp_path / "python",
        module=program.module,
        request=program.request,
        environment=program.environment,
        start=program.start,
    )
    with pytest.raises(UnavailableError, match="cannot be started"):
        ask(broken, (make_case(8),), subject)
