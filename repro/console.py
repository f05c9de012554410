"""How the command lines speak: results to stdout, progress and advice to stderr. Only a `cli.py` calls this."""

import contextlib
import io
import os
import sys
from pathlib import Path

from repro import codec


def on_one_line(text: str) -> str:
    """Arguments and texts out of files may hold anything: what does not print is spelled out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def say(text: str) -> None:
    """To stdout. A reader that has gone away, such as `head`, changes nothing of what was done or of its status."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - it stays open to the end


def say_json(record: object) -> None:
    """The document of a record to stdout. Raises as `codec.encode` does."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # JSON is UTF-8 whatever the terminal is
    say(codec.dumps(record).rstrip("\n"))


def tell(text: str) -> None:
    """To stderr; progress or advice that nobody can read is no reason to fail."""
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr, flush=True)
