"""SGLang's own Qwen3, under the name its registry looks for."""

from sglang.srt.models.qwen3 import Qwen3ForCausalLM

EntryClass = Qwen3ForCausalLM
