"""The documents of an unpacked bundle, and the order of one launch on this machine.

Standard library only, Python 3.10 and newer: this file is part of every bundle.
"""

import json
import re
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import verify  # type: ignore[import-not-found]  # it lies beside this file

_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
GIVEN = {
    "model": ("--model-path", "--model"),
    "draft_model": ("--speculative-draft-model-path",),
    "script": ("--script",),
}
"""Options of ours that replace what follows these options of the engine's."""
_PLACES_OF_IMAGE = ("PATH", "HOME", "LD_LIBRARY_PATH", "LIBRARY_PATH", "CUDA_HOME")
"""Where the programs and libraries of an image lie is no matter of a machine without it."""


@dataclass(frozen=True)
class Bundle:
    """The documents of an unpacked bundle."""

    step: "dict[str, Any]"
    expectation: "dict[str, Any]"
    needs: "dict[str, Any]"
    oracle: "dict[str, Any] | None"
    digest: str


def read_bundle(folder: Path) -> Bundle:
    """The bundle in the folder. Raises OSError, ValueError or KeyError for what is none."""
    documents = {name: json.loads((folder / f"{name}.json").read_bytes()) for name in ("step", "expectation", "needs")}
    for name, record in (("step", "step"), ("expectation", "bundle-expectation"), ("needs", "bundle-needs")):
        if documents[name].get("record") != record:
            raise ValueError(f"{name}.json is no {record!r} record")
    oracle = folder / "oracle.json"
    return Bundle(
        step=documents["step"],
        expectation=documents["expectation"],
        needs=documents["needs"],
        oracle=json.loads(oracle.read_bytes()) if oracle.is_file() else None,
        digest=_digest(folder / "manifest.json"),
    )


def _digest(manifest: Path) -> str:
    """The bundle's digest as it was before an earlier replay was put into it; zeros for a folder without a manifest."""
    if not manifest.is_file():
        return "0" * 64
    return str(verify.digest_of(json.loads(manifest.read_bytes()), without=("replay.json",)))


def resolve(
    bundle: Bundle, place: "dict[str, str]", given: "dict[str, str]", *, runtime: str, number: int
) -> "dict[str, Any]":
    """The step with nothing left to fill in, for one launch: ``place`` are placeholders that depend on the runtime,
    ``given`` what the user names in place of the bundle's own (keys of `GIVEN`)."""
    port = free_port()
    values = {**place, "port": str(port), "attempt": str(number), **given}

    def filled(text: str) -> str:
        return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), text)

    argv = [filled(word) for word in bundle.step["argv"]]
    for name, value in given.items():  # also where the bundle names weights that any machine can fetch
        for before, word in enumerate(argv[:-1]):
            if word in GIVEN[name]:
                argv[before + 1] = value
    outside = runtime == "local" and bundle.needs["runtime"] == "docker"
    environment = {
        name: filled(text)
        for name, text in bundle.step["environment"].items()
        if not (outside and name in _PLACES_OF_IMAGE)
    }
    if runtime == "local":  # in a container the bundle is read-only
        environment = {"PYTHONDONTWRITEBYTECODE": "1", **environment}
    return {**bundle.step, "argv": argv, "environment": environment, "port": port, "attempt": number}


def free_port() -> int:
    """A port that was free a moment ago; the attempt program says if it no longer is."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
