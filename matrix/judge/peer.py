"""What SGLang's own load generator said, beside our numbers: its figures as it states them, never compared with ours.

Source of the names: the fields of its `--output-file`, SGLang 0.5.23.
"""

import json
from collections.abc import Callable, Sequence

from matrix.judge.results import measured
from repro.model import Measurement

Raw = Callable[[str], str | None]
"""Name of a file of evidence -> its text, None if there is none."""

_FIGURES = (
    ("bench_serving_output_rate", "output_throughput", "tok/s"),
    ("bench_serving_ttft_median", "median_ttft_ms", "ms"),
    ("bench_serving_ttft_p99", "p99_ttft_ms", "ms"),
    ("bench_serving_itl_median", "median_itl_ms", "ms"),
    ("bench_serving_itl_p99", "p99_itl_ms", "ms"),
    ("bench_serving_acceptance", "accept_length", "tokens/step"),
)


def peer_numbers(levels: Sequence[int], raw: Raw) -> list[Measurement]:
    """Its figures at each concurrency, or one without a value that says why there are none."""
    numbers: list[Measurement] = []
    for level in sorted(levels):
        document = _document(raw(f"bench_serving/{level}.jsonl"))
        at = {"concurrency": level}
        if document is None:
            reason = _why(raw(f"bench_serving/{level}.txt"))
            numbers.append(measured(_FIGURES[0][0], None, "tok/s", at=at, basis="stated", reason=reason))
            continue
        completed = document.get("completed")
        n = completed if type(completed) is int and completed >= 0 else None
        for name, field, unit in _FIGURES:
            value = document.get(field)
            if type(value) in {int, float}:
                numbers.append(measured(name, round(float(value), 3), unit, at=at, n=n, basis="stated"))  # type: ignore[arg-type]
    return numbers


def _document(text: str | None) -> dict[str, object] | None:
    """The last line of its output file; None if it holds no figures."""
    lines = (text or "").split("\n")
    try:
        document = json.loads(next((line for line in reversed(lines) if line.strip()), ""))
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) and type(document.get("output_throughput")) is float else None


def _why(said: str | None) -> str:
    if said is None:
        return "bench_serving was not run at this concurrency"
    last = next((line.strip() for line in reversed(said.split("\n")) if line.strip()), "it said nothing")
    return f"bench_serving gave no figures: {last[:200]}"
