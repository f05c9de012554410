"""Tree bookkeeping of a verify step: links between rows from the ancestor mask, and the walk that accepts a path."""

import numpy as np
from torch import Tensor, from_numpy

NONE = -1


def reconstruct_indices_from_tree_mask(
    tree_mask: Tensor,
    verified_seq_len: Tensor,
    positions: Tensor,
    retrive_index: Tensor,
    retrive_next_token: Tensor,
    retrive_next_sibling: Tensor,
    batch_size: int,
    draft_token_num: int,
) -> None:
    """Per row: its position (length + number of ancestors), its own number, first child and next sibling (-1: none).

    `tree_mask` is flat bool [batch, rows, rows]; a row's parent is the last earlier row that it sees. The contract is
    that of SGLang's own kernel for other devices (kernels/ops/speculative/reconstruct_tree.py).
    """
    rows = draft_token_num
    mask = tree_mask.flatten()[: batch_size * rows * rows].bool().numpy().reshape(batch_size, rows, rows)
    earlier = mask & np.tri(rows, k=-1, dtype=np.bool_)
    depths = earlier.sum(axis=2)
    parents = np.where(earlier, np.arange(rows), NONE).max(axis=2)
    first_child = np.full((batch_size, rows), NONE, dtype=np.int64)
    next_sibling = np.full((batch_size, rows), NONE, dtype=np.int64)
    for request in range(batch_size):
        for row in range(rows - 1, 0, -1):
            parent = parents[request, row]
            if parent != NONE:
                next_sibling[request, row] = first_child[request, parent]
                first_child[request, parent] = row
    lengths = verified_seq_len[:batch_size].numpy()[:, None]
    _store(positions, lengths + depths)
    _store(retrive_index, np.arange(batch_size * rows))
    _store(retrive_next_token, first_child)
    _store(retrive_next_sibling, next_sibling)


def _store(target: Tensor, values: np.ndarray) -> None:
    flat = target.view(-1)
    flat[: values.size] = from_numpy(values.reshape(-1)).to(target.dtype)


def verify_tree_greedy_cpu(
    predicts: Tensor,
    accept_index: Tensor,
    accept_token_num: Tensor,
    candidates: Tensor,
    retrive_index: Tensor,
    retrive_next_token: Tensor,
    retrive_next_sibling: Tensor,
    target_predict: Tensor,
) -> None:
    """From each root, follow the child whose token the target itself would have said; called by keyword, spelt so.

    `accept_index` [batch, longest path] gets the rows of the path, `predicts` (flat) the target's token at each of
    them, and `accept_token_num` the number of drafts accepted, without the root.
    """
    said = target_predict.flatten().tolist()
    tokens, numbers = candidates.tolist(), retrive_index.tolist()
    children, siblings = retrive_next_token.tolist(), retrive_next_sibling.tolist()
    longest = accept_index.shape[1]
    for request in range(len(tokens)):
        row = 0
        path = [numbers[request][0]]
        while len(path) < longest:
            row = children[request][row]
            while row != NONE and tokens[request][row] != said[path[-1]]:
                row = siblings[request][row]
            if row == NONE:
                break
            path.append(numbers[request][row])
        for step, number in enumerate(path):
            accept_index[request, step] = number
            predicts[number] = said[number]
        accept_token_num[request] = len(path) - 1
