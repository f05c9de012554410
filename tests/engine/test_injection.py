"""What each planted fault does to a step, without a server."""

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="runs in the engine environment: nox -s engine-cpu")
pytestmark = pytest.mark.engine

from graphrepro_ddtree import faults, injection  # noqa: E402


class Source:
    """A fault that the test may change."""

    def __init__(self, text):
        self.text = text

    def read(self):
        return faults.parse(self.text)


def request(done=0, wanted=100):
    return SimpleNamespace(output_ids=[0] * done, sampling_params=SimpleNamespace(max_new_tokens=wanted))


def batch(*requests, verify=True):
    mode = SimpleNamespace(is_decode=lambda: not verify, is_target_verify=lambda: verify)
    return SimpleNamespace(reqs=list(requests), forward_mode=mode)


def prefill(*requests):
    mode = SimpleNamespace(is_decode=lambda: False, is_target_verify=lambda: False)
    return SimpleNamespace(reqs=list(requests), forward_mode=mode)


def injector(text, algorithm="DDTREE"):
    made = injection.Injector()
    made.watch(Source(text))
    made.serve(algorithm)
    return made


def step(made, one, tokens=0, rows=2):
    """One step; returns the requests whose first row no longer says token 1."""
    made.before_forward(one)
    logits = torch.tensor([0.0, 5.0, 4.0, -1.0]).repeat(len(one.reqs) * rows, 1)
    made.spoil_logits(logits)
    made.count(tokens)
    said = logits.argmax(dim=-1).view(len(one.reqs), rows)
    assert (said[:, 1:] == said[0, 1]).all()
    return [at for at in range(len(one.reqs)) if said[at, 0] != 1]


def test_without_a_source_nothing_happens():
    made = injection.Injector()
    assert step(made, batch(request())) == []
    assert not made.is_active("nan")


def test_wrong_token_keeps_its_distance():
    made = injector("wrong-token:10")
    wrong = [bool(step(made, batch(request()), tokens=3)) for _ in range(12)]
    assert wrong == [False] * 4 + [True] + [False] * 2 + [True] + [False] * 2 + [True, False]


def test_wrong_token_is_the_second_choice():
    made = injector("wrong-token:1")
    one = batch(request(), verify=False)
    made.before_forward(one)
    made.count(1)
    made.before_forward(one)
    logits = torch.tensor([[0.0, 5.0, 4.0, -1.0]])
    made.spoil_logits(logits)
    assert logits.argmax() == 2


def test_prefill_is_left_alone():
    made = injector("nan:1")
    assert step(made, prefill(request())) == []


def test_concurrency_matters():
    made = injector("wrong-at-concurrency:3")
    assert not any(step(made, batch(request(), request()), tokens=9) for _ in range(9))
    together = batch(request(), request(), request())
    assert [len(step(made, together, tokens=9)) for _ in range(4)] == [0, 0, 1, 1]


def test_late_tokens_are_wrong_for_each_request():
    made = injector("wrong-late:90")
    assert step(made, batch(request(89), request(90), request(9, 10))) == [1, 2]


def test_nan_begins_at_its_step():
    made = injector("nan:2")
    one = batch(request())
    for number in (1, 2, 3):
        made.before_forward(one)
        logits = torch.zeros(4, 3)
        made.spoil_logits(logits)
        assert logits.isnan().all() == (number >= 2)


def test_exception_at_its_step():
    made = injector("scheduler-exception:2")
    made.before_forward(batch(request()))
    made.before_forward(prefill(request()))
    with pytest.raises(RuntimeError, match="an illegal memory access was encountered") as error:
        made.before_forward(batch(request()))
    assert "no GPU is involved" in str(error.value)


def test_a_change_starts_counting_anew():
    made = injection.Injector()
    source = Source("")
    made.watch(source)
    made.serve(None)
    for _ in range(5):
        made.before_forward(batch(request()))
    source.text = "scheduler-exception:2"
    made.before_forward(batch(request()))
    with pytest.raises(RuntimeError):
        made.before_forward(batch(request()))


def test_an_impossible_fault_is_refused():
    with pytest.raises(faults.FaultError):
        injector("useless-trees", algorithm=None)


def info(mask, rows=3, count=2):
    return SimpleNamespace(draft_token_num=rows, draft_token=torch.arange(rows * count) + 10, custom_mask=mask)


def test_useless_trees_keep_their_roots():
    made, one = injector("useless-trees"), info(torch.zeros(18, dtype=torch.bool))
    made.spoil_tree(one, 2)
    assert one.draft_token.tolist() == [10, 3, 3, 13, 3, 3]


def test_causal_mask_is_causal_for_each_request():
    made, one = injector("causal-mask"), info(torch.zeros(18, dtype=torch.bool))
    made.spoil_tree(one, 2)
    assert one.custom_mask.view(2, 3, 3).tolist() == [torch.ones(3, 3).tril().bool().tolist()] * 2


def test_stale_mask_is_the_one_before_unless_its_size_changed():
    made = injector("stale-mask")
    masks = [torch.rand(18) > 0.5 for _ in range(3)]
    shown = []
    buffer = torch.empty(18, dtype=torch.bool)  # SGLang writes each step's mask into one buffer
    for mask in masks:
        buffer.copy_(mask)
        one = info(buffer)
        made.spoil_tree(one, 2)
        shown.append(one.custom_mask.clone())
    assert [s.tolist() for s in shown] == [masks[0].tolist(), masks[0].tolist(), masks[1].tolist()]
    small = info(torch.ones(9, dtype=torch.bool))
    made.spoil_tree(small, 1)
    assert small.custom_mask.all()
