"""`ISSUE.md`: every field of a project's form is answered, nothing in it acts, and it fits into a body on GitHub.

`GRAPHREPRO_UPDATE_GOLDEN=1 pytest tests/unit/repro/bundle/test_issue.py` rewrites the golden files; read what differs.
"""

import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from repro import codec
from repro.bundle.contents import Contents, GatheredAttempt
from repro.bundle.fingerprint import fingerprint
from repro.bundle.issue import LIMIT_CHARACTERS, IssueInputs, default_project, issue
from repro.bundle.issue_text import what
from repro.bundle.projects import PROJECTS, Project
from repro.model import (
    BundledFile,
    BundleExpectation,
    Component,
    Difference,
    Engine,
    Fact,
    Finding,
    GpuHealth,
    Ledger,
    LedgerEntry,
    LeftOut,
    LogLine,
    Replay,
    Result,
    Signature,
    Step,
    Subject,
    Verdict,
)

DATA = Path(__file__).parents[3] / "data"
GOLDEN = Path(__file__).parents[3] / "golden" / "issue"
RESULT = codec.read(DATA / "records" / "result-v2.json", Result)
STEP = codec.read(DATA / "records" / "step-v2.json", Step)
FINDING = codec.read(DATA / "records" / "finding-v2.json", Finding)
HEALTH = codec.read(DATA / "records" / "gpu-health-v1.json", GpuHealth)
ENTRY = codec.read(DATA / "records" / "ledger-v1.json", Ledger).entries[0]
DIGEST = "c0ffee" + "0" * 58
HOSTILE = (
    "<img src=x onerror=alert(1)> @maintainer #12 sgl-project/sglang#34 [here](http://evil.example) ![i](http://e.x/y) "
    "`tick` ```` fence\n```\n| cell | --- <!-- \x1b]0;title\x07 \u202egnp.exe </details> **bold** "
    "www.evil.example {{ 7*7 }}"
)


def verdict(result: Result, name: str = "fail", said: str = "") -> Verdict:
    return Verdict(
        run_id=result.run_id,
        cell=result.cell,
        attempt=result.attempt,
        verdict=name,  # type: ignore[arg-type]
        reasons=("crashed",) if name == "fail" else (),
        statement=said or f"{result.outcome}: {result.outcome_detail}",
    )


def launch(number: int, name: str = "fail", **changes: Any) -> tuple[Result, Verdict]:
    result = replace(RESULT, attempt=number, rescoring=None, **changes)
    return result, verdict(result, name)


def other(cell: str, name: str, number: int = 1, **coordinates: Any) -> tuple[Result, Verdict]:
    return launch(number, name, cell=cell, coordinates=replace(RESULT.coordinates, **coordinates))


def gathered(result: Result, judged: Verdict) -> GatheredAttempt:
    place = f"b300/{result.run_id}/cells/{result.cell}/{result.attempt}"
    return GatheredAttempt(
        directory=Path("results") / place,
        place=place,
        result=result,
        verdict=judged,
        step=STEP,
        health=HEALTH,
        fails=True,
    )


def contents(*, first: tuple[Result, Verdict] | None = None, **changes: Any) -> Contents:
    failing = first or launch(2)
    made = Contents(
        subject=Subject(
            finding=FINDING.id,
            target="b300",
            architecture="sm_103",
            cells=(failing[0].cell,),
            attempts=(f"{RESULT.run_id}/{RESULT.cell}/2",),
            signature=Signature(kind="cuda_illegal_memory_access", phase="serving", subsystem=None),
            engine="sglang",
            engine_version="0.5.23",
            engine_source="pr29907",
            image="lmsysorg/sglang@sha256:" + "3" * 64,
            planted=False,
        ),
        finding=FINDING,
        healthy=False,
        runs={},
        plans={},
        attempts=(gathered(*failing),),
        more=(),
        launches=(failing, launch(1), launch(3, "pass")),
        reference=None,
        others=(
            other("sm_103-b16t8-eager-nvls", "pass", graph="eager"),
            other("sm_103-b16t8-eager-nvls", "pass", 2, graph="eager"),
            other("sm_103-b12t8-graph-nvls", "pass", budget=12),
            other("sm_103-b32t8-graph-nvls", "fail", budget=32),
            other("sm_103-ar-graph-nvls", "pass", budget=0, topk=None, shape="none", engine_source="stock"),
            other("sm_103-b24t8-graph-nvls", "inconclusive", budget=24),
        ),
        oracle=None,
        notes=(),
    )
    return replace(made, **changes)


def inputs(given: Contents | None = None, **changes: Any) -> IssueInputs:
    made = given or contents()
    first = made.first
    asked = IssueInputs(
        contents=made,
        expectation=BundleExpectation(
            kind=made.subject.signature.kind,
            signature=made.subject.signature,
            outcomes=("crashed",),
            phases=("serving",),
            patterns=(),
            differing_prompts=None,
            acceptance_at_most=None,
            undecided=None,
            k=2,
            n=3,
            statement="the server dies while serving, and a line of its log says `illegal memory access`",
        ),
        replay=Replay(
            bundle_digest=DIGEST,
            runtime="docker",
            image="lmsysorg/sglang@sha256:" + "3" * 64,
            reproduced=2,
            launches=5,
            upper=None,
            blocked=None,
            statement="reproduced 2 of 5",
            runs=(),
            facts={},
        ),
        fingerprint=fingerprint(first.result, health=first.health, step=first.step),
        digest=DIGEST,
        files=(
            BundledFile(path="ISSUE.md", size_bytes=9000, sha256="a" * 64, cut=None),
            BundledFile(
                path="results/sm_103-b16t8-graph-nvls/2/evidence/server.log",
                size_bytes=80_000,
                sha256="b" * 64,
                cut="lines 900 to 4100 of 4300",
            ),
            BundledFile(
                path="results/sm_103-b16t8-graph-nvls/2/result.json", size_bytes=9000, sha256="b" * 64, cut=None
            ),
        ),
        left_out=(LeftOut(where="b300/core.4711", size_bytes=12_000_000_000, sha256=None, reason="a core dump"),),
        repro_sh="#!/bin/sh\ndocker run --rm --gpus all lmsysorg/sglang@sha256:3333 python3 -m sglang.launch_server\n",
        needs="Linux, Python 3.10 or newer, docker, the image of the bundle",
        entry=None,
        file_name="f-3a91c07d.zip",
        redact=lambda text: text,
    )
    return replace(asked, **changes)


def sections(text: str) -> dict[str, str]:
    """Heading -> what stands below it, outside of code blocks."""
    found: dict[str, list[str]] = {}
    current, fence = "", ""
    for line in text.splitlines():
        ticks = re.match(r"`{3,}", line)
        if ticks and not fence:
            fence = ticks[0]
        elif fence and line == fence:
            fence = ""
        elif not fence and line.startswith("### "):
            current = line.removeprefix("### ")
            continue
        found.setdefault(current, []).append(line)
    assert not fence, "a code block is left open"
    return {heading: "\n".join(lines).strip() for heading, lines in found.items()}


def prose(text: str) -> str:
    """The text without code blocks and inline code."""
    return re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", "", re.sub(r"(?ms)^(`{3,})\w*$.*?^\1$", "", text))


@pytest.mark.parametrize("project", PROJECTS)
def test_every_field_of_the_form_is_answered(project: Project) -> None:
    form = json.loads((DATA / "forms" / f"{project}.json").read_text(encoding="utf-8"))
    text = issue(inputs(), project)
    answered = sections(text)
    assert list(answered)[1:] == [field["label"] for field in form["fields"]]
    assert all(answered.values())
    assert f"Title: `{form['title']}CUDA illegal memory access" in text


@pytest.mark.parametrize("project", PROJECTS)
def test_what_every_form_must_say(project: Project) -> None:
    text = issue(inputs(), project)
    first, *_ = text.splitlines()
    assert "unmerged patch: pull request 29907" in first
    assert "SGLang 0.5.23" in first
    for said in (
        "2 of 3 launches (95 % interval 21 % to 94 %)",
        "in 2 of 5 launches",
        f"python3 verify.py --digest {DIGEST}",
        "python3 replay.py\n",
        "To replay it needs Linux, Python 3.10 or newer, docker, the image of the bundle. ",
        "unzip f-3a91c07d.zip",
        "docker run --rm --gpus all lmsysorg/sglang@sha256:3333",
        "CUDA Driver Version: ",
        "Kernel: ",
        "H1 width mismatch",
        "did not fail: 0 of 2 launches failed: below 78 % at 95 % confidence",
        "budget 32",
        "over budget: needs 0.2 h more",
        "lines 900 to 4100 of 4300",
        "a core dump",
    ):
        assert said in text, said


def test_how_many_launches_follow_from_the_rate_that_was_seen() -> None:
    made = inputs()
    rare = replace(made, expectation=replace(made.expectation, k=1, n=5))
    assert "14 launches are made" in issue(rare)
    blind = replace(made, expectation=replace(made.expectation, undecided="only the coding tasks show it"))
    assert "No replay can tell the failure: only the coding tasks show it" in issue(blind)


def test_a_replay_of_other_failures_is_not_told_as_clean() -> None:
    made = inputs()
    assert made.replay is not None
    said = "not reproduced: all 3 launches ended in another failure, the first: it dies in launch"
    text = issue(replace(made, replay=replace(made.replay, reproduced=0, launches=0, upper=None, statement=said)))
    assert "all 3 launches ended in another failure" in text


@pytest.mark.parametrize(
    ("source", "engine", "said"),
    [
        ("stock", "sglang", "Engine: stock release SGLang 0.5.23, no patch."),
        ("pr29907", "sglang", "pull request 29907"),
        ("my-build", "sglang", "an unmerged patch: the build that is called my-build"),
        ("cpu-ddtree", "sglang", "plugin cpu-ddtree"),
        ("simulated", "simulated", "no inference engine"),
    ],
)
def test_the_first_line_says_what_engine_it_was(source: str, engine: str, said: str) -> None:
    made = contents()
    changed = replace(made, subject=replace(made.subject, engine=engine, engine_source=source))
    assert said in issue(inputs(changed)).splitlines()[0]


def test_a_planted_fault_is_said_first() -> None:
    made = contents()
    text = issue(inputs(replace(made, subject=replace(made.subject, planted=True))))
    assert "PLANTED FAULT" in text.splitlines()[2]
    assert "Title: `[Bug] PLANTED FAULT" in text
    assert "PLANTED" not in issue(inputs())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"replay": None}, "packed without a replay"),
        ({"blocked": "the image is not here"}, "could not be replayed in a container: the image is not here"),
        ({"reproduced": 0, "launches": 5}, "did not reproduce the failure in 5 launches: below 45 %"),
    ],
)
def test_how_the_replay_went(changes: dict[str, Any], said: str) -> None:
    asked = inputs()
    replay = changes["replay"] if "replay" in changes else replace(asked.replay, **changes)  # type: ignore[type-var]
    assert said in issue(replace(asked, replay=replay))


def test_wrong_output_shows_where_it_leaves_the_reference() -> None:
    difference = Difference(prompt="p07", concurrency=4, at=12, expected=5, got=None, margin=0.25)
    checks = tuple(replace(check, state="fail", differences=(difference,)) for check in RESULT.checks[1:2])
    result = replace(RESULT, outcome="completed", outcome_detail="", diagnosis=None, rescoring=None, checks=checks)
    made = contents(first=(result, verdict(result, "corrupt", "wrong text")), finding=None)
    text = issue(inputs(made))
    assert "output token 12 is the end, and the reference has token 5 (its margin there: 0.25 nats)" in text
    assert "The same tokens as without speculation gives" in text
    assert "The server answers, and what it answers is wrong: wrong text" in text


def test_rounds_that_differ_alike_are_one_line() -> None:
    one = Difference(prompt="p07", concurrency=1, at=12, expected=5, got=6, margin=0.25)
    found = (one, replace(one, concurrency=4), one, one)
    check = replace(RESULT.checks[1], check="lossless", state="fail", differences=found)
    result = replace(RESULT, outcome="completed", outcome_detail="", diagnosis=None, rescoring=None, checks=(check,))
    made = contents(first=(result, verdict(result, "corrupt", "wrong text")), finding=None)
    lines = [line for line in issue(inputs(made)).splitlines() if "output token 12" in line]
    assert len(lines) == 2
    assert lines[0].endswith("nats), 3 times")
    assert lines[1].endswith("nats)")


@pytest.mark.parametrize(
    ("kind", "phase", "subsystem", "said"),
    [
        ("oom_gpu_serving", "serving", "memory", "GPU out of memory while serving"),
        ("oom_gpu_graph_capture", "capture", "memory", "GPU out of memory while capturing CUDA graphs"),
        ("cuda_error", "capture", "attention", "CUDA error while capturing CUDA graphs in attention"),
        ("hang_deadlock", "serving", None, "Hang deadlock while serving"),
    ],
)
def test_a_failure_is_said_once(kind: str, phase: Any, subsystem: str | None, said: str) -> None:
    assert what(Signature(kind=kind, phase=phase, subsystem=subsystem), RESULT) == said


def test_versions_of_the_ledger_are_told() -> None:
    entry: LedgerEntry = replace(ENTRY, engine_versions_good=("0.5.22",))
    text = issue(inputs(entry=entry))
    assert "bad, by the ledger: 0.5.23" in text
    assert "good, by the ledger: 0.5.22" in text
    assert "none is known" not in text
    assert "good: none is known" in issue(inputs())


def test_a_launch_that_failed_otherwise_is_not_counted_as_this_failure() -> None:
    diagnosis = replace(RESULT.diagnosis, kind="oom_gpu_serving")  # type: ignore[type-var]
    changed = replace(diagnosis, signature=Signature(kind="oom_gpu_serving", phase="serving", subsystem=None))
    result, judged = other("sm_103-b32t8-graph-nvls", "fail", budget=32)
    made = contents(others=((replace(result, diagnosis=changed), judged),))
    text = issue(inputs(made))
    assert "With budget 32 and all else equal it failed in another way" in text
    assert "the only launch failed, but not in this way" in text


@pytest.mark.parametrize(
    ("kind", "component", "engine", "project"),
    [
        ("nccl_nvls", None, "sglang", "nccl"),
        ("triton_compile_failed", None, "sglang", "triton"),
        ("gpu_lost", None, "sglang", "nvidia"),
        ("cuda_illegal_memory_access", "flashinfer/mla.py", "sglang", "flashinfer"),
        ("cuda_illegal_memory_access", "site-packages/triton/backends/driver.py", "sglang", "triton"),
        ("cuda_illegal_memory_access", "sglang/srt/layers/attention/triton_backend.py", "sglang", "sglang"),
        ("hang_deadlock", None, "vllm", "vllm"),
        ("hang_deadlock", None, "simulated", "sglang"),
    ],
)
def test_the_default_form_is_that_of_the_component(
    kind: str, component: str | None, engine: str, project: Project
) -> None:
    made = contents()
    located = Component(kernel=None, function=None, file=component, rank=None)
    first = replace(made.first.result, diagnosis=replace(made.first.result.diagnosis, component=located))  # type: ignore[type-var]
    subject = replace(made.subject, engine=engine, signature=Signature(kind=kind, phase="serving", subsystem=None))
    changed = replace(made, subject=subject, attempts=(replace(made.first, result=first),))
    choice = default_project(changed)
    assert choice.project == project
    assert f"Form: {project}, because " in issue(inputs(changed))
    assert f"Form: {project}, because it was asked for with \\-\\-for" not in issue(inputs(changed))


def hostile() -> IssueInputs:
    line = LogLine(file=HOSTILE, line=1, offset_bytes=0, text=HOSTILE)
    diagnosis = replace(
        RESULT.diagnosis,  # type: ignore[type-var]
        evidence=(line,),
        follow_ons=(line,),
        known=HOSTILE,
        component=Component(kernel=HOSTILE, function=HOSTILE, file=HOSTILE, rank=HOSTILE),
    )
    facts = {name: Fact(value=HOSTILE, status="verified", reason=None) for name in ("gpu_name", "nccl", "os", "odd")}
    unknown = {"triton": Fact(value=None, status="unknown", reason=HOSTILE)}
    environment = replace(RESULT.environment, facts={**facts, **unknown}, packages={"sglang": HOSTILE})
    check = replace(RESULT.checks[0], state="fail", detail=HOSTILE)
    result = replace(
        RESULT,
        outcome_detail=HOSTILE,
        diagnosis=diagnosis,
        environment=environment,
        checks=(check,),
        engine=Engine(name="sglang", version=HOSTILE, source="pr1"),
        rescoring=None,
    )
    lines = (HOSTILE,) * 3
    finding = replace(FINDING, statement=HOSTILE, scope=lines, not_tested=lines, hypotheses=lines, settle=HOSTILE)
    made = contents(first=(result, verdict(result, "fail", HOSTILE)), finding=finding)
    made = replace(made, subject=replace(made.subject, engine_version=HOSTILE, engine_source=HOSTILE, cells=(HOSTILE,)))
    asked = inputs(made)
    assert asked.replay is not None
    return replace(
        asked,
        replay=replace(asked.replay, blocked=HOSTILE),
        expectation=replace(asked.expectation, statement=HOSTILE),
        file_name=HOSTILE,
        repro_sh=HOSTILE,
        needs=HOSTILE,
        files=(BundledFile(path="a", size_bytes=1, sha256="a" * 64, cut=HOSTILE),),
        left_out=(LeftOut(where=HOSTILE, size_bytes=1, sha256=None, reason=HOSTILE),),
    )


@pytest.mark.parametrize("project", PROJECTS)
def test_nothing_from_outside_acts(project: Project) -> None:
    text = issue(hostile(), project)
    assert len(text) <= LIMIT_CHARACTERS
    form = json.loads((DATA / "forms" / f"{project}.json").read_text(encoding="utf-8"))
    assert list(sections(text))[1:] == [field["label"] for field in form["fields"]]
    outside = prose(text)
    assert "alert(1)" in outside
    assert not re.search(r"@(?!\u200b)\w", outside), "a mention"
    assert not re.search(r"(?<!\\)#\d", outside.replace("#\u200b", "")), "a reference"
    assert "<img" not in outside
    assert "<!--" not in outside
    assert not re.search(r"(?<!\\)\]\(", outside), "a link"
    assert not re.search(r"https?://(?!\u200b)", outside), "a bare address"
    assert outside.count("</details>") == outside.count("<details>") == 1
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_text_from_outside_is_redacted_before_it_is_escaped() -> None:
    """A name with an underscore would be missed behind its backslash."""
    secret = "host_with_name"
    asked = inputs()
    made = asked.contents
    line = LogLine(file="server.log", line=1, offset_bytes=0, text=f"error on {secret}")
    diagnosis = replace(made.first.result.diagnosis, evidence=(line,), known=secret)  # type: ignore[type-var]
    result = replace(made.first.result, diagnosis=diagnosis, outcome_detail=secret)
    finding = replace(FINDING, statement=secret, scope=(secret,), hypotheses=(secret,), settle=f"ssh {secret}")
    changed = replace(made, finding=finding, attempts=(replace(made.first, result=result),))
    text = issue(replace(asked, contents=changed, redact=lambda text: text.replace(secret, "host-1")))
    assert "host-1" in text
    assert "host_with" not in text
    assert "host\\_with" not in text


@pytest.mark.parametrize("project", PROJECTS)
def test_it_fits_whatever_there_is_to_tell(project: Project) -> None:
    made = contents()
    long = "&" * 5_000
    finding = replace(
        FINDING, statement=long, scope=(long,) * 200, not_tested=(long,) * 200, hypotheses=(long,) * 200, settle=long
    )
    line = LogLine(file="server.log", line=1, offset_bytes=0, text=long)
    diagnosis = replace(RESULT.diagnosis, evidence=(line,) * 200, follow_ons=(line,) * 200)  # type: ignore[type-var]
    facts = {f"fact_{number}": Fact(value=long, status="verified", reason=None) for number in range(300)}
    environment = replace(RESULT.environment, facts={**RESULT.environment.facts, **facts})
    result = replace(RESULT, diagnosis=diagnosis, environment=environment, rescoring=None)
    others = tuple(other(f"sm_103-b{n}t8-graph-nvls", "pass", budget=n) for n in range(17, 400))
    changed = replace(made, finding=finding, others=others, attempts=(gathered(result, verdict(result)),))
    left = tuple(LeftOut(where=long, size_bytes=1, sha256=None, reason=long) for _ in range(200))
    text = issue(inputs(changed, left_out=left, repro_sh="x" * 100 + "\n" + f"{long}\n" * 100), project)
    assert len(text) <= LIMIT_CHARACTERS
    assert "and 195 more" in text


@pytest.mark.parametrize("project", PROJECTS)
def test_golden(project: Project) -> None:
    path = GOLDEN / f"{project}.md"
    text = issue(inputs(), project)
    if os.environ.get("GRAPHREPRO_UPDATE_GOLDEN") == "1":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
