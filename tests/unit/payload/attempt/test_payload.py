"""The payload as a whole: what may be in code that runs in an environment that is not ours."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import matrix

PAYLOAD = Path(matrix.__file__).parent / "payload"
OURS = {"attempt", "probe", "simulated", "dummy"}
FILES = [PAYLOAD / "__main__.py", *(path for name in sorted(OURS) for path in sorted((PAYLOAD / name).rglob("*.py")))]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(PAYLOAD).as_posix())
def test_standard_library_and_aiohttp_alone(path):
    """In the syntax of the oldest Python that engines bring."""
    tree = ast.parse(path.read_text(), feature_version=(3, 10))
    imported = {
        alias.name.partition(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
    }
    imported |= {(node.module or "").partition(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    allowed = sys.stdlib_module_names | OURS | {"aiohttp"} | ({"pynvml"} if path.name == "power.py" else set())
    assert imported <= allowed


@pytest.mark.parametrize("part", sorted(OURS))
def test_each_part_stands_alone(part):
    """The simulated server knows nothing of the attempt program, and the other way round; both may be replaced."""
    allowed = {part, "probe"} if part == "attempt" else {part}
    for path in (PAYLOAD / part).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                assert node.module.partition(".")[0] not in OURS - allowed, path


def test_the_folder_is_no_package():
    assert not (PAYLOAD / "__init__.py").exists()


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["attempt"], ["attempt", "--help"], ["probe", "x"]])
def test_usage(arguments):
    ended = subprocess.run(
        [sys.executable, "-P", str(PAYLOAD), *arguments], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith("usage: ")


def test_a_planted_fault_that_does_not_exist():
    ended = subprocess.run(
        [sys.executable, str(PAYLOAD), "simulated", "--port", "1"],
        env={"GRAPHREPRO_FAULT": "nam"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith("simulated: unknown fault 'nam'; the names are ")


def test_the_attempt_program_starts_without_what_it_does_not_need():
    """The server's start must not wait for the client: asyncio and aiohttp are loaded while the server is starting."""
    program = "import attempt.cli, sys; print(sorted({'asyncio', 'aiohttp', 'simulated', 'probe'} & set(sys.modules)))"
    assert (
        subprocess.check_output([sys.executable, "-c", program], env={"PYTHONPATH": str(PAYLOAD)}, text=True) == "[]\n"
    )
