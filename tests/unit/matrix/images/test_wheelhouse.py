"""Which wheels go into a build, and what is said when one is missing."""

from pathlib import Path

import pytest

from matrix.images.wheelhouse import locked, wheel_entries
from repro.errors import SpecError

LOCK = """Some_Thing==1.0 \\
    --hash=sha256:00
torch==2.13.0
only-windows==3 ; sys_platform == 'win32' \\
"""


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    path = tmp_path / "requirements.txt"
    path.write_text(LOCK)
    return path


def wheelhouse(folder: Path, *names: str) -> Path:
    folder.mkdir()
    for name in names:
        (folder / f"{name}.whl").touch()
    return folder


FULL = ("some_thing-1.0-py3-none-any", "torch-2.13.0+cpu-cp311-cp311-linux_x86_64", "pip-9.0-py3-none-any")


def test_lines_of_a_lock() -> None:
    assert locked(LOCK) == [("some-thing", "1.0", False), ("torch", "2.13.0", False), ("only-windows", "3", True)]


def test_only_locked_wheels_and_the_newest_pip(tmp_path: Path, lock: Path) -> None:
    folder = wheelhouse(tmp_path / "w", *FULL, "pip-26.3-py3-none-any", "other-1-py3-none-any")
    assert sorted(wheel_entries(folder, [lock])) == [
        "wheels/pip-26.3-py3-none-any.whl",
        "wheels/some_thing-1.0-py3-none-any.whl",
        "wheels/torch-2.13.0+cpu-cp311-cp311-linux_x86_64.whl",
    ]


@pytest.mark.parametrize(("without", "said"), [(0, "no wheel of some-thing 1.0, which requirements"), (2, "of pip")])
def test_what_is_missing_is_named(tmp_path: Path, lock: Path, without: int, said: str) -> None:
    folder = wheelhouse(tmp_path / "w", *(name for index, name in enumerate(FULL) if index != without))
    with pytest.raises(SpecError, match=said):
        wheel_entries(folder, [lock])


def test_no_folder(tmp_path: Path, lock: Path) -> None:
    with pytest.raises(SpecError, match="is no folder"):
        wheel_entries(tmp_path / "absent", [lock])
