"""Train the shipped target (a tiny Qwen3) and its block drafter, choose the prompts, and write all that is shipped.

    OMP_NUM_THREADS=1 <engine environment>/bin/python train.py OUT

Seeds and step counts are fixed; the text is the standard library's own documentation, which differs between patch
versions of Python, so `training.json` records its digest beside the losses. About six minutes on one core.
"""

import argparse
import hashlib
import json
import platform
import pydoc_data.topics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import safetensors
import tokenizers
import torch
import transformers
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

sys.path.insert(0, str(Path(__file__).resolve().parent / "plugin"))
from graphrepro_ddtree import drafter as drafting
from graphrepro_ddtree import tree as trees

SPECIAL_TOKENS = ("<pad>", "<bos>", "<eos>", "<mask>")
WINDOW = 192
BUDGETS = ((7, 1), (8, 4), (12, 4), (16, 8), (32, 8))  # (budget, top-k): what the shipped specification runs


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """Everything that decides the weights, beside the text and the library versions."""

    vocab_size: int = 512
    target_seed: int = 11
    target_steps: int = 700
    target_batch: int = 8
    target_rate: float = 4e-3
    imitation_seed: int = 12
    imitation_rounds: int = 8
    imitation_batch: int = 256
    drafter_seed: int = 13
    drafter_steps: int = 860
    drafter_rate: float = 3e-3
    drafter_greedy_rows: int = 24  # per batch, from the target's own greedy text
    drafter_text_rows: int = 8  # per batch, from the training text
    threads: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptRule:
    """Which held-out windows become prompts: candidates at even distances, in order, that pass both conditions."""

    count: int = 20
    candidates: int = 120
    shortest: int = 48
    length_step: int = 7
    length_kinds: int = 5
    new_tokens: int = 96
    smallest_gap: float = 5e-3  # between the first and the second choice's log-probability, at every reference token
    distinct_8grams: float = 0.6  # share of different 8-grams in the reference output: no loops


def split_text() -> tuple[str, str]:
    """(training text, held-out text): every eighth topic is held out."""
    topics = [pydoc_data.topics.topics[name] for name in sorted(pydoc_data.topics.topics)]
    return "\n".join(t for at, t in enumerate(topics) if at % 8 != 7), "\n".join(topics[7::8])


def make_tokenizer(text: str, vocab_size: int) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer trained on `text`; the four special tokens come first."""
    bpe = tokenizers.Tokenizer(tokenizers.models.BPE())
    bpe.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator([text], trainer)
    pad, bos, eos, mask = SPECIAL_TOKENS
    fast = PreTrainedTokenizerFast(
        tokenizer_object=bpe, pad_token=pad, bos_token=bos, eos_token=eos, mask_token=mask, model_max_length=2048
    )
    fast.chat_template = "{% for message in messages %}{{ message['content'] }}\n{% endfor %}"
    return fast


def windows(data: Tensor, length: int, count: int, seed: int) -> Iterator[Tensor]:
    """Endless batches [count, length] cut from `data` at random places."""
    source = torch.Generator().manual_seed(seed)
    while True:
        starts = torch.randint(0, len(data) - length, (count,), generator=source)
        yield torch.stack([data[start : start + length] for start in starts])


def fit(
    parameters: Iterable[Tensor], next_loss: Callable[[], Tensor], *, steps: int, rate: float, name: str
) -> dict[str, float]:
    """Trains with AdamW, a short warm-up and a linear decay; returns the facts worth recording."""
    tensors = list(parameters)
    optimizer = torch.optim.AdamW(tensors, lr=rate, weight_decay=0.05, betas=(0.9, 0.98))
    began = time.monotonic()
    recent: list[float] = []
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1.0, (step + 1) / 40) * (1 - step / steps) + 1e-5
        loss = next_loss()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(tensors, 1.0)
        optimizer.step()
        recent = [*recent[-49:], loss.item()]
        if step % 100 == 0:
            print(f"{name}: step {step} of {steps}, loss {recent[-1]:.3f}", file=sys.stderr, flush=True)
    return {
        "parameters": sum(tensor.numel() for tensor in tensors),
        "mean_loss_of_last_50_steps": round(sum(recent) / len(recent), 4),
        "seconds": round(time.monotonic() - began, 1),
    }


def train_target(
    data: Tensor, tokenizer: PreTrainedTokenizerFast, recipe: Recipe
) -> tuple[Qwen3ForCausalLM, dict[str, float]]:
    """The target, trained on `data`, and its facts."""
    torch.manual_seed(recipe.target_seed)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=160,
        intermediate_size=448,
        num_hidden_layers=4,
        num_attention_heads=6,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    model = Qwen3ForCausalLM(config)
    stream = windows(data, WINDOW + 1, recipe.target_batch, recipe.target_seed)

    def loss() -> Tensor:
        rows = next(stream)
        return functional.cross_entropy(model(rows[:, :-1]).logits.flatten(0, 1), rows[:, 1:].flatten())

    facts = fit(model.parameters(), loss, steps=recipe.target_steps, rate=recipe.target_rate, name="target")
    return model.eval(), facts


@torch.inference_mode()
def loss_on(model: Qwen3ForCausalLM, ids: Tensor) -> float:
    """Mean loss per token on consecutive windows of `ids`."""
    count = min(24, len(ids) // (WINDOW + 1))
    rows = ids[: count * (WINDOW + 1)].view(count, WINDOW + 1)
    return float(functional.cross_entropy(model(rows[:, :-1]).logits.flatten(0, 1), rows[:, 1:].flatten()))


@torch.inference_mode()
def greedy_texts(model: Qwen3ForCausalLM, data: Tensor, recipe: Recipe, context: int) -> Tensor:
    """Rows of `context` training tokens followed by the target's own greedy text: what the drafter must predict."""
    stream = windows(data, context, recipe.imitation_batch, recipe.imitation_seed)
    made = [
        model.generate(next(stream), max_new_tokens=96, min_new_tokens=96, do_sample=False)
        for _ in range(recipe.imitation_rounds)
    ]
    return torch.cat(made)


def train_drafter(
    data: Tensor, greedy: Tensor, vocab_size: int, recipe: Recipe
) -> tuple[drafting.BlockDrafter, dict[str, float]]:
    """The drafter, three quarters of each batch from the target's own greedy text, and its facts."""
    torch.manual_seed(recipe.drafter_seed)
    model = drafting.BlockDrafter(drafting.DrafterConfig(vocab_size=vocab_size))
    context, positions = model.config.context, model.config.positions
    span = context + positions
    source = torch.Generator().manual_seed(recipe.drafter_seed)
    text_rows = windows(data, span, recipe.drafter_text_rows, recipe.drafter_seed + 1)

    def loss() -> Tensor:
        picks = torch.randint(0, len(greedy), (recipe.drafter_greedy_rows,), generator=source)
        starts = torch.randint(0, greedy.shape[1] - span + 1, (recipe.drafter_greedy_rows,), generator=source)
        own = torch.stack([greedy[row, at : at + span] for row, at in zip(picks, starts, strict=True)])
        rows = torch.cat([own, next(text_rows)])
        # every second place of the later half: its history is long enough, and neighbours teach nearly the same
        hidden = model.encode(rows[:, :context])[:, context // 2 :: 2]
        parts = []
        for position in range(positions):
            wanted = rows[:, context // 2 + 1 + position : context + 1 + position : 2]
            parts.append(
                functional.cross_entropy(model.position_logits(hidden, position).flatten(0, 1), wanted.flatten())
            )
        return torch.stack(parts).mean()

    facts = fit(model.parameters(), loss, steps=recipe.drafter_steps, rate=recipe.drafter_rate, name="drafter")
    return model.eval(), facts


@dataclass(frozen=True, kw_only=True, slots=True)
class Reference:
    """A candidate prompt, the target's greedy output, its smallest top-2 gap and its share of distinct 8-grams."""

    place: int
    prompt: list[int]
    output: list[int]
    smallest_gap: float
    distinct_8grams: float


@torch.inference_mode()
def candidates(model: Qwen3ForCausalLM, held_out: list[int], rule: PromptRule) -> list[Reference]:
    """Every candidate with its reference output, in the order of the held-out text."""
    longest = rule.shortest + rule.length_step * (rule.length_kinds - 1)
    stride = (len(held_out) - longest) // rule.candidates
    found: list[Reference] = []
    for kind in range(rule.length_kinds):  # equal lengths form one batch, which needs no padding
        places = range(kind, rule.candidates, rule.length_kinds)
        length = rule.shortest + rule.length_step * kind
        prompts = torch.tensor([held_out[at * stride : at * stride + length] for at in places])
        made = model.generate(
            prompts,
            max_new_tokens=rule.new_tokens,
            min_new_tokens=rule.new_tokens,
            do_sample=False,
            output_logits=True,
            return_dict_in_generate=True,
        )
        best = torch.stack(made.logits, dim=1).log_softmax(-1).topk(2, dim=-1).values
        gaps = (best[..., 0] - best[..., 1]).min(dim=1).values
        for row, place in enumerate(places):
            output = made.sequences[row, length:].tolist()
            grams = [tuple(output[at : at + 8]) for at in range(len(output) - 7)]
            found.append(
                Reference(
                    place=place,
                    prompt=prompts[row].tolist(),
                    output=output,
                    smallest_gap=float(gaps[row]),
                    distinct_8grams=len(set(grams)) / len(grams),
                )
            )
    return sorted(found, key=lambda reference: reference.place)


def choose(found: list[Reference], rule: PromptRule) -> list[Reference]:
    """The first `rule.count` candidates that pass; ValueError if there are too few."""
    passing = [r for r in found if r.smallest_gap >= rule.smallest_gap and r.distinct_8grams >= rule.distinct_8grams]
    if len(passing) < rule.count:
        raise ValueError(
            f"only {len(passing)} of {len(found)} candidates pass, {rule.count} are needed: loosen PromptRule"
        )
    return passing[: rule.count]


def tokens_per_step(drafter: drafting.BlockDrafter, references: list[Reference], budget: int, top_k: int) -> float:
    """Accepted tokens per verify step, bonus token included, from the known greedy text: no engine needed."""
    tokens = steps = 0
    for reference in references:
        done = 1  # the first output token comes from the prompt
        while done < len(reference.output):
            history = reference.prompt + reference.output[:done]
            best = drafter.marginals([history])[0].topk(top_k, dim=-1)
            tree = trees.build(best.values.numpy(), best.indices.numpy(), root=history[-1], budget=budget)
            rest = np.array(reference.output[done:], dtype=np.int64)
            gained = min(trees.accepted_path(tree, rest) + 1, len(rest))
            done, tokens, steps = done + gained, tokens + gained, steps + 1
    return tokens / steps


def versions() -> dict[str, str]:
    """What the weights depend on beside the recipe and the text."""
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "tokenizers": tokenizers.__version__,
        "safetensors": safetensors.__version__,
    }


def digest(text: str) -> str:
    """Hexadecimal SHA-256 of the text's UTF-8 form."""
    return hashlib.sha256(text.encode()).hexdigest()


def write(
    out: Path, *, target: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, drafter: drafting.BlockDrafter
) -> None:
    """Weights and tokenizer; the drafter in its own folder, for SGLang loads every weight file beside the target's."""
    target.save_pretrained(out)
    tokenizer.save_pretrained(out)
    drafting.save(drafter, out / "drafter")
    for file in out.glob("*.safetensors"):
        file.chmod(0o644)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, metavar="OUT", help="folder to write")
    parser.add_argument("--target-steps", type=int, default=Recipe().target_steps)
    parser.add_argument("--drafter-steps", type=int, default=Recipe().drafter_steps)
    arguments = parser.parse_args()
    recipe = Recipe(target_steps=arguments.target_steps, drafter_steps=arguments.drafter_steps)
    rule = PromptRule()
    torch.set_num_threads(recipe.threads)
    arguments.out.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()

    text, held_out_text = split_text()
    tokenizer = make_tokenizer(text, recipe.vocab_size)
    data, held_out = torch.tensor(tokenizer(text)["input_ids"]), tokenizer(held_out_text)["input_ids"]
    target, target_facts = train_target(data, tokenizer, recipe)
    greedy = greedy_texts(target, data, recipe, drafting.DrafterConfig(vocab_size=len(tokenizer)).context)
    drafter, drafter_facts = train_drafter(data, greedy, len(tokenizer), recipe)
    write(arguments.out, target=target, tokenizer=tokenizer, drafter=drafter)

    found = candidates(target, held_out, rule)
    chosen = choose(found, rule)
    prompts = {
        "record": "prompts",
        "schema_version": 1,
        "name": "held-out",
        "source": "pydoc_data.topics, held-out topics; how they were chosen is in training.json",
        "prompts": [{"id": f"held-out-{i:02d}", "text": None, "input_ids": r.prompt} for i, r in enumerate(chosen)],
    }
    (arguments.out / "prompts.json").write_text(json.dumps(prompts) + "\n")
    facts = {
        "recipe": asdict(recipe),
        "versions": versions(),
        "text": {
            "source": "pydoc_data.topics",
            "training_sha256": digest(text),
            "held_out_sha256": digest(held_out_text),
            "training_tokens": len(data),
            "held_out_tokens": len(held_out),
        },
        "target": {**target_facts, "held_out_loss": round(loss_on(target, torch.tensor(held_out)), 4)},
        "drafter": drafter_facts,
        "prompts": {
            "rule": asdict(rule),
            "candidates_passing_gap": sum(r.smallest_gap >= rule.smallest_gap for r in found),
            "candidates_passing_both": sum(
                r.smallest_gap >= rule.smallest_gap and r.distinct_8grams >= rule.distinct_8grams for r in found
            ),
            "chosen": [r.place for r in chosen],
            "smallest_gap": round(min(r.smallest_gap for r in chosen), 6),
            "distinct_8grams": [round(r.distinct_8grams, 3) for r in chosen],
            "reference_sha256": digest(json.dumps([r.output for r in chosen])),
        },
        "predicted_tokens_per_step": {
            f"b{budget}t{top_k}": round(tokens_per_step(drafter, chosen, budget, top_k), 4) for budget, top_k in BUDGETS
        },
        "seconds": round(time.monotonic() - began, 1),
    }
    (arguments.out / "training.json").write_text(json.dumps(facts, indent=2) + "\n")
    print(json.dumps(facts, indent=2))


if __name__ == "__main__":
    main()
