"""The shipped drafter, and that the shipped weights still do what their training recorded."""

import hashlib
import json

import pytest

torch = pytest.importorskip("torch", reason="runs in the engine environment: nox -s engine-cpu")
pytestmark = pytest.mark.engine

from graphrepro_ddtree import drafter  # noqa: E402


@pytest.fixture(scope="module")
def shipped(payload):
    return drafter.load(payload / "model" / "drafter")


@pytest.fixture(scope="module")
def prompts(payload):
    return [p["input_ids"] for p in json.loads((payload / "model" / "prompts.json").read_text())["prompts"]]


def test_marginals_are_distributions(shipped, prompts):
    logp = shipped.marginals(prompts[:3])
    assert logp.shape == (3, shipped.config.positions, shipped.config.vocab_size)
    assert torch.allclose(logp.exp().sum(-1), torch.ones(3, shipped.config.positions), atol=1e-4)


def test_a_batch_gives_what_each_request_gives_alone(shipped, prompts):
    histories = [prompts[0], prompts[1][:5], prompts[2][:1]]
    together = shipped.marginals(histories)
    for at, history in enumerate(histories):
        assert torch.allclose(together[at], shipped.marginals([history])[0], atol=1e-4)


def test_only_the_end_of_a_history_counts(shipped, prompts):
    long = (prompts[0] + prompts[1])[-80:]
    assert torch.equal(shipped.marginals([long]), shipped.marginals([long[-shipped.config.context :]]))


def test_saved_and_loaded_are_equal(shipped, prompts, tmp_path):
    drafter.save(shipped, tmp_path / "copy")
    again = drafter.load(tmp_path / "copy")
    assert again.config == shipped.config
    assert torch.equal(again.marginals(prompts[:1]), shipped.marginals(prompts[:1]))
    assert (tmp_path / "copy" / drafter.WEIGHTS_FILE).stat().st_mode & 0o777 == 0o644


@pytest.mark.slow
def test_weights_give_the_recorded_text_and_acceptance(payload, shipped, prompts):
    """Greedy text of transformers' own Qwen3, and the tokens per step that trees on it would give."""
    import train
    from transformers import Qwen3ForCausalLM

    torch.set_num_threads(1)
    recorded = json.loads((payload / "model" / "training.json").read_text())
    target = Qwen3ForCausalLM.from_pretrained(payload / "model").eval()
    references = []
    for prompt in prompts:
        made = target.generate(torch.tensor([prompt]), max_new_tokens=96, min_new_tokens=96, do_sample=False)
        output = made[0, len(prompt) :].tolist()
        references.append(train.Reference(place=0, prompt=prompt, output=output, smallest_gap=1.0, distinct_8grams=1.0))
    text = json.dumps([reference.output for reference in references])
    assert hashlib.sha256(text.encode()).hexdigest() == recorded["prompts"]["reference_sha256"]
    for budget, top_k in train.BUDGETS:
        predicted = train.tokens_per_step(shipped, references, budget, top_k)
        assert predicted == pytest.approx(recorded["predicted_tokens_per_step"][f"b{budget}t{top_k}"], abs=0.02)
