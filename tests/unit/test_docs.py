"""What the pages name is there: links and anchors, commands and their options, sessions, files, records."""

import ast
import fnmatch
import json
import re
import shlex
import tomllib
from argparse import ArgumentParser, _SubParsersAction
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

import matrix.cli
import matrix.plan
import report.cli
import repro.cli
from matrix.arguments import EngineChoice
from matrix.spec import load_spec
from repro.errors import SpecError

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
NAMES = [page.relative_to(ROOT).as_posix() for page in PAGES]

PARSERS = {
    "matrix": matrix.cli._parser,
    "repro": repro.cli._parser,
    "report": report.cli._parser,
}
SESSION_COMMANDS = {
    "matrix": "matrix",
    "matrix-cpu": "matrix run --spec cpu",
    "matrix-sim": "matrix run --spec sim",
    "matrix-b300": "matrix run --spec b300",
    "matrix-rtxpro6000": "matrix run --spec rtxpro6000",
    "images-b300": "matrix images build --spec b300",
    "images-rtxpro6000": "matrix images build --spec rtxpro6000",
    "images-cpu": "matrix images build --spec cpu",
    "report": "report build",
    "bundle": "repro pack",
    "recheck": "repro recheck",
    "kernels": "repro kernels",
    "update-images": "matrix images resolve",
}
"""What a session runs with the words behind `--`."""

OPTION = r"(?<![\w-])--[a-z][a-z0-9-]+"
OTHER_PROGRAMS = ("benchmarks", "tests", "matrix/payload", "repro/bundle/inside", "repro/kernels/beside_torch")
"""Folders whose programs have options of their own."""

FOREIGN = frozenset(
    {
        "--no-deps",
        "--require-hashes",
        "--dest",
        "--requirement",
        "--wheel-dir",
        "--no-index",
        "--find-links",
        "--no-trunc",
        "--rm",
        "--init",
        "--prefix",
        "--nonblocking",
        "--output-file",
        "--runtime",
    }
)
"""Options of pip, docker, nvidia-ctk, kubectl, py-spy and the like that the pages name."""


@dataclass(frozen=True, kw_only=True)
class Code:
    text: str
    block: bool
    """Whether it is a line of a block, and so meant to be typed as it stands."""


@cache
def code_of(page: Path) -> tuple[Code, ...]:
    """Lines of code blocks, continued ones joined, and code within the text."""
    found, rest, fenced = [], [], False
    for line in page.read_text(encoding="utf-8").replace("\\\n", " ").splitlines():
        if line.startswith("```"):
            fenced = not fenced
        elif fenced or line.startswith("    "):
            found.append(Code(text=" ".join(re.sub(r"\s+#\s.*$", "", line).split()), block=True))
        else:
            rest.append(line)
    inline = re.findall(r"`([^`]+)`", "\n".join(rest))
    return (*found, *(Code(text=" ".join(text.split()), block=False) for text in inline))


def prose_of(page: Path) -> str:
    return re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)


@cache
def anchors_of(page: Path) -> frozenset[str]:
    """As GitHub makes them from headings."""
    found: list[str] = []
    for heading in re.findall(r"^#+ (.+)$", prose_of(page), flags=re.MULTILINE):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        times = found.count(slug)
        found.append(slug if not times else f"{slug}-{times}")
    return frozenset(found)


def links_of(page: Path) -> list[str]:
    text = re.sub(r"`[^`]*`", "", prose_of(page))
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if not link.startswith(("http:", "https:"))]


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_links_lead_somewhere(page: Path) -> None:
    lost = []
    for link in links_of(page):
        path, _, anchor = link.partition("#")
        goal = (page.parent / path).resolve() if path else page
        if not goal.exists() or (anchor and anchor not in anchors_of(goal)):
            lost.append(link)
    assert lost == []


def test_every_page_is_found_from_the_readme() -> None:
    reached, ways = set(), [ROOT / "README.md"]
    while ways:
        page = ways.pop()
        if page in reached:
            continue
        reached.add(page)
        goals = ((page.parent / link.partition("#")[0]).resolve() for link in links_of(page))
        ways += [goal for goal in goals if goal.suffix == ".md"]
    assert set(PAGES) - reached == set()


def sessions() -> dict[str, str | None]:
    """Name -> docstring, of the sessions of noxfile.py."""
    found = {}
    for node in ast.parse((ROOT / "noxfile.py").read_text(encoding="utf-8")).body:
        if not isinstance(node, ast.FunctionDef):
            continue
        for decorator in node.decorator_list:
            words = {word.arg: word.value for word in decorator.keywords} if isinstance(decorator, ast.Call) else {}
            if ast.unparse(decorator.func if isinstance(decorator, ast.Call) else decorator) == "nox.session":
                found[ast.literal_eval(words["name"]) if "name" in words else node.name] = ast.get_docstring(node)
    return found


def named_sessions(page: Path) -> Iterator[str]:
    for piece in code_of(page):
        for words in re.findall(r"\bnox -s ((?:[a-z][\w…-]*(?:\s+|$))+)", piece.text):
            yield from words.split()


def test_sessions_that_are_named_exist() -> None:
    there = sessions()
    unknown = {
        (name, session)
        for name, page in zip(NAMES, PAGES, strict=True)
        for session in named_sessions(page)
        if not fnmatch.filter(there, session.replace("…", "*"))
    }
    assert unknown == set()


def test_sessions_are_documented() -> None:
    there = sessions()
    assert {name for name, says in there.items() if not says} == set()
    everything = "\n".join(piece.text for page in PAGES for piece in code_of(page))
    assert {name for name in there if not re.search(rf"(?<![\w-]){name}(?![\w-])", everything)} == set()


@cache
def parser_of(program: str) -> ArgumentParser:
    return PARSERS[program]()


def found_parser(program: str, words: list[str]) -> ArgumentParser:
    """The parser of the subcommand that the words begin with."""
    parser = parser_of(program)
    for word in words:
        choices = next((a.choices for a in parser._actions if isinstance(a, _SubParsersAction)), None)
        if not choices or word not in choices:
            break
        parser = choices[word]
    return parser


def commands_of(page: Path) -> Iterator[tuple[str, str, bool]]:
    """(program, its words, whether they stand in a block) of each command line of ours on a page."""
    for piece in code_of(page):
        own = re.search(r"python3? -m (matrix|repro|report)\b(?!\.)(.*)$", piece.text)
        if own:
            yield own[1], own[2].strip(), piece.block
            continue
        session = re.search(r"\bnox -s ([a-z0-9-]+) -- (.*)$", piece.text)
        if session and session[1] in SESSION_COMMANDS:
            program, _, first = SESSION_COMMANDS[session[1]].partition(" ")
            given = session[2].split()
            if session[1].startswith("matrix-") and not given[0].startswith("-"):
                first, given = first.replace("run", given[0]), given[1:]
            yield program, f"{first} {' '.join(given)}".strip(), piece.block


COMMANDS = [(name, *command) for name, page in zip(NAMES, PAGES, strict=True) for command in commands_of(page)]


@pytest.mark.parametrize(("page", "program", "words", "whole"), COMMANDS)
def test_commands_parse(page: str, program: str, words: str, whole: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """With the program's own parser. Within the text, a command may be named without all that it needs."""
    options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", words))
    parser = found_parser(program, re.sub(r"[\[\]]", " ", words).split())
    assert options - set(parser._option_string_actions) == set()
    shows_a_form = re.search(r"[\[\]|]|(?:^|\s)…(?:\s|$)", words)
    if shows_a_form:
        return
    try:
        parser_of(program).parse_args(shlex.split(words))
    except (SpecError, SystemExit) as problem:
        said = f"{problem} {capsys.readouterr().err}"
        assert "arguments are required" in said, said
        assert not whole, said


def test_commands_are_found() -> None:
    assert len(COMMANDS) > 50
    assert {program for _, program, _, _ in COMMANDS} == set(PARSERS)


def all_options(parser: ArgumentParser) -> set[str]:
    found = set(parser._option_string_actions)
    for action in parser._actions:
        if isinstance(action, _SubParsersAction):
            for choice in action.choices.values():
                found |= all_options(choice)
    return found


@cache
def known_options() -> frozenset[str]:
    found = set(FOREIGN)
    for program in PARSERS:
        found |= all_options(parser_of(program))
    flags = (ROOT / "matrix/engines/flags.json").read_text(encoding="utf-8")
    found |= {f"--{name.removeprefix('--')}" for name in re.findall(r'"((?:--)?[a-z][a-z0-9-]+)"', flags)}
    for folder in OTHER_PROGRAMS:
        for path in (ROOT / folder).rglob("*.py"):
            found |= set(re.findall(r"--[a-z][a-z0-9-]+", path.read_text(encoding="utf-8")))
    return frozenset(found)


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_options_exist(page: Path) -> None:
    named = {option for piece in code_of(page) for option in re.findall(OPTION, piece.text)}
    assert named - known_options() == set()


PLACES = ("matrix", "repro", "report", "schemas", "containers", "tests", "benchmarks", "docs")


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_files_exist(page: Path) -> None:
    missing = []
    for piece in code_of(page):
        if piece.text.startswith(("mkdir ", "cp ")):  # makes what it names
            continue
        for path in re.findall(rf"(?<![\w/.…-])((?:{'|'.join(PLACES)})/[\w./*<>…-]+)", piece.text):
            wanted = re.sub(r"<[^>]*>|…", "*", path).rstrip("./")
            if not any(ROOT.glob(wanted)):
                missing.append(path)
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_records_exist(page: Path) -> None:
    text = prose_of(page)
    named = set(re.findall(r"\brecords? `([a-z-]+)`", text)) | set(re.findall(r"`([a-z-]+)` records?\b", text))
    there = {json.loads(path.read_text(encoding="utf-8"))["$id"].split(":")[-2] for path in ROOT.glob("schemas/*.json")}
    assert named - there == set()


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_tables_are_whole(page: Path) -> None:
    """Every row has as many cells as the head, and below an empty line there is a head again."""
    lines = ["", *re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL).splitlines(), ""]
    broken, columns = [], 0
    for before, line, after in zip(lines, lines[1:], lines[2:], strict=False):
        bars = len(re.findall(r"(?<!\\)\|", line)) if line.startswith("|") else 0
        begins = bars and not before.startswith("|")
        if begins and not re.match(r"\| ?:?-", after):
            broken.append(line)
        if bars and not begins and bars != columns:
            broken.append(line)
        columns = bars
    assert broken == []


def test_numbers_hold() -> None:
    """Counts that the README gives."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    cells = matrix.plan.list_cells(load_spec("b300"), EngineChoice()).cells
    assert f"# {len(cells)} cells" in text
    releases = tomllib.loads((ROOT / "repro/kernels/releases.toml").read_text(encoding="utf-8"))["release"]
    assert len(releases) == 13
    assert "thirteen releases" in text
