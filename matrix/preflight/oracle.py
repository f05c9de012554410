"""The judges judged: recorded outputs with a planted fault must be found, and clean ones must pass.

The outputs are those of a real SGLang 0.5.23 on a CPU, with the margins that it gave. An oracle that lets a wrong token
pass would spend hours of GPUs on green lines. Rescoring judges the same outputs: a planted token lies its margin below
the reference's choice, the others do not. It is tested in the exact regime, which needs no statistics; copies of the
run's own outputs test it in the regime of the target (`matrix/rescoring.py`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import resources
from typing import Literal

from matrix.judge import rescoring as judging
from matrix.judge.acceptance import judge_acceptance
from matrix.judge.lossless import judge_lossless
from matrix.judge.reference import Reference, ReferenceOutput, plain_requests, reference_from
from matrix.judge.rescoring import Judged, Output, Scales, Scored, Spoken
from matrix.preflight.question import ok, problem
from repro import codec
from repro.jsontext import parse
from repro.model import CheckEvidence, CheckPlan, CheckResult, Coordinates, PreflightLine, RequestRecord, ScoredText

Lossless = Callable[[CheckPlan, CheckEvidence | None, CheckEvidence | None, Reference | None], CheckResult]
Acceptance = Callable[[CheckPlan, CheckEvidence | None], CheckResult]
Rescoring = Callable[[Sequence[Spoken], Scored, Scales], Judged]
RECORDED = "recorded_outputs.json"
_FLOAT32_DELTA = 1e-3
"""δ (nats) of the dtype in which the outputs were recorded, whatever the target's is."""


def self_test(
    tie_margin: float,
    *,
    lossless: Lossless = judge_lossless,
    acceptance: Acceptance = judge_acceptance,
    rescoring: Rescoring = judging.judge,
) -> PreflightLine:
    """`problem` if a judge misses what was planted, or sees something in what is clean."""
    evidence = recorded()
    reference = reference_from(evidence)
    if reference is None:
        return problem("oracle", f"{RECORDED} holds no complete reference", "reinstall graphrepro")
    plan = _plan(tie_margin)

    def judged(change: Callable[[RequestRecord], RequestRecord]) -> str:
        return lossless(plan, _only_plain(evidence, change), None, reference).state

    sure, tie = _places(reference, tie_margin)
    trials = [
        ("clean outputs", judged(lambda request: request), {"pass"}),
        ("one wrong token", judged(lambda request: _wrong(request, sure)), {"fail"}),
        ("an output cut short", judged(lambda request: _cut(request, sure)), {"fail"}),
        ("no output at all", judged(lambda request: replace(request, output_ids=())), {"inconclusive", "fail"}),
        ("drafts never accepted", acceptance(plan, _counted(evidence, steps_per_token=1)).state, {"fail"}),
        ("drafts accepted", acceptance(plan, _counted(evidence, steps_per_token=0)).state, {"pass"}),
    ]
    if tie is not None:
        trials.append(
            ("another token at a tie", judged(lambda request: _wrong(request, tie)), {"inconclusive", "pass"})
        )
    trials += _rescored(reference, rescoring)
    missed = [f"{what} gave {state}" for what, state, wanted in trials if state not in wanted]
    if missed:
        return problem("oracle", "; ".join(missed), "do not run: this version's judges cannot be trusted; report it")
    return ok("oracle", f"{len(trials)} trials on recorded outputs judged rightly, planted wrong tokens found")


Trial = tuple[str, str, set[str]]
"""(what is judged, the state that it got, the states that it may get)."""


def _rescored(reference: Reference, rescoring: Rescoring) -> list[Trial]:
    """One arm with a planted fault between two that repeat the reference, by their gaps."""
    ((prompt, said),) = reference.items()
    n = len(said.ids)
    sure = max(range(n), key=said.margins.__getitem__)
    planted: Mapping[str, tuple[Mapping[int, float | None], str]] = {
        "a clean output, rescored": ({}, "sound"),
        "one wrong token, rescored": ({sure: said.margins[sure]}, "wrong"),
        "the last token wrong, rescored": ({n - 1: said.margins[-1]}, "wrong"),
        "all tokens wrong, rescored": (dict(enumerate(said.margins)), "wrong"),
        "a score that is not finite": ({sure: None}, "wrong"),
    }
    trials: list[Trial] = []
    for what, (places, wanted) in planted.items():
        states = _states(rescoring, prompt, said, places)
        trials.append((what, states.get("b8", "no score"), {wanted}))
        accused = [cell for cell, state in states.items() if cell != "b8" and state != "sound"]
        trials.append((f"the arms beside {what}", "accused" if accused else "sound", {"sound"}))
    return trials


def _states(
    rescoring: Rescoring, prompt: str, said: ReferenceOutput, places: Mapping[int, float | None]
) -> dict[str, str]:
    """State by cell of `ar`, a chain and the tree b8, which says other tokens at these places, with these gaps."""
    changed = tuple(token + (at in places) for at, token in enumerate(said.ids))
    gaps: Sequence[float | None] = [places.get(at, 0.0) for at in range(len(changed))]
    texts = {
        (prompt, said.ids): _scored(said.ids, [0.0] * len(said.ids)),
        (prompt, changed): _scored(changed, gaps),
    }
    spoken = [
        _spoken("ar", "none", prompt, said.ids),
        _spoken("chain", "chain", prompt, said.ids),
        _spoken("b8", "tree", prompt, changed),
    ]
    told = rescoring(spoken, Scored(texts), Scales(delta=_FLOAT32_DELTA, exact=True, dtype="float32"))
    return {score.cell: score.state for score in told.scores}


def _scored(ids: tuple[int, ...], gaps: Sequence[float | None]) -> ScoredText:
    return ScoredText(id="text", error=None, prompt_tokens=None, logprobs=tuple(None for _ in ids), gaps=tuple(gaps))


def _spoken(cell: str, shape: Literal["none", "chain", "tree"], prompt: str, ids: tuple[int, ...]) -> Spoken:
    coordinates = Coordinates(
        budget=0 if shape == "none" else len(ids),
        topk=None,
        shape=shape,
        graph="graph" if shape == "tree" else "eager",  # not one of those that say what is healthy
        nvls="nonvls",
        tier="small",
        engine_source="stock",
        variant={},
    )
    output = Output(check="lossless", concurrency=1, prompt=prompt, ids=ids)
    role: Literal["reference", "cell"] = "reference" if shape == "none" else "cell"
    return Spoken(cell=cell, attempt=1, role=role, coordinates=coordinates, outputs=(output,))


def recorded() -> CheckEvidence:
    """The recorded outputs. Raises RecordError if the installation is damaged."""
    data = (resources.files("matrix.preflight") / RECORDED).read_bytes()
    return codec.decode(parse(data, RECORDED), CheckEvidence, where=RECORDED)


def _plan(tie_margin: float) -> CheckPlan:
    return CheckPlan(
        check="lossless",
        applicable=True,
        reason=None,
        prompts=1,
        max_new_tokens=12,
        concurrency=(1,),
        margins=False,
        tie_margin=tie_margin,
        repeats=None,
        cancel_every=None,
        peer=None,
        limit_s=60.0,
    )


def _only_plain(evidence: CheckEvidence, change: Callable[[RequestRecord], RequestRecord]) -> CheckEvidence:
    return replace(evidence, requests=tuple(change(request) for request in plain_requests(evidence)))


def _places(reference: Reference, tie_margin: float) -> tuple[int, int | None]:
    """Where the reference is surest, and where it ties, if anywhere."""
    (output,) = reference.values()
    sure = max(range(len(output.margins)), key=output.margins.__getitem__)
    tie = next((at for at, margin in enumerate(output.margins) if margin < tie_margin), None)
    return sure, tie


def _wrong(request: RequestRecord, at: int) -> RequestRecord:
    ids = list(request.output_ids)
    ids[at] += 1
    return replace(request, output_ids=tuple(ids))


def _cut(request: RequestRecord, at: int) -> RequestRecord:
    return replace(request, output_ids=request.output_ids[:at])


def _counted(evidence: CheckEvidence, *, steps_per_token: int) -> CheckEvidence:
    """As a speculative engine would count: a verify step for every token, or one for all."""

    def counted(request: RequestRecord) -> RequestRecord:
        steps = len(request.output_ids) - 1 if steps_per_token else 1
        return replace(request, verify_calls=steps)

    return _only_plain(evidence, counted)
