"""Words that mean something to an engine or to everybody, so that they name nobody."""

import re

PSEUDONYM = re.compile(
    r"(?<![A-Za-z0-9-])(?:secret|word|prompt|email|uuid|serial|path|mac|ip|phone|host|user|name)-\d{1,9}(?![A-Za-z0-9-])"
)
WITHHELD = "withheld"
"""What stands for the value of a variable that is not on the list of harmless ones."""

NOTHING = frozenset(
    "none null nil true false undefined empty unset missing required optional str string int bool default auto n/a na"
    " yes no on off redacted [redacted] <redacted> hidden masked withheld removed filtered [filtered] changeme? ok"
    " *** **** ***** ****** ******* ******** xxx xxxx xxxxx xxxxxx xxxxxxxx ... … invalid expired incorrect wrong".split()
)
"""Values that say that there is no secret, or that somebody else has taken it out."""

NOBODY = frozenset(
    "root nobody admin administrator user users assistant system tool developer default none null true false ubuntu"
    " debian centos rocky opc ec2-user azureuser guest anonymous daemon bin sys www-data postgres mysql redis docker"
    " runner jenkins git hf vllm sglang sgl nvidia cuda torch triton python app appuser node server client unknown"
    " jovyan host localhost self home local shared public data tmp cache test me you the a an is was for and not all"
    " session input output message content request prompt model slurm ray mpi nccl kernel main worker master scheduler"
    " detokenizer tokenizer engine agent service process thread rank error warning info debug group other wheel".split()
)
"""Names of users that many machines have, and words that stand where names stand."""

NO_HOST = frozenset(
    "localhost localhost.localdomain ip6-localhost none null true false auto default cpu gpu cuda host host1 server"
    " client node worker master head unknown any all self this the a an is was be not on off yes no uvicorn nginx"
    " gunicorn hypercorn cloudflare apache envoy istio-envoy openresty kestrel caddy memory device pinned tcp udp"
    " shm unix ipc rank error failed already in info warn warning debug data to from at of and or for with name names"
    " kernel systemd dockerd containerd kubelet docker memory-host offload host-memory numa socket inproc withheld"
    " graphrepro sglang sgl vllm trtllm tensorrt tensorrt-llm tensorrt_llm triton torch pytorch nccl nvidia flashinfer"
    " deepgemm inference engine scheduler detokenizer tokenizer model llm".split()
)

PUBLIC_HOSTS = frozenset(
    "github.com githubusercontent.com github.io githubassets.com huggingface.co hf.co pypi.org pythonhosted.org"
    " pytorch.org python.org nvidia.com nvcr.io docker.io docker.com ghcr.io quay.io kubernetes.io sglang.ai"
    " sglang.io vllm.ai flashinfer.ai modelscope.cn openai.com anthropic.com google.com googleapis.com arxiv.org"
    " w3.org json-schema.org apache.org readthedocs.io stackoverflow.com wikipedia.org pydantic.dev tiangolo.com"
    " encode.io kernel.org gnu.org llvm.org debian.org ubuntu.com archlinux.org redhat.com conda.io anaconda.org"
    " anaconda.com mozilla.org ietf.org rfc-editor.org spdx.org opensource.org creativecommons.org gitlab.com"
    " bitbucket.org npmjs.org npmjs.com rust-lang.org crates.io docs.rs go.dev man7.org schedmd.com postgresql.org"
    " ray.io lmsys.org lmsys.com deepseek.com qwen.ai mistral.ai meta.com microsoft.com intel.com amd.com"
    " open-mpi.org openucx.org prometheus.io grafana.com opentelemetry.io fastapi.dev uvicorn.org trychroma.com"
    " systemd.io freedesktop.org linuxfoundation.org sourceware.org swagger.io openapis.org aka.ms bit.ly"
    " hooks.slack.com api.telegram.org discord.com schema.org example.invalid tritonlang.org triton-lang.org scipy.org numpy.org cmake.org jinja.pocoo.org".split()
)
"""Sites of projects and vendors, with all names below them, and what everybody's programs talk about."""

PRIVATE_BELOW = ("amazonaws.com", "googleusercontent.com", "blob.core.windows.net", "storage.googleapis.com")
"""Names below these are somebody's own bucket or machine, although the site is public."""

MODULES = frozenset(
    "torch sglang vllm flashinfer triton transformers asyncio uvicorn fastapi starlette numpy cuda cutlass cute at c10"
    " nccl sgl_kernel deep_gemm tensorrt_llm tvm logging threading multiprocessing os sys self cls repro matrix report"
    " urllib3 aiohttp httpx requests ray concurrent importlib collections functools typing json re pathlib subprocess"
    " java org com cub thrust xgrammar outlines llguidance config model layer layers attn mlp args server_args logger"
    " obj req request response batch kernel ptx sm tl gl tt ttg nvvm llvm mlir module func memref gpu arith scf nvgpu"
    " builtins pynvml psutil socket ssl http email zmq msgspec orjson pickle io nvidia jax tokenizers".split()
)
"""First words of dotted names in code, which look like names of machines."""

HARMLESS_FIRST = frozenset(
    "usr lib lib64 lib32 bin sbin proc sys dev etc boot run snap nix sgl-workspace vllm-workspace pytorch opt root tmp"
    " var usr-local workspace build_deps ray system.slice user.slice kubepods.slice kubepods cgroup".split()
)
_OPT = "conda|nvidia|venv|env|python[\\d.]*|hpcx|amazon|rocm[\\w.-]*|cuda[\\w.-]*|miniconda3?|miniforge3?|mambaforge"
SYSTEM = re.compile(
    r"/(?:(?:usr|lib(?:32|64|x32)?|s?bin|proc|sys|dev|etc|boot|snap|nix/store|sgl-workspace|vllm-workspace"
    r"|pytorch|builder|system\.slice|kubepods(?:\.slice)?)(?=/|$)"
    r"|run(?!/user/)(?=/|$)"
    r"|var/(?:lib/(?:docker|containerd|dpkg|apt|nvidia|kubelet|dcgm)|log|run|cache|tmp)(?=/|$)"
    rf"|opt/(?:{_OPT}|tritonserver|pytorch|tensorrt|dlami|slurm|intel|mellanox|ompi|openmpi|hostedtoolcache)(?=/|$)"
    r"|root/?$|root/\.(?:cache|triton|nv|local|config|cargo|rustup|vscode-server|ipython|pyenv)(?=/|$)"
    r"|tmp/?$|tmp/(?:tmp[a-z0-9_]{2,10}|torchinductor_[\w.-]+|pip-[\w-]+|cuda[\w.-]*|nccl[\w.-]*|nvidia-mps|ray|sgl[\w.-]*"
    r"|vllm[\w.-]*|triton[\w.-]*|tmpxft[\w.-]*|graphrepro[\w.-]*|CUDA_[\w.-]*)(?:\.[a-z.]{1,8})?(?=/|$)"
    r"|workspace/?$|workspace/(?:\.venv|sglang|vllm|tensorrt_llm|TensorRT-LLM|flashinfer|pytorch|csrc|build)(?=/|$)"
    r"|app/?$)"
)
"""Paths that every machine of a kind has. They are kept whole."""

TAIL = re.compile(
    r"/(?=(?:lib(?:64)?/python3\.\d+/|site-packages/|dist-packages/"
    r"|\.cache/(?:huggingface|flashinfer|torch|triton|vllm|sglang|tvm-ffi|deep_gemm|uv|pip|modelscope|cutlass|tilelang)/"
    r"|\.triton/|\.nv/ComputeCache"
    r"|python/sglang/|sglang/srt/|vllm/(?:v1|engine|model_executor|attention|worker|entrypoints|distributed|compilation)/"
    r"|torch/(?:_inductor|_dynamo|distributed|nn|cuda|csrc|utils|_C|_library)/|triton/(?:runtime|compiler|backends|language|tools)/"
    r"|transformers/(?:models|utils|generation)/|(?:cpp/)?(?:include/)?tensorrt_llm/(?:_torch|runtime|executor|llmapi|kernels|common|batch_manager|plugins)/"
    r"|flashinfer/(?:csrc|include|data|jit|comm)/|csrc/|sgl-kernel/|torch/csrc/|aten/src/|third_party/cutlass/"
    r"|matrix/payload/|graphrepro/))"
)
"""Where the part of a path begins that says which file of a package it is. It is kept, what is before is replaced."""

_PART = (
    r"(?:\d+(?:\.\d+)*(?:[xX]\d+)?[BbMm]?(?:-?A\d+(?:\.\d+)?[Bb])?|E\d+B|A\d+(?:\.\d+)?B|[vVrRkKmM]\d+(?:\.\d+)*|R1|Zero"
    r"|Instruct|Chat|Base|it|pt|Preview|Thinking|Coder|Next|VL|Omni|Math|Lite|Flash|Air|Small|Medium|Large|Mini|Nano"
    r"|Super|Ultra|Scout|Maverick|Distill|Speciale|Exp|Think|Text|Vision|Audio|Terminus|Eagle\d?|EAGLE\d?|MTP|DFlash"
    r"|FP8|FP4|NVFP4|MXFP4|BF16|FP16|INT[48]|W4A16|W8A8|W4A8|AWQ|GPTQ|GGUF|bnb|[48]bit|Dynamic|hf|HF|oss|Hermes|Qwen"
    r"|Llama|Embedding|Reranker|\d{4})"
)
PUBLIC_MODEL = re.compile(
    r"(?:Meta-)?(?:Qwen|QwQ|Llama|DeepSeek|Kimi|GLM|[Gg]emma|Mistral|Mixtral|Ministral|Devstral|Codestral|Phi|gpt|Nemotron"
    r"|MiniMax|Yi|InternLM|InternVL|Falcon|Command|StarCoder|Ling|Ring|Hunyuan|ERNIE|OLMo|Step|MiMo|Seed|TinyLlama|opt"
    rf"|SmolLM)(?:[\d.]*)(?:[-_.]{_PART})*"
)
"""Names of published models, as they stand at the end of a path: family, version, size, precision and no more."""

KEPT_FILE = re.compile(
    r"[\w.+-]*\.(?:py|pyx|pyi|so(?:\.\d+)*|cu|cuh|cpp|cc|c|h|hpp|inl|ptx|cubin|sass|cubin\.o|ttir|ttgir|llir|rs|go)"
    r"|(?:config|generation_config|tokenizer|tokenizer_config|special_tokens_map|vocab|model\.safetensors\.index"
    r"|preprocessor_config|chat_template|hf_quant_config|quantize_config|params|processor_config|added_tokens"
    r"|step|result|plan|run|verdict|environment|power|timeline|warmup|server_info|prompts)\.(?:jsonl?|jinja|model)"
    r"|merges\.txt|tokenizer\.model|model(?:-\d+-of-\d+)?\.safetensors|pytorch_model(?:-\d+-of-\d+)?\.bin|model-?\d*\.gguf"
    r"|(?:server|attempt|kernel|dmesg|nccl|launcher|stdout|stderr)[\w.-]{0,12}\.(?:log|txt)|metrics(?:_start)?\.txt"
    r"|core(?:\.\d+)?|bin|python3?(?:\.\d+)?|launch_server|nvcc|ptxas|cicc|gcc|g\+\+|ninja|cmake|pip3?|torchrun|vllm|sglang"
)
"""File names that say what a file is to the engine, and nothing of whose it is."""
