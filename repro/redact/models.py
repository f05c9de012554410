"""Names of models: those that everybody can download stay, others tell whose they are."""

import re
from collections.abc import Iterator

from repro.redact.finds import Find
from repro.redact.vocabulary import PSEUDONYM

_PUBLISHERS = frozenset(
    "meta-llama facebook qwen deepseek-ai moonshotai zai-org thudm mistralai google google-bert openai openai-community nvidia microsoft amd intel"
    " redhatai neuralmagic nm-testing unsloth lmsys sglang-project sgl-project vllm-project internlm opengvlab minimaxai baidu tencent stepfun-ai xiaomimimo inclusionai"
    " bytedance-seed 01-ai tiiuae cohereforai coherelabs bigcode bigscience eleutherai allenai huggingfaceh4 huggingfacetb huggingfacem4"
    " nousresearch teknium thebloke casperhansen bartowski hugging-quants cognitivecomputations ibm-granite databricks mosaicml stabilityai"
    " black-forest-labs sentence-transformers baai jinaai intfloat nomic-ai mixedbread-ai togethercomputer lightseekorg yuhuili angelslim jamesliu1217"
    " eagle-team lmzheng liuhaotian llava-hf openbmb apple ai21labs xai-org servicenow-ai arcee-ai prime-intellect primeintellect moondream"
    " vikhyatk hf-internal-testing trl-internal-testing llamafactory peft-internal-testing z-lab skt lgai-exaone upstage kakaocorp"
    " naver-hyperclovax rednote-hilab skywork kwaipilot kwai-keye meituan-longcat ant-group nanbeige baichuan-inc fireworks-ai"
    " snowflake mlx-community isaacus alibaba-nlp tiny-random openvla lerobot salesforce stanford-crfm berkeley-nest openchat lmms-lab"
    " modelcloud ista-daslab turboderp gpt2 bert distilbert roberta tinyllama sshleifer cross-encoder speakleash utter-project".split()
)
"""Who publishes models on public hubs, in lower case."""
_FAMILIES = frozenset(
    "qwen qwq qvq llama meta deepseek kimi glm chatglm gemma mistral mixtral ministral magistral devstral codestral pixtral phi gpt oss nemotron minimax"
    " internlm internvl falcon command starcoder ling ring hunyuan ernie olmo step mimo seed tinyllama opt smollm bert roberta"
    " eagle eagle2 eagle3 dflash medusa mtp whisper bge gte llava granite jamba mamba rwkv exaone solar yi baichuan dbrx grok"
    " instruct chat base preview thinking reasoning coder code next omni math lite flash small medium large mini nano super ultra"
    " scout maverick distill speciale exp think text vision audio terminus zero embedding reranker draft speculator spec heads head"
    " awq gptq gguf fp8 fp4 nvfp4 mxfp4 bf16 fp16 int4 int8 bnb dynamic quantized hf moe dense air pro max plus turbo tiny random dummy"
    " simulated sim model test default demo example toy fake none null auto it pt vl hermes orca vicuna alpaca zephyr model_path path name".split()
)
_NAME = r"[A-Za-z0-9][\w.+-]{1,95}"
_ID = re.compile(rf"(?P<org>{_NAME})/(?P<name>{_NAME})")
_KEYED = re.compile(
    r"(?i)(?<![A-Za-z0-9])(?:(?:\w+_)?lora[_-](?:names?|adapters?|ids?)|served[_-]model[_-]name|model[_-](?:name|path|id|tag|repo)|(?:model[_-])?name[_-]or[_-]path|tokenizer(?:[_-]path)?|(?:speculative[_-])?draft[_-]model(?:[_-]path)?"
    r"|base[_-]model|repo[_-]id|model|root|parent)\\*[\"'`]?\s*[=:,]?\s*\\*[\"'`\[(]{0,2}(?P<value>[A-Za-z0-9][\w.+-]*(?:/[\w.+-]+)?)(?=\\*[\"'`]|[\s,;)\]}]|$)"
)
_SERVED = re.compile(r"(?i)served[_-]model|model[_-](?:name|id)|(?:\w+_)?lora[_-]")
_MODULES = re.compile(r"--lora-(?:modules|paths)[ =](?P<all>.*)")
_MODULE = re.compile(rf"(?<=[=\s\"'])(?P<value>{_NAME}/{_NAME})")
_CACHED = re.compile(rf"(?:models|datasets)--(?P<value>(?P<org>[\w.+-]{{1,96}}?)--(?P<name>{_NAME}))")
_LOADED = re.compile(
    rf"(?i)\b(?:weights|model|checkpoint|config|tokenizer|adapter|lora|repo(?:sitory)?)\s+(?:weights\s+)?(?:for|from|of|is|at)?\s*[:=]?\s*[\"'`]?(?P<value>{_NAME}/{_NAME})(?=[\"'`\s,;:)\]]|\.?$|\.\s)"
    rf"|\b(?:vllm serve|huggingface-cli download|hf download|hf upload|modelscope download(?: --model)?|launch_server)\s+[\"'`]?(?P<served>{_NAME}/{_NAME})"
)
_HUB = re.compile(
    rf"(?:huggingface\.co|hf\.co|modelscope\.cn|hf-mirror\.com)/(?:api/)?(?:models/|datasets/|spaces/)?(?!(?:api|docs|datasets|spaces|models|blog|settings|papers|join|chat|tasks|login)/)(?P<value>{_NAME}/{_NAME})"
)
HINT = r"(?i:model|tokenizer|repo|weights|checkpoint|adapter|lora|vllm serve|hf download|huggingface|hf\.co|hf-mirror|datasets--|name.or.path)"
_WORD = re.compile(r"[A-Za-z]+\d?")


def is_published(name: str) -> bool:
    """True for the id of a model that a known publisher has put on a hub, and for a bare name made of the words that
    published models are named by."""
    org, slash, rest = name.partition("/")
    if slash:
        return (
            org.lower() in _PUBLISHERS or (org.lower() in _FAMILIES and _is_plain(rest)) or not _could_be_id(org, rest)
        )
    return _is_plain(name)


def model_names(text: str) -> Iterator[Find]:
    """Ids on a hub that no known publisher has, and names under which such a model is served."""
    for found in _CACHED.finditer(text):
        if found["org"].lower() not in _PUBLISHERS:
            yield Find(found.start("value"), found.end("value"), "name", f"{found['org']}/{found['name']}")
    for listed in _MODULES.finditer(text):
        for found in _MODULE.finditer(text, listed.start("all")):
            yield from _private(found["value"], found.start("value"))
    for form in (_LOADED, _HUB):
        for found in form.finditer(text):
            group = "value" if found["value"] else "served"
            yield from _private(found[group].rstrip(".,:"), found.start(group))
    for found in _KEYED.finditer(text):
        value = found["value"].rstrip(".,")
        if "/" in value or _SERVED.match(found[0]):
            yield from _private(value, found.start("value"))


def named(value: str, at: int) -> Iterator[Find]:
    """A value that is known to name a model."""
    if _ID.fullmatch(value) or re.fullmatch(_NAME, value):
        yield from _private(value, at)


def _private(value: str, at: int) -> Iterator[Find]:
    if not is_published(value) and not PSEUDONYM.search(value):
        yield Find(at, at + len(value), "name", value)
        org, slash, _ = value.partition("/")
        if slash and org.lower() not in _FAMILIES:
            yield Find(at, at + len(org), "name", org)


def _could_be_id(org: str, name: str) -> bool:
    if re.search(r"\.(?:py|json|txt|log|so|cu|safetensors|bin|pt|md|ya?ml|toml|jinja)$", name):
        return False
    return len(org) >= 3 and bool(re.search(r"[A-Za-z]", org)) and bool(re.search(r"[\d-]|[A-Z]", name))


def _is_plain(name: str) -> bool:
    if re.search(r"\.(?:py|json|txt|log|so|cu|safetensors|bin|pt|md|ya?ml|toml|jinja)$", name) or "-" not in name:
        return True
    return all(
        len(word) < 4 or word.lower() in _FAMILIES or word.lower().rstrip("0123456789") in _FAMILIES
        for word in _WORD.findall(name)
    )
