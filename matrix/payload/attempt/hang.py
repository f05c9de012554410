"""What is done beside a server that hangs: evidence first, then time for the engine's own watchdog."""

from attempt import guardian, processes, stacks
from attempt.evidence import Evidence, Timeline
from attempt.server import Server
from attempt.step import Step


async def take_evidence(step: Step, server: Server, evidence: Evidence, timeline: Timeline, phase: str | None) -> None:
    """Takes host stacks of all that belongs to the server, and says whether the engine has a dump of its own."""
    pids = processes.descendants(server.guardian)
    py_spy = stacks.find_py_spy(step.argv[0], guardian.server_path(step))
    try:
        taken = await stacks.take(pids, evidence, py_spy, step.stop.dump_s)
    except OSError as problem:  # a full disk must not keep the server from being stopped
        taken = f"no host stacks: {problem.strerror}"
    timeline.append("evidence-taken", phase=phase, detail=taken)
    hook = step.stop.dump_signal
    own = f"on {hook} to the launcher, which comes next" if hook else "none that could be asked for"
    timeline.append("evidence-taken", phase=phase, detail=f"the engine's own dumps: {own}")
