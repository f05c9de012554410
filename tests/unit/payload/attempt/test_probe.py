"""The environment probe: what it says here, and beside a GPU that answers, stays silent or talks nonsense."""

import base64
import getpass
import hashlib
import json
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from probe import environment, facts, gpus, machine, packages

import matrix
from repro import codec
from repro.model import Environment

PAYLOAD = Path(matrix.__file__).parent / "payload"
TOPOLOGY = (
    "\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\x1b[0m\n"
    "GPU0\t X \t{link}\tSYS\t0-63\t0\n"
    "GPU1\t{link}\t X \tNODE\t0-63\t0\n"
    "NIC0\tSYS\tNODE\t X \t\t\n\n"
    "Legend:\n\n  X    = Self\n  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes\n"
)
ROW = "{name}, 580.126.09, 12.0, 600.00, 2430, 14001, 97887, Enabled, [N/A]"


@pytest.fixture
def smi(tmp_path, monkeypatch):
    """Puts an nvidia-smi on the path that answers as told."""

    def install(names=("NVIDIA RTX PRO 6000",) * 2, link="NODE", status=0, banner="| CUDA Version: 13.0     |"):
        rows = "\n".join(ROW.format(name=name) for name in names)
        (tmp_path / "rows").write_text(rows + "\n")
        (tmp_path / "topology").write_text(TOPOLOGY.format(link=link))
        (tmp_path / "banner").write_text(banner + "\n")
        program = tmp_path / "nvidia-smi"
        program.write_text(
            f"#!/bin/sh\ncd {tmp_path}\n[ {status} = 0 ] || exit {status}\n"
            'case "$1" in --query*) cat rows;; topo) cat topology;; *) cat banner;; esac\n'
        )
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    return install


def found():
    return {name: fact["value"] for name, fact in environment.describe()["facts"].items()}


def test_the_printed_document_is_a_record(tmp_path):
    printed = subprocess.check_output([sys.executable, "-P", str(PAYLOAD), "probe"], cwd="/")
    (tmp_path / "environment.json").write_bytes(printed)
    read = codec.read(tmp_path / "environment.json", Environment, where="environment.json")
    assert read.facts["python"].value == ".".join(map(str, sys.version_info[:3]))
    assert read.facts["cpu_count"].value == len(os.sched_getaffinity(0))
    assert read.packages["aiohttp"]
    assert list(read.packages) == sorted(read.packages)


def test_it_names_no_host_user_path_or_address():
    text = json.dumps(environment.describe())
    for secret in (socket.gethostname(), str(Path.home()), str(Path.cwd()), sys.prefix, "127.0.0.1"):
        assert f'"{secret}' not in text
    assert f'"{getpass.getuser()}"' not in text


def test_without_a_gpu(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    described = environment.describe()["facts"]
    for name in (*gpus.NAMES, "gpu_topology", "cuda_driver"):
        assert described[name] == {"value": None, "status": "unknown", "reason": "nvidia-smi is not installed"}


def test_with_gpus(smi):
    smi(link="NV18")
    values = found()
    assert values["gpu_count"] == 2
    assert values["gpu_name"] == "NVIDIA RTX PRO 6000"
    assert values["compute_capability"] == "12.0"
    assert values["gpu_driver"] == "580.126.09"
    assert (values["gpu_power_limit_w"], values["gpu_memory_mib"]) == (600.0, 97887.0)
    assert values["gpu_mig"] is None
    assert values["gpu_topology"] == "NODE + NV18 + SYS" or values["gpu_topology"] == "NV18"
    assert values["cuda_driver"] == "13.0"


def test_gpus_that_differ(smi):
    smi(names=("B", "A"))
    assert found()["gpu_name"] == "A + B"


def test_one_gpu(smi):
    smi(names=("A",), link=" X ")
    assert found()["gpu_count"] == 1


def test_a_broken_driver(smi):
    smi(status=9)
    described = environment.describe()["facts"]
    assert described["gpu_name"]["reason"] == "nvidia-smi failed with status 9"


def test_a_driver_that_talks_nonsense(smi):
    smi(names=(), banner="?")
    values = found()
    assert (values["gpu_count"], values["gpu_name"], values["cuda_driver"]) == (0, None, None)


def test_a_driver_that_does_not_answer(smi, tmp_path, monkeypatch):
    smi()
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr(gpus, "LIMIT_S", 0.2)
    assert environment.describe()["facts"]["gpu_name"]["reason"] == "nvidia-smi did not answer within 0.2 s"


def test_a_probe_that_fails_costs_its_own_facts_alone(monkeypatch):
    def broken():
        raise ZeroDivisionError

    monkeypatch.setattr(machine, "memory", broken)
    described = environment.describe()["facts"]
    assert described["memory_mib"]["reason"] == "the probe failed: ZeroDivisionError"
    assert described["kernel"]["status"] == "verified"


def test_the_image_is_told(monkeypatch):
    monkeypatch.setenv("GRAPHREPRO_IMAGE_DIGEST", "sha256:" + "a" * 64)
    fact = environment.describe()["facts"]["image_digest"]
    assert fact == {"value": "sha256:" + "a" * 64, "status": "declared", "reason": None}


def test_packages(tmp_path, monkeypatch):
    names = ("sglang-0.5.23.dist-info", "torch-2.14.1+cu130.dist-info", "sgl_kernel-0.3.21.dist-info",
             "nonsense.dist-info", "nvidia_nccl_cu13-2.28.9.dist-info",
             "flashinfer_python-0.7.2.dist-info", "a-b-c-1.dist-info")  # fmt: skip
    for name in names:
        (tmp_path / name).mkdir()
    (tmp_path / "later").mkdir()
    (tmp_path / "later" / "sglang-0.1.dist-info").mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(tmp_path / "later"), "/nonexistent"])
    values = found()
    assert values["engine_version"] == "0.5.23"
    assert values["torch"] == "2.14.1+cu130"
    assert values["cuda_toolkit"] == "13.0"
    assert values["sglang_kernel"] == "0.3.21"
    assert values["flashinfer"] == "0.7.2"
    assert values["nccl"] == "2.28.9"
    assert values["triton"] is None


@pytest.mark.parametrize(
    ("installed", "cuda"),
    [
        ({"torch": "2.9.1+cu129"}, "12.9"),
        ({"torch": "2.14.1", "nvidia-cuda-runtime": "13.0.96"}, "13.0"),
        ({"torch": "2.9.1", "nvidia-cuda-runtime-cu12": "12.8.90"}, "12.8"),
    ],
)
def test_the_cuda_of_torch(installed, cuda):
    assert packages.torch_cuda(installed) == {"cuda_toolkit": cuda}


def test_the_torch_of_a_cpu():
    with pytest.raises(facts.Unknown):
        packages.torch_cuda({"torch": "2.13.0+cpu"})


def test_local_patches_of_the_engine(tmp_path, monkeypatch):
    package = tmp_path / "sglang"
    (package / "srt").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "srt" / "worker.py").write_text("as released\n")
    record = tmp_path / "sglang-0.5.23.dist-info"
    record.mkdir()
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: sglang\nVersion: 0.5.23\n")
    digest = base64.urlsafe_b64encode(hashlib.sha256(b"as released\n").digest()).rstrip(b"=").decode()
    (record / "RECORD").write_text(f"sglang/srt/worker.py,sha256={digest},12\nsglang/__init__.py,,\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert found()["engine_patches"] == "none"
    (package / "srt" / "worker.py").write_text("patched\n")
    for number in range(22):
        (package / "srt" / f"new_{number:02}.py").write_text("")
    told = found()["engine_patches"]
    assert told.startswith("changed: sglang/srt/worker.py; added: sglang/srt/new_00.py, ")
    assert told.endswith("sglang/srt/new_19.py and 2 more")


def test_without_the_engine_its_patches_are_unknown(monkeypatch):
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if not folder.endswith("-packages")])
    described = environment.describe()["facts"]
    assert described["engine_patches"]["reason"] == "sglang is not installed beside the attempt program"
