"""The service to pause: is it there, may we stop it, will it stay stopped, and will its timer live?"""

from matrix.host.systemd import Systemd, unit_name
from matrix.preflight.question import Asked, ok, problem, unknown
from repro.errors import GraphreproError
from repro.model import PreflightLine

QUICK_S = 30.0


def unit(asked: Asked) -> PreflightLine:
    """One line about `--pause-unit`."""
    question, sources = asked.question, asked.sources
    try:
        name = unit_name(question.pause_unit or "")
        state = Systemd(sources.commands, question.pause_scope).state(name)
    except GraphreproError as error:
        told, _, advice = str(error).rpartition(": ")
        return problem("unit", told or advice, advice)
    if not state.exists:
        return problem("unit", f"{name}: systemd knows no such unit", "`systemctl list-units --all` lists them")
    if state.triggered_by:
        others = state.triggered_by
        return problem("unit", f"{name} can be started by {others} at any time", f"stop {others} for the run")
    told = f"{name} is {state.active}" + ("" if state.running else ": nothing to stop, it will not be started")
    return _rights(asked, told)


def _rights(asked: Asked, told: str) -> PreflightLine:
    sources = asked.sources
    if sources.commands.path("systemd-run") is None:
        return problem("unit", f"{told}; systemd-run is missing, so no timer would start it again", "install systemd")
    if asked.question.pause_scope == "user":
        linger = sources.commands.run(["loginctl", "show-user", "--property=Linger", "--value"], QUICK_S).out.strip()
        if linger == "no":
            return problem("unit", f"{told}; its timer would die with your last login", "`loginctl enable-linger`")
        return ok("unit", f"{told}; it is this user's own")
    may = sources.may_manage_units()
    if may is None:
        return unknown("unit", f"{told}; whether this user may stop it cannot be asked", "run as root")
    if not may:
        return problem("unit", f"{told}; this user may not stop it", "run as root, or allow it in polkit")
    return ok("unit", f"{told}; this user may stop and start it")
