"""Read back what a server says of itself: `/server_info`, `/metrics` and its log. Nothing here raises on odd input."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from repro.model import Scalar

_LONGEST_LINE = 20_000
_SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?\s*$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_NUMBER = re.compile(r"-?\d{1,18}(?:\.0*)?")
_GRAPH_PASSES = "sglang:cuda_graph_passes_total"


@dataclass(frozen=True, kw_only=True, slots=True)
class Passes:
    """Forward passes by `mode`, as SGLang counts them: `decode_cuda_graph`, `decode_none` and the prefill twins."""

    counts: Mapping[str, int]
    source: str

    def of(self, mode: str) -> int:
        return self.counts.get(mode, 0)


@dataclass(kw_only=True, slots=True)
class LogFacts:
    """What one pass over the server's log found. ``found`` holds the distinct group values of each asked pattern."""

    found: dict[str, list[tuple[Mapping[str, str], str]]] = field(default_factory=dict)
    capture_widths: list[int] = field(default_factory=list)
    capture_sizes: str | None = None
    decode_graph: int = 0
    decode_none: int = 0
    nccl_speaks: bool = False
    nvls_buffers: bool = False
    nvls_available: bool | None = None


def number(value: object) -> int | None:
    """The value as an int: a whole number, also where it is written as text or as a float; None for anything else."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int):
        return value if abs(value) < 10**18 else None
    text = repr(value) if isinstance(value, float) else value
    if isinstance(text, str) and _NUMBER.fullmatch(text.strip()):
        return int(text.strip().partition(".")[0])
    return None


def scalar(value: object) -> Scalar:
    """The value if it is a scalar (long text is cut), the numbers of a list joined by commas, else None."""
    if isinstance(value, str):
        return value[:200]
    if isinstance(value, bool | int | float):
        return value if isinstance(value, bool) or abs(value) < 10**18 else None
    if isinstance(value, list) and all(number(part) is not None for part in value):
        return ",".join(str(number(part)) for part in value)[:2000]
    return None


def lookup(server_info: object, key: str) -> tuple[bool, object]:
    """Whether `/server_info` has the key, at the top or in its first internal state, and its value."""
    if not isinstance(server_info, Mapping):
        return False, None
    if key in server_info:
        return True, server_info[key]
    states = server_info.get("internal_states")
    if isinstance(states, list) and states and isinstance(states[0], Mapping) and key in states[0]:
        return True, states[0][key]
    return False, None


def samples(text: str) -> Iterator[tuple[str, Mapping[str, str], float]]:
    """Name, labels and value of each sample in Prometheus' text format; lines that are none are passed over."""
    for line in text.splitlines():
        if line.startswith("#") or len(line) > _LONGEST_LINE:
            continue
        found = _SAMPLE.match(line)
        if found is None:
            continue
        try:
            value = float(found[3])
        except ValueError:
            continue
        yield found[1], dict(_LABEL.findall(found[2] or "")), value


def graph_passes(start: str | None, end: str | None) -> Passes | None:
    """Passes between two readings of `/metrics` (since the server's start if the first is missing), summed over ranks.

    None if the counters are missing, or fell: then the server was another one.
    """
    after = _pass_counts(end)
    if not after:
        return None
    before = _pass_counts(start)
    counts = {mode: count - before.get(mode, 0) for mode, count in after.items()}
    if any(count < 0 for count in counts.values()):
        return None
    return Passes(counts=counts, source=f"/metrics {_GRAPH_PASSES}")


def read_log(lines: Iterable[str], patterns: Sequence[str]) -> LogFacts:
    """One pass over the log for all that a proof asks of it. ``patterns`` are regular expressions with groups."""
    facts = LogFacts(found={pattern: [] for pattern in patterns})
    compiled = [(pattern, re.compile(pattern)) for pattern in patterns]
    for raw in lines:
        line = raw[:_LONGEST_LINE]
        for pattern, expression in compiled:
            found = expression.search(line)
            if found is not None:
                entry = (found.groupdict(), found[1] or "")
                if entry not in facts.found[pattern]:
                    facts.found[pattern].append(entry)
        _read_capture(line, facts)
        _read_decode(line, facts)
        _read_nccl(line, facts)
    return facts


# `Capture target verify CUDA graph begin. backend=…, num_tokens_per_bs=17, bs=[…]` (0.5.14, 0.5.15.post1),
# `… num_tokens_per_req=17, avail mem=…` and `… end. bs=[…]` (from 0.5.16), `Capture cuda graph bs […]` (before 0.5.14).
_CAPTURE = re.compile(r"Capture (?:target (?:verify|decode) \w+ graph (?:begin|end)|cuda graph bs)\b")
_CAPTURE_WIDTH = re.compile(r"num_tokens_per_(?:bs|req)=(\d{1,9})\b")
_CAPTURE_SIZES = re.compile(r"\bbs(?:=| )\[([\d, ]*)\]")
_DECODE = re.compile(r"Decode batch\b.*\b(?:cuda|cpu|npu|musa|xpu) graph: (True|False)", re.IGNORECASE)


def _read_capture(line: str, facts: LogFacts) -> None:
    if not _CAPTURE.search(line):
        return
    width, sizes = _CAPTURE_WIDTH.search(line), _CAPTURE_SIZES.search(line)
    if width is not None and int(width[1]) not in facts.capture_widths:
        facts.capture_widths.append(int(width[1]))
    if sizes is not None:
        facts.capture_sizes = sizes[1].replace(" ", "")


def _read_decode(line: str, facts: LogFacts) -> None:
    found = _DECODE.search(line)
    if found is None:
        return
    if found[1] == "True":
        facts.decode_graph += 1
    else:
        facts.decode_none += 1


def _read_nccl(line: str, facts: LogFacts) -> None:
    """NCCL's `src/transport/nvls.cc`: `NVLS comm … headRank …` is said when its buffers are set up; `NVLS multicast
    support is [not ]available` only repeats the device attribute, or the environment where that forces NVLS on."""
    if "NCCL INFO" not in line:
        return
    facts.nccl_speaks = True
    if "NVLS comm " in line and "headRank" in line:
        facts.nvls_buffers = True
    if "NVLS multicast support is not available" in line:
        facts.nvls_available = False
    elif "NVLS multicast support is available" in line and facts.nvls_available is None:
        facts.nvls_available = True


def _pass_counts(text: str | None) -> dict[str, int]:
    counts: dict[str, int] = {}
    for name, labels, value in samples(text or ""):
        if name == _GRAPH_PASSES and "mode" in labels and 0 <= value < 10**15:
            counts[labels["mode"]] = counts.get(labels["mode"], 0) + int(value)
    return counts
