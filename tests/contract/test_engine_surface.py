"""What the harness relies on in an engine, asked of the simulated server and of the real one alike.

The simulated server is only worth as much as this suite: a test of the harness that passes against it means something
because the same surface was found on the real server.
"""

import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from attempt.counters import Counters, parse
from attempt.reply import Reply
from simulated.answers import Wish, answer
from simulated.engine import Sequence
from simulated.log import TEXTS

from matrix.engines.readiness import phase_marks

RECORDED = Path(__file__).parents[1] / "data" / "sglang-0.5.23"
META = {"id", "finish_reason", "prompt_tokens", "completion_tokens", "cached_tokens"}
SPECULATION = {
    "spec_accept_length",
    "spec_accept_rate",
    "spec_verify_ct",
    "spec_num_correct_drafts",
    "spec_num_proposed_drafts",
    "spec_correct_drafts_histogram",
}


TELLING = re.compile(
    r"SIGQUIT received|kill_process_tree called|crashed with exit code|Scheduler hit an exception|Scheduler debug info"
    r"|Fatal Python error: Segmentation fault|Scheduler watchdog timeout|CUDA error: an illegal memory access"
)


def together(engine: Any, prompts: list[list[int]], **more: Any) -> list[Any]:
    with ThreadPoolExecutor(len(prompts)) as pool:
        return list(pool.map(lambda prompt: engine.generate(prompt, **more), prompts))


@pytest.mark.parametrize("path", ["/health", "/health_generate", "/ready"])
def test_health(engine, path):
    assert engine.ask("GET", path) == (200, b"")


def test_the_log_tells_the_phases(engine):
    log, at = engine.log.read_text(errors="replace"), 0
    for mark in phase_marks("0.5.23"):
        places = [place for text in mark.texts if (place := log.find(text, at)) >= 0]
        if mark.phase == "graph_capture" and engine.name == "real":
            assert not places  # there are no graphs on a CPU
        else:
            at = min(places)
    assert log.find("The server is fired up and ready to roll!", at) > 0


@pytest.mark.parametrize("path", ["/model_info", "/get_model_info"])
def test_model_info(engine, path):
    info = engine.json("GET", path)
    assert info["is_generation"] is True
    assert info["model_path"]


def test_models(engine):
    models = engine.json("GET", "/v1/models")
    assert models["object"] == "list"
    assert models["data"][0]["id"]


@pytest.mark.parametrize("path", ["/server_info", "/get_server_info"])
def test_server_info_proves_the_configuration(engine, path):
    info = engine.json("GET", path)
    assert info["version"]
    assert info["speculative_algorithm"] == "DDTREE"
    assert info["speculative_num_draft_tokens"] == 17
    assert info["speculative_eagle_topk"] == 8
    assert info["enable_nccl_nvls"] is False
    (state,) = info["internal_states"]
    assert isinstance(state["decode_cuda_graph_bs"], list)
    assert {"prefill", "decode", "target_verify"} <= set(state["memory_usage"]["graph"])
    assert state["cuda_graph_config"]["decode"]["backend"] in ("full", "disabled")
    assert state["effective_max_running_requests_per_dp"] >= 1


def test_the_average_acceptance_starts_over_with_an_empty_cache(engine):
    engine.generate(engine.prompts[0])
    (state,) = engine.json("GET", "/server_info")["internal_states"]
    assert 1 <= state["avg_spec_accept_length"] <= 17
    assert engine.ask("POST", "/flush_cache")[0] == 200
    (state,) = engine.json("GET", "/server_info")["internal_states"]
    assert "avg_spec_accept_length" not in state


def test_metrics_count_passes_by_graph(engine):
    def passes() -> dict[str, float]:
        _, content = engine.ask("GET", "/metrics")
        found = re.findall(
            r'^sglang:cuda_graph_passes_total\{.*mode="(\w+)".*\} (\S+)$', content.decode(), re.MULTILINE
        )
        return {mode: float(count) for mode, count in found}

    engine.generate(engine.prompts[0])
    before = passes()
    (decode,) = {"decode_none", "decode_cuda_graph"} & set(before)
    (state,) = engine.json("GET", "/server_info")["internal_states"]
    assert (decode == "decode_cuda_graph") is bool(state["decode_cuda_graph_bs"])
    calls = engine.generate(engine.prompts[1])["meta_info"]["spec_verify_ct"]
    assert passes()[decode] - before[decode] >= calls


def test_metrics_of_speculation(engine):
    engine.generate(engine.prompts[0])
    names = set(re.findall(r"^(sglang:\w+)", engine.ask("GET", "/metrics")[1].decode(), re.MULTILINE))
    assert {
        "sglang:spec_accept_length",
        "sglang:spec_accept_rate",
        "sglang:spec_num_draft_tokens",
        "sglang:gen_throughput",
        "sglang:is_cuda_graph",
        "sglang:generation_tokens_total",
    } <= names


def test_metrics_count_requests_that_have_ended_and_their_tokens(engine):
    """As soon as the last reply has come, and streamed or not."""

    def counted() -> Counters:
        return parse(engine.ask("GET", "/metrics")[1].decode())

    engine.generate(engine.prompts[0])
    before = counted()
    engine.generate(engine.prompts[1], 24)
    engine.stream(engine.prompts[2], 40)
    together(engine, engine.prompts, count=16)
    tokens, requests = 24 + 40 + 16 * len(engine.prompts), 2 + len(engine.prompts)
    limit_s = time.monotonic() + 60
    while (gained := counted().since(before)) != Counters(tokens=tokens, requests=requests):
        assert time.monotonic() < limit_s, gained
        time.sleep(0.05)


def test_a_client_that_goes_away_ends_its_request(engine):
    """The engine becomes idle long before the answer could be whole, so that its cache can be emptied."""
    sampling = {"temperature": 0, "max_new_tokens": 4000, "ignore_eos": True}
    body = {"input_ids": engine.prompts[0], "sampling_params": sampling, "stream": True}
    before = parse(engine.ask("GET", "/metrics")[1].decode())
    connection = HTTPConnection("127.0.0.1", engine.port, timeout=120)
    connection.request("POST", "/generate", json.dumps(body), {"Content-Type": "application/json"})
    assert connection.getresponse().read(40).startswith(b"data: ")
    connection.close()
    limit_s = time.monotonic() + 60
    while engine.ask("POST", "/flush_cache")[0] != 200:
        assert time.monotonic() < limit_s, "never idle again"
        time.sleep(0.05)
    tokens = parse(engine.ask("GET", "/metrics")[1].decode()).since(before).tokens
    assert tokens is None or tokens < 4000


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_flush_cache(engine, method):
    assert engine.ask(method, "/flush_cache")[0] == 200


def test_a_whole_reply(engine):
    reply = engine.generate(engine.prompts[0], 24)
    assert reply["meta_info"].keys() >= META | SPECULATION
    assert len(reply["output_ids"]) == reply["meta_info"]["completion_tokens"] == 24
    assert reply["meta_info"]["finish_reason"] == {"type": "length", "length": 24}
    assert reply["meta_info"]["prompt_tokens"] == len(engine.prompts[0])
    assert reply["text"]


def test_the_counters_of_speculation(engine):
    meta = engine.generate(engine.prompts[0], 24)["meta_info"]
    counts = meta["spec_correct_drafts_histogram"]
    assert sum(counts) == meta["spec_verify_ct"]
    assert sum(correct * count for correct, count in enumerate(counts)) == meta["spec_num_correct_drafts"]
    assert meta["spec_num_proposed_drafts"] == 16 * meta["spec_verify_ct"]
    assert meta["spec_accept_length"] == pytest.approx(24 / meta["spec_verify_ct"])
    brought = sum((correct + 1) * count for correct, count in enumerate(counts))
    assert 23 <= brought < 23 + 17  # the last step may accept more than was asked for


def test_a_streamed_reply(engine):
    whole = engine.generate(engine.prompts[0], 24)
    documents = engine.stream(engine.prompts[0], 24)
    last = documents[-1]
    assert (last["output_ids"], last["text"]) == (whole["output_ids"], whole["text"])
    assert last["meta_info"]["finish_reason"]["type"] == "length"
    assert last["meta_info"].keys() >= META | SPECULATION
    for earlier, later in pairwise(documents):
        assert earlier["meta_info"]["finish_reason"] is None
        assert later["output_ids"][: len(earlier["output_ids"])] == earlier["output_ids"]
        assert earlier["meta_info"]["completion_tokens"] <= len(earlier["output_ids"])
        assert "spec_verify_ct" not in earlier["meta_info"]
    assert 2 < len(documents) < 24  # several tokens in a chunk: chunks are no measure of tokens


def test_greedy_output_depends_on_the_prompt_alone(engine):
    alone = [engine.generate(prompt)["output_ids"] for prompt in engine.prompts]
    assert alone == [engine.generate(prompt)["output_ids"] for prompt in engine.prompts]
    assert alone == [reply["output_ids"] for reply in together(engine, engine.prompts)]
    assert len(set(map(tuple, alone))) == len(alone)


def test_the_client_of_the_attempt_program(engine):
    whole = engine.generate(engine.prompts[0], 12, return_logprob=True, top_logprobs_num=2)
    reply = Reply(len(engine.prompts[0]), margins=True)
    reply.absorb(json.dumps(whole), 0.0)
    reply.close()
    assert reply.error is None
    streamed = Reply(len(engine.prompts[0]), margins=False)
    for document in engine.stream(engine.prompts[0], 12):
        streamed.absorb(json.dumps(document), 0.0)
    streamed.close()
    assert (streamed.error, streamed.ids, streamed.text) == (None, reply.ids, reply.text)


def test_log_probabilities(engine):
    meta = engine.generate(engine.prompts[0], 12, return_logprob=True, top_logprobs_num=2)["meta_info"]
    assert meta["output_token_logprobs_length"] == len(meta["output_token_logprobs"]) == 12
    for (value, token, _), top in zip(meta["output_token_logprobs"], meta["output_top_logprobs"], strict=True):
        (first, first_token, _), (second, second_token, _) = top
        assert first >= second
        assert first_token != second_token
        assert (value, token) == (first, first_token)
    assert meta["input_token_logprobs"] == []


def rescored(engine: Any, prompt: list[int], output: list[int]) -> list[float]:
    """For each output token, how far its log-probability is below that of the best one."""
    begin = len(prompt) - 1
    asked = {"return_logprob": True, "logprob_start_len": begin, "top_logprobs_num": 2}
    meta = engine.generate(prompt + output, 1, **asked)["meta_info"]
    own, top = meta["input_token_logprobs"], meta["input_top_logprobs"]
    assert len(own) == len(top) == len(output) + 1
    assert (own[0][0], own[0][1], top[0]) == (None, prompt[-1], None)
    assert [token for _, token, _ in own[1:]] == output
    return [pair[0][0] - value for (value, _, _), pair in zip(own[1:], top[1:], strict=True)]


def test_a_text_can_be_rescored(engine):
    prompt = engine.prompts[0]
    output = engine.generate(prompt, 24)["output_ids"]
    engine.ask("POST", "/flush_cache")
    assert max(rescored(engine, prompt, output)) < 1e-3
    spoiled = [*output[:10], output[10] + 1, *output[11:]]
    gaps = rescored(engine, prompt, spoiled)
    assert max(gaps[:10]) < 1e-3
    assert gaps[10] > 0.5


@pytest.mark.parametrize("body", [{"input_ids": []}, {}])
def test_requests_that_are_refused(engine, body):
    status, content = engine.ask("POST", "/generate", body)
    assert status == 400
    assert json.loads(content)["error"]["message"]


def test_requests_can_be_aborted(engine):
    assert engine.ask("POST", "/abort_request", {"rid": "", "abort_all": True})[0] == 200


def test_completions(engine):
    body = {"model": "any", "prompt": engine.prompts[0], "max_tokens": 8, "temperature": 0, "ignore_eos": True}
    reply = engine.json("POST", "/v1/completions", body)
    assert reply["object"] == "text_completion"
    assert reply["choices"][0]["text"] == engine.generate(engine.prompts[0], 8)["text"]
    assert reply["choices"][0]["finish_reason"] == "length"
    assert reply["usage"]["completion_tokens"] == 8


def test_chat(engine):
    body = {"model": "any", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 8, "temperature": 0}
    reply = engine.json("POST", "/v1/chat/completions", body | {"ignore_eos": True})
    message = reply["choices"][0]["message"]
    assert (reply["object"], message["role"]) == ("chat.completion", "assistant")
    assert reply["usage"]["completion_tokens"] == 8


def test_streamed_chat(engine):
    body = {"model": "any", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 8, "temperature": 0}
    whole = engine.json("POST", "/v1/chat/completions", body | {"ignore_eos": True})
    _, content = engine.ask("POST", "/v1/chat/completions", body | {"ignore_eos": True, "stream": True})
    chunks = engine.events(content)
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    text = "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"])
    assert text == whole["choices"][0]["message"]["content"]


def healthy_ids(engine: Any) -> list[list[int]]:
    return [reply["output_ids"] for reply in together(engine, engine.prompts, count=48)]


@pytest.mark.parametrize("fault", ["stale-mask", "causal-mask", "wrong-token:20", "wrong-late:50"])
def test_faults_that_spoil_the_text(engine, fault):
    right = healthy_ids(engine)
    engine.fault(fault)
    wrong = healthy_ids(engine)
    assert sum(left != other for left, other in zip(right, wrong, strict=True)) >= 3


def test_the_end_alone_is_wrong(engine):
    right = engine.generate(engine.prompts[0], 40)["output_ids"]
    engine.fault("wrong-late:75")
    wrong = engine.generate(engine.prompts[0], 40)["output_ids"]
    assert right[:30] == wrong[:30]
    assert right[30:] != wrong[30:]


def test_wrong_only_together(engine):
    right = [engine.generate(prompt, 48)["output_ids"] for prompt in engine.prompts]
    engine.fault("wrong-at-concurrency:3")
    assert [engine.generate(prompt, 48)["output_ids"] for prompt in engine.prompts] == right
    assert healthy_ids(engine) != right


def test_useless_trees_leave_the_text_and_take_the_speed(engine):
    right = engine.generate(engine.prompts[0], 24)["output_ids"]
    engine.fault("useless-trees")
    reply = engine.generate(engine.prompts[0], 24)
    assert reply["output_ids"] == right
    assert reply["meta_info"]["spec_correct_drafts_histogram"] == [23]


def test_nan_is_token_zero(engine):
    engine.fault("nan:4")
    reply = engine.generate(engine.prompts[0], 48)
    assert set(reply["output_ids"][-10:]) == {0}


def test_success_without_tokens(engine):
    engine.fault("no-tokens")
    reply = engine.generate(engine.prompts[0], 24)
    assert reply["output_ids"] == []
    assert reply["meta_info"]["completion_tokens"] == 0
    assert reply["meta_info"]["finish_reason"]["type"] == "length"


# --- what needs no server: the simulation beside the recordings -------------------------------------------------------


@pytest.mark.parametrize("fault", ["segfault", "sigkill", "exit", "host-hang", "scheduler-exception"])
def test_deaths_read_like_recorded_ones(fault):
    """Each telling line of the simulated text occurs in the recorded log; paths, numbers and frames aside."""
    recorded = (RECORDED / f"b16t8-{fault}-server.log").read_text(errors="replace")
    told = TELLING.findall((TEXTS / f"{fault}.log").read_text())
    assert "SIGQUIT received" in told
    assert [line for line in told if line not in recorded] == []


def test_the_simulation_invents_no_field():
    sequence = Sequence(id="a", prompt=[1], max_new_tokens=1, ids=[2], verify_calls=1, histogram=[1], finished="length")
    wish = Wish(width=17, incremental=False, logprobs=True, top=2, logprob_start=0)
    recorded = json.loads((RECORDED / "b16t8-generate-logprobs.json").read_text())
    ours = answer(sequence, wish, 0)
    assert ours.keys() == recorded.keys()
    assert ours["meta_info"].keys() <= recorded["meta_info"].keys()
