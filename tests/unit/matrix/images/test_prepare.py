"""From a spec to an image, and from a probe's answer to the cells that cannot run."""

from typing import Any

import pytest

from matrix.arguments import EngineChoice
from matrix.engines.flags import FlagTable
from matrix.images.prepare import notes_of, prepare
from matrix.images.probe import Changes, Flags, ImageProbe
from matrix.images.recipe import Given
from matrix.images.record import load_images
from matrix.images.told import grouped, told, unsupported_cells
from matrix.spec import load_spec
from repro.errors import SpecError, UnavailableError


class NoDaemon:
    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was asked of the daemon")


@pytest.mark.parametrize(
    ("target", "options", "said", "kind"),
    [
        ("sim", {}, "needs no image", SpecError),
        ("b300", {"source": "other"}, "no engine source 'other'", SpecError),
        ("b300", {"source": "stock"}, "digest is unresolved", UnavailableError),
        ("b300", {"allow_tag": True}, "its commit is unresolved", SpecError),
    ],
)
def test_refused_before_anything_is_pulled(target: str, options: dict[str, Any], said: str, kind: type) -> None:
    with pytest.raises(kind, match=said):
        prepare(NoDaemon(), load_spec(target), load_images(), Given(), progress=str, **options)  # type: ignore[arg-type]


def test_notes_of_an_image() -> None:
    assert notes_of({"graphrepro.unresolved": '["base, digest is unresolved: why"]'}) == (
        "base, digest is unresolved: why",
    )
    assert notes_of({}) == ()


def probe(*flags: str) -> ImageProbe:
    return ImageProbe(
        python="3.12.3",
        packages={"sglang": "0.5.15.post1", "torch": "2.11.0"},
        engine_version="0.5.15.post1",
        flags=Flags(value=tuple(flags), reason=None),
        changes=Changes(value=None, reason="sglang is installed from a checkout"),
        libraries=(),
        text="{}",
    )


def test_cells_whose_flags_are_missing_are_unsupported() -> None:
    spec = load_spec("b300")
    release = FlagTable.load().flags_of("0.5.15.post1")
    complete = probe(*release, "--speculative-ddtree-budget")
    assert unsupported_cells(spec, EngineChoice(), complete) == {}
    without = unsupported_cells(spec, EngineChoice(), probe(*release))
    assert without
    assert all("-b" in cell for cell in without)
    (reason,) = grouped(without)
    assert reason == "the installed SGLang 0.5.15.post1 has no flag --speculative-ddtree-budget"
    assert grouped(without)[reason] == tuple(without)


def test_what_a_person_is_told() -> None:
    lines = told(probe("--a"), "sm_103").splitlines()
    assert [line.split()[0] for line in lines] == ["python", "sglang", "torch", "launch", "engine's", "sm_103"]
    assert lines[4].endswith("unknown: sglang is installed from a checkout")
    assert lines[-1].endswith("sglang-kernel holds no GPU code, or is not installed")
