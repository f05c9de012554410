"""The coding tasks and their loader. Their solutions are ours: here they may run without a sandbox."""

from collections.abc import Callable

import pytest

from matrix.coding.tasks import CodingTask, built_in_tasks, load_tasks, parse_task
from repro.errors import SpecError

TASKS = {task.id: task for task in built_in_tasks()}
SMALL = """
record = "coding-task"
schema_version = 1
id = "double"
title = "t"
entry_point = "double"
prompt = "Write double(n)."
reference = "def double(n): return 2 * n"
cases = [
    { value = "double(1)", expected = 2 },
    { value = "double(0)", expected = 0 },
    { value = "double('a')", expected = "aa" },
]
wrong = [{ why = "same", code = "def double(n): return n" }, { why = "square", code = "def double(n): return n * n" }]
"""


def passes(task: CodingTask, code: str) -> bool:
    """Whether the code gives what every case expects; each case with a fresh copy of it."""
    for case in task.cases:
        scope: dict[str, object] = {"__name__": "answer"}
        exec(code, scope)
        try:
            exec(case.setup, scope)
            value = eval(case.value, scope)
        except Exception as problem:  # noqa: BLE001
            if case.raises not in {kind.__name__ for kind in type(problem).__mro__}:
                return False
        else:
            if case.raises is not None or value != case.expected:
                return False
    return True


def test_there_are_five_of_different_kinds() -> None:
    assert list(TASKS) == ["build-order", "evaluate-expression", "lru-cache", "merge-intervals", "parse-duration"]


@pytest.mark.parametrize("name", TASKS)
def test_the_reference_passes_and_the_wrong_ones_fail(name: str) -> None:
    task = TASKS[name]
    assert passes(task, task.reference)
    assert [wrong.why for wrong in task.wrong if passes(task, wrong.code)] == []


@pytest.mark.parametrize("name", TASKS)
def test_the_question_names_what_to_write_and_not_what_is_tested(name: str) -> None:
    task = TASKS[name]
    assert f"`{task.entry_point}(" in (task.question.text or "") or f"`{task.entry_point}`" in (
        task.question.text or ""
    )
    assert not any(case.value in task.prompt for case in task.cases if case.value.startswith(task.entry_point))


@pytest.mark.parametrize("name", TASKS)
def test_an_answer_that_always_gives_the_same_passes_no_task(name: str) -> None:
    task = TASKS[name]
    for expected in {repr(case.expected) for case in task.cases}:
        assert not passes(task, f"def {task.entry_point}(*a, **k): return {expected}")


def test_another_task_is_another_file() -> None:
    (task,) = load_tasks([("double.toml", SMALL.encode())])
    assert (task.entry_point, len(task.cases), task.cases[2].expected) == ("double", 3, "aa")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda text: text[:60], "coding task double.toml: not TOML"),
        (lambda text: text.replace("entry_point", "entry"), "coding task double.toml: .*entry"),
        (lambda text: text.replace('value = "double(1)", expected = 2', 'value = "double(1)"'), "/cases/0"),
        (lambda text: text.replace("double(0)", "double(0"), "/cases/1/value: not Python"),
        (lambda text: text.replace("def double(n): return 2 * n", "def double(n) return"), "/reference: not Python"),
        (lambda text: text.replace('id = "double"', 'id = "triple"'), "a task is called like its file"),
        (lambda text: text.replace('{ why = "same", code = "def double(n): return n" }, ', ""), "/wrong"),
        (lambda text: text.replace("schema_version = 1", "schema_version = 2"), "/schema_version"),
    ],
)
def test_a_bad_file_gets_one_clear_line(change: Callable[[str], str], problem: str) -> None:
    with pytest.raises(SpecError, match=problem) as caught:
        load_tasks([("double.toml", change(SMALL).encode())])
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_utf8() -> None:
    with pytest.raises(SpecError, match="not UTF-8 at byte 0"):
        parse_task(b"\xff", origin="x.toml")
