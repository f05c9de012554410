"""The GPUs around an attempt: is what failed the engine, or the hardware under it?

A suspect host makes an attempt `void`. What an illegal memory access looks like never does: it is what is looked for.
Sources: NVIDIA's Xid catalogue (docs.nvidia.com/deploy/xid-errors), and NVML's nvmlGpuRecoveryAction_t.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from matrix.host.commands import Commands
from matrix.preflight.gpus import Gpus, GpusUnknownError, Machine, XidWatch
from repro.model import GpuHealth, GpuState, Xid

SUSPECT_XIDS = {
    48: "uncorrectable memory error",
    63: "a memory row is to be remapped",
    64: "a memory row could not be remapped",
    79: "fallen off the bus",
    94: "contained memory error",
    95: "uncontained memory error",
}
SOFTWARE_XIDS = frozenset({13, 31, 43, 45})
"""Graphics exception, page fault, stopped processing, preemptive removal: a kernel that reads where it must not causes
them on healthy hardware."""
_RECOVERY_XID = 154
_XID = re.compile(r"NVRM: Xid \((?:PCI:)?(?P<bus>[0-9a-fA-F:.]+)\): (?P<code>\d+)(?P<rest>,.*)?")
_ACTION = re.compile(r"recovery action changed from .* to 0x(?P<to>[0-9a-fA-F]+) \((?P<word>[^)]*)\)")
LOG_S = 20.0


class Health(Protocol):
    """Looks at the GPUs before and after an attempt."""

    def begin(self) -> Callable[[], GpuHealth | None]:
        """Looks now; the function that it returns looks again, and says what came between. None: there are no GPUs."""


class NoGpus:
    """A target that runs on no GPU."""

    def begin(self) -> Callable[[], GpuHealth | None]:
        return lambda: None


class GpuWatch:
    """`Health` through NVML and the kernel log. ``log`` reads the kernel's messages since a moment, if it may."""

    def __init__(self, gpus: Gpus, log: Callable[[], Callable[[], str | None]]) -> None:
        self._gpus = gpus
        self._log = log

    def begin(self) -> Callable[[], GpuHealth | None]:
        before, problem = self._read()
        watch = self._watch()
        messages = self._log()

        def end() -> GpuHealth:
            events = watch.seen() if watch is not None else ()
            after, problem_after = self._read()
            text = messages()
            unknown = [p for p in (problem, problem_after) if p]
            unknown += [f"before: {u}" for u in before.unknown] + [f"after: {u}" for u in after.unknown]
            if watch is None and text is None:
                unknown.append("Xids: neither NVML's events nor the kernel log can be read")
            xids = merged(events, xids_in(text or "", {g.bus: g.state.gpu for g in before.gpus if g.bus}))
            states = tuple(g.state for g in before.gpus), tuple(g.state for g in after.gpus)
            suspect = suspicion(*states, xids) + _silent(before, problem_after)
            return GpuHealth(before=states[0], after=states[1], xids=xids, suspect=suspect, unknown=tuple(unknown))

        return end

    def _read(self) -> tuple[Machine, str | None]:
        try:
            return self._gpus.read(), None
        except GpusUnknownError as problem:
            return Machine(driver=None, cuda=None, gpus=(), unknown=()), str(problem)

    def _watch(self) -> XidWatch | None:
        try:
            return self._gpus.watch()
        except GpusUnknownError:
            return None


def suspicion(before: Sequence[GpuState], after: Sequence[GpuState], xids: Iterable[Xid]) -> tuple[str, ...]:
    """Why the hardware is not to be trusted; empty if nothing says so. What is unknown is no suspicion."""
    found: list[str] = []
    for state in after:
        found += (f"GPU {state.gpu}: {why}" for why in _unwell(state))
    found += (f"GPU {b.gpu}: gone" for b in before if after and b.gpu not in {a.gpu for a in after})
    for xid in xids:
        why = _xid_says(xid)
        if why:
            place = f"GPU {xid.gpu}" if xid.gpu is not None else "a GPU"
            found.append(f"{place}: Xid {xid.code} ({why})")
    return tuple(dict.fromkeys(found))


def _unwell(state: GpuState) -> list[str]:
    found = []
    if state.ecc_uncorrected:
        found.append(f"{state.ecc_uncorrected} uncorrectable memory errors")
    if state.remap_pending:
        found.append("a memory row waits to be remapped")
    if state.remap_failed:
        found.append("a memory row could not be remapped")
    if state.recovery_action not in {None, "none"}:
        found.append(f"the driver asks for: {state.recovery_action}")
    return found


def _silent(before: Machine, problem_after: str | None) -> tuple[str, ...]:
    """GPUs that could be asked before an attempt and not after it."""
    return (f"the driver no longer answers ({problem_after})",) if before.gpus and problem_after else ()


def _xid_says(xid: Xid) -> str | None:
    if xid.code in SOFTWARE_XIDS:
        return None
    if xid.code == _RECOVERY_XID:
        action = _ACTION.search(xid.text)
        return f"recovery: {action['word']}" if action is not None and int(action["to"], 16) != 0 else None
    return SUSPECT_XIDS.get(xid.code)


def xids_in(text: str, gpus: Mapping[str, int]) -> tuple[Xid, ...]:
    """The Xids in kernel messages. ``gpus`` maps PCI addresses, as NVML writes them, to indices."""
    places = {_short(bus): gpu for bus, gpu in gpus.items()}
    return tuple(
        Xid(code=int(found["code"]), gpu=places.get(_short(found["bus"])), text=found[0].strip()[:500])
        for found in _XID.finditer(text)
    )


def _short(bus: str) -> str:
    """Address without function, and domain in four digits: `00000000:1B:00.0` and `0000:1b:00` are the same device."""
    domain, _, rest = bus.lower().partition(":")
    return f"{domain[-4:]}:{rest.partition('.')[0]}"


def merged(events: Iterable[Xid], logged: Sequence[Xid]) -> tuple[Xid, ...]:
    """Each Xid once, in the words of the kernel log where that has it."""
    known = {(xid.code, xid.gpu) for xid in logged}
    return (*logged, *(e for e in dict.fromkeys(events) if (e.code, e.gpu) not in known))


def kernel_log(commands: Commands, now: Callable[[], float]) -> Callable[[], Callable[[], str | None]]:
    """A reader of the kernel's messages by `journalctl`. ``now``: seconds since the epoch. The text is None where the
    journal cannot be read, which for other users than root and the groups adm and systemd-journal is so."""

    def begin() -> Callable[[], str | None]:
        since = int(now())
        command = ["journalctl", "--dmesg", "--output=cat", "--no-pager", "--quiet"]
        readable = bool(commands.run([*command, "--lines=1"], LOG_S).out.strip())

        def read() -> str | None:
            answer = commands.run([*command, f"--since=@{since}"], LOG_S)
            return answer.out if readable and answer.status == 0 else None

        return read

    return begin
