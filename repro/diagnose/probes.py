"""What was measured beside the log (`--probes`): a flat JSON object -> the kind of failure that it shows, if any."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from repro.errors import SpecError
from repro.model import Scalar

Value = Scalar

_CONTROL = re.compile(r"eager|graphs?_?off|no_?graphs?|without_graphs?|disable_cuda_graph")
_REFERENCE = re.compile(r"\bprev_|control|baseline|reference|expected|before|previous|\bref\b|_ref$|^ref_")
_ACCEPT = re.compile(r"accept")
_ACCURACY = re.compile(r"gsm8k|mmlu|accuracy|humaneval|math500|aime|gpqa|exact_match|score|hellaswag|\bacc\b")
_SPEED = re.compile(r"tok\w*_s\b|tok\w*_s_|tok\w*_per_s|tokens?/s|throughput|\btps\b|_tps|req\w*_s\b|speed")
_SLOWNESS = re.compile(r"latency|ttft|tpot|itl|step_time|_ms\b|_ms_")
_REPLAYS = re.compile(r"replay|(?<!non_)graph_pass|pass(?:es)?_graph|graphed|graph_steps|cuda_graph_hits")
_EAGER_PASSES = re.compile(
    r"(?:eager|decode_none|non_graph)_?(?:pass|step|forward|count)|pass(?:es)?_eager|steps?_eager"
)
_TOKENS = re.compile(r"(?:output|completion|generated|new)_?tokens|tokens_out|^tokens$|empty_outputs|n_tokens")
_EMPTY_COUNT = re.compile(r"empty")
_CLIENT = re.compile(r"client_error|http_4\d\d|status_4\d\d|bad_request|connect\w*_refused|client_timeout")
_STATUS = re.compile(r"http_status|status_code|^status$")
_NAN_KEY = re.compile(r"nan|non_?finite")
_NOISE = re.compile(r"noise|tolerance|stdev|std_dev|_cv\b")
_NAN_TEXT = re.compile(r"(?i)\bnan\b|\binf\b|non-finite|not JSON compliant")
_CLIENT_TEXT = re.compile(r"(?i)connection refused|name or service|no route|\b4\d\d\b|bad request|client|invalid url")
_EMPTY_TEXT = re.compile(r"(?i)^\s*$|^empty|\b0 tokens|no tokens|no output")
_BAD_TEXT = re.compile(
    r"(?i)garbage|gibberish|wrong|mismatch|differ|corrupt|repeat|nonsense|incorrect|garbled|fail|bad\b|diverge|!{4,}"
)
_GOOD_TEXT = re.compile(r"(?i)^\s*(?:ok|pass|passed|good|plausible|correct|match|matches|identical|true|yes|right)\b")
_SHARE = re.compile(r"^\s*(\d+)\s*(?:/|of)\s*(\d+)")

_ACCURACY_DROP = 2.0
_HOPELESS_ACCURACY = 5.0
_USELESS_IN_BOTH = 30.0
_COLLAPSED = 1.05
_NEAR_FLOOR = 0.1
_NOISE_SHARE = 0.05


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbeVerdict:
    """``kind``: what the probes show, None if nothing is wrong; ``well``: whether outputs were looked at and are right
    (None: not looked at); ``said``: the numbers that decide; ``unknown``: keys that mean nothing here."""

    kind: str | None
    well: bool | None
    said: str
    unknown: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Word:
    key: str
    text: str
    state: str  # good, bad, nan, empty, client, other


def judge_probes(probes: Mapping[str, Value] | None) -> ProbeVerdict:
    """What the probes show: outputs first, then acceptance, then graphs, then speed, and the client last."""
    if not probes:
        return ProbeVerdict(kind=None, well=None, said="", unknown=())
    lower = {key.lower(): value for key, value in probes.items()}
    words = [_word(key, value) for key, value in lower.items() if isinstance(value, (str, bool))]
    numbers = {key: float(v) for key, v in lower.items() if isinstance(v, (int, float)) and not isinstance(v, bool)}
    good = any(word.state == "good" for word in words) or any(_ACCURACY.search(key) for key in numbers)
    used = {word.key for word in words if word.state != "other"} | {key for key in numbers if _meant(key)}
    unknown = tuple(sorted(set(lower) - used))
    for found in (
        _not_finite(words, numbers),
        _nothing(words, numbers),
        _outputs(words, numbers),
        _acceptance(numbers),
        _graphs(numbers),
        _speed(numbers),
        _client(words, numbers),
    ):
        if found is not None:
            kind, said = found
            wrong = kind in {"nan_logits", "no_tokens", "wrong_output", "wrong_output_graph_only"}
            return ProbeVerdict(kind=kind, well=False if wrong else good or None, said=said, unknown=unknown)
    return ProbeVerdict(kind=None, well=good or None, said="", unknown=unknown)


def _meant(key: str) -> bool:
    return _counts(key) or any(part.search(key) for part in (_ACCURACY, _CONTROL, _NOISE))


def _counts(key: str) -> bool:
    parts = (_ACCEPT, _SPEED, _SLOWNESS, _REPLAYS, _EAGER_PASSES, _TOKENS, _CLIENT, _STATUS, _NAN_KEY)
    return any(part.search(key) for part in parts)


def _word(key: str, value: str | bool) -> _Word:
    if isinstance(value, bool):
        bad_if_true = _NAN_KEY.search(key) or _CLIENT.search(key) or "error" in key or "garbage" in key
        fine = not value if bad_if_true else value
        return _Word(key, str(value).lower(), "good" if fine else ("nan" if _NAN_KEY.search(key) else "bad"))
    share = _SHARE.match(value)
    if share:
        return _Word(key, value, "good" if int(share[1]) >= 0.5 * int(share[2]) > 0 else "bad")
    for state, expression in (("nan", _NAN_TEXT), ("client", _CLIENT_TEXT), ("bad", _BAD_TEXT)):
        if expression.search(value) and not _GOOD_TEXT.match(value):
            return _Word(key, value, state)
    if _GOOD_TEXT.match(value):
        return _Word(key, value, "good")
    return _Word(key, value, "empty" if _EMPTY_TEXT.match(value) else "other")


def _not_finite(words: list[_Word], numbers: Mapping[str, float]) -> tuple[str, str] | None:
    for word in words:
        if word.state == "nan":
            return "nan_logits", f"{word.key}: {word.text}"
    for key, value in numbers.items():
        if (_NAN_KEY.search(key) and value > 0) or not math.isfinite(value):
            return "nan_logits", f"{key} {value:g}"
    return None


def _nothing(words: list[_Word], numbers: Mapping[str, float]) -> tuple[str, str] | None:
    for word in words:
        if word.state == "empty":
            return "no_tokens", f"{word.key}: {word.text or 'empty'}"
    for key, value in numbers.items():
        if _SPEED.search(key) or _REFERENCE.search(key):
            continue
        if _TOKENS.search(key) and (value > 0 if _EMPTY_COUNT.search(key) else value == 0):
            return "no_tokens", f"{key} {value:g}"
    return None


def _outputs(words: list[_Word], numbers: Mapping[str, float]) -> tuple[str, str] | None:
    bad = [word for word in words if word.state == "bad" and not _CONTROL.search(word.key)]
    control = [word for word in words if _CONTROL.search(word.key) or _REFERENCE.search(word.key)]
    if bad:
        only_graphs = any(word.state == "good" for word in control) and not any(w.state == "bad" for w in control)
        kind = "wrong_output_graph_only" if only_graphs else "wrong_output"
        return kind, "; ".join(f"{word.key}: {word.text[:60]}" for word in (bad + control)[:3])
    scores = {key: _percent(value) for key, value in numbers.items() if _ACCURACY.search(key)}
    controls = {k: _percent(v) for k, v in numbers.items() if _CONTROL.search(k) and k not in scores and not _counts(k)}
    own = {key: v for key, v in scores.items() if not _CONTROL.search(key) and not _REFERENCE.search(key)}
    eager = {key: v for key, v in scores.items() if _CONTROL.search(key)} or {
        key: value for key, value in controls.items() if own
    }
    baseline = {key: v for key, v in scores.items() if _REFERENCE.search(key) and key not in eager}
    return _scores(own, eager, baseline)


def _scores(
    own: Mapping[str, float], eager: Mapping[str, float], baseline: Mapping[str, float]
) -> tuple[str, str] | None:
    if not own:
        return None
    key, score = min(own.items(), key=lambda item: item[1])
    said = f"{key} {score:g}"
    if eager:
        other, best = max(eager.items(), key=lambda item: item[1])
        if best - score > _ACCURACY_DROP:
            return "wrong_output_graph_only", f"{said} against {best:g} ({other})"
        said += f", {best:g} ({other})"
        if max(score, best) < _USELESS_IN_BOTH:  # neither arm is of any use
            return "wrong_output", said
    if baseline:
        other, best = max(baseline.items(), key=lambda item: item[1])
        if best - score > _ACCURACY_DROP:
            return "wrong_output", f"{said} against {best:g} ({other})"
    return ("wrong_output", said) if score <= _HOPELESS_ACCURACY else None


def _acceptance(numbers: Mapping[str, float]) -> tuple[str, str] | None:
    lengths = {key: value for key, value in numbers.items() if _ACCEPT.search(key) and "rate" not in key}
    own = {
        key: v for key, v in lengths.items() if not (_REFERENCE.search(key) or _CONTROL.search(key) or "floor" in key)
    }
    others = {key: value for key, value in lengths.items() if _REFERENCE.search(key) or _CONTROL.search(key)}
    floor = max([_COLLAPSED, *(value + _NOISE_SHARE for key, value in lengths.items() if "floor" in key)])
    for key, value in own.items():
        best = max(others.values(), default=0.0)
        if 0 < value <= floor or (best > 1 and 0 < value - 1 < _NEAR_FLOOR * (best - 1)):
            return "accept_length_collapse", f"{key} {value:g}" + (f" against {best:g}" if others else "")
        if value < best * (1 - _noise(numbers, "accept")):
            return "accept_length_regression", f"{key} {value:g} against {best:g}"
    return None


def _graphs(numbers: Mapping[str, float]) -> tuple[str, str] | None:
    for key, value in numbers.items():
        if _REPLAYS.search(key) and value == 0 and not _EAGER_PASSES.search(key):
            return "graph_not_replayed", f"{key} 0"
    eager = {key: value for key, value in numbers.items() if _EAGER_PASSES.search(key) and value > 0}
    replayed = sum(value for key, value in numbers.items() if _REPLAYS.search(key))
    if eager and replayed < max(eager.values()) and any(_REPLAYS.search(key) for key in numbers):
        return "graph_not_replayed", ", ".join(f"{key} {value:g}" for key, value in eager.items())
    return None


def _speed(numbers: Mapping[str, float]) -> tuple[str, str] | None:
    for measure, sign in ((_SPEED, 1.0), (_SLOWNESS, -1.0)):
        own = {key: v for key, v in numbers.items() if measure.search(key) and not _ACCEPT.search(key)}
        others = {key: value for key, value in own.items() if _REFERENCE.search(key)}
        for key, value in own.items():
            if key in others or _CONTROL.search(key):
                continue
            for other, reference in others.items():
                alike = len(others) == 1 or key in other or _bare(other) == _bare(key)
                change = sign * (value - reference) / reference if reference else 0.0
                if alike and change < -_noise(numbers, "speed"):
                    return "perf_regression", f"{key} {value:g} against {reference:g} ({other})"
    return None


def _client(words: list[_Word], numbers: Mapping[str, float]) -> tuple[str, str] | None:
    for word in words:
        if word.state == "client":
            return "client_error", f"{word.key}: {word.text[:80]}"
    for key, value in numbers.items():
        if (_CLIENT.search(key) and value > 0) or (_STATUS.search(key) and 400 <= value < 500):
            return "client_error", f"{key} {value:g}"
    return None


def _noise(numbers: Mapping[str, float], about: str) -> float:
    """The share by which a number may fall before it is less: what the probes say, else 5 %."""
    said = [value for key, value in numbers.items() if _NOISE.search(key) and (about in key or about == "speed")]
    share = max(said, default=_NOISE_SHARE)
    return share / 100 if share > 1 else share


def _bare(key: str) -> str:
    return _REFERENCE.sub("", key).strip("_")


def _percent(value: float) -> float:
    return value * 100 if 0 <= value <= 1 else value


def read_probes(path: Path) -> dict[str, Value]:
    """The probes in a file. Raises SpecError if it is no flat JSON object."""
    try:
        document = json.loads(path.read_bytes())
    except OSError as problem:
        raise SpecError(f"{path}: cannot be read ({problem.strerror}); give the path of a JSON file") from None
    except (ValueError, RecursionError) as problem:
        raise SpecError(f"{path}: is not JSON ({problem}); give a flat JSON object") from None
    if not isinstance(document, dict):
        raise SpecError(f"{path}: is not a JSON object; give one such as {{'accept_len': 3.2}}")
    nested = [key for key, value in document.items() if isinstance(value, (list, dict))]
    if nested:
        raise SpecError(f"{path}: /{nested[0]}: is not a number, a text or a truth value; probes are flat")
    return dict(document)
