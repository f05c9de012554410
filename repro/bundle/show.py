"""A bundle as a page for a terminal. Every text in it is somebody else's, and made harmless first."""

from collections.abc import Iterator
from dataclasses import dataclass

from tabulate import tabulate

from repro import codec
from repro.bundle.fingerprint import rows
from repro.bundle.inside.verify import MANIFEST, REPLAY, Archive
from repro.escape import one_line
from repro.jsontext import parse
from repro.model import BundleExpectation, BundleNeeds, Fingerprint, Manifest, Replay
from repro.shares import rate

_LONGEST = 160
_MOST_ROWS = 30


@dataclass(frozen=True, kw_only=True, slots=True)
class Opened:
    """What a page tells, read from a bundle that verifies; None for a file that the bundle does not have."""

    manifest: Manifest
    expectation: BundleExpectation | None
    needs: BundleNeeds | None
    environment: Fingerprint | None
    replay: Replay | None
    size_bytes: int


def opened(archive: Archive) -> Opened:
    """The records of a bundle, which must have been verified. Raises `RecordError` for one that is invalid."""
    return Opened(
        manifest=codec.decode(archive.manifest(), Manifest, where=MANIFEST),
        expectation=_record(archive, "expectation.json", BundleExpectation),
        needs=_record(archive, "needs.json", BundleNeeds),
        environment=_record(archive, "environment.json", Fingerprint),
        replay=_record(archive, REPLAY, Replay),
        size_bytes=len(archive.data),
    )


def _record(archive: Archive, name: str, kind: type[codec.T]) -> codec.T | None:
    if name not in archive.entries:
        return None
    return codec.decode(parse(archive.content(name), name), kind, where=name)


def page(found: Opened, *, file_name: str) -> str:
    """The page: subject, rate, how to replay, on what it was seen, what is not in it. No line ends in blanks."""
    parts = [_head(found, file_name), _rates(found), _how(found, file_name), _environment(found), *_missing(found)]
    return "\n\n".join(part for part in parts if part)


def _head(found: Opened, file_name: str) -> str:
    subject = found.manifest.subject
    signature = subject.signature
    lines = [
        ("bundle", f"{file_name}: {found.size_bytes:,} bytes, {len(found.manifest.files) + 1} files"),
        ("digest", f"{found.manifest.digest} (compare it with the one in the issue)"),
        ("about", f"finding {subject.finding}" if subject.finding else "a cell"),
        ("cells", ", ".join(subject.cells)),
        ("launches", ", ".join(subject.attempts)),
        ("failure", f"{signature.kind}, phase {signature.phase}, {signature.subsystem or 'place not known'}"),
        ("engine", f"{subject.engine} {subject.engine_version or 'of unknown version'} ({subject.engine_source})"),
        ("target", f"{subject.target}, {subject.architecture or 'architecture not known'}"),
        ("image", subject.image or "none: an environment on the host"),
    ]
    planted = "PLANTED FAULT: a test of graphrepro, no evidence about an engine\n\n" if subject.planted else ""
    return planted + "\n".join(f"{name:<9} {one_line(text, 400)}" for name, text in lines)


def _rates(found: Opened) -> str:
    lines = []
    rules, replayed = found.expectation, found.replay
    if rules is not None:
        lines.append(f"seen      {rate(rules.k, rules.n)}: {one_line(rules.statement, 300)}")
        if rules.undecided is not None:
            lines.append(f"undecided {one_line(rules.undecided, 300)}")
    lines.append(
        f"replayed  {one_line(replayed.statement, 300)} ({replayed.runtime}, before it left)"
        if replayed is not None
        else "replayed  not yet: it was packed without a replay"
    )
    return "\n".join(lines)


def _how(found: Opened, file_name: str) -> str:
    needs = found.needs
    lines = ["To replay it (this runs code out of the bundle):"]
    if needs is not None:
        where = (
            f"in docker, with {one_line(needs.image or 'an image')}"
            if needs.runtime == "docker"
            else "without a container"
        )
        gpus = f"{needs.gpus} GPUs of {one_line(needs.architecture)}" if needs.gpus else "no GPU"
        lines.append(f"  it was seen {where}; it needs {gpus}")
        given = [name for name, wanted in (("--model", needs.model), ("--draft-model", needs.draft_model)) if wanted]
        lines += [f"  weights are to be given with {name}" for name in given]
    lines += [
        f"  python -m repro replay {file_name}",
        f"  or with Python alone: unzip {file_name} -d bundle && python3 bundle/replay.py",
    ]
    return "\n".join(lines)


def _environment(found: Opened) -> str:
    if found.environment is None:
        return ""
    seen = rows(found.environment)
    cells = [[row.group, row.field, one_line(row.value, 70), row.state] for row in seen if row.state != "unknown"]
    unknown = [row.field for row in seen if row.state == "unknown"]
    table = tabulate(cells, headers=["", "seen on", "", "how it is known"], disable_numparse=True, tablefmt="plain")
    also = f"\nnot known: {one_line(', '.join(unknown), 1000)}" if unknown else ""
    patched = [f"{item.package}: patched locally" for item in found.environment.patches]
    return _trimmed(table) + also + "".join(f"\n{one_line(line, _LONGEST)}" for line in patched)


def _missing(found: Opened) -> Iterator[str]:
    """What is not in the bundle: cut, left out, replaced."""
    manifest = found.manifest
    cut = [f"  {one_line(file.path, _LONGEST)}: {one_line(file.cut)}" for file in manifest.files if file.cut]
    if cut:
        yield "\n".join(["Cut, with a line in place of each gap:", *_shortened(cut)])
    left = [
        f"  {one_line(item.where, _LONGEST)}: {item.size_bytes:,} bytes: {one_line(item.reason, _LONGEST)}"
        for item in manifest.left_out
    ]
    yield "\n".join(["Left where it was:", *_shortened(left)]) if left else "Nothing was left out."
    replaced = [
        f"  {item.category}: {item.count} in {item.files} file{'s' if item.files != 1 else ''}"
        for item in manifest.redactions
    ]
    yield "\n".join(["Replaced before it left:", *replaced]) if replaced else "Nothing had to be replaced."


def _shortened(lines: list[str]) -> list[str]:
    more = len(lines) - _MOST_ROWS
    return [*lines[:_MOST_ROWS], f"  and {more} more: --json has them"] if more > 0 else lines


def _trimmed(table: str) -> str:
    return "\n".join(line.rstrip() for line in table.splitlines())
