"""The draft tree: chosen best-first from per-position marginals, then its ancestor mask and its padding (NumPy only).

The method is DDTree's (arXiv 2604.12989): a block drafter gives one distribution per future position; a node is a
prefix of choices, its score is the sum of its choices' log-probabilities, and the best `budget` nodes are found with
a heap.
"""

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float32]
BoolArray = NDArray[np.bool_]

PAD_TOKEN = 0
NO_PARENT = -1


@dataclass(frozen=True, kw_only=True, slots=True)
class DraftTree:
    """Rows of one request's verify step. Row 0 is the last accepted token, `parents[i] < i`, siblings are neighbours.

    Rows from `size` on are padding: token `PAD_TOKEN`, no parent, so that the accept walk cannot reach them.
    """

    tokens: IntArray  # [width]
    parents: IntArray  # [width]
    size: int

    @property
    def width(self) -> int:
        """Number of rows the verify step has, padding included: the budget + 1."""
        return len(self.tokens)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Node:
    parent: int
    depth: int
    token: int


def best_first(logp: FloatArray, ids: IntArray, *, budget: int) -> list[_Node]:
    """At most `budget` nodes in the order in which the heap gives them, so parents come before their children.

    `logp` and `ids` are [positions, top_k], each row sorted from the likeliest token down. Taking a node from the heap
    puts its next sibling (one rank lower) and its first child (the likeliest token one position later) on it: whatever
    is not on the heap yet scores no better than something that is.
    """
    positions, top_k = logp.shape
    taken: list[_Node] = []
    if budget < 1:
        return taken
    # (cost, insertion number, parent's place in `taken`, position, rank); the insertion number makes ties deterministic
    heap: list[tuple[float, int, int, int, int]] = [(-float(logp[0, 0]), 0, NO_PARENT, 0, 0)]
    pushed = 1
    while heap and len(taken) < budget:
        cost, _, parent, position, rank = heapq.heappop(heap)
        taken.append(_Node(parent=parent, depth=position + 1, token=int(ids[position, rank])))
        if rank + 1 < top_k:
            sibling_cost = cost + float(logp[position, rank]) - float(logp[position, rank + 1])
            heapq.heappush(heap, (sibling_cost, pushed, parent, position, rank + 1))
            pushed += 1
        if position + 1 < positions:
            child_cost = cost - float(logp[position + 1, 0])
            heapq.heappush(heap, (child_cost, pushed, len(taken) - 1, position + 1, 0))
            pushed += 1
    return taken


def build(logp: FloatArray, ids: IntArray, *, root: int, budget: int, width: int | None = None) -> DraftTree:
    """The tree of `budget` best nodes under `root`, breadth-first with siblings side by side, padded to `width` rows.

    `width` is `budget + 1` unless given; a wider tree has padding rows, and so has one whose heap ran empty (a chain
    that is longer than the drafter's positions).
    """
    rows = budget + 1 if width is None else width
    nodes = best_first(logp, ids, budget=budget)
    tokens = np.full(rows, PAD_TOKEN, dtype=np.int64)
    parents = np.full(rows, NO_PARENT, dtype=np.int64)
    tokens[0] = root
    row_of = {NO_PARENT: 0}
    # level by level, sorted by the parent's place: children of one parent keep their order of likelihood
    level = [place for place, node in enumerate(nodes) if node.depth == 1]
    row = 1
    while level:
        for place in level:
            row_of[place] = row
            tokens[row] = nodes[place].token
            parents[row] = row_of[nodes[place].parent]
            row += 1
        above = {place: order for order, place in enumerate(level)}
        level = sorted(
            (place for place, node in enumerate(nodes) if node.parent in above),
            key=lambda place: (above[nodes[place].parent], place),
        )
    return DraftTree(tokens=tokens, parents=parents, size=row)


def ancestor_mask(tree: DraftTree, *, blind_padding: bool = False) -> BoolArray:
    """[width, width]: True where the row's token may look at the column's: its ancestors and itself.

    A padding row sees itself only. With `blind_padding` it sees nothing at all, which is how some kernels' callers pad
    and what the planted fault `nan-padding` needs.
    """
    mask = np.zeros((tree.width, tree.width), dtype=np.bool_)
    for row in range(tree.width):
        if row >= tree.size and blind_padding:
            continue
        parent = int(tree.parents[row])
        if parent != NO_PARENT:
            mask[row] = mask[parent]
        mask[row, row] = True
    return mask


def accepted_path(tree: DraftTree, truth: IntArray) -> int:
    """Number of draft tokens on the longest path from the root that spells the beginning of `truth` [any length]."""
    row, depth = 0, 0
    while depth < len(truth):
        children = np.flatnonzero((tree.parents == row) & (tree.tokens == truth[depth]))
        if not len(children):
            break
        row, depth = int(children[0]), depth + 1
    return depth
