"""Several modules in one file: the same text, only what is used, and the same result."""

import pytest

from repro.kernels.single_file import single_file

PARTS = {
    "sizes": '''"""Sizes.

Whatever is said of them.
"""

import math
import os
from collections.abc import Mapping

UNIT = 2.0
"""Of everything."""
LIMITS: Mapping[str, float] = {"most": 8.0}
UNUSED = os.sep


def area(side: float) -> float:
    """Of a square."""
    return _doubled(side) * side / UNIT


def _doubled(side: float) -> float:
    return math.ldexp(side, 1)


def never(used: int) -> int:
    return used
''',
    "shapes": '''"""Shapes."""

from dataclasses import dataclass

from .sizes import LIMITS, area

UNUSED = 3


@dataclass(frozen=True)
class Square:
    """Has a side."""

    side: float

    def size(self) -> float:
        # kept as it is
        return min(area(self.side), LIMITS["most"])
''',
    "program": '''"""The program."""

from typing import Any

from . import shapes, sizes

CASE = {"side": 1.0}


def main() -> list[Any]:
    shape = shapes.Square(CASE["side"])
    never = sizes.UNIT
    return [shape.size(), never, sizes.area(2.0)]


if __name__ == "__main__":
    main()
''',
    "broken": "a, b = 1, 2\n",
    "renamed": "import os as system\n",
}


def text(start: str = "main", constants: dict[str, str] | None = None, **changed: str) -> str:
    imports, body = single_file({**PARTS, **changed}, "program", start, constants or {})
    return f"{imports}\nfrom types import SimpleNamespace\n\n\n{body}\n"


def run(source: str) -> object:
    found: dict[str, object] = {"__name__": "one_file"}
    exec(compile(source, "one_file.py", "exec"), found)
    return found["main"]()  # type: ignore[operator]


def test_file_does_what_the_modules_do() -> None:
    assert run(text()) == [1.0, 2.0, 4.0]


def test_constants_of_the_entry_can_be_others() -> None:
    assert run(text(constants={"CASE": 'CASE = {"side": 4.0}'})) == [8.0, 2.0, 4.0]


def test_only_what_is_used_is_in_it_and_in_its_own_words() -> None:
    found = text()
    for absent in ("UNUSED", "def never", "import os", "__main__"):
        assert absent not in found
    for kept in ('"""Of everything."""', "# kept as it is", "@dataclass(frozen=True)\nclass Square:", "# Whatever is"):
        assert kept in found
    assert found.count("import math\n") == 1
    assert 'sizes = namespace("UNIT", "area")' in found


def test_variable_of_the_name_of_a_definition_does_not_bring_it_along() -> None:
    changed = PARTS["program"].replace("never = sizes.UNIT", "UNIT = sizes.UNIT").replace(", never,", ", UNIT,")
    assert run(text(program=changed)) == [1.0, 2.0, 4.0]


def test_two_things_of_one_name_are_refused() -> None:
    shapes = PARTS["shapes"].replace("LIMITS[", "UNIT * LIMITS[").replace("UNUSED = 3", "UNIT = 1.0")
    with pytest.raises(ValueError, match="UNIT: another module has something else of that name"):
        text(shapes=shapes)
    assert text(shapes=PARTS["shapes"].replace("UNUSED = 3", 'UNIT = 2.0\n"""Of everything."""'))


@pytest.mark.parametrize(
    ("module", "said"), [("broken", "defines no single name"), ("renamed", "import under another name")]
)
def test_what_cannot_be_taken_apart_is_refused(module: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        text(program=f"from . import {module}\n\n\ndef main():\n    return {module}.a\n")
