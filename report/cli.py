"""`python -m report`: the only module of the report that reads arguments and prints."""

import argparse
import contextlib
import io
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import NoReturn

from report import console, html, imports, junit, markdown, promote, shelf
from report.compare import Declared
from report.document import Document, assemble
from report.fieldmap import read_map, shipped_names
from report.kernels import Kernels, chosen
from report.kernels_load import LoadedKernels, load_kernels
from report.load import Loaded, load
from repro import baselines, codec
from repro.console import tell
from repro.environment import subject_fields
from repro.errors import GraphreproError, NothingToRunError, RecordError, SpecError, UnavailableError
from repro.escape import one_line
from repro.ledger import known
from repro.model import Baseline, Problem
from repro.store import write_atomic

_RESULTS = Path("results")
_BASELINES = _RESULTS / "baselines"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise SpecError(f"{message} (`{self.prog} --help` lists the options)")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal without UTF-8 is no reason to fail
    try:
        arguments = _parser().parse_args(argv)
        arguments.run(arguments)
    except GraphreproError as error:
        tell(f"report: {one_line(str(error))}")
        return error.exit_code
    except KeyboardInterrupt:
        tell("report: interrupted")
        return 130
    except (
        BrokenPipeError
    ):  # the reader, such as `head`, has seen enough; the files are written before anything is said
        _hush()
    except OSError as error:  # such as a full disk behind stdout
        _hush()
        place = f"{error.filename}: " if error.filename else ""
        tell(f"report: {one_line(f'{place}{error.strerror or error}')}: make room or correct it, and try again")
        return UnavailableError.exit_code
    return 0


def _hush() -> None:
    """What is left for stdout goes nowhere: Python writes it at exit, and would fail again."""
    with contextlib.suppress(OSError, AttributeError):  # it may be no file, or closed
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, sys.stdout.fileno())
        finally:
            os.close(nowhere)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m report",
        description="Explain what the runs of a matrix mean. Executes nothing.",
        epilog="exit status: 0 it was built or stored, whatever it says, 2 bad arguments, 3 there are no results, 4 a "
        "file cannot be written, 5 there are records and none can be read, 130 interrupted",
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    build = commands.add_parser(
        "build",
        allow_abbrev=False,
        help="write findings.html, findings.md, findings.json and junit.xml, and print the tables",
        description="Reads run directories, executes nothing. Exit code 0 when the report was built, whatever it says.",
    )
    build.add_argument(
        "--results",
        type=Path,
        nargs="+",
        action="extend",
        metavar="DIR",
        help="results directories, or runs below one (default: results)",
    )
    build.add_argument("--out", type=Path, metavar="DIR", help="where to write (default: results/report)")
    build.add_argument("--against", type=Path, metavar="DIR", help="another results directory to compare with")
    build.add_argument(
        "--changed",
        metavar="NAME[,NAME…]",
        type=_names,
        default=[],
        help="what was changed on purpose, such as engine, image or driver: it may differ, all else must be equal",
    )
    build.add_argument(
        "--margin",
        type=_percent,
        metavar="PERCENT",
        help="difference in a number that counts as none (default: 3 for rates, 10 for waiting times)",
    )
    _add_baselines(build)
    build.add_argument("--target", metavar="T", help="only the runs of this target")
    build.add_argument(
        "--since", type=_moment, metavar="DATE", help="only runs that began on this day or later (UTC; 2026-11-30)"
    )
    build.add_argument(
        "--ledger",
        type=Path,
        metavar="FILE",
        help="say which failures it has (default: ./ledger.json, if there is one)",
    )
    build.add_argument("--json", action="store_true", help="print findings.json instead of the tables")
    build.set_defaults(run=_build)
    _add_import(commands.add_parser("import-baseline", allow_abbrev=False, help="make a baseline from a result file"))
    _add_promote(commands.add_parser("promote", allow_abbrev=False, help="make a baseline from a cell of a run"))
    return parser


def _add_import(parser: argparse.ArgumentParser) -> None:
    parser.description = "Makes a baseline from a file of JSON or JSON lines that another load generator wrote."
    parser.add_argument("file", type=Path, metavar="FILE", help="what it measured")
    parser.add_argument(
        "--map", metavar="FILE", help=f"what the fields mean: a TOML file, or one of: {', '.join(shipped_names())}"
    )
    parser.add_argument(
        "--lines",
        choices=("repeats", "launches"),
        default="repeats",
        help="what lines at the same concurrency are: repeats within one launch (default), or fresh launches",
    )
    _add_store(parser)
    parser.set_defaults(run=_import)


def _add_promote(parser: argparse.ArgumentParser) -> None:
    parser.description = "Makes a baseline from a cell of a run, with its launches, intervals and recorded facts."
    parser.add_argument("directory", type=Path, metavar="RUN", help="the directory of a run: results/<target>/<run>")
    parser.add_argument("cell", metavar="CELL", help="id of a cell of that run")
    _add_store(parser)
    parser.set_defaults(run=_promote)


def _add_store(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--as", dest="name", required=True, metavar="NAME", help="name of the baseline")
    parser.add_argument("--replace", action="store_true", help="replace the baseline of that name")
    _add_baselines(parser)


def _add_baselines(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--baselines", type=Path, metavar="DIR", help=f"your own baselines (default: {_BASELINES.as_posix()})"
    )


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _percent(text: str) -> float:
    """The share that a percentage says."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 50:
        raise argparse.ArgumentTypeError(f"{text!r} is not a percentage above 0 and up to 50")
    return value / 100


def _import(arguments: argparse.Namespace) -> None:
    archived = next((baseline for baseline in baselines.load() if baseline.name == arguments.name), None)
    fields = read_map(arguments.map) if arguments.map is not None else None
    made = imports.import_file(
        arguments.file, arguments.name, fields, lines=arguments.lines, archived=archived, now=_now()
    )
    path = shelf.store(made, arguments.baselines or _BASELINES, replace=arguments.replace)
    measured = sum(number.value is not None for number in made.measurements)
    print(f"{path}: {measured} numbers", flush=True)
    if made.unread:
        tell(f"nothing was taken from: {', '.join(made.unread)}")
    unstated = [name for name in ("target", "budget", "topk", "shape", "graph", "nvls") if name in made.unknown]
    if unstated:
        tell(f"not known, so that it is beside no cell or any: {', '.join(unstated)}; [coordinates] of a map says them")


def _promote(arguments: argparse.Namespace) -> None:
    run = promote.the_run(load([arguments.directory]), str(arguments.directory))
    made = promote.promote(run, arguments.cell, arguments.name, now=_now())
    path = shelf.store(made, arguments.baselines or _BASELINES, replace=arguments.replace)
    print(
        f"{path}: {len(made.measurements)} numbers over {made.failures.n if made.failures else 0} launches", flush=True
    )


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _build(arguments: argparse.Namespace) -> None:
    roots: list[Path] = arguments.results or [_RESULTS]
    ledger = known.load(arguments.ledger)
    results, kernel_runs = _load(roots, arguments.target, html.prepare)
    if arguments.since is not None:
        results, kernel_runs = _since(results, kernel_runs, arguments.since)
    kernels = _about(chosen(kernel_runs), results, arguments.target)
    against = load([arguments.against], arguments.target) if arguments.against is not None else None
    own, unusable = _own_baselines(arguments.baselines)
    results = replace(results, problems=(*results.problems, *unusable))
    document = assemble(
        results,
        against,
        shelf.beside(baselines.load(), own),
        tool_version=version("graphrepro"),
        declared=Declared(changed=subject_fields(arguments.changed), margin=arguments.margin),
        ledger=ledger,
        kernels=kernels,
    )
    out: Path = arguments.out or _RESULTS / "report"
    _write(out, document)
    if arguments.json and isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # JSON is UTF-8 whatever the terminal is
    print(codec.dumps(document.record) if arguments.json else console.render(document), end="", flush=True)
    print(f"written to {out}: findings.html, findings.md, findings.json, junit.xml", file=sys.stderr)
    print(_advice(document), file=sys.stderr)


def _moment(text: str) -> datetime:
    """A day or a time; without a zone it is UTC."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no date; write 2026-11-30 or 2026-11-30T09:00:00Z") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _since(results: Loaded, kernels: LoadedKernels, moment: datetime) -> tuple[Loaded, LoadedKernels]:
    kept, checked = results.since(moment), kernels.since(moment)
    begun = [*(run.created_at for run in results.reported()), *(one.run.created_at for one in kernels.runs)]
    left = len(begun) - len(kept.reported()) - len(checked.runs)
    if left == len(begun):
        newest = max(begun)
        raise NothingToRunError(f"no run began at or after {moment.isoformat()}; the newest is of {newest}")
    if left:
        tell(f"report: {left} run(s) that began before {moment.isoformat()} are left out")
    return kept, checked


def _about(kernels: Kernels, results: Loaded, target: str | None) -> Kernels:
    """With ``--target``, the kernel rows about its architecture; all of them if no server was run."""
    if target is None or not results.runs:
        return kernels
    about = kernels.about(run.plan.architecture for run in results.runs if run.plan is not None)
    if about.hidden:
        tell(f"report: {about.hidden} row(s) of the kernel checks about other architectures are left out")
    return about


def _own_baselines(given: Path | None) -> tuple[tuple[Baseline, ...], tuple[Problem, ...]]:
    if given is not None and not given.is_dir():
        raise SpecError(f"--baselines {given} is not a directory; import-baseline and promote make one")
    return shelf.take(given or _BASELINES)


def _load(roots: list[Path], target: str | None, meanwhile: Callable[[], None]) -> tuple[Loaded, LoadedKernels]:
    if roots == [_RESULTS] and not _RESULTS.is_dir():
        raise NothingToRunError(
            f"there are no results here yet; type: python -m matrix run --spec {target or 'cpu'} (or --results DIR)"
        )
    results, kernels = load(roots, target, meanwhile), load_kernels(roots)
    if results.runs:
        return results, kernels
    known = sorted({run.run.target for run in load(roots).runs}) if target is not None else []
    if kernels.runs and not known:
        return results, kernels
    where = ", ".join(str(root) for root in roots)
    problems = (*results.problems, *kernels.problems)
    if problems:
        first = problems[0]
        raise RecordError(
            f"no run below {where} can be read, and {len(problems)} cannot be used; the first: {first.path}: "
            f"{first.problem}"
        )
    if known:
        raise NothingToRunError(f"no run of {target} below {where}; type one of: --target {' | '.join(known)}")
    raise NothingToRunError(f"no run below {where}; type: python -m matrix run --spec {target or 'cpu'}")


def _write(out: Path, document: Document) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise SpecError(f"--out {out} is not a directory; give another one") from None
    except OSError as error:
        raise UnavailableError(f"--out {out} cannot be made ({error.strerror}); give another one") from None
    files = {
        "findings.html": html.render(document).encode(),
        "findings.md": markdown.render(document).encode(),
        "findings.json": codec.dumps(document.record).encode(),
        "junit.xml": junit.render(document),
    }
    for name, data in files.items():
        write_atomic(out / name, data)


def _advice(document: Document) -> str:
    problems = len(document.record.problems)
    if problems:
        return f"{problems} record(s) could not be used: they are listed at the end, each with what to do"
    if document.record.findings:
        first = document.record.findings[0]
        return f"next, for {first.id}: {first.next}"
    return document.nothing.replace("Nothing", "nothing was found").removesuffix(".")
