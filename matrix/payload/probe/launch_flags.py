"""The launch flags of the installed SGLang, from its source text, without importing it.

Names only, where graphrepro's own `matrix/engines/wheel.py` reads what each flag takes as well: this runs beside the
engine, with the standard library alone. A test holds the two to the same names.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

FILES = ("srt/server_args.py", "srt/arg_groups/fields/*.py")


def flags_of(package: Path) -> tuple[str, ...]:
    """All flags and aliases with their dashes, sorted. Raises ValueError if there are none."""
    paths = sorted(path for pattern in FILES for path in package.glob(pattern))
    found = {flag for path in paths for flag in flags_in(path.read_text(encoding="utf-8"))}
    if not found:
        raise ValueError(f"no launch flag in {' or '.join(FILES)}: the layout is new")
    return tuple(sorted(found))


def flags_in(source: str) -> set[str]:
    """The flags that one source file registers: annotated fields, and calls of `add_argument`."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            for statement in node.body:
                if isinstance(statement, ast.AnnAssign):
                    found.update(_of_field(statement))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
            keywords = {word.arg: word.value for word in node.keywords if word.arg}
            names = [value for value in map(_literal, node.args) if isinstance(value, str) and value.startswith("--")]
            found.update(_with_twins(names, keywords))
    return found


def _of_field(field: ast.AnnAssign) -> Iterator[str]:
    """`name: A[type, Arg(...) or "help"]`, as SGLang's `arg_utils.py` makes arguments of it."""
    annotation = field.annotation
    if not (isinstance(annotation, ast.Subscript) and _last_name(annotation.value) in ("A", "Annotated")):
        return
    if not (isinstance(field.target, ast.Name) and isinstance(annotation.slice, ast.Tuple)):
        return
    notes = annotation.slice.elts[1:]
    arg = next((note for note in notes if isinstance(note, ast.Call) and _last_name(note.func) == "Arg"), None)
    if arg is None and not any(isinstance(note, (ast.Constant, ast.JoinedStr, ast.BinOp)) for note in notes):
        return
    keywords = {word.arg: word.value for word in arg.keywords if word.arg} if arg else {}
    if _literal(keywords.get("no_cli")) is True:
        return
    name = _literal(keywords.get("cli_name")) or "--" + field.target.id.replace("_", "-")
    aliases = _literal(keywords.get("aliases")) or []
    if isinstance(name, str) and isinstance(aliases, list):
        yield from _with_twins([name, *aliases], keywords | _entries(keywords.get("action_kwargs")))


def _with_twins(names: list[str], keywords: dict[str, ast.expr]) -> list[str]:
    """With the `--no-…` that argparse adds for a BooleanOptionalAction."""
    if _last_name(keywords.get("action")) != "BooleanOptionalAction":
        return names
    return names + ["--no-" + name.removeprefix("--") for name in names]


def _entries(node: ast.expr | None) -> dict[str, ast.expr]:
    if not isinstance(node, ast.Dict):
        return {}
    pairs = zip(node.keys, node.values, strict=True)
    return {str(key.value): value for key, value in pairs if isinstance(key, ast.Constant)}


def _last_name(node: ast.expr | None) -> str | None:
    while isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None


def _literal(node: ast.expr | None) -> object:
    try:
        value: object = ast.literal_eval(node) if node is not None else None
    except (ValueError, TypeError):
        return None
    return value
