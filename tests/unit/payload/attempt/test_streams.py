"""From bytes to counts: however a stream is cut, bundled, repeated or ended, no count changes."""

import json
from dataclasses import dataclass
from itertools import accumulate, pairwise

from attempt.reply import Reply
from attempt.sse import EventStream
from hypothesis import given
from hypothesis import strategies as st

WORDS = ("grün", "🌲🌳", "a", " ", '"', "\\", "\u2028", "[1,2]", '"output_ids":[9]', '"finish_reason":null', "data: x")
END = st.sampled_from(["\n", "\r\n", "\r"])


@dataclass(frozen=True, kw_only=True, slots=True)
class Stream:
    """The bytes of a stream, and what is in it: ids, and the counts at which chunks ended."""

    content: bytes
    ids: list[int]
    text: str
    counts: list[int]


@st.composite
def streams(draw: st.DrawFn, *, whole: bool = True) -> Stream:
    """What an engine may send: steps of one to eight ids, some of them bundled, each document once or twice."""
    steps = draw(st.lists(st.integers(1, 8), min_size=2, max_size=12))
    ids = draw(st.lists(st.integers(0, 40_000), min_size=sum(steps), max_size=sum(steps)))
    words = [draw(st.sampled_from(WORDS)) for _ in ids]
    ends = list(accumulate(steps))
    kept = [end for end in ends[:-1] if draw(st.booleans())] + ends[-1:]
    incremental, ascii_only, space = draw(st.booleans()), draw(st.booleans()), draw(st.booleans())
    parts, seen = [], 0
    for end in kept:
        begin = seen if incremental else 0
        reason = {"type": "length", "length": end} if end == ends[-1] and whole else None
        meta = {"finish_reason": reason, "completion_tokens": end, "prompt_tokens": 3}
        document = {"text": "".join(words[begin:end]), "output_ids": ids[begin:end], "meta_info": meta}
        line_end = draw(END)
        separators = None if space else (",", ":")
        data = json.dumps(document, ensure_ascii=ascii_only, separators=separators)
        times = draw(st.integers(1, 2)) if end == ends[-1] or not incremental else 1
        parts += [f"data: {data}{line_end}{line_end}"] * times
        if draw(st.booleans()):
            parts.append(f": keep-alive{line_end}{line_end}")
        seen = end
    if whole and draw(st.booleans()):
        parts.append("data: [DONE]\n\n")
    return Stream(content="".join(parts).encode(), ids=ids, text="".join(words), counts=kept)


def read(content: bytes, cuts: list[int]) -> Reply:
    """The reply after these bytes have come in pieces that end at the cuts."""
    reply, events = Reply(3, margins=False), EventStream()
    places = [0, *sorted({cut % (len(content) + 1) for cut in cuts}), len(content)]
    for number, (begin, end) in enumerate(pairwise(places)):
        for data in events.feed(content[begin:end]):
            reply.absorb(data, float(number))
    rest = events.rest()
    if rest is not None:
        reply.absorb(rest if rest == "[DONE]" else rest.encode(), float(len(places)))
    reply.close()
    return reply


CUTS = st.lists(st.integers(0, 1 << 20), max_size=40)


@given(streams(), CUTS)
def test_no_count_changes_with_the_form_of_a_stream(stream: Stream, cuts: list[int]) -> None:
    reply = read(stream.content, cuts)
    assert reply.error is None
    assert (reply.ids, reply.text, reply.finish_reason) == (stream.ids, stream.text, "length")
    assert reply.usage_tokens == reply.count == len(stream.ids)
    assert [count for _, count in reply.token_times] == stream.counts
    assert [at_s for at_s, _ in reply.token_times] == sorted(at_s for at_s, _ in reply.token_times)


@given(streams(whole=False), CUTS)
def test_a_stream_without_its_end_is_an_error_with_the_ids_that_came(stream: Stream, cuts: list[int]) -> None:
    reply = read(stream.content, cuts)
    assert reply.ids == stream.ids
    assert reply.error == f"the reply ended early, after {len(stream.ids)} tokens and without a finish reason"


@given(streams(), CUTS, st.floats(0, 1, exclude_max=True))
def test_a_stream_that_breaks_off_never_gains_a_token(stream: Stream, cuts: list[int], part: float) -> None:
    reply = read(stream.content[: int(len(stream.content) * part)], cuts)
    assert reply.ids == stream.ids[: len(reply.ids)]
    assert reply.count == len(reply.ids)
    if reply.error is None:
        assert reply.ids == stream.ids, "only what came after the last chunk was lost"


@given(streams(), CUTS, st.sampled_from(['{"error": {"message": "boom"}}', '{"error": "boom"}']))
def test_an_error_body_in_a_stream_with_status_200_is_an_error(stream: Stream, cuts: list[int], body: str) -> None:
    assert read(f"data: {body}\n\n".encode() + stream.content, cuts).error == "the engine answered an error: boom"
