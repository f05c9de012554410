"""`throughput` and `load` from the attempt program's side: what is sent, in which rounds, and what is stored."""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from attempt import counters, peer
from attempt.counters import Counters
from attempt.load import plan
from attempt.step import Check, Prompt, read_step
from attempt.throughput import round_size, settled

from tests.unit.payload.attempt.conftest import Lab, check

REPEATS = {"warm_up": 1, "at_least": 2, "at_most": 4, "relative": 0.5}
PROMPTS = tuple(Prompt(id=f"p{n}", text=None, input_ids=(n,)) for n in range(20))


def rounds(evidence: dict[str, Any]) -> dict[tuple[int, int], int]:
    """(concurrency, repeat) -> requests"""
    return dict(Counter((request["concurrency"], request["repeat"]) for request in evidence["requests"]))


def test_levels_are_measured_in_rounds_and_the_servers_counters_agree(lab: Lab) -> None:
    lab.checks = [check("throughput", max_new_tokens=24, concurrency=[1, 4], repeats=REPEATS)]
    assert lab.run() == 0
    evidence = lab.check("throughput")
    assert (evidence["complete"], evidence["stopped_because"]) == (True, None)
    sent = rounds(evidence)
    assert (sent[1, 0], sent[1, 1], sent[1, 2]) == (1, 2, 2)
    assert (sent[4, 0], sent[4, 1], sent[4, 2]) == (4, 8, 8)
    assert max(repeat for _, repeat in sent) <= 4
    assert {(count["concurrency"], count["repeat"]) for count in evidence["counts"]} == set(sent)
    for count in evidence["counts"]:
        assert count["finished_requests"] == sent[count["concurrency"], count["repeat"]]
        assert count["generated_tokens"] == 24 * count["finished_requests"]
    for request in evidence["requests"]:
        assert request["asked_tokens"] == len(request["output_ids"]) == request["usage_tokens"] == 24
        assert request["begun_s"] <= request["first_token_s"] <= request["ended_s"]


def test_without_repeats_each_level_is_measured_once(lab: Lab) -> None:
    lab.checks = [check("throughput", concurrency=[1, 2])]
    assert lab.run() == 0
    assert rounds(lab.check("throughput")) == {(1, 1): 2, (2, 1): 4}


def test_rounds_end_with_the_time_that_there_is(lab: Lab) -> None:
    endless = {"warm_up": 0, "at_least": 50_000, "at_most": 100_000, "relative": 1e-9}
    lab.checks = [check("throughput", concurrency=[1, 2], repeats=endless, limit_s=3.0)]
    assert lab.run() == 0
    evidence = lab.check("throughput")
    assert evidence["complete"], "the limit ends rounds, it does not cut one off"
    assert {level for level, _ in rounds(evidence)} == {1, 2}
    ended = next(entry for entry in lab.timeline() if entry["event"] == "check-ended")
    assert "the limit left no time for more rounds at concurrency 1" in ended["detail"]


def test_load_joins_leaves_and_gives_up(lab: Lab) -> None:
    lab.checks = [check("load", max_new_tokens=48, concurrency=[3, 5], cancel_every=3)]
    assert lab.run() == 0
    evidence = lab.check("load")
    assert evidence["complete"]
    assert rounds(evidence) == {(3, 1): 6, (5, 1): 10}
    given_up = [request for request in evidence["requests"] if request["cancelled"]]
    assert given_up
    for request in given_up:
        assert request["error"] is None
        assert 0 < len(request["output_ids"]) < request["asked_tokens"]
    whole = [request for request in evidence["requests"] if not request["cancelled"]]
    assert all(len(request["output_ids"]) == request["asked_tokens"] for request in whole)
    assert len({request["asked_tokens"] for request in whole}) > 3
    first = min(evidence["requests"], key=lambda request: request["begun_s"])
    others = [request["begun_s"] for request in evidence["requests"] if request is not first]
    assert min(others) > first["first_token_s"], "streams join once those before them are generating"


@pytest.mark.parametrize("concurrency", [1, 2, 3, 7, 33, 100])
@pytest.mark.parametrize("cancel_every", [None, 2, 5])
def test_what_load_sends(concurrency: int, cancel_every: int | None) -> None:
    jobs = plan(PROMPTS, concurrency, most=256, cancel_every=cancel_every)
    assert len(jobs) == max(20, 2 * concurrency)
    tail = jobs[-concurrency:]
    assert [job.tokens for job in tail] == sorted(job.tokens for job in tail), "the batch shrinks one by one"
    assert tail[-1].tokens == 256
    assert all(job.give_up_at is None for job in tail)
    given_up = [job for job in jobs if job.give_up_at is not None]
    assert bool(given_up) is (cancel_every is not None)
    assert all(2 <= job.tokens <= 256 for job in jobs)
    assert all(0 < (job.give_up_at or 0) < job.tokens for job in given_up)
    assert jobs == plan(PROMPTS, concurrency, most=256, cancel_every=cancel_every)


def test_round_sizes() -> None:
    assert [round_size(4, level) for level in (1, 2, 8)] == [4, 4, 16]


def test_settled_needs_two_rounds_that_agree() -> None:
    assert not settled([100.0], 1.0)
    assert settled([100.0, 100.1], 0.01)
    assert not settled([100.0, 110.0], 0.1)
    assert settled([100.0, 101.0, 99.0, 100.0] * 10, 0.01)


METRICS = """# HELP sglang:generation_tokens_total Number of generation tokens processed.
sglang:generation_tokens_total{engine_type="unified",is_streaming="false",model_name="a } b"} 152.0
sglang:generation_tokens_total{engine_type="unified",is_streaming="true",model_name="m"} 2.4e+01
sglang:generation_tokens_total_created{model_name="m"} 1.7e9
sglang:num_requests_total 7.0
"""


def test_counters_are_summed_over_labels() -> None:
    assert counters.parse(METRICS) == Counters(tokens=176, requests=7)
    assert counters.parse("") == Counters(tokens=None, requests=None)
    assert counters.parse("sglang:num_requests_total NaN\nsglang:generation_tokens_total x\n") == Counters(
        tokens=None, requests=None
    )


def test_the_recorded_metrics_of_the_real_server() -> None:
    text = (Path(__file__).parents[3] / "data" / "sglang-0.5.23" / "b16t8-metrics.txt").read_text()
    assert counters.parse(text) == Counters(tokens=176, requests=9)


def test_a_counter_that_appears_began_at_zero() -> None:
    before, after = Counters(tokens=None, requests=3), Counters(tokens=5, requests=None)
    assert after.since(before) == Counters(tokens=5, requests=None)
    assert Counters(tokens=5, requests=5).since(Counters(tokens=7, requests=1)) == Counters(tokens=0, requests=4)


# --- the peer ---------------------------------------------------------------------------------------------------------


def test_an_engine_without_the_peer_gives_its_reason_and_no_failure(lab: Lab) -> None:
    lab.checks = [check("throughput", concurrency=[2], peer="sglang.bench_serving")]
    assert lab.run() == 0
    evidence = lab.check("throughput")
    assert evidence["complete"]
    said = (lab.evidence / "bench_serving" / "2.txt").read_text()
    assert "No module named" in said
    ended = next(entry for entry in lab.timeline() if entry["event"] == "check-ended")
    assert ended["detail"] == "sglang.bench_serving ended with status 1 (2.txt)"


def test_the_peer_gets_the_same_prompts_where_they_are_text_else_ids_of_their_length(lab: Lab, tmp_path: Path) -> None:
    lab.argv = [sys.executable, "-m", "sglang.launch_server", "--model-path", "/m", "--tokenizer-path=/t"]
    lab.folder.mkdir()
    (lab.folder / "step.json").write_text(json.dumps(lab.step()))
    step = read_step(lab.folder / "step.json")
    asked = Check(name="throughput", prompts=2, max_new_tokens=9, concurrency=(4,), margins=False, limit_s=1.0)
    words = peer.arguments(step, asked, 4, 8, tmp_path)
    told = dict(zip(words[::2], words[1::2], strict=False))
    assert (told["--model"], told["--tokenizer"]) == ("/m", "/t")
    joined = " ".join(words)
    assert "--random-input-len 3 --random-output-len 9" in joined
    assert "--tokenize-prompt" in words
    assert "--num-prompts 8 --max-concurrency 4" in joined
    texts = tuple(Prompt(id=f"t{n}", text=f"say {n}", input_ids=None) for n in range(2))
    words = peer.arguments(type(step)(**{**_fields(step), "prompts": texts}), asked, 4, 3, tmp_path)
    assert "--dataset-name custom" in " ".join(words)
    lines = [json.loads(line) for line in (tmp_path / "prompts.jsonl").read_text().splitlines()]
    assert [line["conversations"][0]["content"] for line in lines] == ["say 0", "say 1", "say 0"]


def _fields(record: Any) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__dataclass_fields__}
