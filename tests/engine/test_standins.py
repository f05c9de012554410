"""The stand-in kernels against plain formulas."""

import itertools

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="runs in the engine environment: nox -s engine-cpu")
pytestmark = pytest.mark.engine

import sgl_kernel  # noqa: E402
from graphrepro_ddtree import tree  # noqa: E402
from sgl_kernel import attention, cache, speculative  # noqa: E402
from sgl_kernel.tree import verify_tree_greedy_cpu  # noqa: E402


def naive(q, k, v, scale, mask):
    """Softmax attention, one row and one head at a time."""
    out = torch.empty_like(q)
    share = q.shape[1] // k.shape[1]
    for row in range(q.shape[0]):
        for head in range(q.shape[1]):
            scores = (k[:, head // share] @ q[row, head]) * scale
            if mask is not None:
                scores = scores.masked_fill(~mask[row], float("-inf"))
            out[row, head] = scores.softmax(0) @ v[:, head // share]
    return out


@pytest.fixture
def buffers():
    torch.manual_seed(0)
    return torch.randn(64, 2, 8), torch.randn(64, 2, 8)


def extend(q, buffers, table, rows, lengths, extends, starts, tree_mask):
    out = torch.zeros_like(q)
    as_tensor = torch.tensor
    torch.ops.sgl_kernel.extend_attention_cpu(
        q, None, None, out, *buffers, 1.0, 1.0, table, as_tensor(rows), as_tensor(lengths), as_tensor(extends),
        as_tensor(starts), max(extends), 0.3, 0.0, False, 0, None, None, tree_mask, True,
    )  # fmt: skip
    return out


def test_prefill_is_causal_for_each_request(buffers):
    table = torch.stack([torch.randperm(64)[:10], torch.randperm(64)[:10]]).int()
    q = torch.randn(5, 4, 8)
    out = extend(q, buffers, table, [1, 0], [6, 4], [2, 3], [0, 2], None)
    for pool_row, length, count, start in ((1, 6, 2, 0), (0, 4, 3, 2)):
        slots = table[pool_row, :length].long()
        mask = torch.ones(count, length, dtype=torch.bool).tril(length - count)
        expected = naive(q[start : start + count], buffers[0][slots], buffers[1][slots], 0.3, mask)
        assert torch.allclose(out[start : start + count], expected, atol=1e-5)


def test_verify_rows_see_the_prefix_and_their_ancestors(buffers):
    table = torch.stack([torch.randperm(64)[:12], torch.randperm(64)[:12]]).int()
    q = torch.randn(8, 4, 8)
    masks = torch.stack([torch.eye(4, dtype=torch.bool), torch.ones(4, 4, dtype=torch.bool).tril()])
    out = extend(q, buffers, table, [0, 1], [9, 7], [4, 4], [0, 4], masks.flatten())
    for at, length in enumerate((9, 7)):
        slots = table[at, :length].long()
        mask = torch.cat([torch.ones(4, length - 4, dtype=torch.bool), masks[at]], dim=1)
        expected = naive(q[4 * at : 4 * at + 4], buffers[0][slots], buffers[1][slots], 0.3, mask)
        assert torch.allclose(out[4 * at : 4 * at + 4], expected, atol=1e-5)


def test_decode_writes_its_token_first(buffers):
    table = torch.randperm(64)[:12].view(1, 12).int()
    q, k, v = torch.randn(1, 4, 8), torch.randn(1, 2, 8), torch.randn(1, 2, 8)
    out, keys, values = torch.zeros_like(q), *buffers
    torch.ops.sgl_kernel.decode_attention_cpu(
        q, keys, values, 1.0, 1.0, out, k, v, table[:, 5], torch.empty(0), table, torch.tensor([0]), torch.tensor([6]),
        0.3, 0.0, False, 0, None, None,
    )  # fmt: skip
    slots = table[0, :6].long()
    assert torch.equal(keys[slots[-1]], k[0])
    assert torch.allclose(out, naive(q, keys[slots], values[slots], 0.3, None), atol=1e-5)


def test_what_attention_cannot_do_is_refused():
    with pytest.raises(NotImplementedError, match="logit cap"):
        attention._refuse_unsupported(30.0, False, 0, None)


def random_tree(seed, budget=12, top_k=4):
    source = np.random.default_rng(seed)
    logp = -np.sort(source.exponential(size=(7, top_k))).astype(np.float32)
    ids = np.stack([source.permutation(9)[:top_k] for _ in range(7)]).astype(np.int64)
    return tree.build(logp, ids, root=5, budget=budget, width=budget + 3)


@pytest.mark.parametrize("seed", range(20))
def test_links_and_walk_agree_with_the_tree(seed):
    trees = [random_tree(seed), random_tree(seed + 100)]
    rows, batch = trees[0].width, len(trees)
    mask = torch.from_numpy(np.stack([tree.ancestor_mask(one) for one in trees])).flatten()
    lengths = torch.tensor([11, 23])
    positions = torch.full((batch * rows,), -7)
    index, child, sibling = (torch.full((batch, rows), -7) for _ in range(3))
    speculative.reconstruct_indices_from_tree_mask(mask, lengths, positions, index, child, sibling, batch, rows)
    assert index.flatten().tolist() == list(range(batch * rows))
    for at, one in enumerate(trees):
        for row in range(rows):
            children = np.flatnonzero(one.parents == row).tolist()
            assert child[at, row] == (children[0] if children else -1)
            for left, right in itertools.zip_longest(children, children[1:], fillvalue=-1):
                assert sibling[at, left] == right
        depths = tree.ancestor_mask(one).sum(axis=1) - 1
        assert (positions.view(batch, rows)[at].numpy() == lengths[at].item() + depths).all()

    said = torch.from_numpy(np.random.default_rng(seed).integers(0, 9, size=(batch, rows)))
    candidates = torch.from_numpy(np.stack([one.tokens for one in trees]))
    predicts = torch.full((batch * rows,), -1)
    accepted = torch.full((batch, rows), -1)
    counts = torch.full((batch,), -1)
    verify_tree_greedy_cpu(predicts, accepted, counts, candidates, index, child, sibling, said)
    for at, one in enumerate(trees):
        row, path = 0, [0]
        while True:
            match = np.flatnonzero((one.parents == row) & (one.tokens == said[at, row].item()))
            if not len(match):
                break
            row = int(match[0])
            path.append(row)
        assert counts[at] == len(path) - 1
        assert accepted[at].tolist() == [at * rows + row for row in path] + [-1] * (rows - len(path))
        assert [predicts[at * rows + row].item() for row in path] == [said[at, row].item() for row in path]


def test_cache_slots_are_read_and_written():
    table = torch.arange(20).view(2, 10).int()
    out = torch.zeros(5, dtype=torch.int64)
    pool, start, end = torch.tensor([1, 0]), torch.tensor([2, 7]), torch.tensor([5, 9])
    cache.assign_extend_cache_locs_cpu(pool, table, start, end, out, 10)
    assert out.tolist() == [12, 13, 14, 7, 8]
    cache.assign_req_to_token_pool_cpu(pool, table, start, end, out * 2, 10)
    assert table[1, 2:5].tolist() == [24, 26, 28]
    assert table[0, 7:9].tolist() == [14, 16]
    kept = torch.zeros(2, dtype=torch.int64)
    cache.fill_accept_out_cache_loc_cpu(torch.tensor([[3, -1], [0, -1]]), out, kept)
    assert kept.tolist() == [7, 12]


def test_cache_moves_may_overlap():
    layers = [torch.arange(12, dtype=torch.float32).view(6, 2) + 100 * at for at in range(2)]
    before = [layer.clone() for layer in layers]
    pointers = torch.tensor([layer.data_ptr() for layer in layers])
    strides = torch.tensor([layer.stride(0) * layer.element_size() for layer in layers])
    cache.copy_all_layer_kv_cache_cpu(pointers, strides, torch.tensor([0, 1, 2]), torch.tensor([1, 2, 2]))
    for layer, old in zip(layers, before, strict=True):
        assert torch.equal(layer[:3], old[[1, 2, 2]])
        assert torch.equal(layer[3:], old[3:])


def test_other_names_import_and_refuse():
    with pytest.raises(NotImplementedError, match=r"sgl_kernel.moe_align has no CPU stand-in"):
        sgl_kernel.moe_align(1, 2)
    with pytest.raises(AttributeError):
        _ = sgl_kernel.scalar_type
