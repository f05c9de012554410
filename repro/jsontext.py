"""Strict JSON text: what `json` would take in silence, and a stored record must not hold, is an error of one line."""

import json
import math
from collections.abc import Callable
from typing import Any

from repro.errors import RecordError

REMEDY = "restore the file, or delete it and have it made again"
LARGEST_INTEGER = 2**63 - 1


def _constant(text: str) -> object:
    raise ValueError(f"holds {text}, which JSON does not have: an unknown number is null")


def parse(raw: bytes, where: str, *, constant: Callable[[str], object] = _constant) -> object:
    """What strict JSON in UTF-8 says: no repeated key, no NaN or infinity, integers of at most 64 bits.

    ``constant`` is given the words NaN, Infinity and -Infinity, which other programs write, and returns what they stand
    for. Raises `RecordError`.
    """
    if not raw.strip():
        raise RecordError(f"{where}: is empty; {REMEDY}")
    try:
        document = json.loads(
            raw.decode("utf-8"),
            object_pairs_hook=_object,
            parse_int=_integer,
            parse_float=_float,
            parse_constant=constant,
        )
        if b"\\ud" in raw.lower():
            json.dumps(document, ensure_ascii=False).encode("utf-8")
        return document
    except UnicodeEncodeError:
        problem = "holds half of a surrogate pair, which is not text"
    except UnicodeDecodeError as error:
        problem = f"is not UTF-8 (byte {error.start})"
    except json.JSONDecodeError as error:
        problem = f"is cut off or not JSON (line {error.lineno}, column {error.colno}: {error.msg})"
    except RecursionError:
        problem = "is nested too deeply to be a record"
    except ValueError as error:
        problem = str(error)
    raise RecordError(f"{where}: {problem}; {REMEDY}")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    keys = [key for key, _ in pairs]
    repeated = next(key for key in keys if keys.count(key) > 1)
    raise ValueError(f"holds the key {repeated[:80]!r} twice in one object")


def _integer(text: str) -> int:
    # The length first: int() itself takes quadratic time, and refuses more than 4300 digits in its own words.
    if len(text) > 20 or abs(value := int(text)) > LARGEST_INTEGER:
        raise ValueError(f"holds an integer of {len(text)} digits, more than 64 bits can say")
    return value


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"holds the number {text[:40]}, which is too large")
    return value
