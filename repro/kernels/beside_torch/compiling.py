"""One launch of the release's kernel compiled for an architecture, without a GPU, in a child process.

The release's `extend_attention_fwd` runs with tensors of the right types on the CPU; Triton's own binder specializes
and compiles; nothing is launched.
"""

import functools
import json
import os
import resource
import signal
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from . import loading
from .compiled import describe, sha256

CONTEXT = 64
DTYPES = {"bf16": "bfloat16", "fp16": "float16"}


class TargetOnly:
    """What Triton asks its driver while it compiles. It has a target and no GPU."""

    def __init__(self, architecture: str) -> None:
        from triton.backends.compiler import GPUTarget

        self.target = GPUTarget("cuda", int(architecture.removeprefix("sm_")), 32)

    def get_current_target(self) -> Any:
        return self.target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: object = None) -> int:
        del device
        return 0

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("cpu")


def arguments(case: Mapping[str, Any], budget: int) -> dict[str, Any]:
    """Those of `extend_attention_fwd` for a verify of budget + 1 rows. Only shapes, strides and types matter: in graph
    mode those of the backend's static buffers, else those of the tensors that it makes for one step."""
    import torch

    shape = case["parameters"]
    batch, rows = case["cell"]["batch"], budget + 1
    dtype = getattr(torch, DTYPES[case["cell"]["dtype"]])
    graph = case["parameters"]["mode"] == "graph"
    key_dim, value_dim = shape["key_dim"], shape["value_dim"]

    def values(count: int, heads: int, size: int) -> Any:
        return torch.zeros((count, heads, size), dtype=dtype)

    keys = values(batch * (CONTEXT + rows), shape["key_heads"], key_dim)
    latent = key_dim == 576  # MLA keeps one buffer: its values are the front of its keys
    stored = keys[..., :value_dim] if latent else values(len(keys), shape["key_heads"], value_dim)
    return {
        "q_extend": values(batch * rows, shape["query_heads"], key_dim),
        "k_extend": values(batch * rows, shape["key_heads"], key_dim),
        "v_extend": values(batch * rows, shape["key_heads"], value_dim),
        "o_extend": values(batch * rows, shape["query_heads"], value_dim),
        "k_buffer": keys,
        "v_buffer": stored,
        "qo_indptr": torch.zeros(batch + 1, dtype=torch.int64 if graph else torch.int32),
        "kv_indptr": torch.zeros(batch + 1, dtype=torch.int32),
        "kv_indices": torch.zeros(batch * CONTEXT, dtype=torch.int64),
        "custom_mask": torch.zeros(batch * rows * (CONTEXT + rows), dtype=torch.uint8 if graph else torch.bool),
        "is_causal": True,
        "mask_indptr": torch.zeros(batch + 1, dtype=torch.int64),
        "max_len_extend": rows,
        "k_scale": 1.0,
        "v_scale": 1.0,
        "sm_scale": key_dim**-0.5,
    }


def launches(kernel: Any, case: Mapping[str, Any]) -> list[tuple[int, Any, Sequence[int]]]:
    """(budget, compiled kernel, grid) of every budget, as the release's `extend_attention_fwd` asks for them. Nothing
    is launched."""
    from triton.runtime import JITFunction, driver

    driver.set_active(TargetOnly(case["cell"]["architecture"]))
    loading.emulate(kernel, case["cell"]["architecture"])
    seen: list[tuple[Any, Sequence[int]]] = []

    def compile_only(function: Any, *positional: Any, grid: Sequence[int], warmup: bool, **named: Any) -> Any:
        del warmup
        compiled = JITFunction.run(function, *positional, grid=grid, warmup=True, **named)
        seen.append((compiled, grid))
        return compiled

    kernel._fwd_kernel.run = functools.partial(compile_only, kernel._fwd_kernel)
    plant(kernel, case["planted"])
    budgets = case["parameters"]["budgets"]
    for budget in budgets:
        kernel.extend_attention_fwd(**arguments(case, budget))
    return [(budget, *one) for budget, one in zip(budgets, seen, strict=True)]


def plant(kernel: Any, name: str | None) -> None:
    """Something that must not come out as sound code."""
    if name == "over_shared_memory":
        chosen = kernel._get_block_sizes_for_extend_attention
        kernel._get_block_sizes_for_extend_attention = lambda *sizes: (*chosen(*sizes)[:3], 64, 64, 8)
    elif name == "bad_ptx":
        from triton.backends.nvidia.compiler import CUDABackend

        sound = CUDABackend.make_ptx
        CUDABackend.make_ptx = lambda *passed: sound(*passed) + "\nthis is no PTX;\n"
    elif name == "dead_compiler":
        kernel._fwd_kernel.run = lambda *_, **__: os.kill(os.getpid(), signal.SIGABRT)


def variants(kernel: Any, case: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """One document for each different machine code among the budgets of the case."""
    begun = time.monotonic()
    groups: dict[str, tuple[Any, list[tuple[int, Sequence[int]]]]] = {}
    for budget, compiled, grid in launches(kernel, case):
        groups.setdefault(sha256(compiled.asm["cubin"]), (compiled, []))[1].append((budget, grid))
    compile_s = time.monotonic() - begun
    shape = case["parameters"]
    for compiled, launched in groups.values():
        yield {
            "kind": "variant",
            "budgets": [budget for budget, _ in launched],
            "tile": loading.tile(kernel, shape["key_dim"], shape["value_dim"]),
            "compile_s": compile_s,
            "compiled": {
                **describe(compiled, case["cell"]["architecture"], case["disassemblers"]),
                "query_tiles": [[budget, grid[2]] for budget, grid in launched],
            },
        }


def complaint(error: Exception) -> dict[str, str]:
    """What the compiler says, without our own frames."""
    text = str(error).strip()
    ptxas = "ptxas" in text.lower()
    message = text if ptxas else f"{type(error).__name__}: {text}"
    return {"kind": "failure", "reason": "ptxas_failed" if ptxas else "compiler_failed", "message": message}


def in_child(kernel: Any, case: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Documents of the case; a death of the compiler's process is one too."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        with os.fdopen(writing, "w") as file:
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            try:
                for document in variants(kernel, case):
                    file.write(json.dumps(document) + "\n")
            except Exception as error:  # noqa: BLE001 - whatever the compiler raises is the result of the case
                traceback.print_exc()
                file.write(json.dumps(complaint(error)) + "\n")
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        documents = [json.loads(line) for line in file if line.endswith("\n")]
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if code:
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        message = f"the process of the compiler ended with {name}"
        return [{"kind": "failure", "reason": "compiler_died", "message": message}]
    return documents
