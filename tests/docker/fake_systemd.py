"""A systemd of its own, behind the interface through which ours is asked: command lines of `systemctl` and
`systemd-run` in, their answers out. `test_systemd.py` holds it and the real one to the same contract. Its time stands
still unless slept."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from matrix.host.commands import Answer


@dataclass
class Unit:
    active: str = "inactive"
    load: str = "loaded"
    triggered_by: str = ""
    start_fails: bool = False
    stop_fails: bool = False
    dies_when_started: bool = False


@dataclass
class Timer:
    unit: str
    after_s: float
    due_s: float


@dataclass
class FakeSystemd:
    """``refuses`` answers every command line that holds one of its keys with status 1 and the text."""

    units: dict[str, Unit] = field(default_factory=dict)
    timers: dict[str, Timer] = field(default_factory=dict)
    refuses: dict[str, str] = field(default_factory=dict)
    installed: bool = True
    asked: list[str] = field(default_factory=list)
    time_s: float = 0.0

    # --- the clock

    def elapsed(self) -> float:
        return self.time_s

    def sleep(self, seconds: float) -> None:
        self.time_s += seconds
        for name, timer in list(self.timers.items()):
            if timer.due_s <= self.time_s:
                del self.timers[name]
                self._start(timer.unit)

    # --- Commands

    def path(self, program: str) -> str | None:
        return f"/usr/bin/{program}" if self.installed else None

    def run(self, argv: Sequence[str], timeout_s: float) -> Answer:
        if not self.installed:
            return Answer(status=None, out="", said=f"{argv[0]} is not installed")
        line = " ".join(argv)
        self.asked.append(line)
        for part, said in self.refuses.items():
            if part in line:
                return Answer(status=1, out="", said=said)
        words = [word for word in argv[1:] if word not in {"--user", "--no-ask-password"}]
        if argv[0] == "systemd-run":
            return self._arm(words)
        verb, name = words[0], words[1]
        if verb == "show":
            return Answer(status=0, out=self._show(name), said="")
        if name.endswith(".timer"):
            return self._timer(verb, name)
        if name not in self.units:
            return Answer(status=5, out="", said=f"Failed to {verb} {name}: Unit {name} not found.")
        return self._start(name) if verb == "start" else self._stop(name)

    def _show(self, name: str) -> str:
        if name.endswith(".timer"):
            armed = name.removesuffix(".timer") in self.timers
            unit = Unit("active") if armed else Unit(load="not-found")
        else:
            unit = self.units.get(name, Unit(load="not-found"))
        said = {"ControlGroup": f"/system.slice/{name}" if unit.active == "active" else ""}
        said |= {"LoadState": unit.load, "ActiveState": unit.active, "TriggeredBy": unit.triggered_by}
        return "".join(f"{key}={value}\n" for key, value in said.items())

    def _start(self, name: str) -> Answer:
        unit = self.units[name]
        if unit.start_fails:
            unit.active = "failed"
            return Answer(status=1, out="", said=f"Job for {name} failed.")
        unit.active = "failed" if unit.dies_when_started else "active"
        return Answer(status=0, out="", said="")

    def _stop(self, name: str) -> Answer:
        unit = self.units[name]
        if unit.stop_fails:
            return Answer(status=1, out="", said=f"Job for {name} canceled.")
        unit.active = "inactive"
        return Answer(status=0, out="", said="")

    def _timer(self, verb: str, name: str) -> Answer:
        plain = name.removesuffix(".timer")
        if plain not in self.timers:
            return Answer(status=5, out="", said=f"Failed to {verb} {name}: Unit {name} not loaded.")
        if verb == "stop":
            del self.timers[plain]
        else:
            self.timers[plain].due_s = self.time_s + self.timers[plain].after_s
        return Answer(status=0, out="", said="")

    def _arm(self, words: Sequence[str]) -> Answer:
        options = dict(word.partition("=")[::2] for word in words if word.startswith("--"))
        name = options["--unit"]
        if name in self.timers:
            said = f"Failed to start transient timer unit: Unit {name}.timer was already loaded"
            return Answer(status=1, out="", said=said)
        delay = re.fullmatch(r"([0-9.]+)s", options["--on-active"])
        assert delay is not None
        after_s = float(delay[1])
        self.timers[name] = Timer(unit=words[-1], after_s=after_s, due_s=self.time_s + after_s)
        return Answer(status=0, out="", said="")
