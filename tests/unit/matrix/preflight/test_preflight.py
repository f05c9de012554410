"""The preflight on two composed hosts: whole, and with one thing wrong at a time."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from matrix.judge import rescoring
from matrix.judge.rescoring import Judged, Scales, Scored, Spoken
from matrix.preflight import oracle
from matrix.preflight.cli import exit_code, shown
from matrix.preflight.interconnect import links_in
from matrix.preflight.this_host import DockerDaemon
from repro import codec
from repro.model import Preflight, PreflightLine

UNIT = "systemctl --no-ask-password show sglang.service --property=LoadState,ActiveState,ControlGroup,TriggeredBy"
ACTIVE = "LoadState=loaded\nActiveState=active\nControlGroup=/system.slice/sglang.service\nTriggeredBy=\n"


def problems(lines: dict[str, PreflightLine]) -> set[str]:
    return {line.check for line in lines.values() if line.state == "problem"}


def as_record(lines: dict[str, PreflightLine]) -> Preflight:
    return Preflight(target="b300", runtime="docker", lines=tuple(lines.values()))


def test_a_b300_host_that_lacks_nothing(b300: Any) -> None:
    lines = b300.ask()
    assert {line.state for line in lines.values()} == {"ok"}, shown(as_record(lines))
    assert list(lines) == [
        "oracle",
        "docker",
        "gpu-runtime",
        "image",
        "docker-disk",
        "gpus",
        "driver",
        "gpu-memory",
        "clocks",
        "gpu-health",
        "topology",
        "fabric",
        "multicast",
        "shm",
        "limits",
        "disk",
        "port",
        "weights",
        "draft-weights",
    ]
    assert lines["gpus"].detail == "8 x NVIDIA B300 SXM6 AC (10.3)"
    assert lines["topology"].detail == "NV18 between all GPUs"
    assert lines["driver"].detail == "driver 580.95.05, up to CUDA 13.0; the image has CUDA 13.0.1"
    assert exit_code(as_record(lines)) == 0


def test_an_rtx_pro_6000_host_has_no_switch_and_needs_none(rtx: Any) -> None:
    lines = rtx.ask()
    assert problems(lines) == set()
    assert not {"fabric", "multicast"} & set(lines)
    assert lines["topology"].detail == "NODE + SYS between all GPUs"


def test_the_wrong_spec_for_the_machine(b300: Any, tmp_path: Path) -> None:
    from matrix.spec import load_spec

    lines = b300.ask(spec=load_spec("rtxpro6000"))
    assert problems(lines) == {"gpus", "topology"}
    assert "not 12.0, which sm_120 is" in lines["gpus"].detail


def gpu(number: int, **values: Any) -> Callable[[Any], None]:
    return lambda host: host.gpus[number].update(values)


def every_gpu(**values: Any) -> Callable[[Any], None]:
    return lambda host: [one.update(values) for one in host.gpus]  # type: ignore[func-returns-value]


def in_nvml(**values: Any) -> Callable[[Any], None]:
    return lambda host: host.data["nvml"].update(values)


def in_info(**values: Any) -> Callable[[Any], None]:
    return lambda host: host.data["docker"]["GET /info"].update(values)


def told(line: str, text: str) -> Callable[[Any], None]:
    return lambda host: host.commands.table.update({line: text})


def shard(change: Callable[[Path], object]) -> Callable[[Any], None]:
    return lambda host: change(Path(host.question.model) / "model-00002-of-00003.safetensors")  # type: ignore[func-returns-value]


@pytest.mark.parametrize(
    ("spoil", "check", "words", "advice"),
    [
        (
            in_nvml(init_error="Driver Not Loaded"),
            "gpus",
            "no GPU: NVML: Driver Not Loaded; b300 needs 8",
            "nvidia-smi",
        ),
        (lambda h: h.gpus.clear(), "gpus", "no GPU: the driver finds none", "nvidia-smi"),
        (lambda h: h.gpus.pop(), "gpus", "7 x NVIDIA B300 SXM6 AC (10.3); b300 needs 8", "free them"),
        (gpu(3, capability=[10, 0]), "gpus", "GPU 3: not 10.3, which sm_103 is", "choose the spec"),
        (gpu(3, name="NVIDIA B200"), "gpus", "GPU 3: not a NVIDIA B300", "/hardware/gpu_name"),
        (every_gpu(mig=[1, 1]), "gpus", "GPUs 0-7 split by MIG", "nvidia-smi -mig 0"),
        (gpu(5, memory_mib=180000), "gpus", "GPU 5: 176 GiB, and the spec says 268", "gpu_memory_gib"),
        (in_nvml(driver="570.124.06"), "driver", "the image has CUDA 13.0.1", "branch 580 or newer"),
        (in_nvml(driver="570.124.06", cuda=12080), "driver", "570.124.06", "branch 580 or newer"),
        (gpu(2, processes=[{"pid": 77, "memory_mib": 9000}]), "gpu-memory", "GPU 2: up to 9 GiB", "--pause-unit"),
        (gpu(2, reserved_mib=30000), "gpu-memory", "in use by nobody who is visible", "end them"),
        (
            gpu(1, power_limit_mw=700000),
            "clocks",
            "GPU 1: power limit 700 W, the default is 1100",
            "nvidia-smi -pl 1100",
        ),
        (gpu(6, clocks_event_reasons=0x40), "clocks", "GPU 6 held down: hw_thermal", "cooling"),
        (gpu(4, ecc_uncorrected=2), "gpu-health", "GPU 4: 2 uncorrectable memory errors", "nvidia-smi -r"),
        (gpu(4, remapped_rows=[0, 1, 1, 0]), "gpu-health", "GPU 4: a memory row waits", "nvidia-smi -r"),
        (gpu(4, recovery_action=2), "gpu-health", "the driver asks for: node_reboot", "nvidia-smi -r"),
        (
            told("nvidia-smi topo -m", "\tGPU0\tGPU1\nGPU0\t X \tSYS\nGPU1\tSYS\t X \n"),
            "topology",
            "SYS between",
            "nvlink",
        ),
        (gpu(0, fabric=[2, 0]), "fabric", "GPU 0: fabric in_progress", "nvidia-fabricmanager"),
        (gpu(0, fabric=[3, 999]), "fabric", "GPU 0: fabric failed (status 999)", "nvidia-fabricmanager"),
        (lambda h: h.data.update(multicast=False), "multicast", "GPUs 0-7: no multicast", "--skip '*-nvls'"),
        (lambda h: h.data.update(docker=None), "docker", "no daemon answers", "start docker"),
        (in_info(ServerVersion="19.03.2"), "docker", "docker 19.03.2", "20.10 or newer"),
        (in_info(Runtimes={"runc": {}}), "gpu-runtime", "CDI has no specification", "nvidia-ctk cdi generate"),
        (in_info(Runtimes={"runc": {}}, CDISpecDirs=None), "gpu-runtime", "neither", "nvidia-container-toolkit"),
        (
            lambda h: h.data["docker"].pop(f"GET /images/{h.question.image}/json"),
            "image",
            "is not on this host",
            "nox -s images-b300",
        ),
        (
            lambda h: setattr(h, "free", 5 << 30),
            "docker-disk",
            "5 GiB free in docker's folder, 20 may",
            "docker system df",
        ),
        (lambda h: setattr(h, "free", 1 << 30), "disk", "1.0 GiB free for results, 3.2 may be needed", "--results"),
        (
            shard(Path.unlink),
            "weights",
            "Kimi-K2.6: model-00002-of-00003.safetensors is missing",
            "download model-00002",
        ),
        (
            shard(lambda p: p.write_bytes(p.read_bytes()[:-1])),
            "weights",
            "bytes, and its header says",
            "download model",
        ),
        (shard(lambda p: p.write_bytes(b"short")), "weights", "is no safetensors file", "download"),
        (
            shard(lambda p: p.write_bytes(b"version https://git-lfs.github.com/spec/v1")),
            "weights",
            "Git LFS",
            "git lfs pull",
        ),
        (
            shard(lambda p: p.write_bytes(p.with_name("model-00001-of-00003.safetensors").read_bytes())),
            "weights",
            "lacks layer.2 (1 tensors",
            "download",
        ),
    ],
)
def test_one_thing_is_wrong(b300: Any, spoil: Callable[[Any], None], check: str, words: str, advice: str) -> None:
    spoil(b300)
    lines = b300.ask()
    line = lines[check]
    assert line.state == "problem", line
    assert words in line.detail
    assert line.advice is not None
    assert advice in line.advice
    assert exit_code(as_record(lines)) == 4
    codec.encode(as_record(lines))
    assert all("\n" not in text for text in shown(as_record(lines)))


@pytest.mark.parametrize(
    ("spoil", "check"),
    [
        (every_gpu(power_limit_mw=None, default_power_limit_mw=None), "clocks"),
        (gpu(1, recovery_action=None, ecc_uncorrected=None), "gpu-health"),
        (lambda h: h.commands.table.pop("nvidia-smi topo -m"), "topology"),
        (lambda h: h.data.update(multicast=None), "multicast"),
    ],
)
def test_unknown_is_no_problem_by_itself(b300: Any, spoil: Callable[[Any], None], check: str) -> None:
    spoil(b300)
    lines = b300.ask()
    assert (lines[check].state, problems(lines)) == ("unknown", set())
    assert exit_code(as_record(lines)) == 0


def test_cdi_with_a_specification_is_enough(b300: Any) -> None:
    in_info(Runtimes={"runc": {}})(b300)
    (b300.cdi / "nvidia.yaml").write_text("cdiVersion: 0.6.0\n")
    assert b300.ask()["gpu-runtime"].detail == "by CDI: nvidia.yaml"


def test_a_newer_minor_cuda_than_the_drivers_runs(b300: Any) -> None:
    in_nvml(cuda=13000)(b300)
    b300.data["docker"][f"GET /images/{b300.question.image}/json"]["Size"] = 1
    assert b300.ask()["driver"].state == "ok"


@pytest.mark.parametrize(
    ("package", "state", "words"),
    [
        ("nvidia_cuda_runtime-13.0.96", "ok", "the environment has CUDA 13.0.96"),
        ("nvidia_cuda_runtime_cu12-12.8.90", "ok", "the environment has CUDA 12.8.90"),
        ("nvidia_cuda_runtime-13.1.80", "ok", "CUDA 13.1.80 of the environment runs by minor version compatibility"),
        ("something-1.0", "unknown", "the engine's CUDA is not known"),
    ],
)
def test_the_driver_against_a_local_environment(
    b300: Any, tmp_path: Path, package: str, state: str, words: str
) -> None:
    info = tmp_path / "env" / "lib" / "python3.12" / "site-packages" / f"{package}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Name: x\nVersion: {package.rpartition('-')[2]}\n")
    line = b300.ask(runtime="local", engine_env=tmp_path / "env")["driver"]
    assert line.state == state
    assert words in line.detail


def test_a_local_engine_needs_shared_and_locked_memory(b300: Any) -> None:
    b300.free = 8 << 30
    b300.limits = {"memlock": 8 << 20, "nofile": 1024}
    b300.port = "Address already in use"
    lines = b300.ask(runtime="local", own_network=False)
    assert {"shm", "limits", "port", "engine"} <= problems(lines)
    assert "ulimit -l" in (lines["limits"].advice or "")


# --- the service to pause


def test_a_unit_that_may_be_stopped(b300: Any) -> None:
    b300.commands.table |= {UNIT: ACTIVE, "systemd-run": ""}
    b300.groups = {77: "/system.slice/sglang.service"}
    gpu(2, processes=[{"pid": 77, "memory_mib": 9000}])(b300)
    lines = b300.ask(pause_unit="sglang.service")
    assert lines["unit"].detail == "sglang.service is active; this user may stop and start it"
    assert lines["gpu-memory"].state == "ok"
    assert "all of sglang.service, which is stopped first" in lines["gpu-memory"].detail


def test_memory_that_is_held_by_others_than_the_unit(b300: Any) -> None:
    b300.commands.table |= {UNIT: ACTIVE, "systemd-run": ""}
    b300.groups = {77: "/system.slice/docker-4711.scope"}
    gpu(2, processes=[{"pid": 77, "memory_mib": 9000}])(b300)
    assert b300.ask(pause_unit="sglang.service")["gpu-memory"].state == "unknown"


@pytest.mark.parametrize(
    ("answer", "may", "state", "words"),
    [
        (ACTIVE, False, "problem", "this user may not stop it"),
        (ACTIVE, None, "unknown", "cannot be asked"),
        (ACTIVE.replace("=loaded", "=not-found"), True, "problem", "knows no such unit"),
        (ACTIVE.replace("TriggeredBy=", "TriggeredBy=sglang.socket"), True, "problem", "started by sglang.socket"),
        (ACTIVE.replace("=active", "=inactive"), True, "ok", "it will not be started"),
    ],
)
def test_units(b300: Any, answer: str, may: bool | None, state: str, words: str) -> None:
    b300.commands.table |= {UNIT: answer, "systemd-run": ""}
    b300.may = may
    line = b300.ask(pause_unit="sglang.service")["unit"]
    assert line.state == state
    assert words in line.detail


def test_a_host_without_systemd(b300: Any) -> None:
    line = b300.ask(pause_unit="sglang.service")["unit"]
    assert line.state == "problem"
    assert "systemctl is not installed" in line.detail


def test_a_users_timer_dies_with_the_last_login(b300: Any) -> None:
    user = UNIT.replace("systemctl", "systemctl --user")
    b300.commands.table |= {user: ACTIVE, "systemd-run": "", "loginctl show-user --property=Linger --value": "no\n"}
    line = b300.ask(pause_unit="sglang.service", pause_scope="user")["unit"]
    assert (line.state, line.advice) == ("problem", "`loginctl enable-linger`")


# --- the oracle


@pytest.mark.parametrize("tie", [1e-3, 0.05, 0.25])
def test_the_judges_find_what_is_planted(tie: float) -> None:
    assert oracle.self_test(tie).state == "ok"


def test_a_judge_that_lets_everything_pass_is_found() -> None:
    from matrix.judge.results import check_result

    line = oracle.self_test(0.25, lossless=lambda *_: check_result("lossless", "pass", None, "fine"))
    assert line.state == "problem"
    assert "one wrong token gave pass" in line.detail


def test_a_judge_that_fails_everything_is_found() -> None:
    from matrix.judge.results import check_result

    line = oracle.self_test(0.25, lossless=lambda *_: check_result("lossless", "fail", "content_wrong", "bad"))
    assert "clean outputs gave fail" in line.detail


def test_a_judge_that_does_not_see_the_floor_is_found() -> None:
    from matrix.judge.results import check_result

    line = oracle.self_test(0.25, acceptance=lambda *_: check_result("acceptance", "pass", None, "fine"))
    assert "drafts never accepted gave pass" in line.detail


@pytest.mark.parametrize(("found", "told"), [("wrong", "a clean output, rescored gave wrong"), ("sound", "gave sound")])
def test_a_rescoring_that_finds_the_same_in_all_is_found(found: Literal["sound", "wrong"], told: str) -> None:
    def judge(spoken: Sequence[Spoken], scored: Scored, scales: Scales) -> Judged:
        judged = rescoring.judge(spoken, scored, scales)
        return replace(judged, scores=tuple(replace(score, state=found) for score in judged.scores))

    line = oracle.self_test(0.25, rescoring=judge)
    assert line.state == "problem"
    assert told in line.detail


# --- adapters


def test_the_daemon_through_dockers_sdk(daemon_socket: str, b300: Any) -> None:
    daemon = DockerDaemon({"DOCKER_HOST": daemon_socket})
    assert daemon.info()["ServerVersion"] == "28.5.1"
    image = daemon.image(b300.question.image)
    assert image is not None
    assert (image.size_bytes, image.cuda) == (38654705664, "13.0.1")
    assert daemon.image("sha256:" + "0" * 64) is None


def test_links() -> None:
    rows = ("GPU0\t X \tNV18\tPIX\t0-95", "GPU1\tNV18\t X \tSYS\t96", "NIC0\tPIX\tSYS\t X ")
    colour = "\n".join(("\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\x1b[0m", *rows))
    assert links_in(colour) == {"NV18"}
    assert links_in("") == frozenset()
