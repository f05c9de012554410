"""Several modules of one package -> one file that needs none of them: the very same text, what nobody uses left out.

A module that is used by its name (`inputs.build`) becomes a small namespace of that name, so that no line is rewritten.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

Use = tuple[str, str]
"""A module and a name at its top level."""
LINE = 120
NAMESPACE = '''def namespace(*names: str) -> SimpleNamespace:
    """Some of this file's names, to be used as those of a module."""
    return SimpleNamespace(**{name: globals()[name] for name in names})'''
"""What the file needs beside its parts, from `types`."""


@dataclass(frozen=True, slots=True)
class Definition:
    """One definition at the top level of a module: its text, with the string that documents it, and its nodes."""

    text: str
    nodes: tuple[ast.stmt, ...]


@dataclass(slots=True)
class Module:
    """What a module's text defines and imports. ``outside`` is by the name that it has here: the import's module (None
    for a plain import) and its name; ``named`` are names of siblings' definitions, ``siblings`` modules used whole."""

    docstring: str
    definitions: dict[str, Definition] = field(default_factory=dict)
    outside: dict[str, tuple[str | None, str]] = field(default_factory=dict)
    named: dict[str, Use] = field(default_factory=dict)
    siblings: list[str] = field(default_factory=list)


def single_file(sources: Mapping[str, str], entry: str, start: str, constants: Mapping[str, str]) -> tuple[str, str]:
    """Imports, and everything that ``start`` of the module ``entry`` needs, in the order of their use. ``constants``:
    other text for definitions of the entry.

    Raises ValueError if two modules use one name for different things, or have what this cannot take apart.
    """
    modules: dict[str, Module] = {}
    _load(entry, sources, modules)
    modules[entry].definitions |= {
        name: Definition(text, tuple(ast.parse(text).body)) for name, text in constants.items()
    }
    used = _used(modules, (entry, start))
    _refuse_collisions(modules, used)
    return _imports(modules, used), "\n\n\n".join([NAMESPACE, *_sections(modules, used)])


def _load(name: str, sources: Mapping[str, str], modules: dict[str, Module]) -> None:
    """A module and, before it, those that it imports."""
    if name in modules:
        return
    found = _parsed(sources[name])
    for sibling in (*found.siblings, *(module for module, _ in found.named.values())):
        _load(sibling, sources, modules)
    modules[name] = found


def _parsed(source: str) -> Module:
    tree = ast.parse(source)
    found = Module(docstring=ast.get_docstring(tree) or "")
    lines = source.splitlines()
    body = tree.body[1:] if found.docstring else tree.body
    for node, following in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.Import | ast.ImportFrom):
            _note_import(node, found)
        elif not _is_string(node) and not _is_start(node):
            name = _name(node)
            both = (node, following) if following is not None and _is_string(following) else (node,)
            found.definitions[name] = Definition("\n".join(lines[_first(node) - 1 : both[-1].end_lineno]), both)
    return found


def _note_import(node: ast.Import | ast.ImportFrom, found: Module) -> None:
    for alias in node.names:
        here = alias.asname or alias.name
        if isinstance(node, ast.Import):
            found.outside[here] = (None, alias.name)
        elif not node.level:
            found.outside[here] = (node.module, alias.name)
        elif node.module is None:
            found.siblings.append(alias.name)
        else:
            found.named[here] = (node.module, alias.name)
    if any(alias.asname for alias in node.names):
        raise ValueError(f"line {node.lineno}: an import under another name cannot be put into one file")


def _name(node: ast.stmt) -> str:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return node.name
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    if len(targets) == 1 and isinstance(targets[0], ast.Name):
        return targets[0].id
    raise ValueError(f"line {node.lineno}: a statement at the top level that defines no single name")


def _first(node: ast.stmt) -> int:
    decorators: Sequence[ast.expr] = getattr(node, "decorator_list", ())
    return min(node.lineno, *(decorator.lineno for decorator in decorators)) if decorators else node.lineno


def _is_string(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _is_start(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'"


def _used(modules: Mapping[str, Module], start: Use) -> set[Use]:
    found: set[Use] = set()
    waiting = [start]
    while waiting:
        use = waiting.pop()
        if use not in found:
            found.add(use)
            waiting += _uses(modules, use)
    return found


def _uses(modules: Mapping[str, Module], use: Use) -> Iterator[Use]:
    """What one definition needs of its own module and of its siblings."""
    name, module = use[0], modules[use[0]]
    definition = module.definitions[use[1]]
    own = _own_names(definition)
    for node in _walked(definition):
        if isinstance(node, ast.Name):
            if node.id in module.definitions and node.id not in own:
                yield name, node.id
            elif node.id in module.named:
                yield module.named[node.id]
    yield from _qualified(module, use[1])


def _qualified(module: Module, definition: str) -> Iterator[Use]:
    """What it uses by the name of a sibling."""
    for node in _walked(module.definitions[definition]):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in module.siblings:
            yield node.value.id, node.attr


def _own_names(definition: Definition) -> set[str]:
    """Names that are parameters or variables inside of it, which say nothing of what is at the top level."""
    nodes = list(_walked(definition))
    parameters = {node.arg for node in nodes if isinstance(node, ast.arg)}
    return parameters | {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _walked(definition: Definition) -> Iterator[ast.AST]:
    for node in definition.nodes:
        yield from ast.walk(node)


def _refuse_collisions(modules: Mapping[str, Module], used: set[Use]) -> None:
    texts: dict[str, str] = dict.fromkeys(modules, "a module")
    for module, name in sorted(used):
        text = modules[module].definitions[name].text
        if texts.setdefault(name, text) != text:
            raise ValueError(f"{module}.{name}: another module has something else of that name; rename one")


def _imports(modules: Mapping[str, Module], used: set[Use]) -> str:
    """Those of what is used, plain ones first."""
    wanted: set[tuple[str | None, str]] = set()
    for name, definition in used:
        module = modules[name]
        ids = {node.id for node in _walked(module.definitions[definition]) if isinstance(node, ast.Name)}
        wanted |= {origin for here, origin in module.outside.items() if here in ids or here.partition(".")[0] in ids}
    plain = sorted(name for origin, name in wanted if origin is None)
    named: dict[str, list[str]] = {}
    for origin, name in sorted((origin, name) for origin, name in wanted if origin is not None):
        named.setdefault(origin, []).append(name)
    lines = [f"import {name}" for name in plain]
    return "\n".join([*lines, *(f"from {origin} import {', '.join(names)}" for origin, names in named.items())])


def _sections(modules: Mapping[str, Module], used: set[Use]) -> Iterator[str]:
    """Each module's definitions below its docstring, and then the namespace by which the others use it."""
    seen: set[str] = set()
    by_name = {use for name, own in used for use in _qualified(modules[name], own)}
    for name, module in modules.items():
        kept = [definition for definition in module.definitions if (name, definition) in used]
        texts = [module.definitions[own].text for own in kept if own not in seen]
        seen |= set(kept)
        if not kept:
            continue
        asked = [own for own in kept if (name, own) in by_name]
        said = "".join(f"# {line}".rstrip() + "\n" for line in module.docstring.splitlines()) if asked else ""
        yield f"# ---- {name}\n{said}".rstrip() + _spaced(texts)
        if asked:
            yield _namespace(name, asked)


def _namespace(name: str, members: Sequence[str]) -> str:
    quoted = [f'"{own}"' for own in members]
    line = f"{name} = namespace({', '.join(quoted)})"
    if len(line) <= LINE:
        return line
    return f"{name} = namespace(\n" + "".join(f"    {own},\n" for own in quoted) + ")"


def _spaced(texts: Sequence[str]) -> str:
    """Two empty lines around functions and classes, one between constants."""
    joined, was_block = "", False
    for text in texts:
        is_block = text.startswith(("def ", "class ", "@"))
        joined += ("\n\n\n" if is_block or was_block else "\n\n") + text
        was_block = is_block
    return joined
