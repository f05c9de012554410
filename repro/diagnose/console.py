"""A diagnosis as a maintainer would write it: two sentences, the evidence, the next step. It fits a screen."""

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence

from repro.diagnose.kinds import KIND_SAYS
from repro.model import Component, Diagnosis, LogLine, Phase

_COLUMNS = 100
_MOST_LINES = 6
_WHEN: dict[Phase, str] = {
    "image_build": "While the image was made",
    "container_start": "When the container was started",
    "launch": "While the server was set up",
    "weights_load": "While weights were loaded",
    "graph_capture": "While graphs were captured",
    "warmup": "During the first requests of warm-up",
    "serving": "While serving",
    "shutdown": "During the shutdown",
    "none": "",
}
_ROLES = {
    "root": "The log shows the cause.",
    "symptom": "This is only a consequence: the cause is not in this log.",
}


def render(found: Diagnosis) -> str:
    """The text for a terminal, without a final newline."""
    return "\n".join(_lines(found))


def _lines(found: Diagnosis) -> Iterator[str]:
    parts = (found.signature.kind, found.signature.phase, found.signature.subsystem)
    phase = "not shown" if _phase_is_open(found) else found.phase
    yield f"{found.kind}   phase {phase}, {_role(found)}, {found.confidence} confidence"
    yield ""
    yield from textwrap.wrap(_sentences(found), _COLUMNS)
    if found.evidence:
        yield ""
        yield from _quoted(found.evidence)
    if found.follow_ons:
        yield ""
        yield from textwrap.wrap(_consequences(found.follow_ons), _COLUMNS)
    yield ""
    yield from textwrap.wrap(f"Next: {found.next_step}.", _COLUMNS, subsequent_indent="      ")
    if found.known is not None:
        yield from textwrap.wrap(f"Known: {found.known}", _COLUMNS, subsequent_indent="       ")
    yield f"Signature: {'/'.join(part for part in parts if part)}"


def _role(found: Diagnosis) -> str:
    return "nothing wrong" if found.role == "none" else f"role {found.role}"


def _phase_is_open(found: Diagnosis) -> bool:
    """True for a cause whose kind has a phase in its name that nothing in the log shows."""
    return found.kind.startswith("oom_gpu") and found.role == "root" and found.confidence == "low"


def _sentences(found: Diagnosis) -> str:
    if _phase_is_open(found):
        where = _where(found.component)
        return f"GPU memory ran out{where}; the log does not show in which phase. {_second(found)}"
    says = KIND_SAYS.get(found.kind, found.kind.replace("_", " "))
    when = _WHEN[found.phase]
    first = f"{when}, {says}{_where(found.component)}." if when else f"{says[:1].upper()}{says[1:]}."
    return f"{first} {_second(found)}".strip()


def _second(found: Diagnosis) -> str:
    if found.kind == "unknown":
        return "These lines look suspicious:" if found.evidence else "No line of the log looks like its reason."
    if found.kind == "ok":
        return "Words of failures in it are handled warnings or belong to a requested stop." if found.follow_ons else ""
    if found.role == "symptom" and not found.evidence:
        return "Only the way in which it ended says so: the log does not show the cause."
    return _ROLES.get(found.role, "")


def _where(component: Component) -> str:
    parts = []
    if component.kernel is not None:
        parts.append(f"in the kernel {component.kernel}")
    if component.function is not None:
        parts.append(f"in {component.function}")
    if component.file is not None:
        parts.append(f"({component.file})")
    if component.rank is not None:
        named = component.rank if not component.rank.isdigit() else f"rank {component.rank}"
        parts.append(f"on {named}")
    return f" {' '.join(parts)}" if parts else ""


def _quoted(lines: Sequence[LogLine]) -> Iterator[str]:
    for line in lines[:_MOST_LINES]:
        place = f"{line.file}:{line.line} (byte {line.offset_bytes})"
        yield f"  {place}"
        yield from _indented(line.text)


def _indented(text: str) -> list[str]:
    indent = " " * 4
    wrapper = textwrap.TextWrapper(
        _COLUMNS, initial_indent=indent, subsequent_indent=indent, max_lines=2, placeholder=" …"
    )
    return wrapper.wrap(text)


def _consequences(lines: Sequence[LogLine]) -> str:
    files = Counter(line.file for line in lines)
    places = "; ".join(
        f"{file}:" + ", ".join(str(line.line) for line in lines if line.file == file)[:60] for file in list(files)[:3]
    )
    count = len(lines)
    return f"{count} other line{'s are its consequences' if count > 1 else ' is its consequence'} ({places})."
