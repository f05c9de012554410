"""The judges judged: recorded outputs with a planted fault must be found, and clean ones must pass.

The outputs are those of a real SGLang 0.5.23 on a CPU, with the margins that it gave. An oracle that lets a wrong token
pass would spend hours of GPUs on green lines.
"""

from collections.abc import Callable
from dataclasses import replace
from importlib import resources

from matrix.judge.acceptance import judge_acceptance
from matrix.judge.lossless import judge_lossless
from matrix.judge.reference import Reference, plain_requests, reference_from
from matrix.preflight.question import ok, problem
from repro import codec
from repro.jsontext import parse
from repro.model import CheckEvidence, CheckPlan, CheckResult, PreflightLine, RequestRecord

Lossless = Callable[[CheckPlan, CheckEvidence | None, CheckEvidence | None, Reference | None], CheckResult]
Acceptance = Callable[[CheckPlan, CheckEvidence | None], CheckResult]
RECORDED = "recorded_outputs.json"


def self_test(
    tie_margin: float, *, lossless: Lossless = judge_lossless, acceptance: Acceptance = judge_acceptance
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
    missed = [f"{what} gave {state}" for what, state, wanted in trials if state not in wanted]
    if missed:
        return problem("oracle", "; ".join(missed), "do not run: this version's judges cannot be trusted; report it")
    return ok("oracle", f"{len(trials)} recorded outputs judged rightly, planted wrong tokens found")


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
