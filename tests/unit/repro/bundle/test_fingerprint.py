"""The fingerprint of a bundle: every field is there, and says how it is known."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from repro import codec
from repro.bundle.fingerprint import FIELDS, fingerprint, rows
from repro.bundle.fingerprint_text import check_env, patch_lines
from repro.model import Engine, Fact, Fingerprint, GpuHealth, PackagePatches, PatchedFile, Result, Step, Xid

RECORDS = Path(__file__).parents[3] / "data" / "records"
RESULT = codec.read(RECORDS / "result-v2.json", Result)
STEP = codec.read(RECORDS / "step-v2.json", Step)
HEALTH = codec.read(RECORDS / "gpu-health-v1.json", GpuHealth)


def known(value: Any, status: str = "verified") -> Fact:
    return Fact(value=value, status=status, reason=None)  # type: ignore[arg-type]


def of(**facts: Fact) -> Result:
    return replace(RESULT, environment=replace(RESULT.environment, facts=facts))


def test_every_field_is_there_and_an_unknown_one_says_why() -> None:
    found = fingerprint(of(), health=None, step=None)
    names = [name for group in FIELDS.values() for name in group]
    assert list(found.facts) == names
    assert [row.field for row in rows(found)] == names
    for row in rows(found):
        assert row.value
        assert row.state == ("declared" if row.field in {"engine", "engine_version", "engine_source"} else "unknown")
    assert codec.encode(found)


def test_what_else_was_recorded_comes_last() -> None:
    found = fingerprint(of(zebra=known(1), aardvark=known(True)), health=None, step=None)
    assert [(row.group, row.field, row.value) for row in rows(found)][-2:] == [
        ("Other", "aardvark", "yes"),
        ("Other", "zebra", "1"),
    ]


def test_what_the_machine_said_beats_what_the_plan_says() -> None:
    image = "lmsysorg/sglang@sha256:" + "3" * 64
    found = fingerprint(of(engine_version=known("0.5.23.dev1")), health=None, step=None, image=image)
    assert found.facts["engine_version"] == known("0.5.23.dev1")
    assert found.facts["image_digest"] == known(image, "declared")


def test_the_health_of_gpus() -> None:
    facts = fingerprint(of(gpu_count=known(1)), health=HEALTH, step=None).facts
    assert facts["gpu_xids"] == known("79 on GPU 0")
    assert facts["gpu_throttling"] == known("hw_thermal")
    assert facts["gpu_sm_clock_mhz"] == known(1920.0), "the GPU was lost: the clock is that of before"
    assert facts["gpu_ecc_uncorrected"] == known(0)


def test_gpus_that_differ_are_told_apart() -> None:
    one = HEALTH.before[0]
    two = replace(one, gpu=1, ecc_uncorrected=3)
    health = GpuHealth(before=(), after=(one, two), xids=(), suspect=(), unknown=())
    facts = fingerprint(of(), health=health, step=None).facts
    assert facts["gpu_ecc_uncorrected"].value == "GPU 0: 0, GPU 1: 3"
    assert facts["gpu_xids"] == known("none")


def test_no_xid_seen_where_nobody_could_look_is_unknown() -> None:
    unread = "Xids: neither NVML's events nor the kernel log can be read"
    health = GpuHealth(before=HEALTH.before, after=(), xids=(), suspect=(), unknown=(unread,))
    fact = fingerprint(of(), health=health, step=None).facts["gpu_xids"]
    assert (fact.status, fact.reason) == ("unknown", unread)
    stray = replace(health, xids=(Xid(code=31, gpu=None, text=""),))
    assert fingerprint(of(), health=stray, step=None).facts["gpu_xids"].value == "31 on no visible GPU"


@pytest.mark.parametrize(
    ("count", "reason"),
    [(0, "the machine has no GPU"), (8, "the GPUs were not looked at around this attempt")],
)
def test_without_a_look_at_the_gpus(count: int, reason: str) -> None:
    fact = fingerprint(of(gpu_count=known(count)), health=None, step=None).facts["gpu_xids"]
    assert (fact.status, fact.reason) == ("unknown", reason)


def test_patched_files_are_named() -> None:
    said = "changed: sglang/a.py, sglang/b.py; added: sglang/c.py and 3 more"
    (package,) = fingerprint(of(engine_patches=known(said)), health=None, step=None).patches
    assert package.reason is None
    assert [(file.path, file.state) for file in package.files] == [
        ("sglang/a.py", "changed"),
        ("sglang/b.py", "changed"),
        ("sglang/c.py", "added"),
    ]
    (unpatched,) = fingerprint(of(engine_patches=known("none")), health=None, step=None).patches
    assert (unpatched.files, unpatched.reason) == ((), None)
    (unknown,) = fingerprint(of(), health=None, step=None).patches
    assert unknown.reason == "not recorded"
    simulated = replace(of(), engine=Engine(name="simulated", version="1", source="simulated"))
    assert fingerprint(simulated, health=None, step=None).patches == ()


def test_a_diff_is_shown_line_by_line() -> None:
    file = PatchedFile(path="sglang/a.py", state="changed", diff="--- a\n+++ b\n-old\n+new\n")
    patches = (PackagePatches(package="sglang", files=(file,), reason=None),)
    found = fingerprint(of(), health=None, step=None, patches=patches)
    assert patch_lines(found) == ("sglang: changed: sglang/a.py", "--- a", "+++ b", "-old", "+new")


def test_container_flags_and_variables() -> None:
    result = of(
        container_user=known("the image's own", "declared"),
        container_ipc=known("private", "declared"),
        container_shm_bytes=known(1 << 30, "declared"),
        container_ulimits=known("memlock=-1 stack=67108864", "declared"),
    )
    step = replace(STEP, environment={"NCCL_NVLS_ENABLE": "1", "GRAPHREPRO_LABEL": "a/b/c/1"})
    found = fingerprint(result, health=None, step=step)
    assert found.container_flags == (
        "--ipc=private",
        "--shm-size=1073741824",
        "--ulimit=memlock=-1",
        "--ulimit=stack=67108864",
    )
    assert found.variables == {"NCCL_NVLS_ENABLE": "1"}
    lines = check_env(found)
    assert "environment: NCCL_NVLS_ENABLE=1" in lines
    assert "container: --ipc=private" in lines
    assert fingerprint(of(), health=None, step=None).container_flags == ()


def test_the_block_says_what_check_env_leaves_out() -> None:
    found: Fingerprint = fingerprint(
        of(gpu_driver=known("580.1"), nccl=known("2.28"), image_digest=known("x@sha256:1", "declared")),
        health=HEALTH,
        step=None,
    )
    lines = check_env(found)
    for line in ("CUDA Driver Version: 580.1", "NCCL: 2.28", "Image: x@sha256:1 (declared)", "Xid: 79 on GPU 0"):
        assert line in lines
    assert "sglang: 0.5.23" in lines
    assert "vllm: not installed" in lines
    assert all(len(line) <= 240 and "\n" not in line for line in lines)


@pytest.mark.parametrize(
    ("then", "now", "kept"),
    [
        ("changed: sglang/a.py", ("sglang/a.py",), True),
        ("changed: sglang/a.py", ("sglang/a.py", "sglang/a.md"), True),
        ("changed: sglang/a.py, sglang/b.py", ("sglang/a.py",), False),
        ("none", ("sglang/a.py",), False),
        (None, ("sglang/a.py",), True),
    ],
)
def test_diffs_count_only_for_the_files_that_the_attempt_found_patched(
    then: str | None, now: tuple[str, ...], kept: bool
) -> None:
    files = tuple(PatchedFile(path=path, state="changed", diff="-a\n+b") for path in now)
    patches = (PackagePatches(package="sglang", files=files, reason=None),)
    result = of(engine_patches=known(then)) if then is not None else of()
    found = fingerprint(result, health=None, step=None, patches=patches)
    assert (found.patches == patches) == kept
    if not kept:
        assert all(file.diff is None for package in found.patches for file in package.files)
