"""What lines of a log mean. A cause decides the kind; a consequence only supports it, and decides if no cause is there.

Each pattern is searched in the line without colours, in linear time: logs are hostile input. ``lowest`` holds for
patterns that say less than any other cause.
"""

import re
from dataclasses import dataclass

from repro.model import Phase


@dataclass(frozen=True, kw_only=True, slots=True)
class Pattern:
    kind: str
    expression: re.Pattern[str]
    cause: bool
    next_step: str
    lowest: bool = False


def _cause(kind: str, expression: str, next_step: str, *, lowest: bool = False) -> Pattern:
    return Pattern(kind=kind, expression=re.compile(expression), cause=True, next_step=next_step, lowest=lowest)


def _consequence(kind: str, expression: str, next_step: str) -> Pattern:
    return Pattern(kind=kind, expression=re.compile(expression), cause=False, next_step=next_step)


def _in_order(*parts: str) -> str:
    """An expression for lines that hold the parts one after another, with anything between. The anchor and the atomic
    groups keep it from going back, which is what makes `a.*b.*c` take hours on a line that is made for it."""
    return "^" + "".join(f"(?>.*?(?:{part}))" for part in parts)


_RELAUNCH = "run the cell again under compute-sanitizer, and with graphs off, to see which kernel it is"
_LESS_MEMORY = "lower the memory fraction, the number of running requests or the largest captured batch"
_BLOCKED = "take stacks of every rank (py-spy dump) before the server is stopped"

PATTERNS: tuple[Pattern, ...] = (
    _cause("cuda_illegal_memory_access", r"illegal memory access was encountered|cudaErrorIllegalAddress", _RELAUNCH),
    _cause("misaligned_address", r"CUDA error: misaligned address|cudaErrorMisalignedAddress", _RELAUNCH),
    _cause("device_side_assert", r"device-side assert triggered|cudaErrorAssert\b", "find the printed assertion"),
    _cause("gpu_exception_xid", r"unspecified launch failure|cudaErrorLaunchFailure", _RELAUNCH),
    _cause("no_kernel_image", r"no kernel image is available for execution", "use a build that has this architecture"),
    _cause("ptxas_arch_unsupported", _in_order("ptxas", "is not defined for option 'gpu-name'"), "use a newer ptxas"),
    _cause("ptx_toolchain_mismatch", r"unsupported toolchain|cudaErrorUnsupportedPtxVersion", "update the GPU driver"),
    _cause("triton_out_of_resources", r"OutOfResources: out of resource", "compare the kernel's needs with the GPU's"),
    _cause("oom_gpu", r"CUDA out of memory|torch\.OutOfMemoryError|Not enough memory\. Please try", _LESS_MEMORY),
    _cause("nccl_nvls", "(?i)" + _in_order("nccl", "nvls|multicast", "fail|error"),
           "run with NVLS off, and check the fabric"),
    _cause("nan_logits", r"NaN detected!|probability tensor contains either `inf`, `nan`", "find the first bad layer"),
    _cause("segfault", r"Fatal Python error: Segmentation fault|!!!!!!! Segfault encountered", "read the host stack"),
    _cause("segfault", r"crashed with exit code -11\b", "get a core dump: the log has no stack"),
    _cause("argparse_error", r"error: (unrecognized arguments|ambiguous option|argument --|the following arguments)",
           "compare the flag with `python -m matrix plan`, which knows each release's flags"),
    _cause("port_in_use", r"(?i)address already in use|port \d+ is (already in use|not available)", "free the port"),
    _cause("unsupported_feature_combination",
           _in_order("ValueError: ",
                     "(not |un)support|Unknown speculative algorithm|must (be|equal)|cannot be used|requires"),
           "correct the options, or declare the cell unsupported in the spec"),
    _cause("hf_auth", _in_order("OSError|RepositoryNotFoundError|GatedRepoError", "huggingface|gated repo"),
           "fix the path"),
    _cause("unknown", r"Scheduler hit an exception", "read the traceback below this line", lowest=True),
    _consequence("hang_deadlock", r"[Ww]atchdog timeout", _BLOCKED),
    _consequence("killed_by_signal_9", r"crashed with exit code -9\b", "look in the kernel log for the OOM killer"),
    _consequence("external_kill", r"crashed with exit code -15\b|Received (SIGTERM|SIGINT)", "find who stopped it"),
    _consequence("unknown", r"crashed with exit code (?!-9\b|-11\b|-15\b)-?\d+", "get the subprocess's own output"),
    _consequence("unknown", r"SIGQUIT received|[Rr]eceived sigquit from a child process", "get the child's own output"),
)  # fmt: skip

PHASES: tuple[tuple[Phase, re.Pattern[str]], ...] = (
    ("weights_load", re.compile(r"Load weight begin")),
    ("graph_capture", re.compile(r"Capture (?:cuda graph|piecewise|target|draft)\b.{0,80}? begin")),
    ("serving", re.compile(r"The server is fired up and ready to roll|Uvicorn running on")),
)
"""The engine's own lines at which a phase begins, in order."""

HARMLESS = re.compile(r"freeze_gc|Ignore import error|nanobind: leaked|leaked semaphore")
"""Lines of healthy servers that hold words of dying ones (SGLang 0.5.23: a race at start logs four tracebacks)."""
