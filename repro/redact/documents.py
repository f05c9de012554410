"""Documents of JSON: every string with the key it stands under, the flag before it, and whose value it is."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from repro.redact import tokens as forms
from repro.redact.finds import Find
from repro.redact.keyed import judged
from repro.redact.keys import key_class, says_nothing
from repro.redact.paths import whole
from repro.redact.policy import Policy
from repro.redact.prompts import ID_KEYS, TEXT_KEYS
from repro.redact.variables import withheld

Replace: TypeAlias = Callable[[str, list[Find] | None, bool], str]
"""(text, finds that its place in the document gives, whether the rules for logs apply too) -> the text to keep."""

_ENVIRONMENTS = frozenset("environment env environ env_vars variables environment_variables".split())
_VERSIONS = frozenset("packages distributions requirements versions".split())
_VERSION = re.compile(r"v?\d[\w.+!-]*")
_FLAG = re.compile(r"--?[A-Za-z][\w-]*")
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]+")
_ASSIGNMENT = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)=(?P<value>.*)", re.DOTALL)


def for_the_net(value: Any, key: str = "", within: str = "") -> Any:
    """The document as the second net sees it, without what the first knows better by the key that it stands under:
    versions of packages, some of which look like addresses (`1.17.1.5`), and prompts and answers, of which only tokens
    of a known form are looked at (`tokens = find(…)` in a program that a model wrote is no secret)."""
    if isinstance(value, Mapping):
        return {name: for_the_net(item, str(name), key) for name, item in value.items()}
    if isinstance(value, list):
        return [for_the_net(item, key, within) for item in value]
    if not isinstance(value, str):
        return value
    if within in _VERSIONS and _VERSION.fullmatch(value):
        return "0"
    if key in TEXT_KEYS and within not in _ENVIRONMENTS:
        return " ".join(find.value for find in forms.tokens(value))
    return value


class Walk:
    """One pass over a document. ``replace`` sees every string once, in order."""

    def __init__(self, replace: Replace, policy: Policy) -> None:
        self._replace = replace
        self._policy = policy

    def value(self, value: Any, key: str = "", within: str = "") -> Any:
        """The value with what ``replace`` made of its strings. ``within`` is the key of the mapping it is in."""
        if isinstance(value, str):
            return self._string(value, key, within)
        if isinstance(value, Mapping):
            return self._mapping(value, key)
        if isinstance(value, (list, tuple)):
            return self._list(list(value), key, within)
        if isinstance(value, int) and not isinstance(value, bool) and key_class(key) == "password" and value:
            return self._replace(str(value), [Find(0, len(str(value)), "secret", str(value))], False)
        return value

    def _mapping(self, value: Mapping[Any, Any], key: str) -> dict[Any, Any]:
        named = value.get("name", value.get("key", value.get("Name")))
        pair = isinstance(named, str) and "value" in value
        result = {}
        for name, item in value.items():
            kept = self._replace(name, None, key not in _VERSIONS) if isinstance(name, str) else name
            within = "environment" if pair and name == "value" and _VARIABLE.fullmatch(str(named)) else key
            result[kept] = self.value(item, str(named) if pair and name == "value" else str(name), within)
        return result

    def _list(self, items: list[Any], key: str, within: str) -> list[Any]:
        if self._policy.hide_prompts and key in ID_KEYS and items and all(isinstance(item, int) for item in items):
            return [0] * len(items)
        result: list[Any] = []
        before = ""
        for item in items:
            flag = before if isinstance(item, str) and not item.startswith("--") else ""
            if flag in {"-e", "--env"} or key in _ENVIRONMENTS or key == "Env":
                assigned = _ASSIGNMENT.fullmatch(item) if isinstance(item, str) else None
                result.append(self._assigned(assigned) if assigned else self.value(item, key, within))
            else:
                result.append(self.value(item, flag.lstrip("-") or key, within))
            before = item if isinstance(item, str) and _FLAG.fullmatch(item) else ""
        return result

    def _assigned(self, assigned: re.Match[str]) -> str:
        return self._replace(
            assigned[0], list(withheld(assigned["name"], assigned["value"], assigned.start("value"))), True
        )

    def _string(self, value: str, key: str, within: str) -> str:
        if within in _VERSIONS and _VERSION.fullmatch(value):
            return value
        if key in TEXT_KEYS and within not in _ENVIRONMENTS:
            return self._prompt(value)
        return self._replace(value, list(self._placed(value, key, within)), True)

    def _prompt(self, value: str) -> str:
        """Prompts and answers stay as they were asked and given, or go as a whole: half a prompt reproduces nothing."""
        if self._policy.hide_prompts and value:
            return self._replace(value, [Find(0, len(value), "prompt", value)], False)
        return self._replace(value, list(forms.tokens(value)), False)

    def _placed(self, value: str, key: str, within: str) -> Iterator[Find]:
        if within in _ENVIRONMENTS and _VARIABLE.fullmatch(key):
            yield from withheld(key, value, 0)
            return
        if not key or says_nothing(value):
            return
        kind = key_class(key)
        if kind == "path":
            yield from whole(value, 0)
        elif kind is not None:
            yield from judged(value, 0, len(value), kind)
