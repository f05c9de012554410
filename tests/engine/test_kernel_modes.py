"""The compiler arm launches with the types that the release's backend hands over, eagerly and in graphs."""

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="runs in the engine environment: nox -s engine-cpu")
pytestmark = pytest.mark.engine

ROOT = Path(__file__).resolve().parents[2] / "repro" / "kernels"
BATCH, PREFIX, WIDTH = 2, 37, 9
KERNEL_ARGUMENTS = ("qo_indptr", "kv_indptr", "kv_indices", "custom_mask", "mask_indptr")


@pytest.fixture(scope="module")
def metadata():
    """What the installed release's backend has ready for the kernel: after a step without graphs, and after capture."""
    sys.path.insert(0, str(ROOT))
    backend = importlib.import_module("beside_torch.backend")
    surroundings = importlib.import_module("beside_torch.surroundings")
    standins = importlib.import_module("beside_torch.standins")
    site = Path(importlib.util.find_spec("sglang").origin).parents[1]
    setting = surroundings.Setting(draft_tokens=WIDTH, runner_width=WIDTH, max_batch=4, context=64)
    prefixes = torch.full((BATCH,), PREFIX)
    with standins.release(site, backend.REAL, surroundings.answers(setting)):
        made = backend.made(setting, "cpu")
        mask = torch.ones(backend.built_mask_cells(BATCH, PREFIX, WIDTH), dtype=torch.bool)
        backend.replayed(made, prefixes, captured_width=WIDTH, width=WIDTH, mask=mask)
        graph = made.forward_metadata
        batch = SimpleNamespace(
            batch_size=BATCH,
            forward_mode=surroundings.VerifyMode(),
            spec_info=surroundings.step(WIDTH, mask),
            req_pool_indices=torch.zeros(BATCH, dtype=torch.int64),
            seq_lens=prefixes,
            seq_lens_sum=BATCH * PREFIX,
            kv_loc_plan=None,
            out_cache_loc=None,
        )
        made.init_forward_metadata(batch)
        eager = made.forward_metadata
    sys.path.remove(str(ROOT))
    return {"graph": graph, "eager": eager}


@pytest.mark.parametrize("mode", ["graph", "eager"])
def test_types_of_the_launch_are_the_backends(metadata, mode):
    sys.path.insert(0, str(ROOT))
    compiling = importlib.import_module("beside_torch.compiling")
    sys.path.remove(str(ROOT))
    shape = {"query_heads": 8, "key_heads": 2, "key_dim": 128, "value_dim": 128}
    case = {"cell": {"batch": BATCH, "dtype": "bf16"}, "parameters": {"mode": mode, **shape}}
    launched = compiling.arguments(case, WIDTH - 1)
    assert launched["max_len_extend"] == metadata[mode].max_extend_len == WIDTH
    for name in KERNEL_ARGUMENTS:
        assert launched[name].dtype == getattr(metadata[mode], name).dtype, name


def test_the_two_modes_have_different_types(metadata):
    graph, eager = metadata["graph"], metadata["eager"]
    assert (graph.custom_mask.dtype, eager.custom_mask.dtype) == (torch.uint8, torch.bool)
    assert (graph.qo_indptr.dtype, eager.qo_indptr.dtype) == (torch.int64, torch.int32)
