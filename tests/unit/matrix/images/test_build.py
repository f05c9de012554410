"""A recipe's digest, and a build against a daemon that answers from a script."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from matrix.images.build import ImageBuildError, base_image, build, differences
from matrix.images.recipe import LABEL, Given, Recipe, compose
from matrix.images.record import Image, load_images
from repro.errors import SpecError, UnavailableError

BASE_ID = "sha256:" + "b" * 64
IMAGES = load_images()


class Daemon:
    """The part of docker.APIClient that a build uses; ``events`` is what the build says."""

    def __init__(self, *events: dict[str, Any]) -> None:
        self.events = list(events)
        self.built: list[dict[str, Any]] = []
        self.held: dict[str, dict[str, str]] = {}
        self.context = b""

    def images(self, filters: dict[str, list[str]]) -> list[dict[str, Any]]:
        wanted = [entry.partition("=")[::2] for entry in filters["label"]]
        return [
            {"Id": name, "Created": index}
            for index, (name, labels) in enumerate(self.held.items())
            if all(labels.get(key) == value for key, value in wanted)
        ]

    def inspect_image(self, reference: str) -> dict[str, Any]:
        return {"Id": reference, "Size": 7, "Config": {"Labels": self.held[reference]}}

    def build(self, **options: Any) -> list[dict[str, Any]]:
        self.context = b"".join(options["fileobj"])
        self.built.append(options)
        for event in self.events:
            if "aux" in event:
                self.held[event["aux"]["ID"]] = options["labels"]
        return self.events


def recipe(folder: Path = IMAGES.folder, *, image: Image | None = None, **given: Any) -> Recipe:
    return compose(image or IMAGES.choose("sm_103", "stock"), folder, Given(**given), base_id=BASE_ID)


def done(name: str) -> tuple[dict[str, Any], ...]:
    return ({"stream": "Step 1/2 : FROM x\n"}, {"aux": {"ID": f"sha256:{name}"}}, {"stream": "Successfully built\n"})


def test_what_a_recipe_says() -> None:
    made = recipe()
    assert made == recipe()
    assert set(made.context.files) == {"Dockerfile", "requirements.txt", "install_engine.py", "pip_install.sh"}
    assert made.build_arguments == {
        "BASE_IMAGE": "lmsysorg/sglang:v0.5.15.post1-cu130",
        "ENGINE_COMMIT": "",
        "ENGINE_KIND": "release",
        "ENGINE_REPOSITORY": "",
        "ENGINE_VERSION": "0.5.15.post1",
        "TORCH_CUDA_ARCH_LIST": "10.3",
    }
    labels = made.labels(("a note",))
    assert labels[f"{LABEL}context_sha256"] == made.context.sha256()
    assert labels[f"{LABEL}unresolved"] == '["a note"]'
    assert "org.opencontainers.image.base.digest" not in labels


def test_the_name_of_a_base_is_no_input_but_its_id_is() -> None:
    assert recipe(base_image="other:tag").inputs_sha256 == recipe().inputs_sha256
    other = compose(IMAGES.choose("sm_103", "stock"), IMAGES.folder, Given(), base_id="sha256:" + "c" * 64)
    assert other.inputs_sha256 != recipe().inputs_sha256


def test_each_image_and_source_is_another_recipe(tmp_path: Path) -> None:
    made = {recipe(image=image).inputs_sha256 for image in IMAGES.all() if image.source.kind == "release"}
    assert len(made) == 3  # sm_103, sm_120, cpu: its two sources are one wheel


def test_same_inputs_are_built_once() -> None:
    daemon, said = Daemon(*done("1")), []
    first = build(daemon, recipe(), notes=(), offline=True, progress=said.append)  # type: ignore[arg-type]
    again = build(daemon, recipe(), notes=(), offline=True, progress=said.append)  # type: ignore[arg-type]
    assert (first.id, first.fresh, again.id, again.fresh) == ("sha256:1", True, "sha256:1", False)
    assert len(daemon.built) == 1
    assert daemon.built[0]["network_mode"] == "none"
    assert daemon.built[0]["timeout"] is None
    assert said == ["Step 1/2 : FROM x", "Successfully built"]


def test_other_inputs_state_the_difference(tmp_path: Path) -> None:
    daemon = Daemon(*done("1"))
    build(daemon, recipe(), notes=(), offline=True, progress=str)  # type: ignore[arg-type]
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    for name in ("pip-26.3-py3-none-any", "py_spy-0.4.3-py2.py3-none-manylinux1_x86_64"):
        (wheels / f"{name}.whl").touch()
    daemon.events = list(done("2"))
    built = build(daemon, recipe(wheelhouse=wheels), notes=(), offline=True, progress=str)  # type: ignore[arg-type]
    assert built.difference == (
        "added: wheels/pip-26.3-py3-none-any.whl, wheels/py_spy-0.4.3-py2.py3-none-manylinux1_x86_64.whl"
    )


def test_differences_in_words() -> None:
    def labels(**values: str) -> dict[str, str]:
        return {f"{LABEL}{name}": value for name, value in values.items()}

    before = labels(context_files='{"a":"1","b":"1"}', base_id="x", build_arguments='{"ENGINE_COMMIT":"1"}')
    now = labels(context_files='{"a":"2"}', base_id="y", build_arguments='{"ENGINE_COMMIT":"2"}')
    assert differences(before, now) == ("changed: a; removed: b; another base image; ENGINE_COMMIT is '2' and was '1'")
    assert differences(before, before) == "another stage or other labels"


def test_a_failed_step_is_one_line() -> None:
    daemon = Daemon(
        {"stream": "Step 3/9 : RUN sh pip_install.sh\n"},
        {"stream": " ---> Running in 0123\nlooking\n\x1b[31mERROR: no matching\n"},
        {"stream": "distribution\n\x1b[0mRemoving intermediate container 0123\n"},
        {"error": "The command returned a non-zero code: 1"},
    )
    with pytest.raises(ImageBuildError) as caught:
        build(daemon, recipe(), notes=(), offline=True, progress=str)  # type: ignore[arg-type]
    assert str(caught.value) == (
        "image sm_103: build failed at Step 3/9 : RUN sh pip_install.sh: looking | ERROR: no matching | distribution"
    )
    assert (caught.value.exit_code, caught.value.kind) == (4, "image_build_failed")


def test_a_build_that_ends_without_an_image() -> None:
    with pytest.raises(ImageBuildError, match="its start: the daemon ended the build without an image"):
        build(Daemon(), recipe(), notes=(), offline=False, progress=str)  # type: ignore[arg-type]


def test_an_offline_build_never_pulls(tmp_path: Path) -> None:
    import docker.errors

    class Empty:
        def inspect_image(self, reference: str) -> None:
            raise docker.errors.ImageNotFound("none")

    with pytest.raises(UnavailableError, match="is not on this machine, and a build from a wheelhouse asks no network"):
        base_image(Empty(), IMAGES.choose("cpu", "stock"), Given(wheelhouse=tmp_path), str)  # type: ignore[arg-type]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "sglang"
    (folder / "python" / "sglang").mkdir(parents=True)
    (folder / "python" / "sglang" / "__init__.py").write_text("x = 1\n")
    git = ["git", "-C", str(folder), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
        subprocess.run([*git, *command], check=True)
    return folder


def test_a_checkout_stands_in_for_an_open_commit(checkout: Path) -> None:
    image = IMAGES.choose("sm_103", "pr29907")
    made = recipe(image=image, engine_checkout=checkout)
    commit = made.build_arguments["ENGINE_COMMIT"]
    assert len(commit) == 40
    assert b"".join(made.context.files["engine/COMMIT"].chunks()) == f"{commit}\n".encode()
    assert "engine/python/sglang/__init__.py" in made.context.files
    (checkout / "python" / "sglang" / "__init__.py").write_text("x = 2\n")
    with pytest.raises(SpecError, match=r"is at [0-9a-f]{40}\+changes: commit the changes first"):
        recipe(image=image, engine_checkout=checkout)
    local = recipe(image=IMAGES.choose("sm_103", "local"), engine_checkout=checkout)
    assert local.build_arguments["ENGINE_COMMIT"] == f"{commit}+changes"
    assert b"".join(local.context.files["engine/python/sglang/__init__.py"].chunks()) == b"x = 2\n"


@pytest.mark.parametrize(
    ("source", "given", "said"),
    [
        ("pr29907", {}, "its commit is unresolved"),
        ("local", {}, "--engine-checkout DIR"),
        ("local", {"engine_checkout": Path("/nonexistent")}, "no python/sglang/__init__.py"),
    ],
)
def test_a_source_without_code(source: str, given: dict[str, Path], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        recipe(image=IMAGES.choose("sm_103", source), **given)
