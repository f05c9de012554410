"""Images built by a real daemon from the shipped Dockerfiles, without a network.

The wheels are stand-ins made here, so a build takes seconds; the real wheels come in with GRAPHREPRO_WHEELHOUSE.
"""

import base64
import hashlib
import io
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import docker
import pytest

import matrix
from matrix.engines.flags import FlagTable
from matrix.images.architecture import demand_architecture
from matrix.images.build import BuiltImage, ImageBuildError, build
from matrix.images.build import base_image as base_of
from matrix.images.context import Context, Entry
from matrix.images.daemon import inspected
from matrix.images.probe import PAYLOAD_IN_CONTAINER, probe_image
from matrix.images.recipe import Given, compose
from matrix.images.record import RECORD_FILE, containers_folder, load_images
from repro.errors import UnavailableError

pytestmark = pytest.mark.docker
DATA = Path(__file__).parents[1] / "data" / "images"
PAYLOAD = Path(matrix.__file__).parent / "payload"
ARGS = 'def add(parser):\n    parser.add_argument("--model-path")\n'
PACKAGES = {
    ("torch", "2.13.0"): {"torch/__init__.py": b""},
    ("py_spy", "0.4.3"): {"py_spy/__init__.py": b""},
    ("sglang", "0.5.23"): {"sglang/__init__.py": b"", "sglang/srt/server_args.py": ARGS.encode()},
}


def metadata(name: str, version: str) -> bytes:
    return f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode()


def recorded(files: dict[str, bytes]) -> bytes:
    """The lines of a RECORD (PEP 376)."""
    rows = []
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        rows.append(f"{name},sha256={digest},{len(content)}\n")
    return "".join(rows).encode()


def wheel(folder: Path, name: str, version: str, files: dict[str, bytes]) -> Path:
    """The smallest wheel that pip takes."""
    info = f"{name}-{version}.dist-info"
    files = {
        **files,
        f"{info}/METADATA": metadata(name, version),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": recorded(files),
    }
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for inside, content in files.items():
            archive.writestr(zipfile.ZipInfo(inside, (2020, 1, 1, 0, 0, 0)), content)
    return path


@pytest.fixture
def wheelhouse(tmp_path: Path, pip_wheel: Path) -> Path:
    folder = tmp_path / "wheels"
    folder.mkdir()
    shutil.copy(pip_wheel, folder)
    for (name, version), files in PACKAGES.items():
        wheel(folder, name, version, files)
    return folder


@pytest.fixture
def containers(tmp_path: Path, wheelhouse: Path) -> Path:
    """The shipped folder, with locks that name the stand-ins."""
    folder = tmp_path / "containers"
    shutil.copytree(containers_folder(), folder)

    def lock(*names: str) -> str:
        rows = []
        for name in names:
            (path,) = wheelhouse.glob(f"{name}-*.whl")
            version = path.name.split("-")[1]
            rows.append(f"{name}=={version} --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}\n")
        return "".join(rows)

    (folder / "cpu" / "requirements.txt").write_text(lock("sglang"))
    for place in ("cpu/tools.txt", "sm_103/requirements.txt", "sm_120/requirements.txt"):
        (folder / place).write_text(lock("py_spy"))
    return folder


def made(api: docker.APIClient, folder: Path, arch: str, source: str, given: Given, **options: Any) -> BuiltImage:
    images = load_images(folder)
    image = images.choose(arch, source)
    base_id = base_of(api, image, given, str)
    recipe = compose(image, images.folder, given, base_id=base_id, **options)
    return build(api, recipe, notes=(), offline=True, progress=str)


def test_the_cpu_image(docker_api: docker.APIClient, base_image: str, containers: Path, wheelhouse: Path) -> None:
    given = Given(wheelhouse=wheelhouse, base_image=base_image)
    first = made(docker_api, containers, "cpu", "cpu-ddtree", given)
    again = made(docker_api, containers, "cpu", "cpu-ddtree", given)
    assert (again.id, again.fresh) == (first.id, False)

    found = probe_image(docker_api, first.id, PAYLOAD)
    assert found.engine_version == "0.5.23"
    assert found.flags.value == ("--model-path",)
    assert found.changes.value is not None
    assert found.changes.value.changed == ()
    labels = inspected(docker_api, first.id).labels
    assert labels["graphrepro.engine_source"] == "cpu-ddtree"
    assert len(labels["graphrepro.context_sha256"]) == 64

    # Any user, a read-only root, no network: as an attempt is run.
    code = "import sglang, torch, sys; print(sys.executable)"
    command = ["docker", "run", "--rm", "--read-only", "--tmpfs", "/tmp", "--user", "12345:12345", "--network", "none"]
    answer = subprocess.run([*command, first.id, "python3", "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout == "/opt/engine/bin/python3\n"

    with (containers / "cpu" / "torch.txt").open("a") as lock:
        lock.write("# another\n")
    other = made(docker_api, containers, "cpu", "cpu-ddtree", given)
    assert other.fresh
    assert other.difference == "changed: torch.txt"
    for image in (first.id, other.id):
        docker_api.remove_image(image, force=True)


@pytest.fixture
def substitute(docker_api: docker.APIClient, base_image: str) -> str:
    """A base with an SGLang, torch and kernel library as the GPU base has them: their names and GPU code, no more."""
    site = "site/"
    files = {
        "Dockerfile": b"ARG BASE\nFROM ${BASE}\nCOPY site /usr/lib/python3/dist-packages\n",
        f"{site}sglang/__init__.py": b"",
        f"{site}sglang/srt/server_args.py": ARGS.encode(),
        f"{site}sglang-0.5.15.post1.dist-info/METADATA": metadata("sglang", "0.5.15.post1"),
        f"{site}torch/lib/libtorch_cuda.so": (DATA / "family.elf").read_bytes(),
        f"{site}sgl_kernel/sm100/common_ops.abi3.so": (DATA / "each.elf").read_bytes(),
    }
    engine = {name.removeprefix(site): content for name, content in files.items() if "/sglang/" in name}
    files[f"{site}sglang-0.5.15.post1.dist-info/RECORD"] = recorded(engine)
    context = Context(files={name: Entry(content=content) for name, content in files.items()})
    tag = "graphrepro-test-substitute:latest"
    packed = io.BytesIO(b"".join(context.tar()))
    for event in docker_api.build(
        fileobj=packed, custom_context=True, tag=tag, buildargs={"BASE": base_image}, decode=True, rm=True
    ):
        assert "error" not in event, event
    return tag


@pytest.mark.parametrize("architecture", ["sm_103", "sm_120"])
def test_a_gpu_image_on_a_substitute_base(
    docker_api: docker.APIClient, substitute: str, containers: Path, wheelhouse: Path, architecture: str
) -> None:
    given = Given(wheelhouse=wheelhouse, base_image=substitute)
    tools = made(docker_api, containers, architecture, "stock", given, target="tools")
    stock = made(docker_api, containers, architecture, "stock", given)
    assert tools.id != stock.id
    found = probe_image(docker_api, stock.id, PAYLOAD)
    assert (found.engine_version, found.flags.value) == ("0.5.15.post1", ("--model-path",))
    assert found.missing_flags(["--speculative-ddtree-budget", "8"])
    demand_architecture(found.gpu_code(), architecture, where="image")
    with pytest.raises(UnavailableError, match="none of which loads on sm_90"):
        demand_architecture(found.gpu_code(), "sm_90", where="image")
    for image in (stock.id, tools.id):
        docker_api.remove_image(image, force=True)


def test_a_local_checkout_shows_as_local_patches(
    docker_api: docker.APIClient, substitute: str, containers: Path, wheelhouse: Path, tmp_path: Path
) -> None:
    package = tmp_path / "checkout" / "python" / "sglang"
    (package / "srt").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "srt" / "server_args.py").write_text(ARGS.replace("--model-path", "--speculative-ddtree-budget"))
    (package / "srt" / "ddtree_worker.py").write_text("")
    given = Given(wheelhouse=wheelhouse, base_image=substitute, engine_checkout=tmp_path / "checkout")
    built = made(docker_api, containers, "sm_103", "local", given)
    found = probe_image(docker_api, built.id, PAYLOAD)
    assert found.flags.value == ("--speculative-ddtree-budget",)
    assert found.changes.value is not None
    assert found.changes.value.changed == ("sglang/srt/server_args.py",)
    assert found.changes.value.added == ("sglang/srt/ddtree_worker.py",)
    docker_api.remove_image(built.id, force=True)


def test_a_failing_step_is_one_line(
    docker_api: docker.APIClient, base_image: str, containers: Path, wheelhouse: Path
) -> None:
    given = Given(wheelhouse=wheelhouse, base_image=base_image)
    with pytest.raises(ImageBuildError) as caught:
        made(docker_api, containers, "sm_103", "stock", given)
    assert str(caught.value).startswith("image sm_103: build failed at Step ")
    assert "install_engine: the base image holds no sglang" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_image_that_is_not_here_or_holds_no_python(docker_api: docker.APIClient, base_image: str) -> None:
    with pytest.raises(UnavailableError, match="image graphrepro-test-absent:1: "):
        probe_image(docker_api, "graphrepro-test-absent:1", PAYLOAD)
    before = {entry["Id"] for entry in docker_api.containers(all=True, filters={"label": "graphrepro.purpose"})}
    assert probe_image(docker_api, base_image, PAYLOAD).engine_version is None
    after = {entry["Id"] for entry in docker_api.containers(all=True, filters={"label": "graphrepro.purpose"})}
    assert after <= before


def test_the_command(docker_api: docker.APIClient, base_image: str, containers: Path, wheelhouse: Path) -> None:
    command = [sys.executable, "-m", "matrix", "images", "build", "--spec", "cpu", "--containers", str(containers)]
    options = ["--wheelhouse", str(wheelhouse), "--base-image", base_image]
    answer = subprocess.run([*command, *options], capture_output=True, text=True, check=True)
    image = answer.stdout.strip()
    assert inspected(docker_api, image).id == image
    assert "GB; context" in answer.stderr
    refused = subprocess.run([*command, "--wheelhouse", str(wheelhouse)], capture_output=True, text=True, check=False)
    assert refused.returncode == 4
    assert "--allow-tag" in refused.stderr
    assert (containers / RECORD_FILE).is_file()
    docker_api.remove_image(image, force=True)


@pytest.mark.slow
@pytest.mark.skipif("GRAPHREPRO_WHEELHOUSE" not in os.environ, reason="GRAPHREPRO_WHEELHOUSE names no folder of wheels")
@pytest.mark.timeout(1800)
def test_the_real_server_in_the_real_image(docker_api: docker.APIClient, base_image: str) -> None:
    given = Given(wheelhouse=Path(os.environ["GRAPHREPRO_WHEELHOUSE"]), base_image=base_image)
    built = made(docker_api, containers_folder(), "cpu", "cpu-ddtree", given)
    found = probe_image(docker_api, built.id, PAYLOAD)
    assert found.flags.value is not None
    assert set(found.flags.value) == FlagTable.load().flags_of("0.5.23")
    assert found.changes.value is not None
    assert (found.changes.value.changed, found.changes.value.added, found.changes.value.missing) == ((), (), ())
    payload = ["--volume", f"{PAYLOAD}:{PAYLOAD_IN_CONTAINER}:ro", "--env", "SGLANG_USE_CPU_ENGINE=1"]
    places = f"PYTHONPATH={PAYLOAD_IN_CONTAINER}/cpu/plugin:{PAYLOAD_IN_CONTAINER}/cpu/standins"
    command = ["docker", "run", "--rm", "--read-only", "--tmpfs", "/tmp", "--user", "12345:12345", "--network", "none"]
    server = [built.id, "python3", "-m", "sglang.launch_server", "--help"]
    answer = subprocess.run([*command, *payload, "--env", places, *server], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    assert "--speculative-algorithm" in answer.stdout
