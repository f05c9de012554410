"""The buffers arm: what each release of SGLang allocates for graph capture, and what the verify of a tree needs.

It executes the release's own code, without a GPU and without a graph. A pass means that the sizes fit and that the
metadata describes the tree; it says nothing of what the kernels then do.
"""

from dataclasses import dataclass

from repro.kernels import releases
from repro.kernels.case import Case, Selection, cell

BLOCK = 8
"""Block size of Kimi-K2.6's draft model, as its config.json says: `speculative_num_draft_tokens` unless it is set."""
MAX_BATCH, CONTEXT = 128, 262144
"""Of the deployment that the failure was reported from: 128 running requests, and Kimi-K2.6's context length."""
QUICK_RELEASES = ("0.5.15.post1", "0.5.23")
PLANTED_RELEASES = ("0.5.15.post1", "0.5.23")
PLANTED = "half_of_mask"
SHARDS = 2
# Milliseconds each; the first of a release also finds its formulas, and the first of all imports torch.
LIMIT_S = 120.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Arrangement:
    """How a tree's width gets into the server. ``tree_draft_tokens``: `speculative_num_draft_tokens` is budget + 1,
    else the draft's block size; ``tree_capture``: graphs are captured for budget + 1 rows, else for a block."""

    name: str
    tree_draft_tokens: bool
    tree_capture: bool


ARRANGEMENTS = (
    Arrangement(name="tree", tree_draft_tokens=True, tree_capture=True),
    Arrangement(name="block", tree_draft_tokens=False, tree_capture=False),
    Arrangement(name="step", tree_draft_tokens=False, tree_capture=True),
)
"""``tree``: everything is set to the tree. ``block``: nothing is, and trees come to a server made for blocks. ``step``:
graphs are captured for the tree, and only the step says its width (a worker with a budget of its own)."""


def plan(selection: Selection) -> tuple[Case, ...]:
    """Cases of this arm: a planted fault in an older and a newer release, then releases, arrangements and budgets."""
    chosen = releases.chosen(selection.releases or (QUICK_RELEASES if selection.quick else None))
    versions = [release.version for release in chosen]
    planted = [version for version in PLANTED_RELEASES if version in versions] or versions[-1:]
    asked: list[tuple[str, Arrangement, int, str | None]] = [
        (version, ARRANGEMENTS[0], 16, PLANTED) for version in planted
    ]
    asked += [
        (version, arrangement, budget, None)
        for version in versions
        for arrangement in ARRANGEMENTS
        for budget in selection.some_budgets()
    ]
    return tuple(
        Case(
            check="kernel-buffers",
            evidence_class="emulated",
            program="buffers",
            group=f"buffers-{versions.index(version) % SHARDS}",
            cell=cell(version, arrangement.name, budget=budget, batch=MAX_BATCH),
            planted=fault,
            parameters={
                "root": releases.root(selection.wheels, version) or "",
                "version": version,
                **_widths(arrangement, budget + 1),
                "max_batch": MAX_BATCH,
                "context": CONTEXT,
            },
            limit_s=LIMIT_S,
        )
        for version, arrangement, budget, fault in asked
    )


def _widths(arrangement: Arrangement, width: int) -> dict[str, int]:
    return {
        "draft_tokens": width if arrangement.tree_draft_tokens else BLOCK,
        "runner_width": width if arrangement.tree_capture else BLOCK,
        "width": width,
    }
