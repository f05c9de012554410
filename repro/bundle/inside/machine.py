"""What this machine has of what a replay needs: GPUs, interpreter, image, weights. It starts nothing of the bundle.

Standard library only, Python 3.10 and newer: this file is part of every bundle.
"""

import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ASK_S = 60.0
_LOOK = """
import importlib.metadata, importlib.util, json, sys
found = {"version": ".".join(map(str, sys.version_info[:3])), "missing": [], "engine": None, "engine_version": None}
for name in sys.argv[1:]:
    if importlib.util.find_spec(name) is None:
        found["missing"].append(name)
for name in sys.argv[1:]:
    if name != "aiohttp" and name not in found["missing"]:
        try:
            found["engine_version"] = importlib.metadata.version(name)
            found["engine"] = name
        except importlib.metadata.PackageNotFoundError:
            pass
print(json.dumps(found))
"""


def system_problem(needs: "dict[str, Any]", *, any_gpu: bool, facts: "dict[str, Any]") -> "str | None":
    """Why no launch can be made on this machine; None if one can. What was found goes into ``facts``."""
    facts["kernel"] = platform.release()
    facts["cpus"] = os.cpu_count()
    if sys.platform != "linux":
        return f"the attempt program needs Linux, and this is {sys.platform}"
    if not needs["architecture"].startswith("sm_"):
        return None
    said = ask(["nvidia-smi", "--query-gpu=name,compute_cap,driver_version", "--format=csv,noheader"])
    gpus = [line.split(", ") for line in said[1].splitlines() if line.count(", ") == 2] if said[0] == 0 else []
    if gpus:
        facts["gpus"] = len(gpus)
        facts["gpu"], facts["gpu_architecture"], facts["driver"] = gpus[0][0], architecture(gpus[0][1]), gpus[0][2]
    return None if any_gpu and gpus else gpu_problem(needs, [(gpu[0], architecture(gpu[1])) for gpu in gpus], said[1])


def gpu_problem(needs: "dict[str, Any]", gpus: "list[tuple[str, str]]", said: str) -> "str | None":
    """Why these GPUs (name, architecture) are not those of the failure; None if they are."""
    wanted, count = needs["architecture"], max(1, int(needs["gpus"]))
    if not gpus:
        return f"it needs a GPU of {wanted}, and nvidia-smi shows none ({one_line(said) or 'it says nothing'})"
    fitting = [gpu for gpu in gpus if gpu[1] == wanted]
    if not fitting:
        name, found = gpus[0]
        return f"it needs a GPU of {wanted}, and here is {found} ({name}): --any-gpu tries it all the same"
    if len(fitting) < count:
        return f"it needs {count} GPUs of {wanted}, and here are {len(fitting)}"
    return None


def architecture(capability: str) -> str:
    """`10.3` -> `sm_103`, as cells name it."""
    return "sm_" + capability.strip().replace(".", "")


def interpreter_problem(python: str, modules: "list[str]", facts: "dict[str, Any]") -> "str | None":
    """Why this interpreter cannot run the attempt program and the engine; None if it can."""
    status, said = ask([python, "-c", _LOOK, *modules], {**os.environ, "PYTHONSAFEPATH": "1"})
    try:
        found = json.loads(said.splitlines()[-1]) if status == 0 else None
    except (ValueError, IndexError):
        found = None
    if not isinstance(found, dict):
        return f"{python} is no Python that runs ({one_line(said)}): give the engine's with --python"
    facts["python"] = found["version"]
    facts.update({name: found[name] for name in ("engine", "engine_version") if found[name] is not None})
    if tuple(int(part) for part in found["version"].split(".")[:2]) < (3, 10):
        return f"{python} is Python {found['version']}, and 3.10 is needed: give another with --python"
    missing = found["missing"]
    if missing == ["aiohttp"]:
        return f"{python} has no aiohttp: python3 -m venv v; v/bin/pip install aiohttp; then --python v/bin/python"
    if missing:
        return (
            f"{python} has no {' and no '.join(missing)}: give the interpreter of the engine's environment (--python)"
        )
    return None


def docker_problem(image: "str | None", facts: "dict[str, Any]") -> "str | None":
    """Why no container of the image can be made; None if one can."""
    if shutil.which("docker") is None:
        return "there is no docker here: install it, or give an engine's environment with --runtime local --python P"
    status, said = ask(["docker", "version", "--format", "{{.Server.Version}}"])
    if status != 0:
        return f"no docker daemon answers ({one_line(said)})"
    facts["docker"] = one_line(said)
    if image is None:
        return "the failure was not seen in a container, so that the bundle names no image: give one with --image"
    status, said = ask(["docker", "image", "inspect", "--format", "{{.Id}}", image])
    if status != 0:
        return f"the image {image} is not on this machine: docker pull {image}"
    facts["image_id"] = one_line(said)
    return None


def weights_problem(what: "str | None", given: "str | None", option: str) -> "str | None":
    """Why the weights that the bundle needs are not there; None if they are."""
    if given is None:
        return None if what is None else f"no weights: the bundle needs {what}; give their folder with {option}"
    if Path(given).is_absolute() and not Path(given).is_dir():
        return f"{option} {given}: there is no such folder"
    return None


def ask(command: "list[str]", environment: "dict[str, str] | None" = None) -> "tuple[int, str]":
    """(exit status, what it said); 127 and why if it could not be started, 124 if it does not end."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=ASK_S, check=False, env=environment, cwd="/"
        )
    except subprocess.TimeoutExpired:
        return 124, f"no answer within {ASK_S:.0f} s"
    except OSError as problem:
        return 127, f"{problem.strerror}"
    said = done.stdout if done.returncode == 0 else done.stderr or done.stdout
    return done.returncode, said.decode("utf-8", "replace").strip()


def one_line(text: str) -> str:
    """The last line of what a program said, at most 200 characters, with nothing that a terminal acts on."""
    line = text.strip().splitlines()[-1] if text.strip() else ""
    return "".join(mark if mark.isprintable() else " " for mark in line)[:200]
