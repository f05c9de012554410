"""A bundle made of a run on disk: what is in it, what is not, and that it is always the same."""

import dataclasses
import errno
import json
import tempfile
from collections.abc import Callable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from repro import codec
from repro.bundle.contents import gather
from repro.bundle.inside.verify import Archive, checked
from repro.bundle.pack import Bundle, Options, pack
from repro.errors import BundleError, RecordError, UnavailableError
from repro.model import BundleExpectation, BundleOracle, Diagnosis, Fingerprint, Replay, ReplayLaunch, Result, Step
from repro.redact import Policy

BAD, GOOD, AR = "sim-b16t8-graph-nvls", "sim-b8t4-graph-nvls", "sim-ar-graph-nvls"
RUN = "20260914T081502Z-sim"
PAYLOAD = Path(str(resources.files("matrix"))) / "payload"


def options_of(**changes: Any) -> Options:
    plain = Options(
        payload=PAYLOAD,
        policy=Policy(),
        project=None,
        file_name="b.zip",
        tool_version="0.1.0",
        replay=None,
        tell=lambda _: None,
    )
    return dataclasses.replace(plain, **changes)


def packed(root: Path, asked: str = BAD, **changes: Any) -> tuple[Bundle, Archive]:
    made = pack(gather(asked, root), options_of(**changes))
    return made, Archive(made.data)


def replayed(*states: str) -> Callable[[Path], Replay]:
    """A replay whose launches ended so."""

    def run(file: Path) -> Replay:
        found = checked(Archive(file.read_bytes()))
        assert found.ok
        k = states.count("reproduced")
        launches = tuple(
            ReplayLaunch(launch=n, state=state, outcome="crashed", signature=None, detail="as told", wall_s=1.0)  # type: ignore[arg-type]
            for n, state in enumerate(states, start=1)
        )
        return Replay(
            bundle_digest=str(found.digest),
            runtime="local",
            image=None,
            reproduced=k,
            launches=len(states),
            upper=None if k else 0.6,
            blocked=None,
            statement=f"reproduced {k} of {len(states)}",
            runs=launches,
            facts={},
        )

    return run


def test_holds_what_a_maintainer_needs(failing: Any) -> None:
    made, archive = packed(failing.root)
    assert checked(archive).ok
    names = set(archive.entries)
    assert {
        "ISSUE.md",
        "repro.sh",
        "replay.py",
        "verify.py",
        "manifest.json",
        "expectation.json",
        "needs.json",
    } <= names
    assert {
        "environment.json",
        "oracle.json",
        "step.json",
        "payload/__main__.py",
        "payload/attempt/program.py",
    } <= names
    assert f"results/{BAD}/1/evidence/server.log" in names
    assert f"results/{BAD}/2/result.json" in names
    assert f"results/{AR}/1/result.json" in names
    assert not any("__pycache__" in name or "train.py" in name or name.startswith("payload/cpu") for name in names)
    assert made.manifest.subject.cells == (BAD,)
    assert made.manifest.tool_version == "0.1.0"
    for name, kind in {
        "expectation.json": BundleExpectation,
        "environment.json": Fingerprint,
        "oracle.json": BundleOracle,
        "step.json": Step,
        f"results/{BAD}/1/result.json": Result,
    }.items():
        codec.decode(json.loads(archive.content(name)), kind, where=name)
    inside = resources.files("repro.bundle.inside")
    for program in ("verify.py", "replay.py"):
        assert archive.content(program) == (inside / program).read_bytes()


def test_same_inputs_give_the_same_bytes(failing: Any) -> None:
    run = replayed("reproduced", "clean")
    assert packed(failing.root, replay=run)[0].data == packed(failing.root, replay=run)[0].data


def test_issue_quotes_digest_and_rate(failing: Any) -> None:
    made, archive = packed(failing.root, replay=replayed("reproduced", "reproduced", "clean"))
    text = archive.content("ISSUE.md").decode()
    assert made.manifest.digest in text
    assert "2 of 3" in text
    assert "PLANTED" not in text.splitlines()[0]
    record = codec.decode(json.loads(archive.content("replay.json")), Replay, where="replay.json")
    assert record.reproduced == 2
    assert checked(archive, made.manifest.digest).ok


def test_all_checks_are_tried_when_those_that_showed_it_do_not(failing: Any) -> None:
    """The reduced order is not reproduced; the whole one is, and is what the bundle then holds."""
    tried: list[int] = []

    def run(file: Path) -> Replay:
        checks = len(json.loads(Archive(file.read_bytes()).content("step.json"))["checks"])
        tried.append(checks)
        return replayed("reproduced" if len(tried) > 1 else "clean")(file)

    made, archive = packed(failing.root, replay=run)
    assert tried == [0, 1]
    assert made.replay is not None
    assert made.replay.reproduced == 1
    assert len(json.loads(archive.content("step.json"))["checks"]) == 1


def test_dumps_and_unknown_files_stay_outside(disk: Any, death: bytes) -> None:
    made = disk()
    made.attempt(
        BAD,
        1,
        {
            "evidence/server.log": death,
            "evidence/dumps/crash_dump_1.pkl": b"\x80\x04pickle",
            "evidence/core.4711": b"core",
            "evidence/trace.bin": b"\0\1",
            "evidence/checks/load.json": b'"' + b"x" * 9_000_000 + b'"',
        },
    )
    bundle, archive = packed(made.root)
    left = {item.where.rpartition(f"cells/{BAD}/1/")[2]: item for item in bundle.manifest.left_out}
    assert set(left) == {
        "evidence/dumps/crash_dump_1.pkl",
        "evidence/core.4711",
        "evidence/trace.bin",
        "evidence/checks/load.json",
    }
    assert "a dump always stays outside" in left["evidence/core.4711"].reason
    assert left["evidence/core.4711"].size_bytes == 4
    assert left["evidence/core.4711"].sha256 is not None
    assert not any(name.endswith((".pkl", ".4711", ".bin", "load.json")) for name in archive.entries)


def test_whole_log_is_named_and_the_cut_one_says_the_same(disk: Any, death: bytes) -> None:
    made = disk()
    busy = b"[2026-09-14 08:14:00 TP0] Decode batch, #running-req: 16, #token: 12345, accept len: 3.41\n"
    made.attempt(BAD, 1, {"evidence/server.log": b"ready\n" + busy * 20_000 + death})
    bundle, archive = packed(made.root)
    path = f"results/{BAD}/1/evidence/server.log"
    file = next(item for item in bundle.manifest.files if item.path == path)
    assert file.cut is not None
    assert b"[cut from this log: " in archive.content(path)
    whole = next(item for item in bundle.manifest.left_out if item.where.endswith("server.log"))
    assert whole.where == f"sim/{RUN}/cells/{BAD}/1/evidence/server.log"
    assert whole.reason.startswith("whole log")
    diagnosis: Diagnosis = gather(BAD, made.root).first.result.diagnosis  # type: ignore[assignment]
    assert diagnosis.kind == "cuda_illegal_memory_access"


def test_too_large_a_bundle_says_what_it_dropped(disk: Any, death: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    import random

    from repro.bundle import archive

    made = disk()
    noise = {
        "evidence/metrics.txt": bytes(random.Random(1).choices(range(97, 123), k=900_000)),
        "evidence/power.json": b'"' + bytes(random.Random(2).choices(range(97, 123), k=900_000)) + b'"',
    }
    for number in (1, 2):
        made.attempt(BAD, number, {"evidence/server.log": death, **noise})
    whole = packed(made.root)[0]
    limit = len(whole.data) + (1 << 19) - 300_000
    monkeypatch.setattr(archive.fitting, "__kwdefaults__", {"limit_bytes": limit})
    bundle = packed(made.root)[0]
    dropped = [item for item in bundle.manifest.left_out if item.reason.startswith("dropped")]
    assert [item.where for item in dropped] == [f"sim/{RUN}/cells/{BAD}/2/evidence/power.json"]
    assert all(item.sha256 for item in dropped)
    assert any("left out so that" in note for note in bundle.notes)
    assert len(bundle.data) < len(whole.data)


def test_secrets_do_not_leave(disk: Any, death: bytes) -> None:
    made = disk()
    token = "hf_" + "AbCdEfGhIjKlMnOpQrStUvWxYz012345"
    line = f"Authorization: Bearer {token} for alice@example.com from 10.11.12.13\n".encode()
    made.attempt(BAD, 1, {"evidence/server.log": line + death})
    bundle, archive = packed(made.root)
    for name in archive.entries:
        assert token.encode() not in archive.content(name)
        assert b"alice@example.com" not in archive.content(name)
        assert b"10.11.12.13" not in archive.content(name)
    assert bundle.manifest.redactions
    assert any(token in item.before for item in bundle.shown)


def test_survivor_refuses_the_bundle(failing: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from repro.bundle import cleaning

    monkeypatch.setattr(cleaning, "survivors", lambda files, _: [f"{next(iter(files))}:1: a secret is still there"])
    with pytest.raises(BundleError, match=r"nothing was written: environment\.json:1: a secret") as refused:
        packed(failing.root)
    assert refused.value.exit_code == 6


def test_a_full_disk_for_temporary_files_is_named(failing: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("repro.bundle.pack._draft", full)
    with pytest.raises(UnavailableError, match=r"no space left for temporary files .*TMPDIR") as told:
        packed(failing.root)
    assert str(told.value).startswith(tempfile.gettempdir())


def test_kernel_files_come_from_a_hook(failing: Any) -> None:
    def kernel(contents: Any) -> Mapping[str, bytes]:
        assert contents.first.result.cell == BAD
        return {"repro.py": b"print(1)\n", "resources.json": b'{"registers": 64}\n'}

    _, archive = packed(failing.root, kernel_files=kernel)
    assert archive.content("kernel/repro.py") == b"print(1)\n"
    assert json.loads(archive.content("kernel/resources.json")) == {"registers": 64}


def test_without_step_nothing_could_be_started(failing: Any) -> None:
    (failing.root / "sim" / RUN / "cells" / BAD / "1" / "step.json").unlink()
    with pytest.raises(RecordError, match=r"step\.json is not there"):
        packed(failing.root)


def test_healthy_cell(failing: Any) -> None:
    made, archive = packed(failing.root, GOOD)
    assert checked(archive).ok
    assert any("holds a working cell" in note for note in made.notes)
