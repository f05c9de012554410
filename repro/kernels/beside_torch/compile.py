"""Compiles SGLang's verify-attention kernel for GPUs that are not here: the release's own launch code chooses everything.

Reads one JSON request on standard input: `{"cases": [case, …], "kernel": MODULE, "disassembler": PATH or null}`, and writes one JSON
document a line: `subject` first, then for each case in order `start` and `variant` documents or one `failure`, `end` last. A case is `{"architecture":
"sm_103", "shape": [query heads, KV heads, query and key size, value size], "mode": "eager" or "graph", "batch": 2,
"budgets": [4, …], "dtype": "bfloat16", "planted": null or a name}`. Each case is compiled in a child process, because a
compiler that meets code it cannot translate ends its process.
"""

import contextlib
import functools
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

TARGETS = {"sm_90": 90, "sm_100": 100, "sm_103": 103, "sm_120": 120}
# Dynamic shared memory that one block may have (CUDA programming guide, table of compute capabilities).
SHARED_LIMIT_BYTES = {"sm_90": 232448, "sm_100": 232448, "sm_103": 232448, "sm_120": 101376}
FAMILIES = (("UTC", "tcgen05"), ("HGMMA", "wgmma"), ("HMMA", "mma.sync"))
PTX_FAMILIES = (("tcgen05.mma", "tcgen05"), ("wgmma.mma_async", "wgmma"), ("mma.sync", "mma.sync"))
CONTEXT = 64
MESSAGE_CHARACTERS = 2000


class TargetOnly:
    """What Triton asks its driver while it compiles. It has a target and no GPU."""

    def __init__(self, capability):
        from triton.backends.compiler import GPUTarget

        self.target = GPUTarget("cuda", capability, 32)

    def get_current_target(self):
        return self.target

    def get_current_device(self):
        return 0

    def get_current_stream(self, device=None):
        return 0

    def get_active_torch_device(self):
        import torch

        return torch.device("cpu")


def set_architecture(kernel, architecture):
    """From here on the launch code sees this GPU, and Triton compiles for it."""
    from triton.runtime import driver

    capability = TARGETS[architecture]
    driver.set_active(TargetOnly(capability))
    kernel._is_cuda = True
    kernel.CUDA_CAPABILITY = (capability // 10, capability % 10)


def arguments(case, budget):
    """Those of `extend_attention_fwd` for a verify of budget + 1 rows. Only shapes, strides and types matter: in graph
    mode those of the backend's static buffers, else those that it makes for a step."""
    import torch

    heads, kv_heads, key_size, value_size = case["shape"]
    batch, rows = case["batch"], budget + 1
    dtype = getattr(torch, case["dtype"])
    graph = case["mode"] == "graph"

    def values(count, heads, size):
        return torch.zeros((count, heads, size), dtype=dtype)

    keys = values(batch * (CONTEXT + rows), kv_heads, key_size)
    latent = key_size == 576  # MLA keeps one buffer; its values are the front of its keys
    stored = keys[..., :value_size] if latent else values(len(keys), kv_heads, value_size)
    total = batch * rows
    return {
        "q_extend": values(total, heads, key_size),
        "k_extend": values(total, kv_heads, key_size),
        "v_extend": values(total, kv_heads, value_size),
        "o_extend": values(total, heads, value_size),
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
        "sm_scale": key_size**-0.5,
    }


def plant(kernel, name):
    """Something that must not come out as a sound variant."""
    if name == "over-shared-memory":
        chosen = kernel._get_block_sizes_for_extend_attention
        kernel._get_block_sizes_for_extend_attention = lambda *sizes: (*chosen(*sizes)[:3], 128, 128, 8)
    elif name == "unknown-target":
        from triton.runtime import driver

        driver.set_active(TargetOnly(77))
    elif name == "dead-compiler":
        kernel._fwd_kernel.run = lambda *_, **__: os.kill(os.getpid(), signal.SIGABRT)


def launches(kernel, case):
    """(budget, compiled kernel, grid) of every budget; nothing is launched."""
    import triton

    seen = []

    def compile_only(function, *positional, grid, warmup, **named):
        compiled = triton.runtime.JITFunction.run(function, *positional, grid=grid, warmup=True, **named)
        seen.append((compiled, grid))
        return compiled

    kernel._fwd_kernel.run = functools.partial(compile_only, kernel._fwd_kernel)
    plant(kernel, case["planted"])
    for budget in case["budgets"]:
        kernel.extend_attention_fwd(**arguments(case, budget))
    return [(budget, compiled, grid) for budget, (compiled, grid) in zip(case["budgets"], seen, strict=True)]


def tool(name):
    import triton

    return str(Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / name)


def resources(cubin):
    """Registers a thread and stack bytes, as the bundled cuobjdump prints them."""
    shown = subprocess.run([tool("cuobjdump"), "-res-usage", cubin], capture_output=True, text=True, check=True).stdout
    found = re.search(r"REG:(\d+) STACK:(\d+)", shown)
    if found is None:
        raise ValueError(f"cuobjdump shows no registers: {shown[:200]}")
    return int(found[1]), int(found[2])


def family(cubin, ptx, disassembler):
    """The matrix instructions of the machine code; where no disassembler knows the architecture, those of the PTX."""
    shown = subprocess.run([disassembler or tool("nvdisasm"), "-c", cubin], capture_output=True, text=True, check=False)
    operations = set(re.findall(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\d+ )?([A-Z][A-Z0-9]+)", shown.stdout))
    if operations:
        matrix = sorted(name for name in operations if name.endswith("MMA"))
        known = [word for mark, word in FAMILIES if any(name.startswith(mark) for name in matrix)]
        return f"{known[0] if known else 'other'} ({', '.join(matrix) or 'no matrix instruction'})"
    known = [word for mark, word in PTX_FAMILIES if mark in ptx]
    return f"{known[0] if known else 'other'} (from PTX)"


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def describe(compiled, case, disassembler):
    """The numbers of one compiled kernel."""
    ptx, cubin = compiled.asm["ptx"], compiled.asm["cubin"]
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        registers, stack_bytes = resources(file.name)
        matrix = family(file.name, ptx, disassembler)
    metadata = compiled.metadata
    return {
        "ptx_target": re.search(r"^\.target (\w+)", ptx, re.MULTILINE)[1],
        "registers": registers,
        "stack_bytes": stack_bytes,
        "shared_bytes": metadata.shared,
        "shared_limit_bytes": SHARED_LIMIT_BYTES[case["architecture"]],
        "tensor_memory_columns": getattr(metadata, "tmem_size", None) or 0,
        "mma": matrix,
        "warps": metadata.num_warps,
        "stages": metadata.num_stages,
        "cubin_sha256": sha256(cubin),
        "ptx_sha256": sha256(ptx.encode()),
    }


def variants(kernel, case, disassembler):
    """One document for each different machine code among the budgets of the case."""
    set_architecture(kernel, case["architecture"])
    started = time.monotonic()
    groups = {}
    for budget, compiled, grid in launches(kernel, case):
        groups.setdefault(sha256(compiled.asm["cubin"]), (compiled, []))[1].append((budget, grid))
    compile_s = time.monotonic() - started
    _, _, _, rows, columns, _ = kernel._get_block_sizes_for_extend_attention(*case["shape"][2:])
    for compiled, launched in groups.values():
        yield {
            "kind": "variant",
            "budgets": [budget for budget, _ in launched],
            "query_tiles": [[budget, grid[2]] for budget, grid in launched],
            "grids": [list(grid) for _, grid in launched],
            "tile": f"{rows}x{columns}",
            "compiled": describe(compiled, case, disassembler),
            "compile_s": compile_s,
        }


def failure(error):
    """A compiler's complaint as a document: what it says and the command, without our own frames."""
    text = str(error).strip() or type(error).__name__
    stage = "ptxas" if "ptxas" in text.lower() else "compiler"
    if stage == "compiler":
        text = f"{type(error).__name__}: {text}"
    return {"kind": "failure", "stage": stage, "message": text[:MESSAGE_CHARACTERS]}


def write(document, file=sys.stdout):
    file.write(json.dumps(document, sort_keys=True) + "\n")
    file.flush()


def child(kernel, case, disassembler, pipe):
    """Compile the case and write its documents; never returns."""
    with os.fdopen(pipe, "w") as file:
        try:
            for document in variants(kernel, case, disassembler):
                write(document, file)
        except Exception as error:  # noqa: BLE001 - whatever the compiler raises is the result of the case
            traceback.print_exc()
            write(failure(error), file)
    os._exit(0)


def in_child(kernel, case, disassembler):
    """Documents of the case; a death of the child is one too."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        child(kernel, case, disassembler, writing)
    os.close(writing)
    with os.fdopen(reading) as file:
        documents = [json.loads(line) for line in file if line.endswith("\n")]
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if code:
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        documents.append({"kind": "failure", "stage": "compiler", "message": f"the compiler's process died: {name}"})
    return documents


def subject(kernel):
    """Versions, and the file with the kernel."""
    import torch
    import triton

    path = Path(kernel.__file__)
    return {
        "kind": "subject",
        "triton": triton.__version__,
        "torch": torch.__version__,
        "source_path": path.name,
        "source_sha256": sha256(path.read_bytes()),
    }


def main():
    import importlib

    request = json.load(sys.stdin)
    kernel = importlib.import_module(request["kernel"])
    write(subject(kernel))
    for case in request["cases"]:
        write({"kind": "start", "case": case["id"]})
        started = time.monotonic()
        for document in in_child(kernel, case, request["disassembler"]):
            write({**document, "case": case["id"], "wall_s": time.monotonic() - started})
    write({"kind": "end"})


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        main()
