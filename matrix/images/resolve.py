"""Fill in the pins of `images.toml` that stand there as `unresolved`: digests from the registry, commits from git."""

import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

import docker

from matrix.images.daemon import one_line, said_plainly
from matrix.images.record import RECORD_FILE, UNRESOLVED, Images, parse_images
from repro.atomic import write_atomic
from repro.errors import UnavailableError

LIMIT_S = 60


@dataclass(frozen=True, kw_only=True, slots=True)
class Pin:
    """An unresolved value: the key of a table, and how to ask for it."""

    table: str
    key: str
    asked_of: str
    ask: Callable[[], str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Resolution:
    """``found`` and ``failed``: one sentence each."""

    found: tuple[str, ...]
    failed: tuple[str, ...]


def resolve(images: Images, client: docker.APIClient | None) -> Resolution:
    """Ask for every unresolved pin and write down what was answered; the rest of the file stays as it is.

    Without a ``client`` no registry can be asked, and the digests stay open.
    """
    path = images.folder / RECORD_FILE
    text = path.read_text(encoding="utf-8")
    found, failed = [], []
    for pin in unresolved_pins(images, client):
        try:
            value = pin.ask()
        except UnavailableError as problem:
            failed.append(str(problem))
            continue
        text = filled(text, pin.table, pin.key, value)
        found.append(f"{pin.table}.{pin.key} is {value} (asked of {pin.asked_of})")
    if found:
        parse_images(text.encode(), folder=images.folder)
        write_atomic(path, text.encode())
    return Resolution(found=tuple(found), failed=tuple(failed))


def unresolved_pins(images: Images, client: docker.APIClient | None) -> tuple[Pin, ...]:
    """What is open, in the order of the file."""
    pins = []
    for name, base in images.bases.items():
        if base.digest == UNRESOLVED:
            reference = base.reference
            pins.append(
                Pin(
                    table=f"bases.{name}",
                    key="digest",
                    asked_of=reference,
                    ask=lambda reference=reference: registry_digest(client, reference),  # type: ignore[misc]
                )
            )
    for name, source in images.sources.items():
        if source.commit == UNRESOLVED:
            repository, ref = source.repository or "", source.ref or "HEAD"
            pins.append(
                Pin(
                    table=f"sources.{name}",
                    key="commit",
                    asked_of=f"{repository} {ref}",
                    ask=lambda repository=repository, ref=ref: commit_of(repository, ref),  # type: ignore[misc]
                )
            )
    return tuple(pins)


def registry_digest(client: docker.APIClient | None, reference: str) -> str:
    """The digest that the registry has for a tag (of the list of platforms, where there is one)."""
    if client is None:
        raise UnavailableError(f"{reference}: no Docker daemon to ask the registry with")
    with said_plainly(reference):
        answer = client.inspect_distribution(reference)  # type: ignore[no-untyped-call]
    digest = str(answer["Descriptor"]["digest"])
    if not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
        raise UnavailableError(f"{reference}: the registry's answer {digest[:80]!r} is no digest")
    return digest


def commit_of(repository: str, ref: str) -> str:
    """The commit that a ref of a repository points to now."""
    command = ["git", "-c", "core.askPass=true", "ls-remote", "--exit-code", repository, ref]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise UnavailableError(f"{repository} {ref}: git did not answer: {one_line(str(problem))}") from problem
    commit = answer.stdout.partition("\t")[0].strip()
    if answer.returncode != 0 or not re.fullmatch(r"[0-9a-f]{40}", commit):
        raise UnavailableError(f"{repository} {ref}: git has no answer: {one_line(answer.stderr or 'no such ref')}")
    return commit


def filled(text: str, table: str, key: str, value: str) -> str:
    """The TOML text with `key = "unresolved"` of a table set to the value, and its reason gone; comments stay."""
    lines, inside, result = text.splitlines(keepends=True), False, []
    for line in lines:
        if line.startswith("["):
            inside = line.split("#")[0].strip() == f"[{table}]"
        if inside and re.match(rf'{key}\s*=\s*"{UNRESOLVED}"', line):
            result.append(line.replace(f'"{UNRESOLVED}"', f'"{value}"', 1))
        elif not (inside and re.match(rf"{UNRESOLVED}\s*=\s*\{{\s*{key}\s*=[^,]*\}}\s*$", line)):
            result.append(line)
    return "".join(result)
