"""The block drafter: from the last tokens of a text, one distribution for each of the next few positions.

It is trained to imitate the target's greedy text and sees tokens only, never the target's hidden states, so it needs
neither a cache of its own nor anything from the engine. The distributions are marginals: position 2 does not know
what was chosen at 1.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional

WEIGHTS_FILE = "drafter.safetensors"
CONFIG_FILE = "drafter.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class DrafterConfig:
    """Sizes.

    `block_size` counts the last accepted token too, as DFlash drafts do: `block_size - 1` positions are drafted.
    """

    vocab_size: int
    block_size: int = 8
    context: int = 64
    hidden_size: int = 128
    layers: int = 2
    heads: int = 4
    head_rank: int = 112
    logit_scale: float = 4.0

    @property
    def positions(self) -> int:
        """Number of future tokens that are drafted, and the greatest depth of a tree."""
        return self.block_size - 1


class _Layer(nn.Module):
    """Attention and a feed-forward part, each behind a norm and around a residual."""

    def __init__(self, config: DrafterConfig) -> None:
        super().__init__()
        size = config.hidden_size
        self.heads = config.heads
        self.before_attention = nn.RMSNorm(size)
        self.query_key_value = nn.Linear(size, 3 * size, bias=False)
        self.attention_out = nn.Linear(size, size, bias=False)
        self.before_feed_forward = nn.RMSNorm(size)
        self.widen = nn.Linear(size, 4 * size, bias=False)
        self.narrow = nn.Linear(4 * size, size, bias=False)

    def forward(self, hidden: Tensor, mask: Tensor) -> Tensor:
        batch, length, size = hidden.shape
        packed = self.query_key_value(self.before_attention(hidden)).view(batch, length, 3, self.heads, -1)
        query, key, value = packed.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        hidden = hidden + self.attention_out(mixed.transpose(1, 2).reshape(batch, length, size))
        return hidden + self.narrow(functional.gelu(self.widen(self.before_feed_forward(hidden))))


class BlockDrafter(nn.Module):
    """A small causal transformer with one low-rank head per drafted position over its (tied) embedding."""

    def __init__(self, config: DrafterConfig) -> None:
        super().__init__()
        self.config = config
        size = config.hidden_size
        self.embedding = nn.Embedding(config.vocab_size, size)
        nn.init.normal_(self.embedding.weight, std=0.05)
        self.place = nn.Parameter(torch.zeros(config.context, size))  # counted from the end of the context
        self.layers = nn.ModuleList(_Layer(config) for _ in range(config.layers))
        self.final_norm = nn.RMSNorm(size)
        self.heads_down = nn.ModuleList(nn.Linear(size, config.head_rank) for _ in range(config.positions))
        self.heads_up = nn.ModuleList(nn.Linear(config.head_rank, size, bias=False) for _ in range(config.positions))

    def encode(self, ids: Tensor) -> Tensor:
        """Token ids [batch, length <= context], -1 for padding on the left -> hidden states [batch, length, hidden]."""
        length = ids.shape[1]
        causal = torch.ones(length, length, dtype=torch.bool).tril()
        # a padding place still sees itself: a row without any key would be NaN
        mask = (causal & (ids >= 0)[:, None, :]) | torch.eye(length, dtype=torch.bool)
        hidden = self.embedding(ids.clamp(min=0)) + self.place[self.config.context - length :]
        for layer in self.layers:
            hidden = layer(hidden, mask[:, None])
        return self.final_norm(hidden)

    def position_logits(self, hidden: Tensor, position: int) -> Tensor:
        """Logits [..., vocab] of the token `position` places after the next one."""
        shifted = hidden + self.heads_up[position](functional.gelu(self.heads_down[position](hidden)))
        return functional.linear(shifted, self.embedding.weight) * self.config.logit_scale

    @torch.inference_mode()
    def marginals(self, histories: Sequence[Sequence[int]]) -> Tensor:
        """Token histories, one per request -> log-probabilities [batch, positions, vocab] of the tokens that follow."""
        context = self.config.context
        rows = [list(history[-context:]) for history in histories]
        longest = max(len(row) for row in rows)
        ids = torch.tensor([[-1] * (longest - len(row)) + row for row in rows])
        last = self.encode(ids)[:, -1]
        logits = torch.stack([self.position_logits(last, at) for at in range(self.config.positions)], dim=1)
        return logits.log_softmax(dim=-1)


def save(model: BlockDrafter, folder: Path) -> None:
    """Writes weights and sizes into `folder`, readable by every user (safetensors itself writes mode 0600)."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file({name: value.contiguous() for name, value in model.state_dict().items()}, folder / WEIGHTS_FILE)
    (folder / WEIGHTS_FILE).chmod(0o644)
    (folder / CONFIG_FILE).write_text(json.dumps(asdict(model.config), indent=2) + "\n")


def load(folder: Path) -> BlockDrafter:
    """The drafter that `save` wrote, ready to draft; OSError if a file is missing."""
    model = BlockDrafter(DrafterConfig(**json.loads((folder / CONFIG_FILE).read_text())))
    model.load_state_dict(load_file(folder / WEIGHTS_FILE))
    model.eval()
    return model
