"""Environment variables: the list of those whose values are harmless. All others are named, without a value."""

import re
from collections.abc import Iterator

from repro.redact.finds import Find
from repro.redact.keys import key_class, says_nothing
from repro.redact.places import hosts_in
from repro.redact.vocabulary import PSEUDONYM, WITHHELD

_PREFIXES = (
    "SGLANG_ SGL_ VLLM_ TRTLLM_ TLLM_ NCCL_ RCCL_ CUDA_ CUBLAS_ CUBLASLT_ CUDNN_ CUTLASS_ CUTE_ TORCH_ TORCHINDUCTOR_ TORCHDYNAMO_ PYTORCH_ TRITON_"
    " FLASHINFER_ FLASH_ATTENTION_ FLASHMLA_ DG_ DEEPGEMM_ DEEP_GEMM_ DEEPEP_ OMP_ GOMP_ KMP_ MKL_ OPENBLAS_ GLOO_ UCX_ NVSHMEM_ NVTE_ NVLINK_"
    " TILELANG_ TVM_ XGRAMMAR_ OMPI_MCA_ HSA_ HIP_ ROCR_ AITER_ MIOPEN_ GRAPHREPRO_ NV_ CUBIN_ NUMBA_ ATEN_ C10_ MC_ MOONCAKE_ QUICK_REDUCE_ LC_ TQDM_"
).split()
_NAMES = frozenset(
    "PATH LD_LIBRARY_PATH LIBRARY_PATH CPATH PYTHONPATH PYTHONHOME PYTHONSAFEPATH PYTHONUNBUFFERED PYTHONHASHSEED PYTHONDONTWRITEBYTECODE PYTHONFAULTHANDLER"
    " PYTHONOPTIMIZE PYTHONMALLOC PYTHONWARNINGS PYTHONNOUSERSITE PYTHONUTF8 PYTHONIOENCODING PYTHONUNBUFFER LD_PRELOAD LANG LANGUAGE TERM TZ SHLVL"
    " HF_HUB_OFFLINE HF_HUB_ENABLE_HF_TRANSFER HF_HUB_DISABLE_TELEMETRY HF_HUB_DOWNLOAD_TIMEOUT HF_DATASETS_OFFLINE HF_HOME HF_HUB_CACHE TRANSFORMERS_OFFLINE TRANSFORMERS_CACHE"
    " TRANSFORMERS_VERBOSITY TOKENIZERS_PARALLELISM SAFETENSORS_FAST_GPU NVIDIA_VISIBLE_DEVICES NVIDIA_DRIVER_CAPABILITIES NVIDIA_REQUIRE_CUDA"
    " NVIDIA_DISABLE_REQUIRE NVIDIA_TF32_OVERRIDE NVIDIA_PRODUCT_NAME NVIDIA_PYTORCH_VERSION NVIDIA_BUILD_ID RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE"
    " GROUP_RANK NODE_RANK MASTER_PORT MALLOC_ARENA_MAX MALLOC_CONF GLIBC_TUNABLES MIMALLOC_PURGE_DELAY CC CXX NVCC NVCC_PREPEND_FLAGS NVCC_APPEND_FLAGS"
    " MAX_JOBS CMAKE_BUILD_TYPE VIRTUAL_ENV CONDA_DEFAULT_ENV XDG_CACHE_HOME RAY_DEDUP_LOGS RAY_USAGE_STATS_ENABLED FORCE_COLOR NO_COLOR COLUMNS DEBIAN_FRONTEND ENV HOME PWD TMPDIR"
    " OLDPWD SHELL XDG_RUNTIME_DIR".split()
)
_NEVER = re.compile(
    r"(?i).*(?:host|addr|url|uri|user|email|mail|proxy|endpoint|server|domain|bucket|account|tenant|org|project|team|customer|license|licence|label)\w*"
)
_SAFE_ALTHOUGH = re.compile(
    r"(?:NCCL|GLOO|UCX|NVSHMEM|SGLANG|VLLM)_(?:\w*_)?(?:PROXY\w*|SOCKET\w*|IFNAME|OOB\w*|SERVER_\w*|DISABLE\w*)|GRAPHREPRO_LABEL|CUDA_\w*|TORCH_\w*|TRITON_\w*|NCCL_NVLS\w*"
)
_ASSIGNED = re.compile(
    r"(?m)^(?:[\s>+-]*(?:export|declare -x|set|setenv|ENV|env|Environment=)\s*[\"']?|\s*-\s+|\s*)(?P<name>[A-Z][A-Z0-9_]{2,80})(?P<sep>=|(?<=[A-Z0-9_])\s*:\s+(?=[^\s]))(?P<value>[^\n]*)$"
)
_ARGUMENT = re.compile(
    r"(?:(?<![\w-])(?:-e|--env|--setenv|-x|--export=ALL,|--set-env|--build-arg)[ =,\"']+\s*[\"']?|\bexport\s+|\bEnvironment=[\"']?)(?P<name>[A-Za-z_][A-Za-z0-9_]{2,80})=(?:\\*(?P<q>[\"'])(?P<quoted>.*?)(?P=q)|(?P<value>[^\s\"']+))"
)
_PLACEHOLDER = re.compile(r"[\"']?<[A-Za-z_ -]{1,60}(?:>|$)")
_MAPPING = re.compile(
    r"environ\(\{|os\.environ|[\"']?(?:env(?:ironment)?|Env|env_vars|environ)[\"']?\s*[:=]\s*[\[{]|runtime_env"
)
_ENTRY = re.compile(r"\\*[\"'](?P<name>[A-Z][A-Z0-9_]{2,80})(?:\\*[\"']\s*:\s*\\*[\"']|=)(?P<value>[^\"'\\]*)")


def is_harmless(name: str) -> bool:
    """True if the value of an environment variable of this name may be shown, by the rules for texts."""
    if key_class(name) in {"password", "secret", "header"}:
        return False
    if name in _NAMES:
        return True
    if not name.startswith(tuple(_PREFIXES)):
        return False
    return _NEVER.fullmatch(name) is None or _SAFE_ALTHOUGH.fullmatch(name) is not None


def variables(text: str) -> Iterator[Find]:
    """Values of variables that are not on the list, in listings of an environment and in options of containers."""
    for found in _ASSIGNED.finditer(text):
        if found["sep"] == "=" or text[found.start() : found.start("name")].strip():
            yield from withheld(found["name"], found["value"], found.start("value"))
    for found in _ARGUMENT.finditer(text):
        group = "quoted" if found["q"] else "value"
        yield from withheld(found["name"], found[group], found.start(group))
    if _MAPPING.search(text):
        for found in _ENTRY.finditer(text):
            yield from withheld(found["name"], found["value"], found.start("value"))


def withheld(name: str, value: str, at: int) -> Iterator[Find]:
    if (
        not value.strip()
        or says_nothing(value)
        or _PLACEHOLDER.match(value)
        or is_harmless(name)
        or value.strip("\"' ") in {"0", "1", WITHHELD}
    ):
        return
    kind = key_class(name)
    bare = value.strip().strip("\"'")
    begin = at + value.index(bare)
    secret = kind in {"password", "secret", "header"} and len(bare) > 3
    if kind in {"host", "maybe_host"} and (hosts := list(hosts_in(bare, begin, certain=kind == "host"))):
        yield from hosts
        return
    if kind in {"host", "maybe_host"} and PSEUDONYM.search(bare):
        return
    category = "secret" if secret else "user" if kind == "user" and re.fullmatch(r"[\w.-]+", bare) else "variable"
    yield Find(begin, begin + len(bare), category, bare)  # type: ignore[arg-type]
