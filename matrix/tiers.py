"""What differs in another tier: laid over the document of a spec, it gives that tier's own."""

from collections.abc import Mapping
from typing import cast

WHOLE = frozenset({"model", "axes", "load"})
"""Tables that stand in place of the spec's: half of another model is no model."""


def tier_document(document: Mapping[str, object], tier: str) -> dict[str, object]:
    """The document of a tier of this spec, without further tiers."""
    base = {key: value for key, value in document.items() if key != "tiers"}
    over = cast("Mapping[str, Mapping[str, object]]", document["tiers"])[tier]
    return {**_merged(base, over), **{key: value for key, value in over.items() if key in WHOLE}}


def _merged(base: Mapping[str, object], over: Mapping[str, object]) -> dict[str, object]:
    result = dict(base)
    for key, value in over.items():
        below = base.get(key)
        both = isinstance(value, Mapping) and isinstance(below, Mapping)
        result[key] = (
            _merged(cast("Mapping[str, object]", below), value) if both and isinstance(value, Mapping) else value
        )
    return result
