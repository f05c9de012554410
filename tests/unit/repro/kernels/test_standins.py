"""Named modules of a release are its own; what surrounds them answers nothing, and none of it stays."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from repro.kernels.beside_torch.standins import StandIn, release

SOURCE = """
from sglang.srt.utils import is_cuda, next_power_of_2, register
from sglang.srt.speculative.spec_info import SpecInput
import sgl_kernel

class Backend(SpecInput):
    cuda = bool(is_cuda())

    @register
    def size(self, number):
        return next_power_of_2(number)
"""
BACKEND = "sglang.srt.layers.backend"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "sglang" / "srt" / "layers"
    folder.mkdir(parents=True)
    (folder / "backend.py").write_text(SOURCE)
    (folder / "other.py").write_text("raise RuntimeError('this module is not named')")
    return tmp_path


@contextmanager
def loaded(root: Path) -> Iterator[Any]:
    with release(root, frozenset({BACKEND}), {"next_power_of_2": lambda number: 1 << (number - 1).bit_length()}):
        yield importlib.import_module(BACKEND)


def test_the_named_module_is_the_releases_own(root: Path) -> None:
    with loaded(root) as module:
        assert module.__file__ == str(root / "sglang/srt/layers/backend.py")
        assert module.Backend.cuda is False
        assert module.Backend().size(100) == 128


def test_modules_that_are_not_named_are_not_executed(root: Path) -> None:
    with loaded(root):
        other = importlib.import_module("sglang.srt.layers.other")
        assert not other.anything.at.all(1, 2)


def test_nothing_stays(root: Path) -> None:
    before = {name for name in sys.modules if name.partition(".")[0] in {"sglang", "sgl_kernel"}}
    finders = list(sys.meta_path)
    with loaded(root):
        assert BACKEND in sys.modules
    assert {name for name in sys.modules if name.partition(".")[0] in {"sglang", "sgl_kernel"}} == before
    assert sys.meta_path == finders


def test_nothing_stays_after_an_error(root: Path) -> None:
    finders = list(sys.meta_path)
    with pytest.raises(ZeroDivisionError), loaded(root):
        _ = 1 / 0
    assert sys.meta_path == finders
    assert BACKEND not in sys.modules


def test_two_releases_after_each_other_do_not_mix(root: Path, tmp_path: Path) -> None:
    with loaded(root) as module:
        first = module.Backend
    later = tmp_path / "later"
    (later / "sglang/srt/layers").mkdir(parents=True)
    (later / "sglang/srt/layers/backend.py").write_text(SOURCE + "\nLATER = True\n")
    with loaded(later) as module:
        assert module.LATER
        assert module.Backend is not first


def test_a_stand_in_is_false_and_leaves_what_it_decorates() -> None:
    thing = StandIn("thing")

    def decorated() -> int:
        return 1

    assert not thing
    assert not thing.other[3](1, 2)
    assert thing(decorated) is decorated
