"""The draft tree against exhaustive search, its order, its mask and its padding."""

import itertools

import numpy as np
import pytest
from graphrepro_ddtree import tree


def marginals(positions, top_k, seed):
    """Sorted random log-probabilities and distinct ids, as a drafter's top-k gives them."""
    source = np.random.default_rng(seed)
    logits = np.sort(source.normal(size=(positions, top_k)) * 2)[:, ::-1]
    logp = (logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))).astype(np.float32)
    ids = np.stack([source.permutation(100)[:top_k] for _ in range(positions)]).astype(np.int64)
    return logp, ids


def paths(made):
    """The token sequences from the root to each node."""
    found = []
    for row in range(1, made.size):
        path, at = [], row
        while at > 0:
            path.append(int(made.tokens[at]))
            at = int(made.parents[at])
        found.append(tuple(reversed(path)))
    return found


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("budget", "top_k"), [(1, 1), (3, 2), (8, 4), (12, 4), (16, 8)])
def test_nodes_are_the_best_prefixes(budget, top_k, seed):
    logp, ids = marginals(3, top_k, seed)
    scores = {}
    for depth in (1, 2, 3):
        for ranks in itertools.product(range(top_k), repeat=depth):
            path = tuple(int(ids[at, rank]) for at, rank in enumerate(ranks))
            scores[path] = sum(float(logp[at, rank]) for at, rank in enumerate(ranks))
    made = tree.build(logp, ids, root=7, budget=budget)
    best = sorted(scores.values(), reverse=True)[:budget]
    assert sorted((scores[path] for path in paths(made)), reverse=True) == pytest.approx(best, abs=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_rows_are_breadth_first_with_siblings_together(seed):
    logp, ids = marginals(7, 8, seed)
    made = tree.build(logp, ids, root=5, budget=32)
    assert made.width == made.size == 33
    assert made.tokens[0] == 5
    assert made.parents[0] == tree.NO_PARENT
    assert (made.parents[1:] < np.arange(1, 33)).all()
    assert (np.diff(made.parents[1:]) >= 0).all()
    assert len(set(paths(made))) == 32


def test_top_k_one_is_a_flat_chain():
    logp, ids = marginals(7, 1, 0)
    made = tree.build(logp, ids, root=5, budget=7)
    assert made.tokens.tolist() == [5, *ids[:, 0].tolist()]
    assert made.parents.tolist() == [-1, 0, 1, 2, 3, 4, 5, 6]
    assert tree.ancestor_mask(made).tolist() == np.tri(8, dtype=bool).tolist()


def test_a_chain_longer_than_the_drafter_is_padded():
    logp, ids = marginals(7, 1, 0)
    made = tree.build(logp, ids, root=5, budget=9)
    assert (made.width, made.size) == (10, 8)
    assert made.tokens[8:].tolist() == [tree.PAD_TOKEN, tree.PAD_TOKEN]
    assert made.parents[8:].tolist() == [tree.NO_PARENT, tree.NO_PARENT]


def test_no_budget_is_the_root_alone():
    logp, ids = marginals(7, 4, 0)
    made = tree.build(logp, ids, root=5, budget=0, width=2)
    assert (made.size, made.width) == (1, 2)


@pytest.mark.parametrize(("budget", "top_k"), [(8, 4), (16, 8), (32, 8)])
def test_mask_shows_ancestors_and_self(budget, top_k):
    made = tree.build(*marginals(7, top_k, 3), root=5, budget=budget)
    mask = tree.ancestor_mask(made)
    for row in range(made.width):
        seen, at = {row}, int(made.parents[row])
        while at != tree.NO_PARENT:
            seen.add(at)
            at = int(made.parents[at])
        assert set(np.flatnonzero(mask[row])) == seen


def test_padding_rows_see_themselves_or_nothing():
    made = tree.build(*marginals(7, 4, 3), root=5, budget=4, width=7)
    assert tree.ancestor_mask(made)[5:].tolist() == np.eye(7, dtype=bool)[5:].tolist()
    assert not tree.ancestor_mask(made, blind_padding=True)[5:].any()
    assert not tree.ancestor_mask(made)[:5, 5:].any()


def test_accepted_path_follows_the_truth_and_no_padding():
    made = tree.DraftTree(tokens=np.array([9, 1, 2, 3, 4, 0]), parents=np.array([-1, 0, 0, 2, 3, -1]), size=5)
    assert tree.accepted_path(made, np.array([2, 3, 4, 8])) == 3
    assert tree.accepted_path(made, np.array([1, 3])) == 1
    assert tree.accepted_path(made, np.array([0, 0])) == 0
    assert tree.accepted_path(made, np.array([], dtype=np.int64)) == 0
