"""Read the launch flags of an SGLang wheel from its source text, without installing or importing it.

Two styles occur (0.5.9 to 0.5.23): `add_argument` calls in `srt/server_args.py`, and annotated fields
`name: A[type, Arg(...) or "help"]` in the same file or in `srt/arg_groups/fields/*.py`, from which
`srt/arg_groups/arg_utils.py` makes arguments; this module follows the rules of that file.
"""

import ast
import hashlib
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path

from matrix.engines.flags import Takes
from repro.errors import RecordError

_FIELDS = "sglang/srt/arg_groups/fields/"
_SERVER_ARGS = "sglang/srt/server_args.py"


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadFlag:
    takes: Takes
    choices: tuple[str, ...] | None
    alias_of: str | None
    deprecated: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadWheel:
    version: str
    sha256: str
    torch: str | None
    flags: Mapping[str, ReadFlag]


def read_wheel(path: Path) -> ReadWheel:
    """Version, digest, torch pin and flags. Raises RecordError if the file is no wheel of SGLang."""
    try:
        with zipfile.ZipFile(path) as wheel:
            names = wheel.namelist()
            metadata = next(name for name in names if re.fullmatch(r"sglang-[^/]+\.dist-info/METADATA", name))
            headers = HeaderParser().parsestr(wheel.read(metadata).decode("utf-8"))
            sources = [name for name in names if name == _SERVER_ARGS or _is_fields(name)]
            flags: dict[str, ReadFlag] = {}
            for name in sorted(sources):
                flags.update(read_flags(wheel.read(name).decode("utf-8")))
    except (OSError, zipfile.BadZipFile, StopIteration, SyntaxError, UnicodeDecodeError) as problem:
        raise RecordError(f"{path.name}: not a readable wheel of sglang: {problem}") from problem
    if not flags:
        raise RecordError(f"{path.name}: no launch flag found in {_SERVER_ARGS} or {_FIELDS}: its layout is new")
    return ReadWheel(
        version=headers["Version"],
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        torch=_torch_pin(headers.get_all("Requires-Dist", [])),
        flags=flags,
    )


def read_flags(source: str) -> dict[str, ReadFlag]:
    """The flags that one source file registers, aliases included, by name with dashes."""
    flags: dict[str, ReadFlag] = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            for statement in node.body:
                if isinstance(statement, ast.AnnAssign):
                    flags.update(_from_field(statement))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
            flags.update(_from_call(node))
    return flags


def _is_fields(name: str) -> bool:
    return name.startswith(_FIELDS) and name.endswith(".py")


def _torch_pin(requirements: list[str]) -> str | None:
    for requirement in requirements:
        found = re.match(r"torch\s*\(?==\s*([0-9][0-9a-z.+]*)\)?\s*($|;)", requirement)
        if found and "extra ==" not in requirement:
            return found[1]
    return None


def _from_field(field: ast.AnnAssign) -> dict[str, ReadFlag]:
    annotation = field.annotation
    if not (isinstance(annotation, ast.Subscript) and _name(annotation.value) in ("A", "Annotated")):
        return {}
    if not (isinstance(field.target, ast.Name) and isinstance(annotation.slice, ast.Tuple)):
        return {}
    kind, *notes = annotation.slice.elts
    arg = next((note for note in notes if isinstance(note, ast.Call) and _name(note.func) == "Arg"), None)
    if arg is None and not any(isinstance(note, ast.Constant | ast.JoinedStr | ast.BinOp) for note in notes):
        return {}
    keywords = {word.arg: word.value for word in arg.keywords if word.arg} if arg else {}
    keywords |= _entries(keywords.get("action_kwargs"))
    if _literal(keywords.get("no_cli")) is True:
        return {}
    name = _literal(keywords.get("cli_name")) or "--" + field.target.id.replace("_", "-")
    aliases = _literal(keywords.get("aliases")) or []
    if not isinstance(name, str) or not isinstance(aliases, list):
        return {}
    takes, literal = _takes_of_type(kind, keywords)
    return _spelt([name, *aliases], takes, _choices(keywords) or literal, _is_deprecated(keywords), keywords)


def _from_call(call: ast.Call) -> dict[str, ReadFlag]:
    names = [argument.value for argument in call.args if isinstance(argument, ast.Constant)]
    flags = [name for name in names if isinstance(name, str) and name.startswith("--")]
    if not flags:
        return {}
    keywords = {word.arg: word.value for word in call.keywords if word.arg}
    takes = _takes_of_action(keywords) or _takes_of_nargs(keywords) or "value"
    return _spelt(flags, takes, _choices(keywords), _is_deprecated(keywords), keywords)


def _spelt(
    names: list[str], takes: Takes, choices: tuple[str, ...] | None, deprecated: bool, keywords: Mapping[str, ast.expr]
) -> dict[str, ReadFlag]:
    found = {
        name: ReadFlag(
            takes=takes, choices=choices, alias_of=names[0] if name != names[0] else None, deprecated=deprecated
        )
        for name in names
    }
    if _name(keywords.get("action")) == "BooleanOptionalAction":
        for name in names:
            twin = "--no-" + name.removeprefix("--")
            found[twin] = ReadFlag(takes="nothing", choices=None, alias_of=None, deprecated=deprecated)
    return found


def _takes_of_type(kind: ast.expr, keywords: Mapping[str, ast.expr]) -> tuple[Takes, tuple[str, ...] | None]:
    """What an annotated field's argument takes, and the choices of its Literal type."""
    by_action = _takes_of_action(keywords)
    if by_action is not None:
        return by_action, None
    inner = _without_optional(kind)
    base = _name(inner.value) if isinstance(inner, ast.Subscript) else _name(inner)
    if base == "Literal" and isinstance(inner, ast.Subscript):
        elements = inner.slice.elts if isinstance(inner.slice, ast.Tuple) else [inner.slice]
        values = [_literal(element) for element in elements]
        return "value", tuple(str(value) for value in values)
    if base in ("List", "list") and "type_parser" not in keywords:
        return _takes_of_nargs(keywords) or "values", None
    if base == "bool":
        return "nothing", None
    return _takes_of_nargs(keywords) or "value", None


def _takes_of_action(keywords: Mapping[str, ast.expr]) -> Takes | None:
    action = keywords.get("action")
    if action is None:
        return None
    name = _literal(action) if isinstance(action, ast.Constant) else _name(action)
    if name in ("store_true", "store_false", "store_const", "BooleanOptionalAction", "DeprecatedStoreTrueAction"):
        return "nothing"
    nargs = keywords.get("nargs")
    if name in ("DeprecatedAction", "DeprecatedStoreConstAction"):  # nargs=0 unless the call says otherwise
        return "nothing" if nargs is None else _takes_of_nargs(keywords) or "value"
    return _takes_of_nargs(keywords)


def _takes_of_nargs(keywords: Mapping[str, ast.expr]) -> Takes | None:
    nargs = _literal(keywords.get("nargs"))
    if nargs == "?":
        return "optional"
    if nargs in ("+", "*") or (isinstance(nargs, int) and nargs > 1):
        return "values"
    return "nothing" if nargs == 0 else None


def _choices(keywords: Mapping[str, ast.expr]) -> tuple[str, ...] | None:
    values = _literal(keywords.get("choices"))
    return tuple(str(value) for value in values) if isinstance(values, list | tuple) and values else None


def _is_deprecated(keywords: Mapping[str, ast.expr]) -> bool:
    action, help_text = _name(keywords.get("action")), _literal(keywords.get("help"))
    said = isinstance(help_text, str) and re.match(r"[\[(]?deprecated\b", help_text, re.IGNORECASE) is not None
    return said or (action is not None and action.startswith("Deprecated"))


def _without_optional(kind: ast.expr) -> ast.expr:
    if isinstance(kind, ast.Subscript) and _name(kind.value) == "Optional":
        return kind.slice
    if isinstance(kind, ast.BinOp) and isinstance(kind.op, ast.BitOr):
        return next((side for side in _union(kind) if _literal(side) is not None or _name(side)), kind)
    return kind


def _union(kind: ast.expr) -> Iterator[ast.expr]:
    if isinstance(kind, ast.BinOp):
        yield from _union(kind.left)
        yield from _union(kind.right)
    elif not (isinstance(kind, ast.Constant) and kind.value is None):
        yield kind


def _entries(node: ast.expr | None) -> dict[str, ast.expr]:
    """A dict display with literal keys, by key."""
    if not isinstance(node, ast.Dict):
        return {}
    pairs = zip(node.keys, node.values, strict=True)
    return {str(key.value): value for key, value in pairs if isinstance(key, ast.Constant)}


def _name(node: ast.expr | None) -> str | None:
    """The last part of a dotted name, of a subscripted one too."""
    if isinstance(node, ast.Subscript):
        return _name(node.value)
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None


def _literal(node: ast.expr | None) -> object:
    """The value of a literal; None for what is none."""
    if node is None:
        return None
    try:
        value: object = ast.literal_eval(node)
    except (ValueError, TypeError):
        return None
    return value
