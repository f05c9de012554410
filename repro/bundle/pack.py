"""Contents -> a bundle: cut, redacted, measured, replayed from its own file, and written with what the replay said.

Everything that is not a program of ours goes through one redactor, which reads all of it before it replaces any of it.
"""

import contextlib
import errno
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from repro import codec
from repro.bundle import archive
from repro.bundle.archive import Facts, Packed, packed
from repro.bundle.cleaning import cleaned, learn, refuse_secrets
from repro.bundle.contents import Contents
from repro.bundle.evidence import KERNEL_RANK, Source, evidence_of, form_of, further
from repro.bundle.expectation import expectation
from repro.bundle.fingerprint import fingerprint
from repro.bundle.inside.verify import ISSUE, MANIFEST, REPLAY, Archive, checked
from repro.bundle.issue import IssueInputs, issue
from repro.bundle.payload import inside_files, payload_files
from repro.bundle.portable import portable
from repro.bundle.projects import Project
from repro.bundle.script import needs_text, script_text
from repro.canonical import pretty_bytes
from repro.errors import BundleError, RecordError, UnavailableError
from repro.jsontext import parse
from repro.model import (
    BundleExpectation,
    BundleNeeds,
    Fingerprint,
    LedgerEntry,
    LeftOut,
    Manifest,
    PackagePatches,
    Redaction,
    Replay,
    Step,
    Subject,
)
from repro.redact import Policy, Redactor, Shown

Tell: TypeAlias = Callable[[str], None]
KernelFiles: TypeAlias = Callable[[Contents], Mapping[str, bytes]]
"""What belongs into `kernel/` for these contents, by name below it: a one-file reproducer, PTX, hashes, resources."""


_SCRIPT = "repro.sh"


def no_kernel_files(_: Contents) -> Mapping[str, bytes]:
    """Failures of a server bring no kernel along."""
    return {}


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """``payload`` is the folder of the programs beside the engine. ``replay`` runs the bundle in a file, and is given
    the file; None leaves the replay out. ``project``: whose form is filled in; None for the one it looks like.
    ``entry`` is that of a ledger, with the versions known to be good or bad; ``patches``: diffs of the engine's
    files."""

    payload: Path
    policy: Policy
    project: Project | None
    file_name: str
    tool_version: str
    replay: Callable[[Path], Replay] | None
    tell: Tell
    kernel_files: KernelFiles = no_kernel_files
    entry: LedgerEntry | None = None
    patches: tuple[PackagePatches, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Bundle:
    """The bytes of a bundle that verifies. ``shown`` are the replacements, for the owner's eyes only."""

    data: bytes
    manifest: Manifest
    replay: Replay | None
    notes: tuple[str, ...]
    shown: tuple[Shown, ...]


@dataclass(kw_only=True, slots=True)
class _Draft:
    """What was decided once; `ISSUE.md` and `replay.json` are added to it, twice."""

    files: tuple[Packed, ...]
    left_out: tuple[LeftOut, ...]
    redactions: tuple[Redaction, ...]
    expectation: BundleExpectation
    fingerprint: Fingerprint
    repro_sh: str
    needs: BundleNeeds
    notes: list[str] = field(default_factory=list)


def pack(contents: Contents, options: Options) -> Bundle:
    """The bundle, replayed unless told not to.

    Raises `BundleError` if a secret-looking text survives redaction, or the parts that every bundle has are too large,
    `RecordError` if a record is invalid, `UnavailableError` if there is no room for temporary files, OSError if
    evidence cannot be read.
    """
    redactor = Redactor(options.policy)
    with tempfile.TemporaryDirectory(prefix="graphrepro-pack-") as scratch, _full_disk_named(Path(scratch)):
        draft, replayed = _proven(contents, options, redactor, Path(scratch))
        data, manifest = _written(contents, options, redactor, draft, replayed)
    return Bundle(
        data=data, manifest=manifest, replay=replayed, notes=tuple(draft.notes), shown=tuple(redactor.shown())
    )


@contextlib.contextmanager
def _full_disk_named(scratch: Path) -> Iterator[None]:
    """A write that fails for want of room does not say where."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT) or error.filename is not None:
            raise
        raise UnavailableError(
            f"{scratch.parent}: no space left for temporary files ({error.strerror}); free space, or name another "
            "folder with TMPDIR"
        ) from None


def _proven(contents: Contents, options: Options, redactor: Redactor, scratch: Path) -> tuple[_Draft, Replay | None]:
    """The draft and what its replay said. An order cut down to the checks that should show the failure is made whole
    if it does not."""
    draft = _draft(contents, options, redactor, scratch)
    if options.replay is None:
        return draft, None
    file = scratch / "bundle.zip"
    file.write_bytes(_written(contents, options, redactor, draft, None)[0])
    replayed = options.replay(file)
    if contents.healthy or replayed.blocked is not None or replayed.reproduced or not replayed.launches:
        return draft, replayed
    whole = _draft(contents, options, redactor, scratch, whole=True)
    if [file.sha256 for file in whole.files] == [file.sha256 for file in draft.files]:
        return draft, replayed
    options.tell("not reproduced by the checks that showed it: once more, with all checks of the launch")
    file.write_bytes(_written(contents, options, redactor, whole, None)[0])
    again = options.replay(file)
    return (whole, again) if again.reproduced else (draft, replayed)


def _draft(contents: Contents, options: Options, redactor: Redactor, scratch: Path, *, whole: bool = False) -> _Draft:
    options.tell("reading and cutting the evidence")
    notes = list(contents.notes)
    sources, left_out = _gathered(contents, options, scratch, notes)
    environment = fingerprint(
        contents.first.result,
        health=contents.first.health,
        step=contents.first.step,
        image=contents.subject.image,
        patches=options.patches,
    )
    sources.append(Source(path="environment.json", data=_document(environment), form="document"))
    options.tell(f"looking for what must not leave, in {len(sources)} files")
    for source in sorted(sources, key=lambda source: source.path):
        learn(source, redactor)
    rules = expectation(
        contents,
        redact=lambda line: redactor.text(line, "expectation.json"),
        hidden=options.policy.hide_prompts,
    )
    order = portable(contents, statement=rules.statement, whole=whole)
    notes += order.notes
    sources.append(Source(path="expectation.json", data=_document(rules), form="document"))
    sources += [_ordered(path, data) for path, data in order.files.items() if path != _SCRIPT]
    files = {source.path: cleaned(source, redactor) for source in sorted(sources, key=lambda source: source.path)}
    expected = _decoded(files["expectation.json"], BundleExpectation)
    # Made of the redacted order, in which nothing survived: our own lines of it would look like somebody's settings.
    needs = _decoded(files["needs.json"], BundleNeeds)
    script = script_text(
        _decoded(files["step.json"], Step),
        needs,
        statement=expected.statement,
        prompt=_telling_prompt(contents),
    ).encode("utf-8")
    programs = {**payload_files(options.payload, _step(contents)), **inside_files(), _SCRIPT: script}
    files |= {path: packed(path, data) for path, data in programs.items()}
    kept, dropped = archive.fitting(tuple(files.values()))
    if dropped:
        notes.append(f"{len(dropped)} files were left out so that the bundle stays below 25 MB: see the manifest")
    left_out += [_dropped(file) for file in dropped]
    return _Draft(
        files=kept,
        left_out=tuple(_hidden(item, redactor) for item in left_out),
        redactions=redactor.report(),
        expectation=expected,
        fingerprint=_decoded(files["environment.json"], Fingerprint),
        repro_sh=script.decode("utf-8"),
        needs=needs,
        notes=notes,
    )


def _gathered(
    contents: Contents, options: Options, scratch: Path, notes: list[str]
) -> tuple[list[Source], list[LeftOut]]:
    """The unredacted sources of the bundle's records and evidence, and what stays outside."""
    sources: list[Source] = []
    left_out: list[LeftOut] = []
    for turn, attempt in enumerate(contents.attempts):
        found = evidence_of(attempt, scratch, turn=turn, is_first=attempt is contents.first)
        sources += found.sources
        left_out += found.left_out
        notes += found.notes
    reference = contents.reference
    if reference is not None and all(reference.name != attempt.name for attempt in contents.attempts):
        place = f"results/{reference.result.cell}/{reference.result.attempt}/result.json"
        sources.append(Source(path=place, data=_document(reference.result), form="document"))
    for name, record in (("finding.json", contents.finding), ("oracle.json", contents.oracle)):
        if record is not None:
            sources.append(Source(path=name, data=_document(record), form="document"))
    for name, data in sorted(options.kernel_files(contents).items()):
        sources.append(Source(path=f"kernel/{name}", data=data, form=form_of(name), rank=KERNEL_RANK))
    left_out += further(contents.first, ((result.cell, result.attempt) for result in contents.more))
    return sources, left_out


def _document(record: object) -> bytes:
    return pretty_bytes(codec.encode(record))


def _ordered(path: str, data: bytes) -> Source:
    return Source(path=path, data=data, form=form_of(path))


def _step(contents: Contents) -> Step:
    if contents.first.step is None:
        raise RecordError(f"{contents.first.place}: step.json is not there: without it nothing can be started again")
    return contents.first.step


def _hidden(item: LeftOut, redactor: Redactor) -> LeftOut:
    return replace(item, where=redactor.text(item.where, MANIFEST))


def _hidden_subject(subject: Subject, redactor: Redactor) -> Subject:
    """An image may lie in a registry of one's own."""
    image = subject.image
    return replace(subject, image=redactor.text(image, MANIFEST) if image is not None else None)


def _dropped(file: Packed) -> LeftOut:
    return LeftOut(
        where=file.where or file.path,
        size_bytes=file.size_bytes,
        sha256=file.sha256,
        reason="dropped so that the bundle stays below 25 MB (size and hash are of the redacted file)",
    )


def _decoded(file: Packed, kind: type[codec.T]) -> codec.T:
    """The record in a file of the bundle: redaction has left it one."""
    return codec.decode(parse(file.raw(), file.path), kind, where=file.path)


def _telling_prompt(contents: Contents) -> str | None:
    """The id of the first prompt that was answered otherwise than the reference does."""
    answers = contents.oracle.answers if contents.oracle is not None else ()
    return next((answer.prompt for answer in answers if answer.first_difference is not None), None)


def _written(
    contents: Contents, options: Options, redactor: Redactor, draft: _Draft, replayed: Replay | None
) -> tuple[bytes, Manifest]:
    """The archive with `ISSUE.md`, and with `replay.json` if there was a replay. It has been verified."""
    files = list(draft.files)
    if replayed is not None:
        raw = pretty_bytes(redactor.document(codec.encode(replayed), REPLAY))
        files.append(packed(REPLAY, raw))
    facts = Facts(
        tool_version=options.tool_version,
        subject=_hidden_subject(contents.subject, redactor),
        left_out=draft.left_out,
        redactions=draft.redactions,
    )
    digest = archive.digest(files, facts)
    text = issue(
        IssueInputs(
            contents=contents,
            expectation=draft.expectation,
            replay=replayed,
            fingerprint=draft.fingerprint,
            digest=digest,
            files=tuple(archive.listed(file) for file in files),
            left_out=draft.left_out,
            repro_sh=draft.repro_sh,
            needs=needs_text(draft.needs),
            entry=options.entry,
            file_name=options.file_name,
            redact=lambda line: redactor.text(line, ISSUE),
        ),
        options.project,
    ).encode("utf-8")
    own = frozenset(draft.repro_sh.encode("utf-8").splitlines())
    refuse_secrets(ISSUE, b"\n".join(b"" if line in own else line for line in text.splitlines()), redactor)
    data, manifest = archive.archive([*files, packed(ISSUE, text)], facts)
    found = checked(Archive(data), digest)
    if not found.ok:
        raise BundleError(
            f"the bundle that was made does not verify: {found.problems[0]}; this is a fault of graphrepro"
        )
    return data, manifest
