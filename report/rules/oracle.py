"""Whether what a run says of its outputs can be believed: faults planted on purpose must be found."""

from report.load import LoadedRun
from report.rules.draft import Draft
from repro.model import SelfTest


def oracle(run: LoadedRun) -> tuple[Draft, ...]:
    """One, if a planted fault was missed: then neither a pass nor a corrupt output of this run counts."""
    missed = [test for test in self_tests(run) if test.state == "missed"]
    launched = [attempt for attempt in run.self_tests if attempt.verdict.verdict == "fail"]
    known = {test.planted for test in missed if test.place == "launch"}
    told = [f"{test.planted} ({test.place})" for test in missed]
    told += [
        f"{attempt.result.planted.fault} (launch)"
        for attempt in launched
        if attempt.result.planted is not None and attempt.result.planted.fault not in known
    ]
    if not told:
        return ()
    attempts = [attempt for cell in run.cells for attempt in cell.attempts]
    waits = [a for a in attempts if "oracle_not_trusted" in a.verdict.reasons]
    cells = tuple(cell for cell in run.cells if any(a in waits for a in cell.attempts))
    made = [test for test in self_tests(run) if test.state != "not_run"]
    were = "was" if len(told) == 1 else "were"
    of = f"{len(told)} of {max(len(made), len(told))} planted faults {were} not found"
    return (
        Draft(
            run=run,
            family="oracle",
            kind="self_test_missed",
            severity="high",
            statement=f"The oracles of this run are not trusted: {of} "
            f"({', '.join(dict.fromkeys(told))}). {len(waits)} launches that would be a pass or a corrupt output are "
            "inconclusive for that reason.",
            cells=cells,
            scope=run.oracles[:1],
            next=f"python -m matrix run --spec {run.run.target}",
            attempts=tuple(launched),
            k=len(told),
            n=max(len(made), len(told)),
        ),
    )


def self_tests(run: LoadedRun) -> tuple[SelfTest, ...]:
    """The self-tests that the run's last launch tells of."""
    return tuple(
        test
        for cell in run.cells
        for attempt in cell.attempts
        if attempt.result.rescoring is not None
        for test in attempt.result.rescoring.self_tests
    )
