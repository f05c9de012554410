"""Text from outside (logs, names, model output) into Markdown: redacted first, then cut, then escaped, in one place.

Whatever a template of `forms/` prints is escaped, unless this module has made Markdown of it before.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from repro import escape


class Markdown(str):
    """Text in which nothing from outside acts any more."""

    __slots__ = ()


class Sayer:
    """``redact`` must give a text back for any text. ``known`` and ``given`` are for text that was redacted before."""

    def __init__(self, redact: Callable[[str], str], longest: int) -> None:
        self._redact = redact
        self._longest = longest

    def text(self, text: str) -> Markdown:
        return self.known(self._redact(text))

    def known(self, text: str) -> Markdown:
        return Markdown(escape.markdown(escape.one_line(text, self._longest)))

    def fact(self, value: str) -> Markdown:
        """A value that may be copied: an image's digest must not get an invisible character behind its `@`."""
        return (
            Markdown(escape.markdown_code(escape.one_line(value, self._longest))) if "@" in value else self.known(value)
        )

    def code(self, text: str) -> Markdown:
        return Markdown(escape.markdown_code(escape.one_line(self._redact(text), self._longest)))

    def items(self, texts: Iterable[str], most: int) -> list[Markdown]:
        """For a list; what does not fit is counted."""
        every = list(texts)
        more = len(every) - most
        told = [self.text(text) for text in every[:most]]
        return [*told, Markdown(f"and {more} more")] if more > 0 else told

    def block(self, lines: Sequence[str]) -> Markdown:
        return self.given([self._redact(line) for line in lines])

    def given(self, lines: Sequence[str]) -> Markdown:
        """A code block whose fence no content can close; nothing if there is nothing to say."""
        return Markdown(escape.markdown_block(list(lines)) if any(lines) else "")


def cut(text: str, most: int) -> list[str]:
    """Whole lines, at most so many characters of them; a last line says if there are more."""
    if len(text) <= most:
        return text.splitlines()
    kept = text[:most].rsplit("\n", 1)[0]
    return [*kept.splitlines(), f"# cut here: the file in the bundle has {len(text) - len(kept)} characters more"]


def size(size_bytes: int) -> str:
    """`812 B`, `3.4 kB`, `12.0 MB`."""
    if size_bytes < 1000:
        return f"{size_bytes} B"
    return f"{size_bytes / 1000:.1f} kB" if size_bytes < 1_000_000 else f"{size_bytes / 1e6:.1f} MB"


@cache
def forms() -> Environment:
    """The templates, one for each project."""
    return Environment(
        loader=PackageLoader("repro.bundle", "forms"),
        autoescape=False,  # noqa: S701 - this is Markdown: `finalize` does for it what autoescape does for HTML
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_escaped,
    )


def _escaped(value: object) -> str:
    """What every ``{{ }}`` of a template passes through."""
    return value if isinstance(value, Markdown) else escape.markdown(str(value))
