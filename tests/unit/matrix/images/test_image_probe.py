"""The probe on environments made here: run as a program, as an image runs it."""

import base64
import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import matrix
import schemas
from matrix.engines.overlay import load_overlay
from matrix.images.probe import parse_probe
from matrix.images.told import told
from repro.errors import RecordError

PAYLOAD = Path(matrix.__file__).parent / "payload"
DATA = Path(__file__).parents[3] / "data" / "images"
ARGS = 'def add(parser):\n    parser.add_argument("--model-path")\n    parser.add_argument("--tp")\n'


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """A site-packages folder with an sglang as a wheel installs it, torch and a kernel library."""
    site = tmp_path / "site-packages"
    files = {"sglang/__init__.py": "", "sglang/srt/server_args.py": ARGS, "sglang/version.py": "v = 1\n"}
    rows = []
    for name, content in files.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(content)
        digest = base64.urlsafe_b64encode(hashlib.sha256(content.encode()).digest()).rstrip(b"=").decode()
        rows.append(f"{name},sha256={digest},{len(content)}")
    info = site / "sglang-0.5.15.post1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sglang\nVersion: 0.5.15.post1\n")
    (info / "RECORD").write_text("\n".join([*rows, "sglang-0.5.15.post1.dist-info/RECORD,,"]))
    for library, data in (("torch/lib/libtorch_cuda.so", "family"), ("sgl_kernel/sm100/common_ops.abi3.so", "each")):
        (site / library).parent.mkdir(parents=True)
        shutil.copy(DATA / f"{data}.elf", site / library)
    (site / "torch" / "lib" / "libtorch.so").write_text("INPUT(libtorch_cuda.so)")
    shutil.copy(DATA / "none.elf", site / "plain.so")
    (site / "torch" / "lib" / "libtorch_cuda.so.1").symlink_to("libtorch_cuda.so")
    return site


def probed(site: Path) -> bytes:
    # -S and the path set by hand: of this test's own environment nothing is seen.
    program = f"import sys, runpy; sys.path[:] = [p for p in sys.path if 'site-packages' not in p] + [{str(site)!r}]; "
    program += f"sys.argv = ['payload', 'probe', '--image']; runpy.run_path({str(PAYLOAD)!r}, run_name='__main__')"
    command = [sys.executable, "-S", "-I", "-B", "-c", program]
    answer = subprocess.run(command, capture_output=True, check=False)
    assert answer.returncode == 0, answer.stderr.decode()
    return answer.stdout


def test_what_is_installed(environment: Path) -> None:
    answer = probed(environment)
    schemas.validate(json.loads(answer), "image-probe", "here")
    found = parse_probe(answer, where="here")
    assert found.engine_version == "0.5.15.post1"
    assert found.flags.value == ("--model-path", "--tp")
    assert found.changes.value is not None
    assert (found.changes.value.changed, found.changes.value.added, found.changes.value.missing) == ((), (), ())
    assert set(found.gpu_code()) == {"torch/lib/libtorch_cuda.so", "sgl_kernel/sm100/common_ops.abi3.so"}
    assert [(library.path, library.reason) for library in found.libraries if library.code is None] == [
        ("torch/lib/libtorch.so", "is no ELF file")
    ]
    assert "as in its wheel" in told(found, "sm_103")
    assert "runs: compute_90, sm_100, sm_103a" in told(found, "sm_103")


def test_local_patches_are_named(environment: Path) -> None:
    (environment / "sglang" / "srt" / "server_args.py").write_text(ARGS + "# changed\n")
    (environment / "sglang" / "srt" / "ddtree_worker.py").write_text("")
    (environment / "sglang" / "version.py").unlink()
    found = parse_probe(probed(environment), where="here").changes.value
    assert found is not None
    assert found.changed == ("sglang/srt/server_args.py",)
    assert found.added == ("sglang/srt/ddtree_worker.py",)
    assert found.missing == ("sglang/version.py",)


def test_an_editable_install_is_unknown_not_unchanged(environment: Path) -> None:
    info = environment / "sglang-0.5.15.post1.dist-info"
    (info / "direct_url.json").write_text(json.dumps({"url": "file:///x", "dir_info": {"editable": True}}))
    changes = parse_probe(probed(environment), where="here").changes
    assert changes.value is None
    assert "editable" in str(changes.reason)


def test_an_environment_without_the_engine(tmp_path: Path) -> None:
    (tmp_path / "site-packages").mkdir()
    found = parse_probe(probed(tmp_path / "site-packages"), where="here")
    assert (found.engine_version, found.flags.value, found.changes.value) == (None, None, None)
    assert found.flags.reason == "sglang is not installed beside the probe"
    assert found.missing_flags(["--anything"]) == {}


def test_missing_flags_are_told_with_the_version(environment: Path) -> None:
    found = parse_probe(probed(environment), where="here")
    words = ["--model-path", "/m", "--tp=8", "--speculative-ddtree-budget", "16", "--mod"]
    assert found.missing_flags(words) == {
        "--speculative-ddtree-budget": "the installed SGLang 0.5.15.post1 has no flag --speculative-ddtree-budget",
        "--mod": "the installed SGLang 0.5.15.post1 has no flag --mod",
    }


@pytest.mark.parametrize("answer", [b"", b"[]", b"{", b'{"record": "image-probe"}', b"[" * 100_000])
def test_unusable_answers(answer: bytes) -> None:
    with pytest.raises(RecordError, match="the probe's answer is unusable") as caught:
        parse_probe(answer, where="image x")
    assert "\n" not in str(caught.value)


def test_the_overlay_for_the_images_source_exists() -> None:
    assert load_overlay("pr29907").base_release == "0.5.15.post1"
