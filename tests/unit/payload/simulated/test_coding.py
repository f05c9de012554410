"""The scripted answers to coding tasks: right or wrong in substance, and spoiled where tokens are."""

from typing import Any

import pytest
from simulated.coding import scripted, spelled

from matrix.coding.extraction import find_code
from matrix.coding.tasks import CodingTask, built_in_tasks

TASKS = {task.id: task for task in built_in_tasks()}


def passes(task: CodingTask, code: str) -> bool:
    """The answers are our own, so they may run here."""
    for case in task.cases:
        scope: dict[str, Any] = {"__name__": "answer"}
        exec(code, scope)
        try:
            exec(case.setup, scope)
            if eval(case.value, scope) != case.expected or case.raises is not None:
                return False
        except Exception as problem:  # noqa: BLE001
            if type(problem).__name__ != case.raises:
                return False
    return True


@pytest.mark.parametrize("name", TASKS)
def test_each_task_has_a_right_answer_and_a_wrong_one(name: str) -> None:
    task = TASKS[name]
    said = {wrong: "".join(scripted(task.question.text or "", wrong=wrong)) for wrong in (False, True)}
    codes = {wrong: find_code(text, task.entry_point).code for wrong, text in said.items()}
    assert {wrong: passes(task, code or "") for wrong, code in codes.items()} == {False: True, True: False}


def test_other_questions_have_none() -> None:
    assert scripted("What is the time?", wrong=False) == ()


def test_a_healthy_engine_spells_the_answer_and_a_spoiled_token_shows(bench: Any, tree: Any) -> None:
    pieces = scripted(TASKS["merge-intervals"].question.text or "", wrong=False)
    (healthy,) = bench.run(*tree(16), tokens=len(pieces))
    assert spelled(healthy, pieces, 0) == "".join(pieces)
    assert spelled(healthy, pieces, 40) == "".join(pieces[40:])
    (spoiled,) = bench.run(*tree(16), tokens=len(pieces), fault="wrong-token:10")
    said = [spelled(spoiled, pieces, at).removesuffix(spelled(spoiled, pieces, at + 1)) for at in range(len(pieces))]
    assert sum(got != right for got, right in zip(said, pieces, strict=True)) == len(pieces) // 10


def test_wrong_code_spoils_nothing_else(bench: Any, tree: Any) -> None:
    (healthy,), (planted,) = bench.run(*tree(16)), bench.run(*tree(16), fault="wrong-code")
    assert healthy.ids == planted.ids
    assert bench.engine.planted("wrong-code") is not None
