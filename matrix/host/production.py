"""A production service gives its GPUs to a run, and gets them back on every path.

Order matters, because the harness may die between any two lines: first the record on disk, then the timer that starts
the service if nobody else does, then the stop. Afterwards: start, timer away, wait until ready, record away. The timer
runs for `LEASE_S` and is begun again while the run goes on: so a dead harness costs production at most that long,
however long the run was meant to take.
"""

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from filelock import FileLock, Timeout

from matrix.host.systemd import Scope, Systemd, timer_name
from repro import codec
from repro.atomic import unwritable
from repro.errors import UnavailableError
from repro.model import PausedUnit
from repro.store import write_record

LEASE_S = 900.0
"""Longer than anything that keeps the harness from its next look: the stop ladder of an attempt above all."""
RENEWALS = 15
"""How many times the timer is begun again in one lease."""
STOP_LIMIT_S = 600.0
START_LIMIT_S = 1800.0
READY_LIMIT_S = 1800.0
"""A big model is loaded in minutes; the archived deployment was ready after 150 s."""
SETTLE_S = 2.0
"""Without an address to ask, a unit counts as ready when it is still active after so long."""


class Production(Protocol):
    """The service that a run takes the place of, if any."""

    def paused(self, run: str, interrupts: Callable[[], int], /) -> AbstractContextManager[None]:
        """Stopped inside the context, running after it. ``interrupts`` counts the user's wishes to leave.

        Raises UnavailableError if it cannot be stopped (it then runs), or does not come back.
        """

    def hold(self) -> None:
        """To be called again and again inside the context. Raises UnavailableError if the service runs again."""


class NoProduction:
    """Nothing is paused."""

    def paused(self, _run: str, _interrupts: Callable[[], int], /) -> AbstractContextManager[None]:
        return contextlib.nullcontext()

    def hold(self) -> None:
        pass


@dataclass(frozen=True, kw_only=True, slots=True)
class Around:
    """What pausing takes from the world. ``elapsed`` is a monotonic clock in seconds; ``ready`` asks an address."""

    systemd: Systemd
    state: Path
    now: Callable[[], datetime]
    elapsed: Callable[[], float]
    sleep: Callable[[float], None]
    ready: Callable[[str], bool]
    tell: Callable[[str], None]
    lease_s: float = LEASE_S
    ready_limit_s: float = READY_LIMIT_S


class PausedService:
    """`Production` as a systemd unit."""

    def __init__(self, unit: str, ready_url: str | None, around: Around) -> None:
        self._unit = unit
        self._ready_url = ready_url
        self._around = around
        self._paused: PausedUnit | None = None
        self._renewed = 0.0

    @contextlib.contextmanager
    def paused(self, run: str, interrupts: Callable[[], int], /) -> Iterator[None]:
        with held(self._around.state, self._around.systemd.scope, self._unit) as record:
            paused = self._recorded(run, record)
            try:
                self._take(paused)
                yield
            finally:
                self._paused = None
                asked = interrupts()
                give_back(paused, record, self._around, leave=lambda: interrupts() > asked)

    def hold(self) -> None:
        around, paused = self._around, self._paused
        if paused is None or around.elapsed() - self._renewed < around.lease_s / RENEWALS:
            return
        self._renewed = around.elapsed()
        try:
            state = around.systemd.state(paused.unit)
            if not state.running:
                around.systemd.arm(paused.timer, paused.unit, around.lease_s)
                return
        except UnavailableError as problem:
            around.tell(f"the timer for {paused.unit} could not be begun again, next try soon: {problem}")
            return
        raise UnavailableError(
            f"{paused.unit} runs again although this run goes on (its timer, a socket or a person started it): the run "
            "ends, so that it has its GPUs; the same command goes on later"
        )

    def _recorded(self, run: str, record: Path) -> PausedUnit:
        """What stands on disk before anything is stopped."""
        around = self._around
        state = around.systemd.state(self._unit)
        if not state.exists:
            raise UnavailableError(
                f"--pause-unit {self._unit}: systemd knows no such unit: `{around.systemd.shown('list-units', '')}"
                "--all` lists them; user units need --pause-scope user"
            )
        if state.active == "deactivating":
            raise UnavailableError(f"--pause-unit {self._unit}: it is being stopped right now: wait until it is")
        earlier = codec.read(record, PausedUnit) if record.exists() else None
        paused = PausedUnit(
            unit=self._unit,
            scope=around.systemd.scope,
            was_active=state.running or (earlier is not None and earlier.was_active),
            paused_at=f"{around.now():%Y-%m-%dT%H:%M:%SZ}",
            run=run,
            timer=timer_name(self._unit),
            ready_url=self._ready_url or (earlier.ready_url if earlier is not None else None),
        )
        write_record(record, paused)
        return paused

    def _take(self, paused: PausedUnit) -> None:
        around = self._around
        if not paused.was_active:
            around.tell(f"{paused.unit} does not run, so there is nothing to stop, and it will not be started")
            return
        around.systemd.arm(paused.timer, paused.unit, around.lease_s)
        around.tell(
            f"stopping {paused.unit}; should this run die, a timer starts it {around.lease_s:.0f} s later, and "
            "`python -m matrix restore` at any time"
        )
        around.systemd.stop(paused.unit, STOP_LIMIT_S)
        self._renewed = around.elapsed()
        self._paused = paused


def give_back(paused: PausedUnit, record: Path, around: Around, *, leave: Callable[[], bool]) -> None:
    """Start what ran before, and wait until it is ready; ``leave`` True ends the waiting. May be done again at will.

    Raises UnavailableError, with what to type, if it does not come back; the record then stays.
    """
    begun = around.elapsed()
    if paused.was_active:
        try:
            if not around.systemd.state(paused.unit).running:
                around.systemd.start(paused.unit, START_LIMIT_S)
            around.systemd.disarm(paused.timer)
            if not _wait(paused, around, leave):
                around.tell(f"PRODUCTION {paused.unit} STARTED, not waited for; see `python -m matrix restore`")
                return
        except UnavailableError as problem:
            raise UnavailableError(
                f"PRODUCTION {paused.unit} IS NOT BACK: {problem}; then type "
                f"`{around.systemd.shown('start', paused.unit)}` and `python -m matrix restore` (results are kept)"
            ) from problem
        around.tell(f"PRODUCTION {paused.unit} READY after {around.elapsed() - begun:.0f} s")
    with contextlib.suppress(OSError):  # what is left says no more than that it ran: starting it again changes nothing
        record.unlink(missing_ok=True)


def _wait(paused: PausedUnit, around: Around, leave: Callable[[], bool]) -> bool:
    """True when it is ready, False if the wait was left."""
    begun = around.elapsed()
    while not leave():
        state, waited = around.systemd.state(paused.unit), around.elapsed() - begun
        if not state.running:
            raise UnavailableError(f"it started and is now {state.active}: read `journalctl -u {paused.unit}`")
        asked = around.ready(paused.ready_url) if paused.ready_url else waited >= SETTLE_S
        if state.active == "active" and asked:
            return True
        if waited > around.ready_limit_s:
            who = paused.ready_url or "systemd"
            raise UnavailableError(f"it runs, but {who} does not call it ready after {waited:.0f} s")
        around.sleep(0.5)
    return False


def unfinished(state: Path) -> tuple[Path, ...]:
    """The records of services that are not back yet."""
    return tuple(sorted(state.glob("paused-*.json")))


@contextlib.contextmanager
def held(state: Path, scope: Scope, unit: str) -> Iterator[Path]:
    """The place of the unit's record, locked: only one run pauses a unit, and nobody restores it meanwhile.

    Raises UnavailableError if another graphrepro holds it, or the folder cannot be written.
    """
    try:
        state.mkdir(parents=True, exist_ok=True)
        lock = FileLock(state / f"paused-{scope}-{unit}.lock", timeout=0)
        lock.acquire()
    except Timeout:
        raise UnavailableError(
            f"{unit} is paused by a run that still goes on: wait for it, or end it with Ctrl-C"
        ) from None
    except OSError as problem:
        raise unwritable(state, problem) from None
    try:
        yield state / f"paused-{scope}-{unit}.json"
    finally:
        lock.release()
