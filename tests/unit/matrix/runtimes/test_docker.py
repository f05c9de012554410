"""The docker runtime's pure parts: what containers look like, which GPUs they get, what daemons' complaints mean."""

import argparse
from pathlib import Path
from typing import Any

import docker.errors
import pytest
import requests

from matrix.runtimes.docker import container_name
from matrix.runtimes.docker_cache import cache_environment, cache_name
from matrix.runtimes.docker_container import (
    GPUS_LABEL,
    LABEL,
    RUN_LABEL,
    ContainerSettings,
    Place,
    create_options,
    device_requests,
)
from matrix.runtimes.docker_gpus import Gpus, choose_access, parse_gpus
from matrix.runtimes.docker_options import add_docker_options, container_settings, demand_image, weight_mounts
from matrix.runtimes.docker_problems import problem_of
from repro.errors import SpecError, UnavailableError

IMAGE = f"sha256:{'a' * 64}"


def place(**changes: Any) -> Place:
    fields: dict[str, Any] = {
        "name": "graphrepro-run-cell-1",
        "label": "place/run/cell/1",
        "image_id": IMAGE,
        "directory": Path("/results/cell/1"),
        "payload": Path("/site/matrix/payload"),
    }
    return Place(**fields | changes)


def options(**changes: Any) -> dict[str, Any]:
    return create_options(place(**changes), ContainerSettings(user="1000:1000"), api_version="1.41")


def test_the_attempt_program_runs_with_an_owner_pipe_and_nothing_of_the_host() -> None:
    made = options()
    assert made["entrypoint"] == ["python3", "-P", "/opt/graphrepro/payload", "attempt", "/attempt"]
    assert made["environment"]["GRAPHREPRO_OWNER_FD"] == "0"
    assert made["stdin_open"]
    assert not made["tty"]
    assert made["user"] == "1000:1000"
    assert set(made["environment"]) == {"GRAPHREPRO_LABEL", "GRAPHREPRO_OWNER_FD", "HOME", "PYTHONUNBUFFERED"}
    assert made["healthcheck"] == {"test": ["NONE"]}


def test_a_container_has_no_privileges_no_published_port_and_a_small_log() -> None:
    host = options()["host_config"]
    assert host["CapDrop"] == ["ALL"]
    assert host["CapAdd"] == ["SYS_NICE", "SYS_PTRACE"]
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert host["Init"] is True
    assert host["IpcMode"] == "private"
    assert host["ShmSize"] == 1 << 30
    assert host["LogConfig"]["Type"] == "json-file"
    assert host["LogConfig"]["Config"] == {"max-size": "1m", "max-file": "1"}
    assert not {"PortBindings", "Privileged", "Binds"} & host.keys()


def test_only_the_attempts_folder_can_be_written() -> None:
    settings = ContainerSettings(mounts=(Path("/models/kimi"),))
    made = create_options(place(cache=("volume", "/var/cache/x")), settings, api_version="1.41")
    mounts = {m["Target"]: (m["Source"], m["Type"], m["ReadOnly"]) for m in made["host_config"]["Mounts"]}
    assert mounts == {
        "/opt/graphrepro/payload": ("/site/matrix/payload", "bind", True),
        "/attempt": ("/results/cell/1", "bind", False),
        "/models/kimi": ("/models/kimi", "bind", True),
        "/var/cache/x": ("volume", "volume", False),
    }


def test_labels_say_whose_it_is() -> None:
    assert options(gpus=("0", "1"))["labels"] == {
        LABEL: "place/run/cell/1",
        RUN_LABEL: "place/run",
        GPUS_LABEL: "0,1",
    }


@pytest.mark.parametrize(
    ("gpus", "access", "wanted"),
    [
        ((), "runtime", []),
        (("all",), "runtime", [("", -1, [], [["gpu", "compute", "utility"]])]),
        (("0", "GPU-1f"), "runtime", [("", 0, ["0", "GPU-1f"], [["gpu", "compute", "utility"]])]),
        (("all",), "cdi", [("cdi", 0, ["nvidia.com/gpu=all"], [])]),
        (("0", "1"), "cdi", [("cdi", 0, ["nvidia.com/gpu=0", "nvidia.com/gpu=1"], [])]),
    ],
)
def test_device_requests_are_those_of_docker_run(gpus: tuple[str, ...], access: Any, wanted: Any) -> None:
    made = device_requests(gpus, access)
    assert [(r["Driver"], r["Count"], r["DeviceIDs"], r["Capabilities"]) for r in made] == wanted


def test_limits_are_for_both_memory_and_swap_and_ulimits_for_both_kinds() -> None:
    settings = ContainerSettings(memory_bytes=1 << 30, ulimits={"memlock": -1, "stack": 1 << 26}, ipc="host")
    host = create_options(place(), settings, api_version="1.41")["host_config"]
    assert (host["Memory"], host["MemorySwap"]) == (1 << 30, 1 << 30)
    assert [(u["Name"], u["Soft"], u["Hard"]) for u in host["Ulimits"]] == [
        ("memlock", -1, -1),
        ("stack", 1 << 26, 1 << 26),
    ]
    assert host["IpcMode"] == "host"
    assert "ShmSize" not in host


def test_names_are_dockers_and_the_labels_own() -> None:
    name = container_name("place/20261130T000000Z-abc/sm_103-b16t8-graph-nvls+tp1/2")
    assert name.startswith("graphrepro-20261130T000000Z-abc-sm_103-b16t8-graph-nvls-tp1-2-")
    assert name != container_name("place/20261130T000000Z-abc/sm_103-b16t8-graph-nvls-tp1/2")
    assert len(container_name("p/" + "x" * 500)) < 128


def test_quarantined_gpus_are_never_taken_again() -> None:
    gpus = Gpus(("0", "1", "2"), 1)
    assert gpus.take() == ("0",)
    gpus.quarantine(("0",), "graphrepro-x")
    assert gpus.take() == ("1",)
    gpus.quarantine(("1", "2"), "graphrepro-y")
    with pytest.raises(UnavailableError, match=r"0, 1, 2 .*graphrepro-x, graphrepro-y.*results are kept"):
        gpus.take()


def test_all_gpus_are_no_longer_all_after_a_quarantine() -> None:
    gpus = Gpus(("all",), 8)
    assert gpus.take() == ("all",)
    gpus.quarantine(("all",), "graphrepro-x")
    with pytest.raises(UnavailableError, match="could not be ended"):
        gpus.take()


def test_too_few_gpus_and_none_at_all() -> None:
    assert Gpus((), 8).take() == ()
    with pytest.raises(UnavailableError, match="needs 8"):
        Gpus(("0", "1"), 8).take()


@pytest.mark.parametrize("text", ["", "0,,1", "0,0", "all,0"])
def test_bad_gpus_are_a_spec_error(text: str) -> None:
    with pytest.raises(SpecError, match="--gpus"):
        parse_gpus(text)


def test_gpus_as_written() -> None:
    assert parse_gpus("none") == ()
    assert parse_gpus("all") == ("all",)
    assert parse_gpus("0, GPU-1f") == ("0", "GPU-1f")


@pytest.mark.parametrize(
    ("info", "access"),
    [
        ({"Runtimes": {"runc": {}, "nvidia": {}}, "CDISpecDirs": ["/etc/cdi"]}, "runtime"),
        ({"Runtimes": {"runc": {}}, "CDISpecDirs": ["/etc/cdi", "/var/run/cdi"]}, "cdi"),
        ({"Runtimes": {"runc": {}}, "CDISpecDirs": []}, "runtime"),
        ({"Runtimes": {"runc": {}}}, "runtime"),
    ],
)
def test_how_a_daemon_hands_out_gpus(info: dict[str, Any], access: str) -> None:
    assert choose_access(info) == access


def refusal(text: str, status: int = 500) -> docker.errors.APIError:
    response = requests.Response()
    response.status_code = status
    return docker.errors.APIError("wrapped", response=response, explanation=text)


@pytest.mark.parametrize(
    ("text", "kind", "for_all"),
    [
        ('could not select device driver "" with capabilities: [[gpu]]', "gpu_refused", False),
        ("nvidia-container-cli: device error: 9: unknown device: unknown", "gpu_refused", False),
        ("nvidia-container-cli: initialization error: nvml error: driver not loaded", "gpu_driver", False),
        ("Failed to initialize NVML: Driver/library version mismatch", "gpu_driver", False),
        ("CDI device injection failed: unresolvable CDI devices nvidia.com/gpu=9", "cdi_refused", False),
        ("write /var/lib/docker/x: no space left on device", "disk_full", False),
        ('Conflict. The container name "/x" is already in use by container "abc"', "name_conflict", False),
        ("driver failed programming external connectivity: port is already allocated", "port_taken", False),
        ('invalid mount config for type "bind": bind source path does not exist: /x', "mount_missing", True),
        ("error setting rlimits for ready process: error setting rlimit type 8: not permitted", "limit_refused", True),
        ('exec: "python3": executable file not found in $PATH: unknown', "program_missing", True),
        ("No such image: x@sha256:0", "image_missing", True),
        ("something new", "refused", False),
    ],
)
def test_what_a_daemon_refuses_has_a_kind_and_advice(text: str, kind: str, for_all: bool) -> None:
    problem = problem_of(refusal(text))
    assert (problem.kind, problem.for_all) == (kind, for_all)
    assert problem.advice
    assert "\n" not in str(problem)


def test_a_daemon_that_is_not_there_or_will_not_speak_to_us() -> None:
    gone = docker.errors.DockerException("Error: ('Connection aborted.', FileNotFoundError(2, 'No such file'))")
    assert problem_of(gone).kind == "daemon_unreachable"
    denied = docker.errors.DockerException("Error: ('Connection aborted.', PermissionError(13, 'Permission denied'))")
    assert problem_of(denied).kind == "daemon_denied"
    assert "group docker" in problem_of(denied).advice


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runtime", default="docker")
    parser.add_argument("--engine-env")
    add_docker_options(parser)
    return parser.parse_args(words)


def test_settings_with_gpus_are_those_of_sglangs_documentation() -> None:
    settings = container_settings(parsed(), True, "runtime", ())
    assert settings.shm_bytes == 32 << 30
    assert settings.ulimits == {"memlock": -1, "stack": 64 << 20}
    assert container_settings(parsed(), False, "runtime", ()).ulimits == {}


def test_settings_as_given() -> None:
    given = parsed("--shm-size", "8g", "--memory", "512m", "--ulimit", "none", "--container-user", "image")
    settings = container_settings(given, True, "cdi", (Path("/models"),))
    assert (settings.shm_bytes, settings.memory_bytes) == (8 << 30, 512 << 20)
    assert settings.ulimits == {}
    assert settings.user is None
    assert settings.gpu_access == "cdi"


@pytest.mark.parametrize("words", [("--ulimit", "memlock"), ("--ulimit", "x=y"), ("--container-user", "root")])
def test_bad_settings_are_a_spec_error(words: tuple[str, str]) -> None:
    with pytest.raises(SpecError, match=words[0]):
        container_settings(parsed(*words), False, "runtime", ())


def test_an_image_needs_docker() -> None:
    with pytest.raises(SpecError, match="--runtime docker"):
        demand_image(parsed("--runtime", "local", "--image", IMAGE))
    demand_image(parsed("--engine-env", "/for/the/local/runtime"))


def test_a_snapshot_of_hugging_faces_cache_is_mounted_with_its_blobs(tmp_path: Path) -> None:
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "1"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    (blobs / "abc").write_text("weights")
    (snapshot / "model.safetensors").symlink_to("../../blobs/abc")
    assert weight_mounts(str(snapshot)) == {snapshot, blobs}
    assert weight_mounts("Qwen/Qwen3-8B") == set()
    assert weight_mounts("{payload}/cpu/model") == set()
    assert weight_mounts("/only/in/the/image") == set()


def test_the_cache_is_one_per_image_and_user() -> None:
    assert cache_name(IMAGE, "1000:1000") == f"graphrepro-jit-{'a' * 16}-1000-1000"
    assert cache_name(IMAGE, None) != cache_name(IMAGE, "0:0")
    assert {"TRITON_CACHE_DIR", "DG_JIT_CACHE_DIR", "FLASHINFER_WORKSPACE_BASE"} <= cache_environment().keys()
