"""The part of the command line that is about the production service: `--pause-unit`, and `restore`."""

import argparse
import contextlib
import os
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from matrix.host.commands import HostCommands
from matrix.host.production import (
    LEASE_S,
    Around,
    NoProduction,
    PausedService,
    Production,
    give_back,
    held,
    unfinished,
)
from matrix.host.readiness import answers
from matrix.host.systemd import Scope, Systemd, unit_name
from matrix.progress import hours_text
from repro import codec
from repro.errors import GraphreproError, SpecError
from repro.model import Forecast, PausedUnit


def add_pause(parser: argparse.ArgumentParser) -> None:
    """The options of `run`."""
    parser.add_argument("--pause-unit", metavar="NAME", help="systemd unit to stop for the run")
    parser.add_argument("--pause-scope", choices=("system", "user"), default="system", help="default: system")
    parser.add_argument(
        "--pause-ready-url", type=_url, metavar="URL", help="answers 2xx when the service is ready again"
    )
    parser.add_argument(
        "--pause-lease",
        type=_lease,
        default=LEASE_S,
        metavar="SECONDS",
        help=f"after so long without a sign of this run a timer starts the unit; default: {LEASE_S:.0f}",
    )
    parser.add_argument("--yes", action="store_true", help="do not ask before the service is stopped")
    _add_state(parser)


def add_restore(commands: "argparse._SubParsersAction[Any]") -> None:
    """The command `restore`."""
    parser = commands.add_parser("restore", help="bring back what a dead run has paused", allow_abbrev=False)
    _add_state(parser)
    parser.set_defaults(command=restore_command)


def production_from(options: argparse.Namespace, forecast: Forecast) -> Production:
    """What `run` is to pause, confirmed by a person. Raises SpecError if it was not."""
    if options.pause_unit is None:
        return NoProduction()
    unit = unit_name(options.pause_unit)
    _confirm(
        f"{forecast.launches} launches, about {hours_text(forecast.hours)} ({hours_text(forecast.hours_worst)} if all "
        f"runs into its limits): for so long {unit} will be down",
        yes=options.yes,
    )
    around = _around(options.pause_scope, _state(options), options.pause_lease)
    return PausedService(unit, options.pause_ready_url, around)


def restore_command(options: argparse.Namespace) -> int:
    """Start what dead runs have stopped, wait for it, and forget it. Doing it again changes nothing."""
    state = _state(options)
    failed: list[GraphreproError] = []
    records = unfinished(state)
    for path in records:
        try:
            paused = codec.read(path, PausedUnit)
            with held(state, paused.scope, paused.unit) as record:
                if record.exists():
                    give_back(paused, record, _around(paused.scope, state), leave=lambda: False)
        except GraphreproError as problem:
            failed.append(problem)
    for other in failed[1:]:
        _tell(str(other))
    if failed:
        raise failed[0]
    if not records:
        _tell(f"nothing is paused ({state})")
    return 0


def _around(scope: Scope, state: Path, lease_s: float = LEASE_S) -> Around:
    return Around(
        systemd=Systemd(HostCommands(), scope),
        state=state,
        now=lambda: datetime.now(UTC),
        elapsed=time.monotonic,
        sleep=time.sleep,
        ready=answers,
        tell=_tell,
        lease_s=lease_s,
    )


def _state(options: argparse.Namespace) -> Path:
    """Where it stands what is paused: one place for the host, or for the user, so that `restore` needs no argument."""
    if options.pause_state is not None:
        return Path(options.pause_state)
    if os.geteuid() == 0:
        return Path("/var/lib/graphrepro")
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "graphrepro"


def _add_state(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--pause-state",
        type=Path,
        metavar="DIR",
        help="where it is noted what is paused; default: /var/lib/graphrepro for root, else below ~/.local/state",
    )


def _confirm(question: str, *, yes: bool) -> None:
    _tell(question)
    if yes:
        return
    if not sys.stdin.isatty():
        raise SpecError("nobody is here to confirm that: give --yes")
    print("Type yes to go on: ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() != "yes":
        raise SpecError("not confirmed: nothing was stopped, nothing was run")


def _url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in {"http", "https"} or not parts.hostname or any(c.isspace() for c in text):
        raise argparse.ArgumentTypeError(f"{text!r} is no http:// address")
    return text


def _lease(text: str) -> float:
    if not text.isdecimal() or not 5 <= int(text) <= 86_400:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds from 5 to 86400")
    return float(text)


def _tell(text: str) -> None:
    """To stderr, if there is one: a terminal that has gone must not keep the service from coming back."""
    with contextlib.suppress(OSError, ValueError):
        print(f"matrix: {text}", file=sys.stderr, flush=True)
