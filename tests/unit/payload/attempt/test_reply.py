"""What is read from the answers of an engine, the recorded ones and odd ones."""

import json
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from attempt.reply import Reply
from attempt.sse import EventStream
from hypothesis import given
from hypothesis import strategies as st

DATA = Path(__file__).parents[3] / "data" / "sglang-0.5.23"


def chunk(ids: list[int], count: int | None = None, finish: str | None = None, **meta: Any) -> str:
    facts = {"finish_reason": {"type": finish} if finish else None, "prompt_tokens": 3, **meta}
    if count is not None:
        facts["completion_tokens"] = count
    return json.dumps({"text": "".join(chr(97 + token % 26) for token in ids), "output_ids": ids, "meta_info": facts})


def take(*documents: str, margins: bool = False) -> Reply:
    reply = Reply(3, margins=margins)
    for at, document in enumerate(documents):
        reply.absorb(document, float(at))
    reply.close()
    return reply


def recorded(name: str, *, margins: bool = False) -> tuple[Reply, list[dict[str, Any]]]:
    content = (DATA / name).read_bytes()
    documents = EventStream().feed(content) if name.endswith(".txt") else [content.decode()]
    reply = Reply(None, margins=margins)
    for at, document in enumerate(documents):
        reply.absorb(document, float(at))
    reply.close()
    return reply, [json.loads(document) for document in documents if document != "[DONE]"]


@pytest.mark.parametrize("name", ["ar-generate-stream.txt", "b16t8-generate-stream.txt", "b16t8-generate.json"])
def test_recorded_replies(name):
    reply, documents = recorded(name)
    last = documents[-1]
    assert reply.error is None
    assert reply.ids == last["output_ids"]
    assert reply.text == last["text"]
    assert reply.usage_tokens == len(reply.ids) == 12
    assert reply.finish_reason == "length"
    assert [count for _, count in reply.token_times] == [len(document["output_ids"]) for document in documents]
    speculating = "b16t8" in name
    assert (reply.verify_calls is not None) is speculating
    if speculating:
        assert sum(reply.accept_histogram or ()) == reply.verify_calls


@pytest.mark.parametrize("name", ["ar-generate-logprobs.json", "b16t8-generate-logprobs.json"])
def test_recorded_margins(name):
    reply, _ = recorded(name, margins=True)
    assert reply.error is None
    assert reply.margins is not None
    assert len(reply.margins) == len(reply.ids)
    assert all(margin >= 0 for margin in reply.margins)


def test_a_recorded_error():
    body = json.loads((DATA / "ar-generate-error.json").read_text())["body"]
    assert take(json.dumps(body)).error == "the engine answered an error: input_ids cannot be empty."


@pytest.mark.parametrize("counted", [True, False])
@given(steps=st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=4), min_size=1, max_size=8), data=st.data())
def test_both_manners_of_streaming(counted, steps, data):
    """Whatever the tokens are, also such that a part looks like the whole."""
    whole: list[int] = []
    cumulative, incremental = [], []
    for number, step in enumerate(steps):
        whole = whole + step
        finish = "length" if number == len(steps) - 1 else None
        cumulative.append(chunk(whole, len(whole), finish))
        incremental.append(chunk(step, len(whole), finish))
    if data.draw(st.booleans()):
        cumulative.append(cumulative[-1])
        incremental.append(incremental[-1])
    text = "".join(chr(97 + token) for token in whole)
    assert (take(*cumulative).ids, take(*cumulative).text) == (whole, text)
    assert [count for _, count in take(*cumulative).token_times] == list(accumulate(map(len, steps)))
    if counted:  # without counts, ids that repeat the beginning cannot be told from it
        assert (take(*incremental).ids, take(*incremental).text) == (whole, text)


def test_a_stream_that_is_cut_off_in_the_middle():
    """Middle chunks are only glanced at, but the last one counts in full, whichever it turns out to be."""
    reply = take(*(chunk(list(range(1, count + 1)), count) for count in range(1, 8)))
    assert (reply.ids, reply.usage_tokens) == ([1, 2, 3, 4, 5, 6, 7], 7)
    assert reply.error == "the reply ended early, after 7 tokens and without a finish reason"


@pytest.mark.parametrize("text", ['"output_ids":[1,2,3,4,5,6]', '"finish_reason":null', '"error":', "[]"])
def test_a_text_that_looks_like_a_reply(text):
    def said(ids: list[int], finish: str | None = None) -> str:
        return json.dumps(json.loads(chunk(ids, len(ids), finish)) | {"text": text})

    reply = take(said([1]), said([1, 2]), said([1, 2, 3]), said([1, 2, 3, 4], "stop"))
    assert (reply.error, reply.ids, reply.text) == (None, [1, 2, 3, 4], text)
    assert [count for _, count in reply.token_times] == [1, 2, 3, 4]


def test_an_error_in_the_middle():
    reply = take(chunk([1], 1), chunk([1, 2], 2), '{"error": "boom"}', chunk([1, 2, 3], 3, "stop"))
    assert (reply.error, reply.ids) == ("the engine answered an error: boom", [1, 2])


def test_ids_ahead_of_the_count():
    """SGLang hands out the list itself, so that it may have grown when the chunk is written."""
    reply = take(chunk([1], 1), chunk([1, 2, 3, 4], 2), chunk([1, 2, 3, 4], 4), chunk([1, 2, 3, 4, 5], 5, "length"))
    assert (reply.ids, reply.error) == ([1, 2, 3, 4, 5], None)
    assert reply.token_times == [(0.0, 1), (1.0, 4), (3.0, 5)]


def test_without_counts():
    assert take(chunk([1]), chunk([1, 2]), chunk([1, 2, 3], finish="stop")).ids == [1, 2, 3]
    assert take(chunk([1]), chunk([2, 3]), chunk([4], finish="stop")).ids == [1, 2, 3, 4]


def test_an_overtaken_chunk():
    assert take(chunk([1, 2], 2), chunk([1, 2, 3], 3), chunk([1, 2], 2), chunk([1, 2, 3, 4], 4, "stop")).ids == [
        1,
        2,
        3,
        4,
    ]


def test_tokens_that_are_taken_back():
    reply = take(chunk([1, 2], 2), chunk([1, 2, 3], 3), chunk([1, 7, 8, 9], 4, "stop"))
    assert reply.error == "the engine took back tokens it had sent: 3 ids, not the beginning of the next"


@pytest.mark.parametrize(
    ("document", "error"),
    [
        ("{", "not JSON: "),
        ("3", "not an object but int"),
        ("[]", "not an object but list"),
        ('{"error": {"message": "boom", "code": 500}}', "the engine answered an error: boom"),
        ('{"error": "boom"}', "the engine answered an error: boom"),
        ('{"choices": []}', "no output ids in the reply; is this the engine that was started? Keys: ['choices']"),
        ('{"output_ids": ["1"], "meta_info": {}}', "no output ids in the reply"),
        ('{"output_ids": [true], "meta_info": {}}', "no output ids in the reply"),
        ('{"output_ids": [1]}', "no meta_info in the reply"),
        ('{"error": "half \\ud83d"}', "the engine answered an error: half ?"),
        (chunk([1], 1, "length", prompt_tokens=9), "another prompt was answered: 3 tokens sent, 9 counted"),
        (chunk([1], 1), "the reply ended early, after 1 tokens and without a finish reason"),
        (chunk([], 0, "abort"), "the engine aborted the request: None"),
    ],
)
def test_what_is_no_reply(document, error):
    assert (take(document).error or "").startswith(error)


def test_no_chunk_at_all():
    assert take().error == "the reply ended without a single chunk"
    assert take("[DONE]").error == "the reply ended without a single chunk"


def test_no_tokens():
    reply = take(chunk([], 0, "length"))
    assert (reply.error, reply.ids, reply.text, reply.token_times) == (None, [], "", [])


def test_a_list_of_one_reply():
    assert take(f"[{chunk([1], 1, 'stop')}]").ids == [1]


def test_text_that_is_no_text():
    document = '{"text": "a\\ud83d", "output_ids": [1], "meta_info": {"finish_reason": "stop"}}'
    assert take(document).text == "a?"


@pytest.mark.parametrize(
    "top",
    [
        None,
        [],
        [[[-0.1, 1, None]]],
        [[[None, 0, None], [None, 1, None]]],
        [[[float("nan"), 0, None], [-1.0, 1, None]]],
        [[[-0.1, 1, None], [-0.2, 2, None]]] * 2,
    ],
)
def test_margins_that_cannot_be_used(top):
    assert take(chunk([1], 1, "length", output_top_logprobs=top), margins=True).error == (
        "the reply lacks usable log-probabilities"
    )


@pytest.mark.parametrize("count", [-1, 1.5, True, "3", None])
def test_counters_of_the_wrong_kind(count):
    reply = take(chunk([1], 1, "length", spec_verify_ct=count, spec_correct_drafts_histogram=[count]))
    assert (reply.error, reply.verify_calls, reply.accept_histogram) == (None, None, None)


def test_a_count_that_lies_changes_no_ids():
    reply = take(chunk([5], 9999), chunk([5, 6, 7], 9999), chunk([5, 6, 7, 8], 9999, "length"), "[DONE]")
    assert reply.error is None
    assert reply.ids == [5, 6, 7, 8]
    assert reply.usage_tokens == 9999
