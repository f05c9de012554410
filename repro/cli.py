"""The command line of `python -m repro`. Only here are arguments and the environment read, and things printed."""

import argparse
import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, cast

from repro.console import on_one_line, say, say_json, tell
from repro.errors import GraphreproError, SpecError, UnavailableError

Command = Callable[[argparse.Namespace], int]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise SpecError(f"{message} (`{self.prog} --help` lists the options)")


def main(arguments: list[str]) -> int:
    """The exit status: see `python -m repro --help`."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal without UTF-8 is no reason to fail
    try:
        options = _parser().parse_args(arguments)
        return cast("Command", options.command)(options)
    except GraphreproError as problem:
        tell(f"repro: {on_one_line(str(problem))}")
        return problem.exit_code
    except KeyboardInterrupt:
        tell("repro: interrupted")
        return 130
    except OSError as problem:  # such as a full disk behind stdout
        place = f"{problem.filename}: " if problem.filename else ""
        tell(f"repro: {on_one_line(f'{place}{problem.strerror or problem}')}: make room or correct it, and try again")
        return UnavailableError.exit_code


def diagnose_command(options: argparse.Namespace) -> int:
    from repro.diagnose import Log, diagnose
    from repro.diagnose.console import render
    from repro.diagnose.probes import judge_probes, read_probes

    logs = [Log(path=_log_file(path)) for path in options.logs]
    kernel_log = Log(path=_log_file(options.kernel_log)) if options.kernel_log is not None else None
    probes = read_probes(options.probes) if options.probes is not None else None
    unknown = judge_probes(probes).unknown
    found = diagnose(logs, exit_status=options.exit_status, kernel_log=kernel_log, probes=probes)
    if options.json:
        say_json(found)
    else:
        say(render(found))
    if unknown:
        tell(f"repro: these probes mean nothing to the diagnosis: {on_one_line(', '.join(unknown))}")
    return 0


def _log_file(path: Path) -> Path:
    """The path, if a file can be read there."""
    if path.is_dir():
        raise SpecError(f"{path}: is a directory; give the log file in it")
    try:
        with path.open("rb"):
            return path
    except OSError as problem:
        raise SpecError(f"{path}: cannot be read ({problem.strerror}); give the path of a log") from None


def _parser() -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = _Parser(
        prog="python -m repro",
        description="What happened, on what, whether it can be trusted, and whether it happens again.",
        epilog="exit status: 0 the work was done, 2 bad arguments or unreadable files, 4 something is unavailable, 5 a "
        "record is invalid, 6 a bundle does not verify or would hold a secret, 130 interrupted; what else `kernels`, "
        "`pack`, `replay` and `recheck` say with it: see their --help",
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    from repro.bundle.arguments import add_pack, add_replay, add_show, add_verify
    from repro.kernels.cli import add as add_kernels
    from repro.ledger.cli import add_ledger, add_recheck

    for add in (_add_diagnose, add_kernels, add_pack, add_verify, add_show, add_replay, add_ledger, add_recheck):
        add(commands)
    return parser


def _add_diagnose(commands: Any) -> None:
    parser = commands.add_parser(
        "diagnose",
        allow_abbrev=False,
        help="what a server's logs say: what failed, where, cause or consequence, and what to do",
        description="Reads logs (also .gz and .zst; of several ranks or nodes), executes nothing.",
        epilog="exit status: 0 whatever the logs say, 2 bad arguments or a file that cannot be read",
    )
    parser.add_argument("logs", nargs="+", type=Path, metavar="LOG", help="log files of one server")
    parser.add_argument(
        "--exit-status",
        type=_status,
        metavar="N",
        help="how the server ended: negative for a signal, or as a shell says it (137); 124 for a time limit",
    )
    parser.add_argument("--kernel-log", type=Path, metavar="FILE", help="the kernel's log: dmesg -T or journalctl -k")
    parser.add_argument("--probes", type=Path, metavar="FILE", help="what was measured beside it: a flat JSON object")
    parser.add_argument("--json", action="store_true", help="print the record `diagnosis`")
    parser.set_defaults(command=diagnose_command)


def _status(text: str) -> int:
    try:
        status = int(text)
    except ValueError:
        status = 1 << 20
    if not -64 <= status <= 255 or not text.removeprefix("-").isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no exit status (-64 to 255)")
    return status
