"""Ask an image, or an engine environment, what it holds (record `image-probe`), and what follows from it."""

import json
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import cattrs
import docker
import requests

import schemas
from matrix.images.context import Context, Entry, folder_entries
from matrix.images.daemon import inspected, one_line, said_plainly
from matrix.images.recipe import LABEL
from repro.errors import RecordError, UnavailableError

PAYLOAD_IN_CONTAINER = "/opt/graphrepro/payload"
LIMIT_S = 300
ANSWER_BYTES = 16 << 20
Libraries: TypeAlias = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Flags:
    """The engine's launch flags with their dashes; None with a reason where they cannot be told."""

    value: tuple[str, ...] | None
    reason: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangedFiles:
    changed: tuple[str, ...]
    added: tuple[str, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Changes:
    """How the engine's files differ from its wheel's."""

    value: ChangedFiles | None
    reason: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Library:
    path: str
    code: tuple[str, ...] | None
    reason: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageProbe:
    """``text`` is the whole record as JSON, to be stored or printed."""

    python: str
    packages: Mapping[str, str]
    engine_version: str | None
    flags: Flags
    changes: Changes
    libraries: tuple[Library, ...]
    text: str

    def gpu_code(self) -> Libraries:
        """Library -> its GPU code, for those that could be read."""
        return {library.path: library.code for library in self.libraries if library.code is not None}

    def unreadable(self) -> tuple[str, ...]:
        """Libraries whose GPU code could not be read: what they hold is unknown."""
        return tuple(library.path for library in self.libraries if library.code is None)

    def missing_flags(self, options: Iterable[str]) -> dict[str, str]:
        """Flag -> why a cell that uses it is `unsupported`, for the flags among these words of a command line.

        Flags that SGLang's parser would take for a longer one count as missing. Empty if the image does not tell its
        flags: the table of releases has then the last word.
        """
        if self.flags.value is None:
            return {}
        known = frozenset(self.flags.value)
        asked = (word.partition("=")[0] for word in options if word.startswith("--") and len(word) > 2)
        version = self.engine_version or "of unknown version"
        return {flag: f"the installed SGLang {version} has no flag {flag}" for flag in asked if flag not in known}


def probe_image(client: docker.APIClient, reference: str, payload: Path) -> ImageProbe:
    """What a local image holds. The payload is copied into a container that is removed again; no network, no GPU.

    Raises UnavailableError if the image is not here or its Python does not run, RecordError for an unusable answer.
    """
    where = f"image {reference}"
    with said_plainly(where):
        labels = inspected(client, reference).labels
        python = labels.get(f"{LABEL}python", "python3")
        container = client.create_container(
            reference,
            entrypoint=[python, PAYLOAD_IN_CONTAINER, "probe", "--image"],
            command=[],
            network_disabled=True,
            labels={f"{LABEL}purpose": "image-probe"},
            host_config=client.create_host_config(
                network_mode="none", cap_drop=["ALL"], security_opt=["no-new-privileges"], pids_limit=256, init=True
            ),
        )["Id"]
        try:
            client.put_archive(container, "/", _packed(payload))
            return parse_probe(_answer(client, container, where), where=where)
        finally:
            client.remove_container(container, force=True, v=True)


def probe_environment(python: Path, payload: Path) -> ImageProbe:
    """The same of a Python environment on this host. Raises as :func:`probe_image` does."""
    where = f"engine environment {python}"
    command = [str(python), str(payload), "probe", "--image"]
    try:
        answer = subprocess.run(command, capture_output=True, timeout=LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise UnavailableError(f"{where}: the probe did not run: {one_line(str(problem))}") from problem
    if answer.returncode != 0:
        said = answer.stderr.decode(errors="replace")
        raise UnavailableError(f"{where}: the probe ended with status {answer.returncode}: {one_line(said)}")
    return parse_probe(answer.stdout, where=where)


def parse_probe(answer: bytes, *, where: str) -> ImageProbe:
    """The record in the probe's output. Raises RecordError for anything else."""
    try:
        document = json.loads(answer)
        schemas.validate(document, "image-probe", where)
    except (ValueError, RecursionError) as problem:  # SchemaViolation is a ValueError
        raise RecordError(f"{where}: the probe's answer is unusable: {one_line(str(problem))}") from problem
    body = {name: value for name, value in document.items() if name not in ("record", "schema_version")}
    return cattrs.structure({**body, "text": json.dumps(document, indent=1)}, ImageProbe)


def _answer(client: docker.APIClient, container: str, where: str) -> bytes:
    client.start(container)
    try:
        status = int(client.wait(container, timeout=LIMIT_S)["StatusCode"])
    except requests.exceptions.Timeout as problem:
        raise UnavailableError(f"{where}: the probe did not end within {LIMIT_S} s") from problem
    if status != 0:
        said = client.logs(container, stdout=False, tail=5).decode(errors="replace")
        raise UnavailableError(f"{where}: the probe ended with status {status}: {one_line(said)}")
    pieces, size = [], 0
    for piece in client.logs(container, stderr=False, stream=True):
        pieces.append(piece)
        size += len(piece)
        if size > ANSWER_BYTES:
            raise RecordError(f"{where}: the probe's answer is longer than {ANSWER_BYTES} bytes")
    return b"".join(pieces)


def _packed(payload: Path) -> bytes:
    """The probe's part of the payload as a tar, readable by every user."""
    prefix = PAYLOAD_IN_CONTAINER.lstrip("/")
    files = folder_entries(payload / "probe", f"{prefix}/probe")
    files[f"{prefix}/__main__.py"] = Entry(content=payload / "__main__.py")
    return b"".join(Context(files=files).tar())
