"""`python -m repro kernels`. Only here are its arguments read, and things printed."""

import argparse
import asyncio
import os
import signal
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from repro import codec, store
from repro.errors import InterruptedRunError, NothingToRunError, SpecError
from repro.kernels.arms import ARMS
from repro.kernels.case import ARCHITECTURES, BUDGETS, Case, Selection, capability, head_shape
from repro.kernels.environment import engine_python, program, subject
from repro.kernels.gpu import TOOLS
from repro.kernels.record import RUN, Record, opened
from repro.kernels.reproducer import DTYPES, FILE_NAME, MODES, asked_singly, reproducer
from repro.kernels.run import Job, Progress, ask_all
from repro.kernels.summary import exit_status
from repro.kernels.table import details, summary
from repro.model.kernels import KernelCheck, KernelRun

_SURVEYS = frozenset(arm.check for arm in ARMS.values() if arm.surveys)

EVERY_S = 10.0
"""How often progress is told where it cannot overwrite itself."""


def add(commands: Any) -> None:
    """The subcommand."""
    parser = commands.add_parser(
        "kernels",
        allow_abbrev=False,
        help="the verify-attention kernel alone: interpreted, compiled, emulated, on a GPU",
        description="Asks the verify-attention kernel of SGLang, without a server. An interrupted run goes on when the "
        "same command is given again.",
        epilog="exit status: 0 all cases passed and every planted fault was caught, 1 a case failed, 2 bad arguments, "
        "3 nothing was selected, 4 the environment or a GPU that was asked for is missing, 5 a record is "
        "invalid, 7 something is inconclusive, left or broken, 130 interrupted",
    )
    parser.add_argument("--arm", nargs="+", choices=ARMS, metavar="NAME", help=f"which arms: {_arms()}; default: all")
    parser.add_argument("--budget", nargs="+", type=_budget, metavar="N", help=f"default: {_words(BUDGETS)}")
    parser.add_argument("--shape", nargs="+", type=_shape, metavar="S", help="such as gqa-4-2-128 or mla-12-1-576-512")
    parser.add_argument(
        "--architecture", nargs="+", type=_architecture, metavar="A", help=f"default: {_words(ARCHITECTURES)}"
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="three budgets, one shape, two architectures: what CI runs")
    size.add_argument("--full", action="store_true", help="everything, as without it")
    parser.add_argument("--engine-env", type=Path, metavar="DIR", help="environment with torch, Triton and SGLang")
    parser.add_argument("--python", type=Path, metavar="FILE", help="the same, by its Python")
    parser.add_argument("--sglang", type=Path, metavar="PATH", help="another SGLang: a wheel, or a folder with sglang/")
    parser.add_argument(
        "--triton", nargs="+", type=Path, default=[], metavar="DIR", help="other Tritons, for `compile`"
    )
    parser.add_argument("--wheels", type=Path, metavar="DIR", help="wheels of SGLang's releases, for `buffers`")
    parser.add_argument("--release", nargs="+", metavar="V", help="which of them; default: all that are known")
    parser.add_argument(
        "--sanitizer",
        nargs="*",
        choices=TOOLS,
        metavar="TOOL",
        help=f"a few cells on the GPU also under compute-sanitizer: {_words(TOOLS)}; default: memcheck",
    )
    parser.add_argument(
        "--reproducer", type=Path, metavar="FILE", help="write a file that runs one case without graphrepro, and end"
    )
    parser.add_argument(
        "--cell", metavar="ID", help="the case that --reproducer writes, such as sm_103-b16-gqa-4-2-128-fp16-bs3"
    )
    parser.add_argument("--mode", choices=MODES, help="its mode, if not the cell's; default: eager")
    parser.add_argument("--dtype", choices=DTYPES, help="its dtype, if not the cell's; default: fp16")
    parser.add_argument(
        "--requests", type=_budget, metavar="N", help="requests in its batch, if not the cell's; default: 3"
    )
    parser.add_argument("--results", type=Path, default=Path("results"), metavar="DIR", help="default: results")
    parser.add_argument("--shards", type=_budget, metavar="N", help="processes at a time; default: the cores")
    parser.add_argument("--json", action="store_true", help="print the record `kernel-run` instead of the table")
    parser.set_defaults(command=command)


def command(options: argparse.Namespace) -> int:
    if options.reproducer is not None:
        return _write_reproducer(options)
    if options.cell or options.mode or options.dtype or options.requests:
        raise SpecError("--cell, --mode, --dtype and --requests say what --reproducer FILE runs; give that too")
    cases = _planned(options)
    python = engine_python(options.engine_env, options.python)
    root: Path = options.results / "kernels"
    asked = program(python, scratch=root / ".scratch", sglang=options.sglang, environment=os.environ)
    tested = subject(asked)
    shards = options.shards or len(os.sched_getaffinity(0))
    job = Job(cases=cases, program=asked, subject=tested, shards=shards)
    with opened(root, _argv(options), tested, datetime.now(UTC), metadata.version("graphrepro")) as record:
        _greet(record, cases, job)
        progress = asyncio.run(_asked(job, record))
        _report(options, record, progress)
        return exit_status(
            progress.arms(),
            progress.all_rows(),
            asked_by_name={ARMS[name].check for name in options.arm or ()},
            surveys=_SURVEYS,
        )


def _write_reproducer(options: argparse.Namespace) -> int:
    asked = asked_singly(
        options.cell,
        budgets=_once(options.budget),
        shapes=_once(options.shape),
        architectures=_once(options.architecture),
        dtype=options.dtype,
        batch=options.requests,
        mode=options.mode,
    )
    path: Path = options.reproducer
    if path.is_dir():
        path /= FILE_NAME
    store.write_atomic(path, reproducer(asked))
    print(f"wrote {path}: {asked}; run it beside torch, Triton and SGLang: `python {path.name}`")
    return 0


async def _asked(job: Job, record: Record) -> Progress:
    """`ask_all`, which SIGINT and SIGTERM end in the same way: processes killed, what is finished kept."""
    asking = asyncio.create_task(ask_all(job, record, _Teller()))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, asking.cancel)
    try:
        return await asking
    except asyncio.CancelledError:
        raise InterruptedRunError(
            f"interrupted; what was finished is in {record.path}, and the same command goes on"
        ) from None
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


class _Teller:
    """Progress on standard error: one line that overwrites itself on a terminal, else one every few seconds."""

    def __init__(self) -> None:
        self._told_s = -EVERY_S
        self._in_place = sys.stderr.isatty()

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        arms = progress.arms()
        totals = {check: len(cases) for check, cases in progress.cases.items()}
        done = sum(arm.cases for arm in arms) == sum(totals.values())
        if not done and now - self._told_s < (0.2 if self._in_place else EVERY_S):
            return
        self._told_s = now
        parts = [f"{arm.check.removeprefix('kernel-')} {arm.cases}/{totals[arm.check]}" for arm in arms]
        latest = f" · {progress.latest.case.cell.id}" if progress.latest and not done else ""
        text = f"kernels: {' · '.join(parts)}{latest}"
        start, end = ("\r\x1b[K", "\n" if done else "") if self._in_place else ("", "\n")
        print(f"{start}{text}", end=end, file=sys.stderr, flush=True)


def _planned(options: argparse.Namespace) -> Mapping[KernelCheck, tuple[Case, ...]]:
    selection = Selection(
        budgets=_once(options.budget),
        shapes=_once(options.shape),
        architectures=_once(options.architecture),
        quick=options.quick,
        tritons=tuple(str(path.absolute()) for path in options.triton),
        wheels=None if options.wheels is None else str(options.wheels.absolute()),
        releases=_once(options.release),
        sanitizers=() if options.sanitizer is None else tuple(dict.fromkeys(options.sanitizer or TOOLS[:1])),
    )
    if selection.sanitizers and options.arm is not None and "gpu" not in options.arm:
        raise SpecError("--sanitizer is for cells on a GPU, and --arm leaves these out; name gpu too")
    for path in (*options.triton, *(path for path in (options.wheels, options.sglang) if path is not None)):
        if not path.exists():
            raise SpecError(f"{path}: is not there; give the path of what you have downloaded")
    arms = [arm for name, arm in ARMS.items() if options.arm is None or name in options.arm]
    planned = {arm.check: arm.plan(selection) for arm in arms}
    cases = {check: every for check, every in planned.items() if every}
    if not cases:
        raise NothingToRunError("the selection leaves no case; leave an option out")
    return cases


def _argv(options: argparse.Namespace) -> tuple[str, ...]:
    """The command as far as it decides what is asked: the same one goes on with an unfinished run."""
    lists = {
        "arm": options.arm,
        "budget": options.budget,
        "shape": options.shape,
        "architecture": options.architecture,
        "triton": options.triton,
        "release": options.release,
        "sanitizer": options.sanitizer if options.sanitizer != [] else list(TOOLS[:1]),
    }
    words = ["repro", "kernels"]
    for name, values in lists.items():
        words += [f"--{name}", *dict.fromkeys(map(str, values))] if values else []
    for name in ("engine_env", "python", "sglang", "wheels"):
        value = getattr(options, name)
        words += [] if value is None else [f"--{name.replace('_', '-')}", str(value)]
    return (*words, *(("--quick",) if options.quick else ()))


def _greet(record: Record, cases: Mapping[KernelCheck, tuple[Case, ...]], job: Job) -> None:
    tested = job.subject
    total = sum(map(len, cases.values()))
    goes_on = f"goes on behind {len(record.rows)} results in" if record.rows else "into"
    why = f" ({record.why_new})" if record.why_new else ""
    print(
        f"kernels: {total} cases on SGLang {tested.sglang}, Triton {tested.triton}, torch {tested.torch}; {goes_on} "
        f"{record.path}{why}",
        file=sys.stderr,
        flush=True,
    )


def _report(options: argparse.Namespace, record: Record, progress: Progress) -> None:
    if options.json:
        print(codec.dumps(codec.read(record.path / RUN, KernelRun)).rstrip("\n"))
        return
    rows = progress.all_rows()
    print("\n\n".join(part for part in (details(rows), summary(progress.arms(), rows, _SURVEYS)) if part))
    print(f"\nresults: {record.path}/rows.jsonl\nnext: `nox -s report` puts them beside the cells of a server")


def _once(values: list[Any] | None) -> tuple[Any, ...] | None:
    return None if values is None else tuple(dict.fromkeys(values))


def _arms() -> str:
    return ", ".join(f"{name} ({arm.says})" for name, arm in ARMS.items())


def _words(values: tuple[object, ...]) -> str:
    return " ".join(map(str, values))


def _budget(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= 1024:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to 1024")
    return int(text)


def _shape(text: str) -> str:
    try:
        head_shape(text)
    except SpecError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None
    return text


def _architecture(text: str) -> str:
    try:
        capability(text)
    except SpecError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None
    return text
