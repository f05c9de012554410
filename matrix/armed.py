"""The second launch of a failing cell, for its evidence: hooks armed that a measured launch must not pay for. Pure.

It explains an attempt and is counted by nobody: not in k of n, not in a throughput, not in a baseline.
"""

from collections.abc import Sequence
from dataclasses import replace

from matrix.engines.flags import FlagTable
from matrix.spec import Spec
from repro.model import Depth, PlanStep, Result, StopLadder
from repro.verdict import run_verdicts

DUMPS = "dumps"
"""In the server's working directory; what is in it at the end becomes evidence (attempt/guardian)."""
_ENVIRONMENT = {
    # Not SANITIZE or STRICT: they change or end what is to be watched.
    "SGLANG_ENABLE_NAN_LOGITS_CHECK": "1",
    "SGLANG_INVARIANT_CHECK": "1",
}
_ON_GPUS = {
    # https://docs.nvidia.com/cuda/cuda-gdb/index.html#gpu-core-dump-support
    "CUDA_ENABLE_COREDUMP_ON_EXCEPTION": "1",
    "CUDA_ENABLE_USER_TRIGGERED_COREDUMP": "1",
    "CUDA_COREDUMP_FILE": f"{DUMPS}/gpu.%h.%p",
    "CUDA_COREDUMP_GENERATION_FLAGS": "skip_nonrelocated_elf_images,skip_global_memory,skip_shared_memory,"
    "skip_local_memory,skip_constbank_memory",
}
_GPU_DUMP_S = 90.0
"""SGLang lets the GPU settle for 5 s, then waits 60 s for core dumps."""


def wanted(asked: bool | None, spec: Spec, depth: Depth) -> bool:
    """Whether failing cells are relaunched. Unasked: on GPUs, and elsewhere where a deeper plan takes its time."""
    return asked if asked is not None else spec.hardware.gpu_count > 0 or depth != "screen"


def due(results: Sequence[Result], armed: Sequence[Result]) -> Result | None:
    """The first attempt of a cell that failed or was corrupt, if none of the cell's was relaunched yet. A
    self-test, which is to be found wrong, is not explained."""
    if armed:
        return None
    verdicts = zip(results, run_verdicts(results), strict=True)
    failed = (result for result, verdict in verdicts if verdict.verdict in {"fail", "corrupt"})
    return next((result for result in failed if result.role != "self-test"), None)


def arm(step: PlanStep, *, release: str, gpus: int) -> PlanStep:
    """The step with every hook that this release has."""
    table = FlagTable.load()
    flags = {"crash-dump-folder": DUMPS, **({"kv-canary": "log"} if gpus else {})}
    words = [word for flag, value in flags.items() if table.has(release, flag) for word in (f"--{flag}", value)]
    given = [word for word in words if word not in step.argv]
    hooks = {**_ENVIRONMENT, **(_ON_GPUS if gpus else {})}
    return replace(step, argv=(*step.argv, *given), environment={**hooks, **step.environment})


def ladder(stop: StopLadder, step: PlanStep, *, gpus: int) -> StopLadder:
    """On SIGQUIT SGLang writes its crash dump: for that its signal is worth sending before it is ended."""
    if step.engine.name != "sglang":
        return stop
    return replace(stop, dump_signal="SIGQUIT", dump_s=max(stop.dump_s, _GPU_DUMP_S) if gpus else stop.dump_s)
