"""`python -m report`: the only module of the report that reads arguments and prints."""

import argparse
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from report import console, html, junit, markdown
from report.document import Document, assemble
from report.load import Loaded, load
from repro import baselines, codec
from repro.errors import GraphreproError, NothingToRunError, RecordError, SpecError, UnavailableError
from repro.store import write_atomic

_RESULTS = Path("results")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code (2 by SystemExit for arguments that cannot be parsed)."""
    arguments = _parser().parse_args(argv)
    try:
        _build(arguments)
    except GraphreproError as error:
        print(f"report: {error}", file=sys.stderr)
        return error.exit_code
    return 0


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
    sys.stdout.write(codec.dumps(document.record) if arguments.json else console.render(document))
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
