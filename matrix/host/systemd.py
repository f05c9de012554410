"""systemd, through its own programs: state, stop, start, and a transient timer that starts a unit later.

`systemctl` and `systemd-run` are used rather than the bus: they are what an administrator types, ask polkit in the same
way, and exist wherever systemd does. Sources: systemctl(1), systemd-run(1), systemd.timer(5).
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from matrix.host.commands import Answer, Commands
from repro.errors import SpecError, UnavailableError

Scope = Literal["system", "user"]
QUICK_S = 30.0
"""Time for an answer that needs no unit to do anything."""

_UNIT = re.compile(r"[A-Za-z0-9][A-Za-z0-9:_.\\@-]{0,250}")
_KINDS = (".service", ".scope", ".target", ".slice", ".socket")


@dataclass(frozen=True, kw_only=True, slots=True)
class UnitState:
    """Properties of a unit as `systemctl show` gives them, empty where it has none."""

    load: str
    active: str
    control_group: str
    triggered_by: str

    @property
    def exists(self) -> bool:
        return self.load not in {"not-found", "", "bad-setting", "error"}

    @property
    def running(self) -> bool:
        """Running, or about to: what a stop would take away from its users."""
        return self.active in {"active", "activating", "reloading", "refreshing"}


class Systemd:
    """The system's or the user's service manager."""

    def __init__(self, commands: Commands, scope: Scope) -> None:
        self._commands = commands
        self.scope = scope

    def shown(self, verb: str, unit: str) -> str:
        """What a person would type."""
        return " ".join(["systemctl", *self._user, verb, unit])

    def state(self, unit: str) -> UnitState:
        """Raises UnavailableError if there is no systemd to ask."""
        names = "LoadState,ActiveState,ControlGroup,TriggeredBy"
        answer = self._systemctl(["show", unit, f"--property={names}"], QUICK_S)
        if answer.status != 0:
            raise UnavailableError(f"cannot ask systemd about {unit}: {answer.said}: {self._advice(answer.said)}")
        found = dict(line.partition("=")[::2] for line in answer.out.splitlines() if "=" in line)
        return UnitState(
            load=found.get("LoadState", ""),
            active=found.get("ActiveState", ""),
            control_group=found.get("ControlGroup", ""),
            triggered_by=found.get("TriggeredBy", ""),
        )

    def stop(self, unit: str, limit_s: float) -> None:
        """Returns when it has stopped. Raises UnavailableError if it does not."""
        self._act("stop", unit, limit_s)

    def start(self, unit: str, limit_s: float) -> None:
        """Returns when systemd calls it started. Raises UnavailableError if it does not."""
        self._act("start", unit, limit_s)

    def arm(self, timer: str, unit: str, after_s: float) -> None:
        """A transient timer that starts the unit after so many seconds, whatever becomes of this process; an armed one
        of that name begins again. It does not outlive a reboot. Raises UnavailableError if there can be none."""
        if self.rearm(timer):
            return
        start = [self._commands.path("systemctl") or "systemctl", *self._user, "start", unit]
        run = ["systemd-run", *self._user, "--collect", "--quiet", f"--unit={timer}", f"--on-active={after_s:g}s"]
        describe = f"--description=graphrepro: start {unit} again if the run that stopped it is dead"
        answer = self._commands.run([*run, "--timer-property=AccuracySec=1s", describe, *start], QUICK_S)
        if answer.status != 0:
            raise UnavailableError(
                f"no timer can be set that would start {unit} again: {answer.said}: {self._advice(answer.said)}"
            )

    def rearm(self, timer: str) -> bool:
        """Begin an armed timer again, with its own delay. False if there is none."""
        if self.state(f"{timer}.timer").active != "active":
            return False
        return self._systemctl(["restart", f"{timer}.timer"], QUICK_S).status == 0

    def disarm(self, timer: str) -> None:
        """Take the timer away, if it is there."""
        self._systemctl(["stop", f"{timer}.timer"], QUICK_S)

    def _act(self, verb: str, unit: str, limit_s: float) -> None:
        answer = self._systemctl([verb, unit], limit_s)
        if answer.status != 0:
            raise UnavailableError(f"`{self.shown(verb, unit)}` failed: {answer.said}: {self._advice(answer.said)}")

    def _systemctl(self, arguments: Sequence[str], timeout_s: float) -> Answer:
        return self._commands.run(["systemctl", *self._user, "--no-ask-password", *arguments], timeout_s)

    def _advice(self, said: str) -> str:
        low = said.lower()
        if self.scope == "user" and "connect to bus" in low:
            return "log in as the user of the unit (XDG_RUNTIME_DIR must be set), or leave --pause-scope user out"
        if "not installed" in low or "not been booted" in low or "connect to bus" in low or "cannot be run" in low:
            return "--pause-unit needs a host that systemd runs; stop the service yourself and leave the option out"
        if "denied" in low or "authentication" in low or "permission" in low:
            return "run as root, or allow this user org.freedesktop.systemd1.manage-units in polkit"
        return f"`{self.shown('status', 'UNIT')}` and `journalctl -u UNIT` tell more"

    @property
    def _user(self) -> list[str]:
        return ["--user"] if self.scope == "user" else []


def unit_name(text: str) -> str:
    """The full name of a unit. Raises SpecError for what can be none."""
    if not _UNIT.fullmatch(text):
        raise SpecError(f"--pause-unit {text!r}: is no unit's name, such as sglang.service")
    return text if text.endswith(_KINDS) else f"{text}.service"


def timer_name(unit: str) -> str:
    """The name, without `.timer`, of the timer that starts a unit again."""
    plain = re.sub(r"[^A-Za-z0-9_]+", "-", unit.removesuffix(".service")).strip("-")
    return f"graphrepro-restore-{plain[:60]}-{hashlib.sha256(unit.encode()).hexdigest()[:8]}"
