"""What the attempt program is told: `step.json`, read into frozen records.

These are the payload's own records. The host's (`repro.model`) are not importable here, so the contract between the two
is the file, and its schema is checked by tests on both sides.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

READY_PHASES = ("launch", "weights_load", "graph_capture", "warmup", "serving")
SENDS_NOTHING = ("launch", "acceptance", "power")
OWN_MATERIAL = {"coding": "tasks", "rescoring": "texts"}
"""What these checks send in place of the prompts; without it they are not made."""


class BadStepError(ValueError):
    """`step.json` is missing, damaged, or of a version this program does not know."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Repeats:
    """Rounds of each level of `throughput`; see `Repeats` in the host's model."""

    warm_up: int
    at_least: int
    at_most: int
    relative: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """A check that sends requests; see `CheckPlan` in the host's model for the meaning of the numbers."""

    name: str
    prompts: int
    max_new_tokens: int
    concurrency: tuple[int, ...]
    margins: bool
    limit_s: float
    repeats: Repeats | None = None
    cancel_every: int | None = None
    peer: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Prompt:
    id: str
    text: str | None
    input_ids: tuple[int, ...] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Text:
    """An output to be rescored: what some launch answered to the prompt of this id."""

    id: str
    prompt: str
    output_ids: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Stop:
    """Seconds to wait: for stacks and dumps of a hanging server, and after each signal. `dump_signal` makes this engine
    dump what it knows; None if it has no such signal."""

    dump_s: float
    dump_signal: str | None
    int_s: float
    term_s: float
    kill_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """`limits` maps a phase to its seconds, `marks` a phase to the texts that announce it in the log; `armed`: the
    server is started with evidence hooks, and what it dumps is kept. `tasks` are the questions of `coding`, asked with
    the template options `chat`; `texts` what `rescoring` scores."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    host: str
    port: int
    checks: tuple[Check, ...]
    prompts: tuple[Prompt, ...]
    limits: Mapping[str, float]
    marks: Mapping[str, tuple[str, ...]]
    stop: Stop
    armed: bool = False
    tasks: tuple[Prompt, ...] = ()
    chat: Mapping[str, Any] = field(default_factory=dict)
    texts: tuple[Text, ...] = ()

    @property
    def url(self) -> str:
        """Where clients on this machine reach the server; a wildcard address is not one to connect to."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(self.host, self.host)  # noqa: S104
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    def limit_s(self, phase: str) -> float:
        """The limit of a phase; infinite when the step names none."""
        return self.limits.get(phase, float("inf"))


def read_step(path: Path) -> Step:
    """The step in the file; BadStepError with one line that says what is wrong."""
    try:
        raw = json.loads(path.read_bytes())
    except (OSError, ValueError) as problem:
        raise BadStepError(f"cannot read {path.name}: {problem}") from None
    if not isinstance(raw, dict) or raw.get("record") != "step" or raw.get("schema_version") != 2:
        raise BadStepError(f"{path.name} is not a 'step' of schema version 2")
    try:
        return _step(raw)
    except (KeyError, TypeError, ValueError) as problem:
        raise BadStepError(f"{path.name} does not fit: {type(problem).__name__}: {problem}") from None


def _step(raw: Mapping[str, Any]) -> Step:
    if not raw["argv"]:
        raise ValueError("argv is empty")
    return Step(
        argv=tuple(str(word) for word in raw["argv"]),
        environment={str(name): str(value) for name, value in raw["environment"].items()},
        host=str(raw["host"]),
        port=int(raw["port"]),
        checks=tuple(_check(entry) for entry in raw["checks"] if _sends(entry, raw)),
        prompts=tuple(_prompt(entry) for entry in raw["prompts"]),
        limits={str(entry["phase"]): float(entry["limit_s"]) for entry in raw["limits"]},
        marks={str(entry["phase"]): tuple(str(text) for text in entry["texts"]) for entry in raw["marks"]},
        stop=_stop(raw["stop"]),
        armed=raw["explains"] is not None,
        tasks=tuple(_prompt(entry) for entry in raw["tasks"]),
        chat={str(name): value for name, value in raw["chat"].items()},
        texts=tuple(_text(entry) for entry in raw["texts"]),
    )


def _stop(raw: Mapping[str, Any]) -> Stop:
    if raw["dump_signal"] not in {None, "SIGQUIT"}:
        raise ValueError(f"dump_signal is {raw['dump_signal']!r}")
    return Stop(
        dump_s=float(raw["dump_s"]),
        dump_signal=raw["dump_signal"],
        int_s=float(raw["int_s"]),
        term_s=float(raw["term_s"]),
        kill_s=float(raw["kill_s"]),
    )


def _sends(entry: Mapping[str, Any], step: Mapping[str, Any]) -> bool:
    if entry["check"] in SENDS_NOTHING or not entry["applicable"]:
        return False
    if entry["check"] in OWN_MATERIAL:
        return bool(step[OWN_MATERIAL[entry["check"]]])
    return int(entry["prompts"]) > 0


def _check(entry: Mapping[str, Any]) -> Check:
    return Check(
        name=str(entry["check"]),
        prompts=int(entry["prompts"]),
        max_new_tokens=int(entry["max_new_tokens"]),
        concurrency=tuple(int(level) for level in entry["concurrency"]),
        margins=bool(entry["margins"]),
        limit_s=float(entry["limit_s"]),
        repeats=_repeats(entry["repeats"]),
        cancel_every=None if entry["cancel_every"] is None else int(entry["cancel_every"]),
        peer=None if entry["peer"] is None else str(entry["peer"]),
    )


def _repeats(raw: Mapping[str, Any] | None) -> Repeats | None:
    if raw is None:
        return None
    return Repeats(
        warm_up=int(raw["warm_up"]),
        at_least=int(raw["at_least"]),
        at_most=int(raw["at_most"]),
        relative=float(raw["relative"]),
    )


def _text(entry: Mapping[str, Any]) -> Text:
    ids = tuple(int(token) for token in entry["output_ids"])
    return Text(id=str(entry["id"]), prompt=str(entry["prompt"]), output_ids=ids)


def _prompt(entry: Mapping[str, Any]) -> Prompt:
    text, ids = entry["text"], entry["input_ids"]
    if (text is None) == (ids is None):
        raise ValueError(f"prompt {entry['id']!r} needs exactly one of text and input_ids")
    return Prompt(id=str(entry["id"]), text=text, input_ids=None if ids is None else tuple(int(token) for token in ids))
