"""`python -m report`: the only module of the report that reads arguments and prints."""

import argparse
import contextlib
import io
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from report import console, html, junit, markdown
from report.document import Document, assemble
from report.escape import one_line
from report.load import Loaded, load
from repro import baselines, codec
from repro.errors import GraphreproError, NothingToRunError, RecordError, SpecError, UnavailableError
from repro.store import write_atomic

_RESULTS = Path("results")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code (2 by SystemExit for arguments that cannot be parsed)."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal without UTF-8 is no reason to fail
    arguments = _parser().parse_args(argv)
    try:
        _build(arguments)
    except GraphreproError as error:
        _tell(f"report: {error}")
        return error.exit_code
    except (
        BrokenPipeError
    ):  # the reader, such as `head`, has seen enough; the files are written before anything is said
        _hush()
    except OSError as error:  # such as a full disk behind stdout
        _hush()
        place = f"{error.filename}: " if error.filename else ""
        _tell(f"report: {one_line(f'{place}{error.strerror or error}')}: make room or correct it, and try again")
        return UnavailableError.exit_code
    return 0


def _tell(line: str) -> None:
    with contextlib.suppress(OSError):
        print(line, file=sys.stderr, flush=True)


def _hush() -> None:
    """What is left for stdout goes nowhere: Python writes it at exit, and would fail again."""
    with contextlib.suppress(OSError, AttributeError):  # it may be no file, or closed
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, sys.stdout.fileno())
        finally:
            os.close(nowhere)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m report", description="Explain what the runs of a matrix mean.")
    commands = parser.add_subparsers(dest="command", required=True)
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
    build.add_argument("--target", metavar="T", help="only the runs of this target")
    build.add_argument("--json", action="store_true", help="print findings.json instead of the tables")
    return parser


def _build(arguments: argparse.Namespace) -> None:
    roots: list[Path] = arguments.results or [_RESULTS]
    results = _load(roots, arguments.target)
    against = load([arguments.against], arguments.target) if arguments.against is not None else None
    document = assemble(results, against, baselines.load(), tool_version=version("graphrepro"))
    out: Path = arguments.out or _RESULTS / "report"
    _write(out, document)
    if arguments.json and isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # JSON is UTF-8 whatever the terminal is
    print(codec.dumps(document.record) if arguments.json else console.render(document), end="", flush=True)
    print(f"written to {out}: findings.html, findings.md, findings.json, junit.xml", file=sys.stderr)
    print(_advice(document), file=sys.stderr)


def _load(roots: list[Path], target: str | None) -> Loaded:
    if roots == [_RESULTS] and not _RESULTS.is_dir():
        raise NothingToRunError(
            f"there are no results here yet; type: python -m matrix run --spec {target or 'cpu'} (or --results DIR)"
        )
    results = load(roots, target)
    if results.runs:
        return results
    where = ", ".join(str(root) for root in roots)
    if results.problems:
        first = results.problems[0]
        raise RecordError(
            f"no run below {where} can be read, and {len(results.problems)} cannot be used; the first: {first.path}: "
            f"{first.problem}"
        )
    known = sorted({run.run.target for run in load(roots).runs}) if target is not None else []
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
    return "nothing was found: no launch has a result yet"
