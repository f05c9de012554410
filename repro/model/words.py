"""The words that records share."""

from typing import Literal, TypeAlias

Shape: TypeAlias = Literal["tree", "chain", "none"]
Graph: TypeAlias = Literal["graph", "eager", "verify-eager"]
Nvls: TypeAlias = Literal["nvls", "nonvls"]
Tier: TypeAlias = Literal["kernel", "small", "dummy", "full"]
Depth: TypeAlias = Literal["screen", "rates", "full"]
Role: TypeAlias = Literal["reference", "cell", "extra", "self-test", "reference-again"]
CheckName: TypeAlias = Literal["launch", "coding", "lossless", "acceptance", "load", "throughput", "power", "rescoring"]
CheckState: TypeAlias = Literal["pass", "fail", "inconclusive", "not_run", "not_applicable"]
Outcome: TypeAlias = Literal[
    "completed", "crashed", "hung", "refused", "oom", "killed", "runtime_error", "lost", "bad_evidence"
]
VerdictName: TypeAlias = Literal["pass", "fail", "corrupt", "inconclusive", "void", "unsupported", "not_run"]
Phase: TypeAlias = Literal[
    "image_build",
    "container_start",
    "launch",
    "weights_load",
    "graph_capture",
    "warmup",
    "serving",
    "shutdown",
    "none",
]
SkipState: TypeAlias = Literal["unsupported", "deselected", "over_budget"]
Scalar: TypeAlias = str | int | float | bool | None
