"""Files of a bundle through the redactor: JSON by its strings, all else as text; and the second net after it."""

from contextlib import suppress

from repro.bundle.archive import Packed, packed
from repro.bundle.evidence import Source
from repro.canonical import canonical_bytes, pretty_bytes
from repro.errors import BundleError, RecordError
from repro.jsontext import parse
from repro.redact import Redactor, survivors
from repro.redact.documents import for_the_net


def learn(source: Source, redactor: Redactor) -> None:
    """What the file holds that must not be shown, and how it will be called."""
    raw = source.read()
    documents = _documents(raw, source)
    for document in documents:
        redactor.learn_document(document, source.path)
    if not documents:
        redactor.learn_text(raw, source.path)


def cleaned(source: Source, redactor: Redactor) -> Packed:
    """The source without what must not be shown, compressed; byte for byte as it was where nothing had to be replaced.
    Raises `BundleError` if a secret survives."""
    raw = source.read()
    documents = _documents(raw, source)
    if documents:
        safe = [redactor.document(document, source.path) for document in documents]
        refuse_secrets(source.path, _written(for_the_net(safe), source), redactor)
        raw = raw if safe == documents else _written(safe, source)
    else:
        raw = redactor.data(raw, source.path)
        refuse_secrets(source.path, raw, redactor)
    return packed(source.path, raw, cut=source.cut, rank=source.rank, turn=source.turn, where=source.where)


def refuse_secrets(path: str, raw: bytes, redactor: Redactor) -> None:
    """Raises `BundleError` if a text that looks like a secret is in a file that is about to be packed."""
    problems = survivors({path: raw}, redactor)
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise BundleError(f"nothing was written: {problems[0]}{more}")


def _written(documents: list[object], source: Source) -> bytes:
    if source.form == "document":
        return pretty_bytes(documents[0])
    return b"".join(canonical_bytes(document) + b"\n" for document in documents)


def _documents(raw: bytes, source: Source) -> list[object]:
    """What a file of JSON says; nothing for a text, and for JSON that cannot be read, which is taken for a text."""
    if source.form not in {"document", "lines"}:
        return []
    parts = [raw] if source.form == "document" else [line for line in raw.split(b"\n") if line.strip()]
    with suppress(RecordError):
        return [parse(part, source.path) for part in parts]
    return []
