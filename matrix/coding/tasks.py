"""The coding tasks: one TOML file each in the folder `tasks/` beside this module. Another task is another file."""

import ast
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import schemas
from repro.errors import SpecError
from repro.model import Prompt


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One hidden test: after the statements ``setup`` the expression ``value`` must give ``expected`` (as JSON), or, if
    ``raises`` names one, raise that exception."""

    value: str
    setup: str = ""
    expected: object = None
    raises: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class WrongSolution:
    """A solution that the tests must refuse, and what is wrong with it."""

    why: str
    code: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CodingTask:
    """A question (``prompt``) and how an answer to it is tested. ``reference`` is a solution that passes."""

    id: str
    title: str
    entry_point: str
    prompt: str
    reference: str
    cases: tuple[Case, ...]
    wrong: tuple[WrongSolution, ...]

    @property
    def question(self) -> Prompt:
        """The task as a step holds it."""
        return Prompt(id=self.id, text=self.prompt.strip(), input_ids=None)


@cache
def built_in_tasks() -> tuple[CodingTask, ...]:
    """The tasks that come with graphrepro, in order of their ids."""
    folder = resources.files("matrix.coding") / "tasks"
    files = sorted((entry for entry in folder.iterdir() if entry.name.endswith(".toml")), key=lambda entry: entry.name)
    return load_tasks([(entry.name, entry.read_bytes()) for entry in files])


def load_tasks(files: Sequence[tuple[str, bytes]]) -> tuple[CodingTask, ...]:
    """The tasks in files (name, content). Raises SpecError with the file and what is wrong in it."""
    tasks = tuple(parse_task(data, origin=name) for name, data in files)
    for name, task in zip((name for name, _ in files), tasks, strict=True):
        if name != f"{task.id}.toml":
            raise SpecError(f"coding task {name}: /id: is {task.id!r}: a task is called like its file")
    return tasks


def parse_task(data: bytes, *, origin: str) -> CodingTask:
    """The task in the text of a file, which messages call ``origin``. Raises SpecError."""
    try:
        document = tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError as problem:
        raise SpecError(f"coding task {origin}: not UTF-8 at byte {problem.start}: save it as UTF-8") from None
    except (tomllib.TOMLDecodeError, RecursionError) as problem:
        raise SpecError(f"coding task {origin}: not TOML: {problem}") from None
    try:
        schemas.validate(document, "coding-task", f"coding task {origin}")
    except schemas.SchemaViolation as problem:
        raise SpecError(f"{problem}: compare with the tasks that come with graphrepro") from None
    task = _task(document)
    _demand_python(task, origin)
    return task


def _task(document: Mapping[str, Any]) -> CodingTask:
    return CodingTask(
        cases=tuple(Case(**case) for case in document["cases"]),
        wrong=tuple(WrongSolution(**wrong) for wrong in document["wrong"]),
        **{name: document[name] for name in ("id", "title", "entry_point", "prompt", "reference")},
    )


def _demand_python(task: CodingTask, origin: str) -> None:
    """A test that does not even parse would fail every answer."""
    pieces = [("/reference", task.reference, "exec")]
    for number, case in enumerate(task.cases):
        pieces += [(f"/cases/{number}/setup", case.setup, "exec"), (f"/cases/{number}/value", case.value, "eval")]
    for where, text, mode in pieces:
        try:
            ast.parse(text, mode=mode)
        except SyntaxError as problem:
            raise SpecError(
                f"coding task {origin}: {where}: not Python: {problem.msg} in line {problem.lineno}"
            ) from None
