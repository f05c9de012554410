"""The one entry: logs in, diagnosis out."""

from collections.abc import Mapping, Sequence

from repro.diagnose.judge import Outside, judge
from repro.diagnose.reader import read_log
from repro.diagnose.sources import Log
from repro.model import Diagnosis, Phase, Scalar


def diagnose(
    logs: Sequence[Log],
    *,
    exit_status: int | None = None,
    kernel_log: Log | None = None,
    probes: Mapping[str, Scalar] | None = None,
    timed_out: bool = False,
    unasked: bool = False,
    phase: Phase | None = None,
) -> Diagnosis:
    """What the logs of one server (of all its ranks and nodes) say, and what was seen from outside.

    ``exit_status`` is the launcher's: negative for a signal, or as a shell has it (137), 124 for a time limit; None if
    it was alive or nobody knows. ``kernel_log`` is text of dmesg or `journalctl -k`. ``probes`` were taken beside the
    log. ``timed_out``: a phase or a check ran into its limit. ``unasked``: the server ended though nobody had asked it
    to, so that status 0 is no good end. ``phase`` is the one that the harness saw it in. Missing files are empty logs.
    """
    observed = [read_log(log, index=index) for index, log in enumerate(logs)]
    kernel = read_log(kernel_log, index=len(observed)) if kernel_log is not None else None
    outside = Outside(status=exit_status, limit=timed_out, unasked=unasked, phase=phase, probes=probes)
    return judge(observed, kernel, outside)
