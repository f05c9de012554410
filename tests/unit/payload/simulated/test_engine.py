"""The scheduler: equal text in all healthy configurations, and each fault that shows in tokens."""

import pytest
from simulated import death
from simulated.language import PLAIN, choose


def right(sequence, count=None):
    text = list(sequence.prompt)
    for _ in range(count or sequence.max_new_tokens):
        text.append(choose(text).first)
    return text[len(sequence.prompt) :]


def misplaced(sequence):
    """Where the output is not what the model says after the text before it, right or wrong."""
    text = sequence.prompt + sequence.ids
    start = len(sequence.prompt)
    return [at for at, token in enumerate(sequence.ids) if choose(text[: start + at]).first != token]


def per_step(sequence):
    return (len(sequence.ids) - 1) / sequence.verify_calls


@pytest.mark.parametrize("budget", [2, 7, 8, 12, 16, 32])
@pytest.mark.parametrize("graphs", [(), ("--cuda-graph-backend-decode", "disabled")])
def test_all_that_work_give_equal_text(bench, tree, budget, graphs):
    for sequence in bench.run(*tree(budget), *graphs, requests=5):
        assert sequence.ids == right(sequence)
        assert sequence.finished == "length"


def test_no_speculation(bench):
    (sequence,) = bench.run()
    assert sequence.ids == right(sequence)
    assert (sequence.verify_calls, sequence.histogram) == (0, [])
    assert bench.engine.counters.passes == {"prefill_none": 1, "decode_cuda_graph": 59}


def test_acceptance_rises_with_the_budget(bench, tree):
    means = []
    for budget in (8, 12, 16, 32):
        sequences = bench.run(*tree(budget), requests=20, tokens=200)
        means.append(sum(map(per_step, sequences)) / len(sequences))
    assert means == sorted(means)
    assert means[0] == pytest.approx(3.05, abs=0.2)
    assert means[-1] == pytest.approx(3.62, abs=0.2)


def test_the_counters_agree(bench, tree):
    (sequence,) = bench.run(*tree(16))
    assert sum(sequence.histogram) == sequence.verify_calls == bench.engine.counters.verify_calls
    brought = sum(count * (correct + 1) for correct, count in enumerate(sequence.histogram))
    assert brought == bench.engine.counters.accepted_tokens
    assert 59 <= brought <= 59 + 7


def test_a_request_does_not_depend_on_its_batch(bench, tree):
    alone = bench.run(*tree(16))[0]
    together = bench.run(*tree(16), requests=9)[0]
    assert (alone.ids, alone.histogram) == (together.ids, together.histogram)


def test_more_requests_than_may_run(bench, tree):
    sequences = bench.run(*tree(16), "--max-running-requests", "2", requests=7)
    assert all(sequence.ids == right(sequence) for sequence in sequences)


def test_graphs_up_to_a_batch_size(bench):
    bench.run("--cuda-graph-bs-decode", "1", "2", requests=3)
    assert "decode_cuda_graph" not in bench.engine.counters.passes


def test_silent_eager(bench, tree):
    bench.run(*tree(16), fault="silent-eager")
    assert "decode_cuda_graph" not in bench.engine.counters.passes
    assert bench.engine.configuration.graphs


@pytest.mark.parametrize(("fault", "acceptance"), [("stale-mask", 2.38), ("causal-mask", 2.51)])
def test_a_wrong_mask(bench, tree, fault, acceptance):
    sequences = bench.run(*tree(16), fault=fault, requests=12, tokens=200)
    assert all(sequence.ids != right(sequence) for sequence in sequences)
    assert sum(map(per_step, sequences)) / 12 == pytest.approx(acceptance, abs=0.3)


def test_useless_trees(bench, tree):
    (sequence,) = bench.run(*tree(16), fault="useless-trees")
    assert sequence.ids == right(sequence)
    assert sequence.histogram == [59]


def test_one_wrong_token_in_so_many(bench, tree):
    (sequence,) = bench.run(*tree(16), fault="wrong-token:20", tokens=100)
    assert misplaced(sequence) == [20, 40, 60, 80]
    assert per_step(sequence) > 2.5


def test_wrong_only_in_a_batch(bench, tree):
    assert all(
        misplaced(sequence) == [] for sequence in bench.run(*tree(16), fault="wrong-at-concurrency:4", requests=3)
    )
    together = bench.run(*tree(16), fault="wrong-at-concurrency:4", requests=4)
    assert sum(len(misplaced(sequence)) for sequence in together) > 5


def test_wrong_at_the_end(bench):
    (sequence,) = bench.run(fault="wrong-late:75", tokens=40)
    assert misplaced(sequence) == list(range(30, 40))


def test_nan_from_a_step_on(bench):
    (sequence,) = bench.run(fault="nan:10", tokens=20)
    assert sequence.ids == right(sequence, 10) + [0] * 10


def test_nan_from_padding(bench, tree):
    (sequence,) = bench.run(*tree(16), fault="nan-padding", tokens=20)
    assert sequence.ids == right(sequence, 1) + [0] * 19
    assert sequence.histogram == [19]


def test_garbled_text(bench, tree):
    (sequence,) = bench.run(*tree(16), fault="garbled:5")
    assert sequence.ids[:5] == right(sequence, 5)
    assert all(token >= PLAIN.stop for token in sequence.ids[5:])


def test_no_tokens(bench, tree):
    (sequence,) = bench.run(*tree(16), fault="no-tokens")
    assert (sequence.ids, sequence.finished) == ([], "length")


@pytest.mark.parametrize(
    "fault", ["scheduler-exception", "illegal-access", "pool-leak", "oom-serving", "sigkill", "segfault", "exit"]
)
def test_the_step_of_a_death(bench, monkeypatch, fault):
    class DeadError(Exception):
        pass

    def die(_log, text, **_values):
        raise DeadError(text)

    monkeypatch.setattr(death, "of_the_scheduler", die)
    with pytest.raises(DeadError, match=fault):
        bench.run(fault=f"{fault}:7")
    assert bench.engine.counters.passes["decode_cuda_graph"] == 6


def test_abort(bench):
    bench.run()
    bench.engine.abort(None)
    assert bench.engine.idle


def test_the_log_speaks_as_sglang_does(bench, tree):
    bench.run(*tree(16), "--decode-log-interval", "1")
    log = "".join(bench.log)
    assert "Prefill batch, #new-seq: 1, #new-token: 4," in log
    assert "accept len: " in log
    assert "cuda graph: True, gen throughput (token/s): " in log
