"""What the oracles of a finished run say, in lines: self-test, calibration, detection limit, scores, votes. Pure."""

from collections.abc import Sequence

from repro.model import Calibration, Rescoring, Result, SelfTest, Verdict

_MOST_PLACES = 3


def lines(results: Sequence[Result], verdicts: Sequence[Verdict]) -> tuple[str, ...]:
    """One line each; empty if no launch of the run was to rescore."""
    last = [result for result in results if result.role == "reference-again"]
    if not last:
        return ()
    rescoring = next((r.rescoring for r in last if r.rescoring is not None), None)
    said = [_self_tests(rescoring, results, verdicts)]
    if rescoring is None or rescoring.calibration is None:
        why = rescoring.reason if rescoring is not None else "the last launch gave no scores"
        return (*said, f"rescoring: none ({why}): of each output only what precedes its first difference was judged")
    said += _calibration(rescoring.calibration)
    said += _scores(rescoring)
    said += [f"vote of {len(vote.arms)} arms: {vote.statement}" for vote in rescoring.votes]
    return tuple(said)


def _self_tests(rescoring: Rescoring | None, results: Sequence[Result], verdicts: Sequence[Verdict]) -> str:
    tests = list(rescoring.self_tests) if rescoring is not None else []
    launched = [(r, v) for r, v in zip(results, verdicts, strict=True) if r.role == "self-test"]
    known = {test.planted for test in tests if test.place == "launch"}
    for result, verdict in launched:
        fault = result.planted.fault if result.planted is not None else "nothing"
        if not known:
            state = {"pass": "caught", "fail": "missed"}.get(verdict.verdict, "not_run")
            tests.append(SelfTest(place="launch", planted=fault, state=state, detail=verdict.statement))  # type: ignore[arg-type]
    if not tests:
        return "self-test: none was made"
    made = [test for test in tests if test.state != "not_run"]
    caught = [test for test in made if test.state == "caught"]
    missed = "".join(f"; MISSED: {t.planted} ({t.place}): {t.detail}" for t in made if t.state == "missed")
    left = "".join(f"; not run: {t.planted} ({t.place}): {t.detail}" for t in tests if t.state == "not_run")
    return f"self-test: {len(caught)} of {len(made)} planted faults caught{missed}{left}"


def _calibration(known: Calibration) -> list[str]:
    tokens, above = sum(arm.tokens for arm in known.arms), sum(arm.above for arm in known.arms)
    arms = ", ".join(f"{arm.cell} {arm.above} of {arm.tokens}" for arm in known.arms)
    rule = "one such token is wrong" if known.exact else f"tested at {known.alpha:g} an attempt"
    counted = f"{known.dtype}, a token is counted from {known.delta:g} nats below the reference's choice"
    healthy = f"healthy arms {above} of {tokens} tokens ({arms})"
    if not tokens:
        healthy = "no healthy arm has a scored token"
        rule = f"none is needed: {rule}" if known.exact else "so that no attempt can be tested against one"
    return [f"calibration: {counted}; {healthy}; {rule}", f"detection limit: {known.statement}"]


def _scores(rescoring: Rescoring) -> list[str]:
    wrong = [score for score in rescoring.scores if score.state == "wrong"]
    unknown = [score for score in rescoring.scores if score.state == "unknown"]
    said = [f"rescoring: {len(rescoring.scores)} attempts, {len(wrong)} wrong, {len(unknown)} not to be told"]
    for score in wrong:
        at = ", ".join(f"{p.prompt} token {p.at} at {p.concurrency}" for p in score.places[:_MOST_PLACES])
        said.append(f"  {score.cell} attempt {score.attempt}: {score.detail}" + (f" (worst: {at})" if at else ""))
    return [*said, *(f"  {score.cell} attempt {score.attempt}: {score.detail}" for score in unknown)]
