"""Asks all cases of the chosen arms, several processes at a time, and records what comes out."""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from repro.kernels.case import Case
from repro.kernels.conversation import Finished
from repro.kernels.record import Record, finished_keys
from repro.kernels.summary import arm_of
from repro.kernels.worker import NeverBegunError, Program, serve
from repro.model.kernels import KernelArm, KernelCheck, KernelResult, KernelSubject

Watch = Callable[["Progress"], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """``cases`` by arm in the order in which they are asked. ``program`` starts any of their programs once its module
    is set; ``subject`` is the code in the environment; ``shards`` how many processes run at a time."""

    cases: Mapping[KernelCheck, tuple[Case, ...]]
    program: Program
    subject: KernelSubject
    shards: int


@dataclass(slots=True)
class Progress:
    """What is done so far. ``why_not``: why an arm's other cases are not asked."""

    cases: Mapping[KernelCheck, tuple[Case, ...]]
    rows: dict[KernelCheck, list[KernelResult]]
    why_not: dict[KernelCheck, str] = field(default_factory=dict)
    latest: Finished | None = None

    def arms(self) -> tuple[KernelArm, ...]:
        return tuple(
            arm_of(self.rows[check], cases, why_not=self.why_not.get(check)) for check, cases in self.cases.items()
        )

    def all_rows(self) -> tuple[KernelResult, ...]:
        return tuple(row for check in self.cases for row in self.rows[check])


async def ask_all(job: Job, record: Record, watch: Watch) -> Progress:
    """How it stands in the end. ``watch`` is called after each case.

    Cancelling it kills the processes, and keeps what is recorded. Raises `UnavailableError` if nothing can be written
    or started.
    """
    rows: dict[KernelCheck, list[KernelResult]] = defaultdict(list)
    for row in record.rows:
        rows[row.check].append(row)
    progress = Progress(cases=job.cases, rows=rows)
    record.write(progress.arms())
    waiting = _groups(job, record)
    try:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(max(1, min(job.shards, len(waiting)))):
                tasks.create_task(_work(job, record, progress, waiting, watch))
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None
    finally:
        with contextlib.suppress(Exception):  # a full disk has been said already
            record.write(progress.arms())
    return progress


def _groups(job: Job, record: Record) -> list[list[Case]]:
    """Cases that are left, those of one process together, in the order in which they are asked."""
    every = [case for cases in job.cases.values() for case in cases]
    done = finished_keys(record.rows, every)
    groups: dict[tuple[str, str], list[Case]] = {}
    for case in every:
        if case.key not in done:
            groups.setdefault((case.program, case.group), []).append(case)
    return list(groups.values())


async def _work(job: Job, record: Record, progress: Progress, waiting: list[list[Case]], watch: Watch) -> None:
    """Takes one group after the other until none is left."""
    while waiting:
        group = waiting.pop(0)
        if group[0].check not in progress.why_not:
            await _ask_group(job, record, progress, group, watch)


async def _ask_group(job: Job, record: Record, progress: Progress, group: Sequence[Case], watch: Watch) -> None:
    """All cases of a group: where a process ends early, another goes on behind the case that ended it."""
    left = {case.key: case for case in group}
    program = replace(job.program, module=group[0].program)
    while left:
        try:
            async with aclosing(serve(program, tuple(left.values()), job.subject)) as finished_cases:
                async for finished in finished_cases:
                    del left[finished.case.key]
                    record.append(finished.results)
                    progress.rows[finished.case.check].extend(finished.results)
                    progress.latest = finished
                    watch(progress)
        except NeverBegunError as problem:
            progress.why_not[group[0].check] = str(problem)
            return
