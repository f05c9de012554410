"""An order leaves with nothing of its machine in it, and `repro.sh` does what it says whatever it is made of."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from repro import codec
from repro.bundle.contents import Contents, GatheredAttempt
from repro.bundle.portable import Portable, portable
from repro.bundle.script import shell_word
from repro.errors import RecordError
from repro.model import (
    CheckPlan,
    CheckResult,
    Difference,
    Fact,
    Outcome,
    Planted,
    Prompt,
    Result,
    Run,
    Signature,
    Step,
    Subject,
)

DATA = Path(__file__).parents[3] / "data"
RESULT = codec.read(DATA / "records" / "result-v2.json", Result)
STEP = codec.read(DATA / "records" / "step-v2.json", Step)
RUN = codec.read(DATA / "records" / "run-v1.json", Run)
IMAGE = "lmsysorg/sglang@sha256:" + "ab" * 32
HOSTILE = (
    "a b",
    "$(touch pwned)",
    "`touch pwned`",
    "'; touch pwned; '",
    '"; touch pwned; "',
    "$HOME ${PATH}",
    "*",
    "~",
    "!!",
    "\\",
    "new\nline",
    "-rf",
    "#comment",
    "",
    '{"a": {"b": 1}}',
    "{no_placeholder}",
    "ünïcode ☂",
    "&& exit 1 ||",
    "}",
)
PLAN = CheckPlan(
    check="lossless",
    applicable=True,
    reason=None,
    prompts=4,
    max_new_tokens=32,
    concurrency=(1,),
    margins=False,
    tie_margin=1e-3,
    repeats=None,
    cancel_every=None,
    peer=None,
    limit_s=60.0,
)
CHECKS = (
    PLAN,
    replace(PLAN, check="throughput", concurrency=(1, 4, 8), peer="sglang.bench_serving"),
    replace(PLAN, check="load", prompts=6, concurrency=(3, 5)),
    replace(PLAN, check="coding"),
)
PROMPTS = tuple(Prompt(id=f"p{n}", text=f"question {n}", input_ids=None) for n in range(8))


def order(
    place: Path,
    *,
    argv: tuple[str, ...] = ("/opt/v/bin/python3.11", "-m", "sglang.launch_server", "--port", "31001"),
    environment: dict[str, str] | None = None,
    outcome: Outcome = "crashed",
    begun: tuple[str, ...] = ("lossless",),
    kind: str = "cuda_illegal_memory_access",
    differing: tuple[int, ...] = (),
    docker: bool = False,
    facts: dict[str, object] | None = None,
    whole: bool = False,
    engine: str = "sglang",
    architecture: str = "cpu",
    statement: str = "the server dies",
) -> Portable:
    """What becomes of an attempt: ``begun`` are its checks, ``differing`` the concurrencies at which it was wrong."""
    folder = place / "attempt"
    (folder / "evidence").mkdir(parents=True, exist_ok=True)
    events = [{"event": "check-begun", "check": check} for check in begun]
    (folder / "evidence" / "timeline.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    differences = tuple(
        Difference(prompt="p1", concurrency=level, at=0, expected=1, got=2, margin=1.0) for level in differing
    )
    lossless = CheckResult(
        check="lossless", state="fail", reason="x", detail="", measurements=(), differences=differences, histogram=None
    )
    known = {name: Fact(value=value, status="declared", reason=None) for name, value in (facts or {}).items()}  # type: ignore[arg-type]
    result = replace(
        RESULT,
        outcome=outcome,
        checks=(lossless,),
        engine=replace(RESULT.engine, name=engine),  # type: ignore[arg-type]
        environment=replace(RESULT.environment, facts=known),
    )
    step = replace(
        STEP,
        argv=argv,
        environment=environment or {},
        port=31001,
        attempt=7,
        checks=CHECKS,
        prompts=PROMPTS,
        planted=Planted(fault="x", number=None),
    )
    attempt = GatheredAttempt(
        directory=folder, place="attempt", result=result, verdict=None, step=step, health=None, fails=True
    )
    subject = Subject(
        finding=None,
        target=result.target,
        architecture=architecture,
        cells=(result.cell,),
        attempts=(),
        signature=Signature(kind=kind, phase="serving", subsystem=None),
        engine="sglang",
        engine_version=None,
        engine_source="stock",
        image=IMAGE if docker else None,
        planted=True,
    )
    contents = Contents(
        subject=subject,
        finding=None,
        healthy=False,
        runs={result.run_id: replace(RUN, run_id=result.run_id, runtime="docker" if docker else "local")},
        plans={},
        attempts=(attempt,),
        more=(),
        launches=(),
        reference=None,
        others=(),
        oracle=None,
        notes=(),
    )
    return portable(contents, statement=statement, whole=whole)


def sent(made: Portable) -> list[tuple[str, tuple[int, ...]]]:
    return [(check.check, check.concurrency) for check in made.step.checks]


def test_what_differs_between_machines_becomes_a_placeholder(tmp_path: Path) -> None:
    made = order(
        tmp_path,
        argv=(
            *("/home/jane/v/bin/python3", "-m", "sglang.launch_server", "--port", "31001", "--model-path"),
            *("/home/jane/matrix/payload/cpu/model", "--context-length", "31", "--host", "127.0.0.1"),
        ),
        environment={
            "PYTHONPATH": "/home/jane/matrix/payload/cpu/plugin:/home/jane/matrix/payload/cpu/standins",
            "GRAPHREPRO_LABEL": "abc/def",
            "TRITON_CACHE_DIR": "/var/cache/graphrepro/triton",
            "GRAPHREPRO_FAULT": "sigkill:3",
        },
    )
    assert made.step.argv == (
        *("{python}", "-m", "sglang.launch_server", "--port", "{port}", "--model-path"),
        *("{payload}/cpu/model", "--context-length", "31", "--host", "127.0.0.1"),
    )
    assert made.step.environment == {
        "PYTHONPATH": "{payload}/cpu/plugin:{payload}/cpu/standins",
        "GRAPHREPRO_FAULT": "sigkill:3",
    }
    assert b"jane" not in b"".join(made.files.values())
    assert (made.needs.model, made.notes) == (None, ())
    assert made.needs.modules == ("aiohttp", "sglang")


def test_weights_outside_of_the_payload_must_be_given(tmp_path: Path) -> None:
    argv = ("python", "--model-path", "/data/kimi", "--speculative-draft-model-path", "/data/draft", "--x", "/data/x")
    made = order(tmp_path, argv=argv, facts={"model": "Kimi-K2.6"})
    assert made.step.argv[1:5] == ("--model-path", "{model}", "--speculative-draft-model-path", "{draft_model}")
    assert (made.needs.model, made.needs.draft_model) == ("Kimi-K2.6", "the weights it was seen with")
    assert made.notes == ("step.json still names '/data/x', which another machine may not have",)


def test_a_name_of_weights_stays(tmp_path: Path) -> None:
    made = order(tmp_path, argv=("python", "--model-path", "Qwen/Qwen3-8B"))
    assert (made.step.argv[2], made.needs.model) == ("Qwen/Qwen3-8B", None)


def test_the_launch_number_of_the_simulated_engine_is_the_replays(tmp_path: Path) -> None:
    script = tmp_path / "mine.json"
    script.write_text("{}")
    argv = ("python", "/x/payload", "simulated", "--launch", "7", "--script", str(script))
    made = order(tmp_path, argv=argv, engine="simulated")
    assert made.step.argv[1:] == (
        *("{payload}", "simulated", "--launch", "{attempt}"),
        *("--script", "{payload}/extra/script.json"),
    )
    assert made.files["payload/extra/script.json"] == b"{}"
    assert made.needs.modules == ("aiohttp",)


def test_a_death_keeps_the_checks_up_to_it(tmp_path: Path) -> None:
    assert sent(order(tmp_path, begun=())) == []
    assert sent(order(tmp_path, begun=("lossless",))) == [("lossless", (1,))]
    made = order(tmp_path, begun=("lossless", "throughput"))
    assert sent(made) == [("lossless", (1,)), ("throughput", (1, 4, 8))]
    assert len(made.step.prompts) == 4
    assert [check for check, _ in sent(order(tmp_path, whole=True))] == ["lossless", "throughput", "load"]


def test_wrong_content_keeps_what_shows_it(tmp_path: Path) -> None:
    def wrong(*levels: int) -> list[tuple[str, tuple[int, ...]]]:
        return sent(order(tmp_path, outcome="completed", kind="corrupt_output", differing=levels))

    assert wrong(1, 4) == [("lossless", (1,))]
    assert wrong(4, 8) == [("lossless", (1,)), ("throughput", (1, 4))]
    assert [check for check, _ in wrong()] == ["lossless", "throughput", "load"]
    floor = order(tmp_path, outcome="completed", kind="acceptance_at_floor")
    assert sent(floor) == [("lossless", (1,))]


def test_a_container_is_made_as_it_was(tmp_path: Path) -> None:
    made = order(
        tmp_path,
        argv=("/opt/venv/bin/python3", "-m", "sglang.launch_server", "--tp-size", "8", "--port", "31001"),
        environment={"PATH": "/usr/local/cuda/bin:/usr/bin", "A": "/opt/graphrepro/payload/x"},
        docker=True,
        architecture="sm_103",
        facts={"container_ipc": "host", "container_ulimits": "memlock=-1 stack=67108864", "container_shm_bytes": 5},
    )
    needs = made.needs
    assert (needs.image, needs.image_python, needs.gpus, needs.ipc) == (IMAGE, "/opt/venv/bin/python3", 8, "host")
    assert (needs.shm_bytes, needs.ulimits) == (5, {"memlock": -1, "stack": 67108864})
    assert made.step.environment["A"] == "{payload}/x"
    text = made.files["repro.sh"].decode()
    assert f"IMAGE={IMAGE}" in text
    for words in ("--gpus=all", "--ipc=host", "--ulimit=memlock=-1:-1", "source=$PWD/payload,target=$PAYLOAD,readonly"):
        assert words in text


def test_without_an_order_nothing_can_start(tmp_path: Path) -> None:
    made = order(tmp_path)
    assert made.files
    with pytest.raises(RecordError, match=r"step\.json is not there"):
        _without_step(tmp_path)


def _without_step(place: Path) -> None:
    attempt = GatheredAttempt(
        directory=place, place="x/1", result=RESULT, verdict=None, step=None, health=None, fails=True
    )
    contents = Contents(
        subject=None,  # type: ignore[arg-type]
        finding=None,
        healthy=False,
        runs={},
        plans={},
        attempts=(attempt,),
        more=(),
        launches=(),
        reference=None,
        others=(),
        oracle=None,
        notes=(),
    )
    portable(contents, statement="x")


@pytest.mark.parametrize("shell", [name for name in ("sh", "bash", "dash") if shutil.which(name)])
def test_hostile_words_reach_the_server_as_they_are(shell: str, tmp_path: Path) -> None:
    """`repro.sh server` runs a program that writes down what it got."""
    argv = ("python3", "-c", "import json, sys; print(json.dumps(sys.argv[1:]))", "--port", "31001", *HOSTILE)
    made = order(tmp_path, argv=argv, environment={"A": "$(touch pwned) '\"\n"}, statement="bad\n$(touch pwned)`'")
    where = tmp_path / "with space"
    where.mkdir()
    (where / "repro.sh").write_bytes(made.files["repro.sh"])
    environment = {"PATH": os.environ["PATH"], "PORT": "4711", "PYTHON": sys.executable}
    done = subprocess.run(
        [shell, str(where / "repro.sh"), "server"], capture_output=True, text=True, check=True, env=environment, cwd="/"
    )
    assert json.loads(done.stdout) == ["--port", "4711", *HOSTILE]
    assert not list(tmp_path.rglob("pwned"))


@pytest.mark.parametrize("docker", [False, True])
def test_hostile_words_pass_shellcheck(docker: bool, tmp_path: Path) -> None:
    weights = ("--model-path", "/weights/$(touch pwned)") if docker else ()
    made = order(
        tmp_path,
        argv=("python3", "-m", "x", "--port", "31001", *weights, *HOSTILE),
        environment={"A": HOSTILE[3]},
        docker=docker,
        architecture="sm_103",
        facts={"model": "$(touch pwned)\n`x`"},
        statement="\n".join(HOSTILE),
    )
    script = tmp_path / "repro.sh"
    script.write_bytes(made.files["repro.sh"])
    subprocess.run(["sh", "-n", str(script)], check=True)
    checker = shutil.which("shellcheck") or str(Path(sys.executable).with_name("shellcheck"))
    if not Path(checker).exists():
        pytest.skip("shellcheck is not installed")
    done = subprocess.run([checker, str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_docker_command_holds_under_hostile_words(tmp_path: Path) -> None:
    """A `docker` that writes down its words stands in for the real one."""
    made = order(
        tmp_path,
        argv=("python3", "-m", "x", "--port", "31001", *HOSTILE),
        environment={"A": HOSTILE[3]},
        docker=True,
    )
    folder = tmp_path / "bin"
    folder.mkdir()
    fake = folder / "docker"
    fake.write_text(f"#!{sys.executable}\nimport json, sys\nprint(json.dumps(sys.argv[1:]))\n")
    fake.chmod(0o755)
    (tmp_path / "repro.sh").write_bytes(made.files["repro.sh"])
    environment = {"PATH": f"{folder}:{os.environ['PATH']}"}
    command = ["sh", str(tmp_path / "repro.sh"), "server"]
    words = json.loads(subprocess.run(command, capture_output=True, check=True, env=environment).stdout)
    assert words[:2] == ["run", "--rm"]
    assert words[words.index("--env") + 1] == f"A={HOSTILE[3]}"
    at = words.index(IMAGE)
    assert words[at - 2 : at] == ["--entrypoint", "python3"]
    assert words[at + 1 :] == ["-m", "x", "--port", "30000", *HOSTILE]


def test_words_of_a_shell() -> None:
    assert shell_word("{payload}/a b:{payload}/c") == '"$PAYLOAD"\'/a b:\'"$PAYLOAD"/c'
    assert shell_word("") == "''"
