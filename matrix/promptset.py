"""Prompt sets: what is sent to every cell of a spec, in the same order."""

from importlib import resources
from pathlib import Path

from repro import codec
from repro.errors import RecordError, SpecError
from repro.model import Prompt, PromptSet


def payload_dir() -> Path:
    """The folder of programs that run beside the engine; never imported here, only named."""
    return Path(str(resources.files("matrix"))) / "payload"


def load_prompts(name_or_path: str, count: int) -> tuple[Prompt, ...]:
    """The first ``count`` prompts of a built-in set, or of a file (record `prompts`); its path may hold ``{payload}``.

    Raises SpecError if there is no such set, if it is invalid, or if it is too small or empty.
    """
    path = Path(name_or_path.replace("{payload}", str(payload_dir())))
    if "/" not in name_or_path and not name_or_path.endswith(".json"):
        path = Path(str(resources.files("matrix"))) / "prompts" / f"{name_or_path}.json"
    if not path.is_file():
        raise SpecError(
            f"prompt set {name_or_path!r}: no such file: give a built-in name (general) or a path to a .json"
        )
    try:
        prompts = codec.read(path, PromptSet).prompts
    except RecordError as problem:
        raise SpecError(str(problem)) from problem
    if len(prompts) < count:
        raise SpecError(f"prompt set {name_or_path!r}: holds {len(prompts)} prompts, and the spec asks for {count}")
    if len({prompt.id for prompt in prompts}) != len(prompts):
        raise SpecError(f"prompt set {name_or_path!r}: a prompt id occurs twice")
    return prompts[:count]
