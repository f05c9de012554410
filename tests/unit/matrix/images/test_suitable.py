"""Which built image a run takes, what is remembered of it, and the plan for the engine that was found."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import docker.errors
import pytest

import matrix
from matrix.arguments import EngineChoice
from matrix.engines.flags import FlagTable
from matrix.images import daemon
from matrix.images.probe import Changes, Flags, ImageProbe, Library
from matrix.images.record import load_images
from matrix.images.remembered import probes_folder, remembered, state_of
from matrix.images.suitable import demand_engine, find_built, find_or_build, same_engine
from matrix.plan import PlanOptions, make_plan
from matrix.run import plan_digest
from matrix.spec import load_spec
from repro.errors import UnavailableError

PAYLOAD = Path(matrix.__file__).parent / "payload"
TORCH, KERNEL = "torch/lib/libtorch_cuda.so", "sgl_kernel/sm100/common_ops.abi3.so"
PACKAGES = ("torch", "triton", "flashinfer-python", "sglang-kernel")


def probe(
    *,
    packages: Sequence[str] = PACKAGES,
    code: tuple[str, ...] | None = ("sm_100", "sm_103"),
    version: str | None = "0.5.15.post1",
    flags: Sequence[str] = (),
) -> ImageProbe:
    reason = None if code is not None else "cut short"
    document = {"record": "image-probe", "schema_version": 1}
    return ImageProbe(
        python="3.12.3",
        packages=dict.fromkeys(packages, "1"),
        engine_version=version,
        flags=Flags(value=tuple(flags) or None, reason=None if flags else "sglang is not installed"),
        changes=Changes(value=None, reason="unread"),
        libraries=tuple(Library(path=path, code=code, reason=reason) for path in (TORCH, KERNEL)),
        text=json.dumps(document),
    )


class Images:
    """A daemon with images: id -> their labels, the oldest first."""

    def __init__(self, **labels: dict[str, str]) -> None:
        self.labels = labels

    def images(self, *, filters: dict[str, list[str]]) -> list[dict[str, Any]]:
        assert filters["label"] == ["graphrepro.architecture=sm_103", "graphrepro.engine_source=pr29907"]
        return [{"Id": found, "Created": age} for age, found in enumerate(self.labels)]

    def inspect_image(self, found: str) -> dict[str, Any]:
        return {"Id": found, "Size": 1, "Config": {"Labels": self.labels[found]}}


def found(client: Images, probes: dict[str, ImageProbe], *, allow_tag: bool = False) -> Any:
    spec, image = load_spec("b300"), load_images().choose("sm_103", "pr29907")
    return find_built(client, spec, image, allow_tag=allow_tag, probe=probes.__getitem__, say=str)  # type: ignore[arg-type]


def test_the_newest_that_holds_the_engine() -> None:
    client = Images(old={}, new={}, half={}, other={})
    probes = {
        "old": probe(),
        "new": probe(),
        "half": probe(packages=("torch",)),
        "other": probe(code=("sm_90",)),
    }
    assert found(client, probes).id == "new"
    assert found(Images(half={}), probes) is None
    assert found(Images(half={}), {"half": probe(version=None)}) is None
    assert found(Images(), {}) is None


def test_an_image_from_open_pins_has_to_be_allowed() -> None:
    client = Images(new={"graphrepro.unresolved": '["base image x:1, digest is unresolved: why"]'})
    with pytest.raises(UnavailableError, match=r"built while base image x:1, digest is unresolved.*--allow-tag"):
        found(client, {"new": probe()})
    assert found(client, {"new": probe()}, allow_tag=True).notes == ("base image x:1, digest is unresolved: why",)


def test_where_none_is_built_open_pins_are_refused_in_one_line() -> None:
    with pytest.raises(
        UnavailableError, match=r"none can be built: image sm_103: base image .* is unresolved"
    ) as error:
        find_or_build(
            Images(),  # type: ignore[arg-type]
            load_spec("b300"),
            load_images(),
            "pr29907",
            allow_tag=False,
            probe=lambda _: probe(),
            say=str,
        )
    assert "\n" not in str(error.value)


def test_releases_are_the_same_engine_whatever_they_are_called() -> None:
    images = load_images()
    assert same_engine(images, load_spec("cpu"), "stock")
    assert not same_engine(images, load_spec("b300"), "stock")
    assert same_engine(images, load_spec("b300"), "pr29907")


def test_an_engine_that_cannot_run_there() -> None:
    demand_engine(probe(), "sm_103", where="image x")
    demand_engine(probe(code=None), "sm_103", where="image x")  # unknown is not absent
    with pytest.raises(UnavailableError, match="image x: torch has code for sm_90, none of which loads on sm_103"):
        demand_engine(probe(code=("sm_90",)), "sm_103", where="image x")
    with pytest.raises(UnavailableError, match="image x: no SGLang is in it"):
        demand_engine(probe(version=None), "cpu", where="image x")


def test_a_probe_is_asked_for_once(tmp_path: Path) -> None:
    from matrix.images.probe import probe_environment

    asked = []

    def ask() -> ImageProbe:
        asked.append(1)
        return probe_environment(Path(__import__("sys").executable), PAYLOAD)

    first = remembered(tmp_path / "probes", "image sha256:1", PAYLOAD, ask)
    assert remembered(tmp_path / "probes", "image sha256:1", PAYLOAD, ask) == first
    assert len(asked) == 1
    remembered(tmp_path / "probes", "image sha256:2", PAYLOAD, ask)
    remembered(tmp_path / "probes", None, PAYLOAD, ask)
    (tmp_path / "file").touch()
    remembered(tmp_path / "file" / "no-folder", "image sha256:1", PAYLOAD, ask)
    assert len(asked) == 4
    for path in (tmp_path / "probes").iterdir():
        path.write_text("{}")
    remembered(tmp_path / "probes", "image sha256:1", PAYLOAD, ask)
    assert len(asked) == 5


def test_where_probes_are_kept(tmp_path: Path) -> None:
    assert probes_folder({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "graphrepro" / "probes"
    assert probes_folder({}).parts[-3:] == (".cache", "graphrepro", "probes")


def test_the_state_of_an_environment_changes_with_its_engine(tmp_path: Path) -> None:
    assert state_of(tmp_path) is None
    package = tmp_path / "lib" / "python3.12" / "site-packages" / "sglang"
    package.mkdir(parents=True)
    (package / "server_args.py").write_text("1")
    before = state_of(tmp_path)
    assert before == state_of(tmp_path)
    (package / "server_args.py").write_text("22")
    assert state_of(tmp_path) != before


def test_a_flag_that_the_engine_lacks_takes_its_cells_out_of_the_plan() -> None:
    spec, options = load_spec("b300"), PlanOptions()
    release = FlagTable.load().flags_of("0.5.15.post1")
    without = EngineChoice().with_probed({"pr29907": (probe(flags=release), "probe of image sha256:1")})
    plan = make_plan(spec, options, without)
    (cell,) = [skip for skip in plan.skips if skip.cell == "sm_103-b16t8-graph-nvls"]
    assert cell.state == "unsupported"
    assert cell.reason == "the installed SGLang 0.5.15.post1 has no flag --speculative-ddtree-budget"
    assert cell.source == "probe of image sha256:1"
    again = EngineChoice().with_probed(without.probed)
    assert plan_digest(make_plan(spec, options, again)) == plan_digest(plan)
    assert any(step.coordinates.engine_source == "stock" for step in plan.steps)


class Registry:
    """Fails so many times."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.here = False

    def pull(self, reference: str, **_: Any) -> list[dict[str, str]]:
        if self.errors:
            raise self.errors.pop(0)
        self.here = True
        return []

    def inspect_image(self, reference: str) -> dict[str, Any]:
        if not self.here:
            raise docker.errors.ImageNotFound("no such image")
        return {"Id": "sha256:1", "Size": 1, "Config": {}}


def test_a_pull_is_tried_again_and_an_image_that_is_not_there_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon, "PULL_PAUSE_S", 0.0)
    away = docker.errors.DockerException("timeout")
    said: list[str] = []
    assert daemon.pull(Registry(away, away), "r/i@sha256:1", said.append) == "sha256:1"  # type: ignore[arg-type]
    assert len(said) == 3
    with pytest.raises(UnavailableError, match="pulling r/i: "):
        daemon.pull(Registry(away, away, away), "r/i", said.append)  # type: ignore[arg-type]
    said.clear()
    with pytest.raises(UnavailableError, match="not there"):
        daemon.pull(Registry(docker.errors.NotFound("not there")), "r/i", said.append)  # type: ignore[arg-type]
    assert len(said) == 1
