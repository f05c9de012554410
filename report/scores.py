"""What rescoring says of an attempt, as rows: how many tokens are wrong, how sure that is, and where."""

from report.words import figure, interval_label
from repro.model import AttemptScore

MOST_PLACES = 10


def score_rows(score: AttemptScore) -> tuple[tuple[str, str], ...]:
    """(what, value) for each thing known."""
    interval = (score.low, score.high) if score.low is not None and score.high is not None else None
    share = f" ({interval_label(interval)} of tokens, 95 % interval)" if interval is not None else ""
    rows: list[tuple[str, str]] = [
        ("tokens beyond δ", f"{score.above} of {score.tokens} in {score.outputs} outputs{share}"),
        ("longest run of them", str(score.longest_run)),
    ]
    numbers: tuple[tuple[str, float | None, str], ...] = (
        ("largest gap", score.largest_gap, " nats"),
        ("p, against the healthy arms", score.p_value, ""),
        ("perplexity under the reference", score.perplexity, ""),
        ("smallest wrong concurrency", score.smallest_wrong_concurrency, ""),
    )
    rows += [(name, figure(value) + unit) for name, value, unit in numbers if value is not None]
    return tuple(rows)


def place_rows(score: AttemptScore) -> tuple[tuple[str, ...], ...]:
    """(prompt, check, concurrency, at token, got, gap) of the worst places."""
    return tuple(
        (place.prompt, place.check, str(place.concurrency), str(place.at), str(place.got), figure(place.gap))
        for place in score.places[:MOST_PLACES]
    )


PLACE_HEADERS = ("prompt", "check", "concurrency", "at token", "got", "gap (nats)")
