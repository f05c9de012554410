"""Contents -> a bundle: cut, redacted, measured, replayed from its own file, and written with what the replay said.

Everything that is not a program of ours goes through one redactor, which reads all of it before it replaces any of it.
"""

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from repro import codec
from repro.bundle import archive
from repro.bundle.archive import Packed, packed
from repro.bundle.contents import Contents
from repro.bundle.evidence import KERNEL_RANK, Form, Source, evidence_of, further
from repro.bundle.expectation import expectation
from repro.bundle.fingerprint import fingerprint
from repro.bundle.inside.verify import ISSUE, MANIFEST, REPLAY, Archive, checked
from repro.bundle.issue import IssueInputs, issue
from repro.bundle.payload import inside_files, payload_files
from repro.bundle.portable import portable
from repro.bundle.projects import Project
from repro.canonical import canonical_bytes, pretty_bytes
from repro.errors import BundleError, RecordError
from repro.jsontext import parse
from repro.model import (
    BundleExpectation,
    Fingerprint,
    LedgerEntry,
    LeftOut,
    Manifest,
    Prompt,
    Redaction,
    Replay,
    Step,
    Subject,
)
from repro.redact import Policy, Redactor, Shown, survivors

Tell: TypeAlias = Callable[[str], None]
KernelFiles: TypeAlias = Callable[[Contents], Mapping[str, bytes]]
"""What belongs into `kernel/` for these contents, by name below it: a one-file reproducer, PTX, hashes, resources."""


def no_kernel_files(_: Contents) -> Mapping[str, bytes]:
    """Failures of a server bring no kernel along."""
    return {}


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """``payload`` is the folder of the programs beside the engine. ``replay`` runs the bundle in a file, and is given
    the file; None leaves the replay out. ``project``: whose form is filled in; None for the one it looks like.
    ``entry`` is that of a ledger, with the versions known to be good or bad."""

    payload: Path
    policy: Policy
    project: Project | None
    file_name: str
    tool_version: str
    replay: Callable[[Path], Replay] | None
    tell: Tell
    kernel_files: KernelFiles = no_kernel_files
    entry: LedgerEntry | None = None


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
    request: Prompt | None
    notes: list[str] = field(default_factory=list)


def pack(contents: Contents, options: Options) -> Bundle:
    """The bundle, replayed unless told not to.

    Raises `BundleError` if a secret-looking text survives redaction, or the parts that every bundle has are too large,
    `RecordError` if a record is invalid, OSError if evidence cannot be read.
    """
    redactor = Redactor(options.policy)
    with tempfile.TemporaryDirectory(prefix="graphrepro-pack-") as scratch:
        draft = _draft(contents, options, redactor, Path(scratch))
        data, manifest = _written(contents, options, redactor, draft, None)
        replayed = None
        if options.replay is not None:
            file = Path(scratch, "bundle.zip")
            file.write_bytes(data)
            replayed = options.replay(file)
            data, manifest = _written(contents, options, redactor, draft, replayed)
    return Bundle(
        data=data, manifest=manifest, replay=replayed, notes=tuple(draft.notes), shown=tuple(redactor.shown())
    )


def _draft(contents: Contents, options: Options, redactor: Redactor, scratch: Path) -> _Draft:
    options.tell("reading and cutting the evidence")
    notes = list(contents.notes)
    sources, left_out = _gathered(contents, options, scratch, notes)
    environment = fingerprint(
        contents.first.result,
        health=contents.first.health,
        step=contents.first.step,
        image=contents.subject.image,
    )
    sources.append(Source(path="environment.json", data=_document(environment), form="document"))
    options.tell(f"looking for what must not leave, in {len(sources)} files")
    for source in sorted(sources, key=lambda source: source.path):
        _learn(redactor, source)
    rules = expectation(contents, redact=lambda line: redactor.text(line, "expectation.json"))
    order = portable(contents, statement=redactor.text(rules.statement, "repro.sh"))
    notes += order.notes
    sources.append(Source(path="expectation.json", data=_document(rules), form="document"))
    sources += [_ordered(path, data) for path, data in order.files.items()]
    files = _redacted(sources, redactor)
    files += [
        packed(path, data)
        for path, data in {**payload_files(options.payload, _step(contents)), **inside_files()}.items()
    ]
    kept, dropped = archive.fitting(files)
    if dropped:
        notes.append(f"{len(dropped)} files were left out so that the bundle stays below 25 MB: see the manifest")
    left_out += [_dropped(file) for file in dropped]
    return _Draft(
        files=kept,
        left_out=tuple(_hidden(item, redactor) for item in left_out),
        redactions=redactor.report(),
        expectation=codec.decode(_json(kept, "expectation.json"), BundleExpectation, where="expectation.json"),
        fingerprint=codec.decode(_json(kept, "environment.json"), Fingerprint, where="environment.json"),
        repro_sh=_read_back(kept, "repro.sh").decode("utf-8", "replace"),
        request=_request(contents, redactor),
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
        form: Form = "document" if name.endswith(".json") else "text"
        sources.append(Source(path=f"kernel/{name}", data=data, form=form, rank=KERNEL_RANK))
    left_out += further(contents.first, ((result.cell, result.attempt) for result in contents.more))
    return sources, left_out


def _document(record: object) -> bytes:
    return pretty_bytes(codec.encode(record))


def _ordered(path: str, data: bytes) -> Source:
    return Source(path=path, data=data, form="document" if path.endswith(".json") else "text")


def _step(contents: Contents) -> Step:
    if contents.first.step is None:
        raise RecordError(f"{contents.first.place}: step.json is not there: without it nothing can be started again")
    return contents.first.step


def _learn(redactor: Redactor, source: Source) -> None:
    raw = source.read()
    documents = _documents(raw, source)
    for document in documents:
        redactor.learn_document(document, source.path)
    if not documents:
        redactor.learn_text(raw, source.path)


def _redacted(sources: Sequence[Source], redactor: Redactor) -> list[Packed]:
    """The sources without what must not be shown, compressed one after the other."""
    files: list[Packed] = []
    problems: list[str] = []
    for source in sorted(sources, key=lambda source: source.path):
        raw = _clean(source, redactor)
        problems += survivors({source.path: raw}, redactor)
        files.append(packed(source.path, raw, cut=source.cut, rank=source.rank, turn=source.turn, where=source.where))
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise BundleError(f"nothing was written: {problems[0]}{more}")
    return files


def _clean(source: Source, redactor: Redactor) -> bytes:
    """The file as it may be seen; byte for byte as it was where nothing had to be replaced."""
    raw = source.read()
    documents = _documents(raw, source)
    if not documents:
        return redactor.data(raw, source.path)
    cleaned = [redactor.document(document, source.path) for document in documents]
    if cleaned == documents:
        return raw
    if source.form == "document":
        return pretty_bytes(cleaned[0])
    return b"".join(canonical_bytes(document) + b"\n" for document in cleaned)


def _documents(raw: bytes, source: Source) -> list[object]:
    """What a file of JSON says; nothing for a text, and for JSON that cannot be read, which is taken for a text."""
    if source.form not in {"document", "lines"}:
        return []
    parts = [raw] if source.form == "document" else [line for line in raw.split(b"\n") if line.strip()]
    with suppress(RecordError):
        return [parse(part, source.path) for part in parts]
    return []


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


def _read_back(files: Sequence[Packed], path: str) -> bytes:
    file = next(file for file in files if file.path == path)
    return file.raw()


def _json(files: Sequence[Packed], path: str) -> object:
    return json.loads(_read_back(files, path))


def _request(contents: Contents, redactor: Redactor) -> Prompt | None:
    """A prompt to try by hand: the one that was answered wrong, or else the first of the order; None if the server
    never got as far."""
    step = contents.first.step
    if step is None or not step.prompts or contents.subject.signature.phase in {"start", "capture"}:
        return None
    answers = contents.oracle.answers if contents.oracle is not None else ()
    wrong = next((answer.prompt for answer in answers if answer.first_difference is not None), step.prompts[0].id)
    found = next((prompt for prompt in step.prompts if prompt.id == wrong), step.prompts[0])
    text = redactor.text(found.text, "step.json") if found.text is not None else None
    return replace(found, text=text)


def _written(
    contents: Contents, options: Options, redactor: Redactor, draft: _Draft, replayed: Replay | None
) -> tuple[bytes, Manifest]:
    """The archive with `ISSUE.md`, and with `replay.json` if there was a replay. It has been verified."""
    files = list(draft.files)
    if replayed is not None:
        raw = pretty_bytes(redactor.document(codec.encode(replayed), REPLAY))
        files.append(packed(REPLAY, raw))
    digest = archive.digest(files)
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
            request=draft.request,
            entry=options.entry,
            file_name=options.file_name,
            redact=lambda line: redactor.text(line, ISSUE),
        ),
        options.project,
    ).encode("utf-8")
    problems = survivors({ISSUE: text}, redactor)
    if problems:
        raise BundleError(f"nothing was written: {problems[0]}")
    data, manifest = archive.archive(
        [*files, packed(ISSUE, text)],
        tool_version=options.tool_version,
        subject=_hidden_subject(contents.subject, redactor),
        left_out=draft.left_out,
        redactions=draft.redactions,
    )
    found = checked(Archive(data), digest)
    if not found.ok:
        raise BundleError(
            f"the bundle that was made does not verify: {found.problems[0]}; this is a fault of graphrepro"
        )
    return data, manifest
