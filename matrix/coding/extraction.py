"""The code in an answer: out of prose, Markdown, doctest prompts, HTML escapes, reasoning, answers that are cut off.

The answer is parsed, never run.
"""

import ast
import builtins
import contextlib
import html
import re
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from matrix.coding.fences import blocks

LONGEST = 1 << 20
"""Characters of an answer that are looked at."""
LONGEST_CODE = 100_000
"""Characters of a block that are still taken for a program."""
MOST_TRIES = 500
"""How often pieces of a block are parsed before the search is given up: most text is no program at all."""
_ENTITIES = {"lt", "gt", "amp", "quot"}
_ENTITY = re.compile(r"&(?:lt|gt|amp|quot|apos|#\d{1,3}|#x[0-9a-fA-F]{1,3});")
_START = re.compile(r"^(?P<indent>[ \t]*)(?:(?:def|class|async def|import|from)\b|@|[A-Za-z_]\w* *=)")
_GOES_ON = re.compile(
    r"^(?:def|class|async|import|from|@|if|for|while|try|except|finally|else|elif|with|[)\]}]"
    r"|[A-Za-z_]\w*(?: *:.*)? *=)"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """``code`` is None if the answer holds none that defines what it has to; ``notes`` say what was done to find it."""

    code: str | None
    notes: tuple[str, ...]


def find_code(answer: str, entry_point: str) -> Found:
    """The last complete definition of the function or class ``entry_point``, with what it needs of other blocks."""
    text, notes = _without_reasoning(_normal(answer))
    pieces = [*_programs(text)]
    chosen = next((piece for piece in reversed(pieces) if _defines(piece[1], entry_point)), None)
    if chosen is not None:
        code, tree = chosen
        needed = _needed(tree, [other for _, other in pieces if other is not tree])
        return Found(code="\n\n".join([*needed, code]).strip("\n") + "\n", notes=notes)
    broken = _broken(text, entry_point)
    if broken is not None:
        return Found(code=broken, notes=(*notes, "the code is not complete or not Python"))
    return Found(code=None, notes=notes)


def _normal(answer: str) -> str:
    text = answer[:LONGEST].removeprefix("\ufeff").replace("\0", "")
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\u00a0", " ")


def _without_reasoning(text: str) -> tuple[str, tuple[str, ...]]:
    """What comes after the reasoning. Where nothing does, the reasoning itself, and a note."""
    rest = text.rpartition("</think>")[2]  # templates may open the reasoning in the prompt
    rest, unclosed, inside = rest.partition("<think>")
    if rest.strip():
        return rest, ()
    if unclosed:
        return inside, ("the answer ends within its reasoning, which was searched instead",)
    inside = text.replace("<think>", "").replace("</think>", "")
    return inside, (("nothing comes after the reasoning, which was searched instead",) if inside.strip() else ())


def _programs(text: str) -> Iterator[tuple[str, ast.Module]]:
    """Every piece of the text that is a Python program, in order; without a fence, what looks like one."""
    fenced = blocks(text)
    for block in fenced:
        yield from _program(block.text)
    if not fenced:
        yield from _program(text)


def _program(text: str) -> Iterator[tuple[str, ast.Module]]:
    """The text as a program: as it is, without prompts, without escapes; else the programs within it."""
    plain = _unwrapped(text[:LONGEST_CODE])
    tree = _parsed(plain)
    if tree is not None:
        yield plain, tree
    else:
        yield from _within(plain)


def _unwrapped(text: str) -> str:
    plain = textwrap.dedent(text.expandtabs() if "\t" in text and _parsed(text) is None else text)
    if re.search(r"^\s*>>> ", plain, re.MULTILINE):
        plain = _without_prompts(plain)
    if not _ENTITY.search(plain):
        return plain
    tree = _parsed(plain)
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} if tree is not None else _ENTITIES
    return html.unescape(plain) if names & _ENTITIES else plain


def _without_prompts(text: str) -> str:
    """The input of a session at Python's prompt; what it printed is left out."""
    lines = [re.match(r"^\s*(?:>>>|\.\.\.)(?: (.*)|$)", line) for line in text.split("\n")]
    return "\n".join(line[1] or "" for line in lines if line)


def _within(text: str) -> Iterator[tuple[str, ast.Module]]:
    """Programs between lines that are none. A definition that is cut off is left out as a whole."""
    lines = text.split("\n")
    at = tries = 0
    while at < len(lines) and tries < MOST_TRIES:
        start = _START.match(lines[at])
        if start is None:
            at += 1
            continue
        indent = start["indent"]
        end = at + 1
        ends = [end]
        while end < len(lines) and _belongs(lines[end], indent):
            if (
                lines[end].strip()
                and not lines[end].startswith(indent + " ")
                and not lines[end].startswith(indent + "\t")
            ):
                ends.append(end)
            end += 1
        ends = list(dict.fromkeys(reversed([*ends, end])))[:50]
        tries += len(ends)
        program = _longest(lines, at, ends, indent)
        if program is None:
            at += 1
            continue
        yield program[0], program[1]
        at = program[2]


def _belongs(line: str, indent: str) -> bool:
    if not line.strip():
        return True
    if not line.startswith(indent):
        return False
    rest = line[len(indent) :]
    return rest[0] in " \t#" or _GOES_ON.match(rest) is not None


def _longest(lines: Sequence[str], at: int, ends: Sequence[int], indent: str) -> tuple[str, ast.Module, int] | None:
    """The first run of whole statements from ``at`` to one of ``ends`` that parses: (code, tree, where it ends)."""
    for end in ends:
        code = "\n".join(line[len(indent) :] if line.startswith(indent) else line.lstrip() for line in lines[at:end])
        tree = _parsed(code)
        if tree is not None and tree.body:
            return code, tree, max(end, at + 1)
    return None


def _parsed(code: str) -> ast.Module | None:
    """The tree of a program that holds a statement; None for anything else."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as odd escapes in strings
            tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return tree if tree.body else None


def _defines(tree: ast.Module, name: str) -> bool:
    """Whether the program defines the name, with more than a stub."""
    return any(name in _bound(node) and not _is_stub(node) for node in tree.body)


def _bound(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    if isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}
    return set()


def _is_stub(node: ast.stmt) -> bool:
    """A definition that only says that there will be one."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return False
    return all(
        isinstance(part, ast.Pass)
        or (isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant))
        or (isinstance(part, ast.Raise) and _raised_name(part) == "NotImplementedError")
        for part in node.body
    )


def _raised_name(node: ast.Raise) -> str | None:
    raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
    return raised.id if isinstance(raised, ast.Name) else None


def _needed(tree: ast.Module, others: Sequence[ast.Module]) -> list[str]:
    """Definitions and imports of other blocks that the program uses and does not have, in their order."""
    offered: dict[str, tuple[int, ast.stmt]] = {}
    for place, node in enumerate(node for other in others for node in other.body):
        offered.update(dict.fromkeys(_bound(node), (place, node)))
    taken: dict[int, ast.stmt] = {}
    missing = _free(tree)
    while missing:
        found = offered.get(missing.pop())
        if found is not None and found[0] not in taken:
            taken[found[0]] = found[1]
            missing |= _free(ast.Module(body=[found[1]], type_ignores=[]))
    with contextlib.suppress(RecursionError):
        return [ast.unparse(taken[place]) for place in sorted(taken)]
    return []


def _free(tree: ast.Module) -> set[str]:
    """Names that are read and bound nowhere in the program."""
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    bound = {node.id for node in names if not isinstance(node.ctx, ast.Load)}
    bound |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt):
            bound |= _bound(node)
        if isinstance(node, ast.ExceptHandler) and node.name:
            bound.add(node.name)
    return {node.id for node in names if isinstance(node.ctx, ast.Load)} - bound - set(dir(builtins))


def _broken(text: str, entry_point: str) -> str | None:
    """The last block that begins to define the entry point, although it does not parse."""
    begins = re.compile(rf"^[ \t]*(?:async[ \t]+def|def|class)[ \t]+{re.escape(entry_point)}\b", re.MULTILINE)
    candidates = [block.text for block in blocks(text)] or [text]
    for candidate in reversed(candidates):
        last = [*begins.finditer(candidate)]
        if last:
            return candidate[last[-1].start() :][:LONGEST_CODE]
    return None
