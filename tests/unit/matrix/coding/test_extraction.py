"""Code out of awkward answers. What is found is run here, because these answers are our own."""

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix.coding.extraction import find_code

ADD = "def add(a, b):\n    return a + b\n"


def fenced(code: str, language: str = "python", mark: str = "```") -> str:
    return f"{mark}{language}\n{code}{mark}\n"


def result_of(answer: str) -> object:
    """What the code found in the answer gives for 2 and 3."""
    code = find_code(answer, "add").code
    assert code is not None, answer
    scope: dict[str, object] = {"__name__": "answer"}
    exec(code, scope)
    return scope["add"](2, 3)  # type: ignore[operator]


AWKWARD = {
    "only code": ADD,
    "fence": f"Here is the function:\n\n{fenced(ADD)}\nIt adds two numbers.",
    "tildes": fenced(ADD, "py", "~~~"),
    "longer fence": fenced("def add(a, b):\n    '''\n```\n    '''\n    return a + b\n", "python", "````"),
    "no language": fenced(ADD, ""),
    "language with attributes": fenced(ADD, 'python {.line-numbers title="add.py"}'),
    "CRLF": fenced(ADD).replace("\n", "\r\n"),
    "CR alone": fenced(ADD).replace("\n", "\r"),
    "NUL and BOM": "\ufeff" + fenced(ADD).replace("return", "return\0"),
    "no-break spaces": fenced(ADD.replace("    ", "\u00a0" * 4)),
    "tabs": fenced(ADD.replace("    ", "\t")),
    "prose around code without a fence": f"Here is the solution:\n\n{ADD}\nThis works because addition is easy.",
    "indented block": "Here it is:\n\n" + textwrap.indent(ADD, "    ") + "\nThat is all.",
    "in a list": "1. First think.\n2. Then write:\n\n" + textwrap.indent(fenced(ADD), "   ") + "\n3. Done.",
    "list mark on the fence's line": "- " + fenced(ADD).replace("\n", "\n  "),
    "in a quotation": "> Sure:\n" + textwrap.indent(fenced(ADD), "> ", lambda _: True),
    "fence in a fence": f"```markdown\n# Answer\n{fenced(ADD)}\n```\n",
    "fence that is not closed before the next": f"```python\nimport os\n{fenced(ADD)}",
    "unclosed at the end": f"Sure.\n```python\n{ADD}",
    "cut off after it": f"```python\n{ADD}\nprint(add(1, 2))\nprint(add(3,",
    "cut off in a second try": f"{fenced(ADD)}\nOr shorter:\n```python\ndef add(a, b):\n    return sum((a,",
    "usage in a block of its own": f"{fenced(ADD)}\nUse it:\n{fenced('print(add(1, 2))' + chr(10))}",
    "output in a block of its own": f"{fenced(ADD)}\n{fenced('3' + chr(10), 'text')}",
    "imports in a block of their own": fenced("import operator\n")
    + "and\n"
    + fenced("def add(a, b):\n    return operator.add(a, b)\n"),
    "helper in an earlier block": fenced("X = 0\n\ndef zero():\n    return X\n")
    + fenced("def add(a, b):\n    return a + b + zero()\n"),
    "the last definition counts": fenced("def add(a, b):\n    return a - b\n") + "Wait, that is wrong.\n" + fenced(ADD),
    "a stub comes last": fenced(ADD) + "Signature:\n" + fenced('def add(a, b):\n    """Adds."""\n    ...\n'),
    "NotImplementedError comes last": fenced(ADD) + fenced("def add(a, b):\n    raise NotImplementedError('you')\n"),
    "HTML escapes": fenced("def add(a, b):\n    return a + b if a &lt; b &amp;&amp; 1 else a + b\n").replace(
        "&amp;&amp;", "and"
    ),
    "HTML escapes that still parse": fenced("def add(a, b):\n    if a: x = a &gt; b\n    return a + b\n"),
    "entities in a string stay": fenced("def add(a, b):\n    return a + b if '&lt;' == '&' + 'lt;' else 0\n"),
    "doctest prompts": ">>> def add(a, b):\n...     return a + b\n...\n>>> add(1, 2)\n3\n",
    "prompts in a fence": fenced(">>> def add(a, b):\n...     return a + b\n>>> add(1, 2)\n3\n"),
    "reasoning": f"<think>\n{fenced('def add(a, b): return 7' + chr(10))}\n</think>\n{fenced(ADD)}",
    "reasoning opened by the template": "I could write\n"
    + fenced("def add(a, b): return 7\n")
    + "</think>"
    + fenced(ADD),
    "reasoning without an answer": f"<think>\n{fenced(ADD)}\n",
    "nothing after the reasoning": f"<think>\n{fenced(ADD)}\n</think>\n",
    "fence on one line": "```python def add(a, b): return a + b```",
    "a lambda": fenced("add = lambda a, b: a + b\n"),
    "shell lines in the block": fenced(f"$ cat add.py\n{ADD}\n$ python add.py\n"),
    "main guard": fenced(ADD + "\nif __name__ == '__main__':\n    print(add(*map(int, input().split())))\n"),
    "decorated": fenced("import functools\n\n@functools.lru_cache\ndef add(a, b):\n    return a + b\n"),
    "prose, imports and code": f"Use this:\n\nimport functools\n\n@functools.cache\n{ADD}\nHope it helps!",
}


@pytest.mark.parametrize("name", AWKWARD)
def test_the_code_is_found(name: str) -> None:
    assert result_of(AWKWARD[name]) == 5


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "I cannot do that.",
        "add is a function that adds.",
        fenced("def other(a):\n    return a\n"),
        "```",
        "```python\n```",
        ">>> ",
    ],
)
def test_no_code_is_said(answer: str) -> None:
    assert find_code(answer, "add").code is None


def test_a_definition_that_does_not_parse_is_given_as_it_is() -> None:
    found = find_code(fenced("def add(a, b):\n    return a +\n"), "add")
    assert found.code is not None
    assert found.code.startswith("def add(a, b):")
    assert found.notes == ("the code is not complete or not Python",)


def test_a_definition_that_is_cut_off_is_not_taken_for_a_shorter_one() -> None:
    found = find_code("```python\ndef add(a, b):\n    if a > 0:\n        return 1\n    return (a +", "add")
    assert found.notes == ("the code is not complete or not Python",)


def test_searching_the_reasoning_is_noted() -> None:
    assert "reasoning" in find_code(AWKWARD["reasoning without an answer"], "add").notes[0]
    assert "reasoning" in find_code(AWKWARD["nothing after the reasoning"], "add").notes[0]
    assert find_code(AWKWARD["reasoning"], "add").notes == ()


@pytest.mark.parametrize(
    "huge",
    [
        "<think>" * 200_000,
        "```" * 300_000,
        "```python\n" * 100_000,
        "x = (\n" * 200_000,
        "def add(a, b):\n" * 100_000,
        "> " * 500_000,
        "(" * 1_000_000,
        "word " * 400_000,
        "1+" * 500_000 + "1",
        ADD + "\nadd(1, 2)" * 100_000,
    ],
    ids=["think", "marks", "fences", "starts", "heads", "quotations", "brackets", "prose", "deep", "calls"],
)
def test_huge_answers_come_to_an_end(huge: str) -> None:
    find_code(huge, "add")


@given(st.text(alphabet=st.sampled_from("`~>\n \tdef add(a,):return&lt;<think>/.1-\0\r")))
def test_any_text_has_an_answer(answer: str) -> None:
    find_code(answer, "add")
