"""The configs of a target and its draft -> those of the dummy tier: few layers, and the heads of one rank. Pure."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

HEADS = ("num_attention_heads", "num_key_value_heads")
WIDTHS = ("moe_intermediate_size", "intermediate_size")
PER_LAYER = ("layer_types", "mlp_layer_types")


class BadConfigError(ValueError):
    """A config that lacks what must be rewritten, or numbers that do not fit together."""


def shrink_target(config: Mapping[str, Any], *, layers: int, ranks: int) -> dict[str, Any]:
    """The target with its first layers, each as wide as one of so many tensor parallel ranks sees it."""
    result = copy.deepcopy(dict(config))
    text = _text_part(result)
    had = _number(text, "num_hidden_layers")
    if not 1 <= layers <= had:
        raise BadConfigError(f"{layers} layers of a model that has {had}")
    dense = text.get("first_k_dense_replace")
    if isinstance(dense, int) and layers <= dense:
        raise BadConfigError(f"the first {dense} layers are dense: {layers} would leave out the experts")
    text["num_hidden_layers"] = layers
    for name in PER_LAYER:
        if isinstance(text.get(name), list):
            text[name] = text[name][:layers]
    if "num_nextn_predict_layers" in text:
        text["num_nextn_predict_layers"] = 0  # it would stand behind the last layer, and has no part in this
    _one_rank(text, ranks)
    return result


def shrink_draft(config: Mapping[str, Any], *, target_had: int, layers: int, ranks: int) -> dict[str, Any]:
    """The draft, reading from layers that the target still has; its own layers stay, since they are few."""
    result = copy.deepcopy(dict(config))
    places = [part for part in (result, result.get("dflash_config")) if isinstance(part, dict)]
    holders = [part for part in places if isinstance(part.get("target_layer_ids"), list)]
    if not holders:
        raise BadConfigError("the draft's config names no target_layer_ids")
    for part in holders:
        part["target_layer_ids"] = rewritten(part["target_layer_ids"], had=target_had, layers=layers)
    for part in places:
        if "num_target_layers" in part:
            part["num_target_layers"] = layers
    _one_rank(_text_part(result), ranks)
    return result


def target_layers(config: Mapping[str, Any]) -> int:
    """How many layers the target has."""
    return _number(_text_part(dict(config)), "num_hidden_layers")


def rewritten(ids: Sequence[int], *, had: int, layers: int) -> list[int]:
    """As many ids, in order and all different, at about the same relative depths of the smaller target."""
    if list(ids) != sorted(set(ids)) or not ids or ids[0] < 0 or ids[-1] >= had:
        raise BadConfigError(f"target_layer_ids {list(ids)} do not fit a target of {had} layers")
    if len(ids) > layers:
        raise BadConfigError(f"{len(ids)} target layers are read, so --layers must be at least {len(ids)}")
    result: list[int] = []
    for place, number in enumerate(ids):
        near = round(number * (layers - 1) / (had - 1)) if had > 1 else 0
        lowest = result[-1] + 1 if result else 0
        result.append(min(max(near, lowest), layers - len(ids) + place))
    return result


def _one_rank(text: dict[str, Any], ranks: int) -> None:
    """Heads and hidden widths as one rank holds them; a key/value head that several ranks share stays one."""
    size = text.get("head_dim")
    if size is None and "kv_lora_rank" not in text and "hidden_size" in text:
        text["head_dim"] = text["hidden_size"] // _number(text, "num_attention_heads")  # else made from fewer heads
    for name in HEADS:
        if name in text:
            text[name] = _share(text, name, ranks, at_least_one=name == "num_key_value_heads")
    for name in WIDTHS:
        if name in text:
            text[name] = _share(text, name, ranks, at_least_one=False)


def _share(text: Mapping[str, Any], name: str, ranks: int, *, at_least_one: bool) -> int:
    number = _number(text, name)
    if at_least_one and number < ranks:
        return 1
    if number % ranks:
        raise BadConfigError(f"{name} {number} cannot be divided among {ranks} ranks")
    return number // ranks


def _text_part(config: dict[str, Any]) -> dict[str, Any]:
    part = config.get("text_config")
    return part if isinstance(part, dict) else config


def _number(part: Mapping[str, Any], name: str) -> int:
    value = part.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise BadConfigError(f"{name} is {value!r}")
    return value
