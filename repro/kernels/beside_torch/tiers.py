"""Where a step's contents come from: made up, made up to match statistics of a real one, or recorded exactly.

Statistics are a small JSON document, so that they can be given away where contents cannot:

    {"tensors": {"q": {"mean", "std", "min", "max"}, "k": {…}, "v": {…}}, "prefixes": [37, 130], "pool_slots": 4096,
     "run_length": 1.5}

``prefixes`` are tokens of each request, ``run_length`` how many consecutive slots of the pool a request has on average.
Recorded contents are a file of `torch.save`: a dict of tensors by the names of `RECORDED`, and ``scale``. It is read
without running anything that is in it, and only if its SHA-256 is the one that was named.
"""

import hashlib
import io
import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import torch

from .inputs import DTYPES, MLA_KEY_DIM, Problem, Step, build

Tensor: TypeAlias = Any

RECORDED = {
    "q": 3,
    "k_extend": 3,
    "v_extend": 3,
    "k_buffer": 3,
    "v_buffer": 3,
    "qo_indptr": 1,
    "kv_indptr": 1,
    "kv_indices": 1,
    "mask": 1,
    "mask_indptr": 1,
}
"""Tensors of a recorded step and their dimensions; v_buffer is left out where values are a part of the keys."""
MOMENTS = ("mean", "std", "min", "max")
MOST_BYTES = 4 << 30


class ContentsError(Exception):
    """What was given is not usable; the message says what is wrong with it."""


def matched(problem: Problem, statistics: Mapping[str, Any]) -> Step:
    """A made-up step whose numbers and slots are distributed as the statistics say. Raises `ContentsError`."""
    step = build(problem)
    at = dict(step.tensors)
    try:
        moments = {name: [float(statistics["tensors"][name][word]) for word in MOMENTS] for name in ("q", "k", "v")}
        pool, run = int(statistics["pool_slots"]), float(statistics["run_length"])
    except (KeyError, TypeError, ValueError) as error:
        raise ContentsError(f"the statistics have no usable {error}") from None
    if not all(math.isfinite(number) for numbers in moments.values() for number in (*numbers, run)) or run < 1:
        raise ContentsError("the statistics hold what is not finite, or a run_length below 1")
    pool = max(pool, len(at["kv_indices"]) + len(at["k_extend"]))
    for name in ("q", "k_extend", "v_extend", "k_buffer", "v_buffer"):
        source = "k" if problem.is_latent and name != "q" else name[0]
        mean, std, low, high = moments[source]
        at[name] = (at[name].double() * std + mean).clamp(low, high).to(at[name].dtype)
    slots = _runs(len(at["kv_indices"]), pool, max(1, round(run)), problem.seed)
    slots[at["kv_indices"] == 0] = 0  # a padded slot stays one
    for name in ("k_buffer", "v_buffer"):
        spread = at[name][torch.arange(pool + 1) % len(at[name])].clone()
        spread[slots] = at[name][at["kv_indices"]]
        at[name] = spread
    if problem.is_latent:
        at["v_buffer"] = at["k_buffer"][..., : problem.value_dim]
    return replace(step, tensors={**at, "kv_indices": slots})


def _runs(count: int, pool: int, length: int, seed: int) -> Tensor:
    """``count`` slots from 1 to ``pool``, in runs of consecutive ones that are shuffled."""
    starts = torch.randperm(max(1, pool // length), generator=torch.Generator().manual_seed(seed)) * length
    slots = (starts[:, None] + torch.arange(length)).flatten()
    rest = torch.arange(len(slots), pool)
    return torch.cat([slots, rest])[:count] + 1


def statistics_of(step: Step) -> dict[str, Any]:
    """Statistics of a step, without its contents."""
    at, problem = step.tensors, step.problem
    numbers = {"q": at["q"], "k": at["k_extend"], "v": at["v_extend"]}
    breaks = 0
    for first, end in zip(at["kv_indptr"][:-1].tolist(), at["kv_indptr"][1:].tolist(), strict=True):
        breaks += int((at["kv_indices"][first:end].diff() != 1).sum()) + (end > first)
    return {
        "tensors": {name: _moments(tensor.double()) for name, tensor in numbers.items()},
        "prefixes": list(problem.prefixes),
        "pool_slots": len(at["k_buffer"]) - 1,
        "run_length": round(len(at["kv_indices"]) / max(1, breaks), 2),
    }


def _moments(tensor: Tensor) -> dict[str, float]:
    found = (tensor.mean(), tensor.std(), tensor.min(), tensor.max())
    return {word: float(f"{float(number):.4g}") for word, number in zip(MOMENTS, found, strict=True)}


def read_statistics(path: Path) -> Mapping[str, Any]:
    """Raises `ContentsError`."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ContentsError(f"{path.name}: cannot be read ({type(error).__name__})") from None
    if not isinstance(found, dict) or not isinstance(found.get("prefixes"), list):
        raise ContentsError(f"{path.name}: is no JSON object with prefixes and tensors")
    if not found["prefixes"] or not all(isinstance(n, int) and 0 < n < 1 << 20 for n in found["prefixes"]):
        raise ContentsError(f"{path.name}: prefixes are not whole numbers from 1 to 2**20")
    return found


def write_recorded(step: Step, path: Path) -> str:
    """Saves a step's contents; returns the SHA-256 of the file."""
    names = [name for name in RECORDED if name != "v_buffer" or not step.problem.is_latent]
    buffer = io.BytesIO()
    torch.save({**{name: step.tensors[name].cpu() for name in names}, "scale": step.problem.scale}, buffer)
    path.write_bytes(buffer.getvalue())
    return hashlib.sha256(buffer.getvalue()).hexdigest()


def read_recorded(path: Path, sha256: str | None) -> Step:
    """The step in a file of `write_recorded`, or of the same form. Raises `ContentsError`."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ContentsError(f"{path.name}: is larger than {MOST_BYTES >> 30} GiB")
        data = path.read_bytes()
    except OSError as error:
        raise ContentsError(f"{path.name}: cannot be read ({type(error).__name__})") from None
    digest = hashlib.sha256(data).hexdigest()
    if sha256 is None or digest != sha256.lower():
        raise ContentsError(f"{path.name}: has the SHA-256 {digest}; name it with --sha256 if that is what you expect")
    try:
        found = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except Exception as error:  # noqa: BLE001 - whatever a foreign file makes of the loader
        raise ContentsError(f"{path.name}: is no file of tensors ({type(error).__name__})") from None
    return _recorded(found, path.name)


def _recorded(found: Any, name: str) -> Step:
    """The step, checked so that no index in it leaves its tensor."""
    optional = {"v_buffer"} if _last(found, "k_buffer") == MLA_KEY_DIM else set()
    if not isinstance(found, dict) or not set(RECORDED) - optional <= set(found) <= {*RECORDED, "scale"}:
        raise ContentsError(f"{name}: holds other names than {', '.join(RECORDED)} and scale")
    for key, dimensions in RECORDED.items():
        if key in found and (not isinstance(found[key], torch.Tensor) or found[key].dim() != dimensions):
            raise ContentsError(f"{name}: {key} is no tensor of {dimensions} dimensions")
    at = {key: found[key].contiguous() for key in RECORDED if key in found}
    if "v_buffer" not in at:
        at["v_buffer"] = at["k_buffer"][..., : at["v_extend"].shape[-1]]
    dtypes = [word for word, dtype in DTYPES.items() if all(at[key].dtype == dtype for key in tuple(RECORDED)[:5])]
    starts = [at[key].tolist() for key in ("qo_indptr", "kv_indptr", "mask_indptr")]
    prefixes = [end - first for first, end in zip(starts[1], starts[1][1:], strict=False)]
    rows = starts[0][1] if len(starts[0]) > 1 else 0
    cells = [0]
    for prefix in prefixes:
        cells.append(cells[-1] + rows * (prefix + rows))
    right = (
        bool(dtypes)
        and rows > 1
        and starts[0] == [rows * index for index in range(len(prefixes) + 1)]
        and min(prefixes) >= 0
        and starts[1][0] == 0
        and starts[2] == cells
        and len(at["mask"]) >= cells[-1]
        and len(at["kv_indices"]) >= starts[1][-1]
        and 0 <= int(at["kv_indices"].min()) <= int(at["kv_indices"].max()) < len(at["k_buffer"])
        and len(at["v_buffer"]) == len(at["k_buffer"])
        and {len(at[key]) for key in ("q", "k_extend", "v_extend")} == {starts[0][-1]}
        and at["q"].shape[1] % at["k_extend"].shape[1] == 0
        and {at[key].shape[-1] for key in ("q", "k_extend", "k_buffer")} == {at["q"].shape[-1]}
    )
    if not right:
        raise ContentsError(f"{name}: sizes, starts or indices do not fit each other")
    return _step(at, dtypes[0], tuple(prefixes), rows, found.get("scale"))


def _last(found: Any, key: str) -> int | None:
    tensor = found.get(key) if isinstance(found, dict) else None
    return tensor.shape[-1] if isinstance(tensor, torch.Tensor) and tensor.dim() else None


def _step(at: Mapping[str, Tensor], dtype: str, prefixes: tuple[int, ...], rows: int, scale: float | None) -> Step:
    starts, trees = at["mask_indptr"].tolist(), []
    for index, prefix in enumerate(prefixes):
        mask = at["mask"][starts[index] : starts[index + 1]].view(rows, prefix + rows)
        trees.append(mask[:, prefix:] != 0)
    problem = Problem(
        budget=rows - 1,
        prefixes=prefixes,
        nodes=tuple(int(tree.any(1).sum()) for tree in trees),
        query_heads=at["q"].shape[1],
        key_heads=at["k_extend"].shape[1],
        key_dim=at["q"].shape[-1],
        value_dim=at["v_extend"].shape[-1],
        dtype=dtype,
        seed=0,
        own_scale=None if scale is None else float(scale),
    )
    output = torch.full((*at["q"].shape[:2], problem.value_dim), math.nan, dtype=DTYPES[dtype])
    kinds = {"qo_indptr": torch.int64, "kv_indptr": torch.int32, "kv_indices": torch.int64, "mask": torch.uint8}
    cast = {key: at[key].to(kind) for key, kind in kinds.items()}
    return Step(problem=problem, tensors={**at, **cast, "o": output}, trees=tuple(trees))
