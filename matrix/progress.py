"""What a run shows while it goes on: a live table on a terminal, plain lines elsewhere."""

import contextlib
import time
from typing import Protocol, TextIO

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from repro.model import PlanStep, Result, Verdict

STYLES = {"pass": "green", "fail": "red", "corrupt": "bold red", "inconclusive": "yellow", "void": "magenta"}
_SHOWN_ROWS = 12


class Progress(Protocol):
    """Told of each step of a run; shows it, and changes nothing."""

    def begin(self, *, run: str, launches: int, done: int, hours: float) -> None: ...
    def attempt(self, step: PlanStep, number: int) -> None: ...
    def phase(self, phase: str) -> None: ...
    def ended(self, result: Result, verdict: Verdict) -> None: ...
    def note(self, text: str) -> None: ...
    def close(self) -> None: ...


def progress_on(stream: TextIO) -> Progress:
    """A live table if the stream is a terminal, else lines."""
    console = Console(file=stream, highlight=False)
    return LiveProgress(console) if console.is_terminal else LineProgress(stream)


class LineProgress:
    """One line for each thing that happens, flushed."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._done = self._total = 0

    def begin(self, *, run: str, launches: int, done: int, hours: float) -> None:
        self._done, self._total = done, launches
        self.note(f"{run}: {launches} launches, {done} done before, about {hours_text(hours)} in all")

    def attempt(self, step: PlanStep, number: int) -> None:
        planted = f" (planted: {step.planted.fault})" if step.planted else ""
        self.note(f"[{self._done + 1}/{self._total}] {step.cell} attempt {number}{planted}")

    def phase(self, phase: str) -> None:
        pass

    def ended(self, result: Result, verdict: Verdict) -> None:
        self._done += 1
        self.note(
            f"[{self._done}/{self._total}] {result.cell}: {verdict.verdict} ({result.wall_s:.1f} s) {verdict.statement}"
        )

    def note(self, text: str) -> None:
        with contextlib.suppress(OSError):  # a progress line that nobody reads must not end a run
            print(printable(text), file=self._stream, flush=True)

    def close(self) -> None:
        pass


class LiveProgress:
    """A table of the last attempts and the one that runs, redrawn twice a second."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._rows: list[tuple[str, str, str, str]] = []
        self._title = ""
        self._done = self._total = 0
        self._current: tuple[str, str] | None = None
        self._begun = time.monotonic()
        self._live = Live(console=console, refresh_per_second=2, get_renderable=self._table, transient=False)

    def begin(self, *, run: str, launches: int, done: int, hours: float) -> None:
        self._title, self._done, self._total = f"{run}, about {hours_text(hours)}", done, launches
        self._live.start()

    def attempt(self, step: PlanStep, number: int) -> None:
        planted = f" (planted: {step.planted.fault})" if step.planted else ""
        self._current = (f"{step.cell}{planted}", f"attempt {number}")
        self._begun = time.monotonic()

    def phase(self, phase: str) -> None:
        if self._current is not None:
            self._current = (self._current[0], phase)

    def ended(self, result: Result, verdict: Verdict) -> None:
        self._done += 1
        self._current = None
        self._rows.append((result.cell, verdict.verdict, f"{result.wall_s:.1f} s", printable(verdict.statement)))

    def note(self, text: str) -> None:
        self._console.print(Text(printable(text)))

    def close(self) -> None:
        self._current = None
        self._live.stop()

    def _table(self) -> Table:
        table = Table(title=f"{self._title}: {self._done} of {self._total} launches", title_justify="left", expand=True)
        table.add_column("cell", no_wrap=True)
        table.add_column("verdict", no_wrap=True)
        table.add_column("time", justify="right", no_wrap=True)
        table.add_column("what", overflow="ellipsis", no_wrap=True)
        for cell, verdict, wall, statement in self._rows[-_SHOWN_ROWS:]:
            table.add_row(Text(cell), Text(verdict, style=STYLES.get(verdict, "")), wall, Text(statement))
        if self._current is not None:
            elapsed = f"{time.monotonic() - self._begun:.0f} s"
            table.add_row(Text(self._current[0]), Text("running", style="cyan"), elapsed, Text(self._current[1]))
        return table


def printable(text: str) -> str:
    """The text on one line, with every control code (logs are hostile input) shown as an escape."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def hours_text(hours: float) -> str:
    """`3.1 h` or `5 min`."""
    return f"{hours:.1f} h" if hours >= 1 else f"{max(hours * 60, 1):.0f} min"
