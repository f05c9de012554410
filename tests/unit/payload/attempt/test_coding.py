"""The client of the chat endpoint: what it asks, and what it makes of every form of reply."""

import json
from typing import Any

import pytest
from attempt.coding import ChatReply, chat_question


def chunk(finish: str | None = None, **delta: Any) -> str:
    return json.dumps(
        {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    )


def whole(message: Any, finish: str | None = "stop", **more: Any) -> bytes:
    return json.dumps(
        {"object": "chat.completion", "choices": [{"message": message, "finish_reason": finish}], **more}
    ).encode()


def absorbed(*pieces: str | bytes) -> ChatReply:
    reply = ChatReply()
    for at, piece in enumerate(pieces):
        reply.absorb(piece, float(at))
    reply.close()
    return reply


def test_a_question_is_greedy_and_says_what_the_template_may_do() -> None:
    question = chat_question("Write f.", 700, {"thinking": False})
    assert question["messages"] == [{"role": "user", "content": "Write f."}]
    assert (question["temperature"], question["max_tokens"], question["stream"]) == (0, 700, True)
    assert question["chat_template_kwargs"] == {"thinking": False}
    assert "chat_template_kwargs" not in chat_question("Write f.", 700, {})


def test_a_stream() -> None:
    usage = json.dumps({"choices": [], "usage": {"completion_tokens": 3}})
    reply = absorbed(
        chunk(role="assistant", content=""), chunk(content="de"), chunk("stop", content="f"), usage, "[DONE]"
    )
    assert (reply.text, reply.finish_reason, reply.usage_tokens, reply.error) == ("def", "stop", 3, None)
    assert reply.first_s == 1.0


def test_a_reply_that_is_not_streamed() -> None:
    reply = absorbed(whole({"role": "assistant", "content": "def"}, "length", usage={"completion_tokens": 1}))
    assert (reply.text, reply.finish_reason, reply.usage_tokens, reply.error) == ("def", "length", 1, None)


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        ([chunk(reasoning_content="hm"), chunk("stop", content="def")], "<think>\nhm\n</think>\ndef"),
        ([chunk("length", reasoning_content="hm")], "<think>\nhm"),
        ([whole({"reasoning_content": "hm", "content": None})], "<think>\nhm"),
        ([whole({"reasoning_content": None, "content": "def"})], "def"),
        ([whole({"content": ""})], ""),
        ([whole(None)], ""),
    ],
)
def test_reasoning_is_kept_apart(pieces: list[str | bytes], text: str) -> None:
    reply = absorbed(*pieces)
    assert (reply.text, reply.error) == (text, None)


@pytest.mark.parametrize(
    ("pieces", "error"),
    [
        ([], "without a single chunk"),
        (["[DONE]"], "without a single chunk"),
        ([chunk(content="de")], "ended early"),
        ([chunk(content="de"), '{"error": {"message": "out of memory"}}'], "out of memory"),
        (['{"object": "error", "message": "no chat template", "code": 400}'], "no chat template"),
        (["{"], "not JSON"),
        (["[]"], "not an object but list"),
        (["null"], "not an object"),
        (['{"text": "x"}'], "no choices in the reply"),
        (['{"choices": [7]}'], "a choice that is no object"),
        ([chunk("abort", content="x")], "aborted"),
    ],
)
def test_what_is_no_answer_is_an_error(pieces: list[str | bytes], error: str) -> None:
    assert error in (absorbed(*pieces).error or "")


def test_what_came_before_an_error_is_kept() -> None:
    assert absorbed(chunk(content="de"), '{"error": "x"}').text == "de"


def test_half_of_a_surrogate_pair_can_be_stored() -> None:
    (absorbed(chunk("stop", content="\ud83d")).text or "").encode()


def task(name: str, question: str) -> dict[str, Any]:
    return {"id": name, "text": question, "input_ids": None}


def test_tasks_are_asked_of_a_server(lab: Any) -> None:
    lab.checks[-1] |= {"check": "coding", "max_new_tokens": 1024, "concurrency": [2]}
    lab.tasks = [task("merge-intervals", "Write `merge_intervals(intervals)`."), task("other", "Say something.")]
    assert lab.run() == 0
    evidence = lab.check("coding")
    assert evidence["complete"]
    answers = {request["prompt"]: request for request in evidence["requests"]}
    assert set(answers) == {"merge-intervals", "other"}
    asked = answers["merge-intervals"]
    assert (asked["error"], asked["status"], asked["finish_reason"], asked["output_ids"]) == (None, 200, "stop", [])
    assert "def merge_intervals" in asked["output_text"]
    assert asked["usage_tokens"] > 20
    assert (answers["other"]["finish_reason"], answers["other"]["usage_tokens"]) == ("length", 1024)
