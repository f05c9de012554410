"""`repro.sh`: the server's exact command and one request, for a person to read and a POSIX shell to run."""

import json
import re
import shlex
from collections.abc import Mapping

from repro.bundle.inside import launching
from repro.escape import one_line
from repro.model import BundleNeeds, Prompt, Step

_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
_VARIABLES: Mapping[str, str] = {
    "python": '"$PYTHON"',
    "payload": '"$PAYLOAD"',
    "port": '"$PORT"',
    "attempt": "1",
    "model": '"$MODEL"',
    "draft_model": '"$DRAFT_MODEL"',
}
_PROMPT_TOKENS = 64


def script_text(step: Step, needs: BundleNeeds, *, statement: str, prompt: str | None) -> str:
    """The script. ``statement`` says what it shows, ``prompt`` is the id of the prompt to ask by hand; by default the
    first. Every text from outside is quoted, or on a comment's line."""
    server = _docker(step, needs) if needs.runtime == "docker" else _local(step)
    wanted = next((item for item in step.prompts if item.id == prompt), step.prompts[0] if step.prompts else None)
    parts = [_head(step, needs, statement), _function("server", server), _request(step, wanted), _tail(needs)]
    return "\n".join(parts)


def _head(step: Step, needs: BundleNeeds, statement: str) -> str:
    lines = [
        "#!/bin/sh",
        f"# {one_line(statement, 300)}",
        f"# Target {one_line(step.target, 100)}, cell {one_line(step.cell, 200)}.",
        *(["# PLANTED FAULT: this tests graphrepro, it is no evidence about an engine."] if step.planted else []),
        f"# Needs {needs_text(needs)}.",
        "#",
        "#   sh repro.sh            launches it several times and counts (replay.py; its options may follow)",
        "#   sh repro.sh server     starts the server alone, in the foreground",
        "#   sh repro.sh request    sends that server one request",
        "# shellcheck disable=SC1003,SC2016  # what is in single quotes is to stand as it is",
        "set -eu",
        'cd -- "$(dirname -- "$0")"',
        "PORT=${PORT:-30000}",
    ]
    if needs.runtime == "docker":
        lines.append(f'[ -n "${{IMAGE:-}}" ] || IMAGE={shlex.quote(needs.image or "name-an-image")}')
        lines.append(f"PAYLOAD={launching.PAYLOAD}")
        lines.append(f"PYTHON={shlex.quote(needs.image_python or 'python3')}")
    else:
        lines.append("PYTHON=${PYTHON:-python3}  # the interpreter of the engine's environment")
        if any("{payload}" in text for text in (*step.argv, *step.environment.values())):
            lines += ["PAYLOAD=$PWD/payload", "export PYTHONDONTWRITEBYTECODE=1  # the bundle stays as it is"]
    for name, what in (("MODEL", needs.model), ("DRAFT_MODEL", needs.draft_model)):
        if what is not None:
            lines += [f"# {name}: folder of the weights: {one_line(what, 200)}", f"{name}=${{{name}:-}}"]
    return "\n".join(lines) + "\n"


def _docker(step: Step, needs: BundleNeeds) -> list[str]:
    """The words of the command, a line each."""
    shm = [] if needs.ipc == "host" else [f"--shm-size={needs.shm_bytes}"]
    mounts = ['--mount "type=bind,source=$PWD/payload,target=$PAYLOAD,readonly"']
    for name, what in (("MODEL", needs.model), ("DRAFT_MODEL", needs.draft_model)):
        if what is not None:
            mounts.append(f'--mount "type=bind,source=${name},target=${name},readonly"')
    return [
        "exec docker run --rm --init --pull=never --network=host",
        *(["--gpus=all"] if needs.gpus else []),
        *(shlex.quote(word) for word in (f"--ipc={needs.ipc}", *shm)),
        *(shlex.quote(f"--ulimit={name}={n}:{n}") for name, n in sorted(needs.ulimits.items())),
        "--cap-add=SYS_NICE --cap-add=SYS_PTRACE",
        *mounts,
        *(f"--env {shell_word(f'{name}={value}')}" for name, value in sorted(step.environment.items())),
        '--entrypoint "$PYTHON" "$IMAGE"',
        *_words(step.argv[1:] if step.argv[:1] == ("{python}",) else step.argv),
    ]


def _local(step: Step) -> list[str]:
    variables = [shell_word(f"{name}={value}") for name, value in sorted(step.environment.items())]
    return ["exec env", *variables, *_words(step.argv)]


def _words(argv: tuple[str, ...]) -> list[str]:
    """An option and its value share a line."""
    lines: list[str] = []
    for word in argv:
        quoted = shell_word(word)
        if lines and not word.startswith("--") and lines[-1].startswith("--") and " " not in lines[-1]:
            lines[-1] += f" {quoted}"
        else:
            lines.append(quoted)
    return lines


def shell_word(text: str) -> str:
    """One word of a POSIX shell: placeholders become variables, all else stands as it is, whatever it holds."""
    pieces: list[str] = []
    end = 0
    for found in _PLACEHOLDER.finditer(text):
        if found[1] not in _VARIABLES:
            continue
        pieces += [_quoted(text[end : found.start()]), _VARIABLES[found[1]]]
        end = found.end()
    return "".join([*pieces, _quoted(text[end:])]) or "''"


def _quoted(text: str) -> str:
    return shlex.quote(text) if text else ""


def _function(name: str, lines: list[str]) -> str:
    return f"{name}() {{\n  " + " \\\n    ".join(lines) + "\n}\n"


def _request(step: Step, prompt: Prompt | None) -> str:
    if prompt is None:
        return _function("request", ["echo 'the server does not come so far as to answer requests' >&2"])
    asked: dict[str, object] = {"input_ids": list(prompt.input_ids)} if prompt.input_ids else {"text": prompt.text}
    tokens = max((check.max_new_tokens for check in step.checks if check.prompts), default=_PROMPT_TOKENS)
    asked["sampling_params"] = {"temperature": 0, "max_new_tokens": tokens, "ignore_eos": True}
    command = [
        "curl --silent --show-error --header 'Content-Type: application/json'",
        f'--data-binary {shlex.quote(json.dumps(asked))} "http://127.0.0.1:$PORT/generate"',
    ]
    return f"# Prompt {one_line(prompt.id, 100)}\n" + _function("request", command)


def _tail(needs: BundleNeeds) -> str:
    given = [
        f'${{{name}:+{option} "${name}"}}'
        for name, option, what in (
            ("MODEL", "--model", needs.model),
            ("DRAFT_MODEL", "--draft-model", needs.draft_model),
        )
        if what is not None
    ]
    if needs.runtime == "docker":
        start = ["exec python3 replay.py", '--image "$IMAGE"', *given, '"$@"']
    else:
        start = ['exec "$PYTHON" replay.py', *given, '"$@"']
    lines = ['case "${1:-}" in', "  server) server ;;", "  request) request ;;", f"  *) {' '.join(start)} ;;", "esac"]
    return "\n".join(lines) + "\n"


def needs_text(needs: BundleNeeds) -> str:
    """What a replay needs, in one sentence."""
    gpus = f"{needs.gpus} GPU{'' if needs.gpus == 1 else 's'} of {needs.architecture}" if needs.gpus else ""
    weights = [one_line(what, 200) for what in (needs.model, needs.draft_model) if what is not None]
    if needs.runtime == "docker":
        parts = ["Linux", "Python 3.10 or newer", "docker", "the image of the bundle"]
    else:
        parts = ["Linux", f"Python 3.10 or newer with {' and '.join(needs.modules)}"]
    parts += [gpus, f"weights: {', '.join(weights)}" if weights else ""]
    return ", ".join(part for part in parts if part)
