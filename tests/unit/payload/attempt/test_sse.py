"""Server-sent events in any pieces."""

from pathlib import Path

import pytest
from attempt.sse import EventStream, OversizedEventError
from hypothesis import given
from hypothesis import strategies as st

RECORDED = sorted((Path(__file__).parents[3] / "data" / "sglang-0.5.23").glob("*generate-stream*.txt"))


def read(*pieces: bytes) -> list[str]:
    stream = EventStream()
    events = [event for piece in pieces for event in stream.feed(piece)]
    rest = stream.rest()
    return events if rest is None else [*events, rest]


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"", []),
        (b"data: a\n\n", ["a"]),
        (b"data: a\r\n\r\n", ["a"]),
        (b"data: a\r\r", ["a"]),
        (b"data: a\r\n\ndata: b\n\r\n", ["a", "b"]),
        (b"data: a\n\ndata: b\n\n", ["a", "b"]),
        (b"data:a\n\n", ["a"]),
        (b"data:  a\n\n", [" a"]),
        (b"data: a\ndata: b\n\n", ["a\nb"]),
        (b"data\n\n", [""]),
        (b": keep-alive\n\ndata: a\n\n: bye\n\n", ["a"]),
        (b"event: x\nid: 1\nretry: 2\n\ndata: a\n\n", ["a"]),
        (b"event: x\ndata: a\nid: 1\n\n", ["a"]),
        (b"\n\n\n\ndata: a\n\n\n\n", ["a"]),
        (b"\xef\xbb\xbfdata: a\n\n", ["a"]),
        (b"data: a", ["a"]),
        (b"data: a\n", ["a"]),
        (b"data: a\r", ["a"]),
        (b"data: \xff\n\n", ["\ufffd"]),
        (b"data: \xe2\x80\xa8\n\n", ["\u2028"]),  # a line separator is no line end here
        (b"data: [DONE]\n\n", ["[DONE]"]),
        ("data: grün 🌲\n\n".encode(), ["grün 🌲"]),
    ],
)
def test_events(stream, events):
    assert read(stream) == events
    assert read(*(bytes([byte]) for byte in stream)) == events


LINE = st.sampled_from(
    ["data: 🌲é", "data: a", "data", "data:", ": comment", "event: x", "", "", "", "dat", "data : x"]
)
END = st.sampled_from(["\n", "\r\n", "\r"])


@st.composite
def pieces(draw: st.DrawFn) -> list[bytes]:
    stream = "".join(line + end for line, end in draw(st.lists(st.tuples(LINE, END), max_size=30))).encode()
    cuts = draw(st.lists(st.integers(0, len(stream)), max_size=12).map(sorted))
    return [stream[low:high] for low, high in zip([0, *cuts], [*cuts, len(stream)], strict=True)]


@given(pieces())
def test_the_pieces_do_not_matter(split):
    assert read(*split) == read(b"".join(split))


@given(st.lists(st.binary(max_size=40), max_size=20))
def test_nothing_is_too_odd(split):
    assert read(*split) == read(b"".join(split))


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
@given(cuts=st.lists(st.integers(0, 10_000), max_size=8))
def test_recorded_streams(path, cuts):
    stream = path.read_bytes()
    cuts = sorted({cut for cut in cuts if cut < len(stream)})
    split = [stream[low:high] for low, high in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert read(*split) == [line[6:] for line in stream.decode().splitlines() if line.startswith("data: ")]
    assert read(*split)[-1] == "[DONE]"


def test_there_are_recorded_streams():
    assert RECORDED


def test_an_event_without_end(monkeypatch):
    monkeypatch.setattr("attempt.sse.MAX_EVENT_BYTES", 100)
    stream = EventStream()
    assert stream.feed(b"data: " + b"x" * 80 + b"\n\n" + b"data: " + b"x" * 80 + b"\n\n") != []
    with pytest.raises(OversizedEventError):
        stream.feed(b"x" * 101)
