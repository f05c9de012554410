"""Which processes descend from this one, as Linux tells it, and how to make sure that none is left."""

import contextlib
import ctypes
import os
import signal
import time

PR_SET_CHILD_SUBREAPER = 36


def become_subreaper() -> bool:
    """From now on orphaned descendants become our children instead of init's. False where the kernel refuses."""
    try:
        return bool(ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False


def descendants(root: int, *, unreaped: bool = False) -> list[int]:
    """Process ids of all living descendants of `root`; with `unreaped` also of those that have yet to be reaped.

    A zombie is dead, but its children are looked at. It may still hold what it had: a process whose main thread is gone
    looks like a zombie until its last thread has ended, and cannot be reaped before.
    """
    parents, dead = _table()
    children: dict[int, list[int]] = {}
    for pid, parent in parents.items():
        children.setdefault(parent, []).append(pid)
    found, queue = [], [root]
    while queue:
        below = children.get(queue.pop(), [])
        queue += below
        found += [pid for pid in below if unreaped or pid not in dead]
    return found


def _table() -> tuple[dict[int, int], set[int]]:
    """(parent of each process, those that are dead but not yet reaped)."""
    parents, dead = {}, set()
    for name in os.listdir("/proc"):  # noqa: PTH208  # Path objects for each process would cost more than the reading
        if not name.isdecimal():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                # The command may hold spaces and parentheses: the fields begin after the last one.
                state, parent = file.read().rpartition(b")")[2].split()[:2]
        except (OSError, ValueError):
            continue  # it ended while we looked
        parents[int(name)] = int(parent)
        if state in (b"Z", b"X"):
            dead.add(int(name))
    return parents, dead


def reap() -> dict[int, int]:
    """Takes the exit statuses of all children that have ended: process id -> status, negative for a signal."""
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended[pid] = os.waitstatus_to_exitcode(status)


def kill(pids: list[int], number: signal.Signals) -> None:
    """Sends a signal to each of these, those that ended meanwhile excepted."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def kill_descendants(root: int, limit_s: float) -> tuple[list[int], dict[int, int]]:
    """SIGKILL until no descendant of `root`, which must be this process, is alive: (those that still are, statuses).

    Repeated, since one that is being killed may have forked a moment before, and a grandchild becomes visible as ours
    only when its parent is gone.
    """
    until = time.monotonic() + limit_s
    ended = reap()
    while alive := descendants(root, unreaped=True):
        kill(alive, signal.SIGKILL)
        ended |= reap()
        if time.monotonic() > until:
            break
        time.sleep(0.005)
    ended |= reap()
    return alive, ended


def describe(pids: list[int]) -> str:
    """For a person: what each of these is called, its state (D: uninterruptible), and where in the kernel it waits."""
    return ", ".join(f"{pid} {_about(pid)}" for pid in pids)


def _about(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            head, _, rest = file.read().decode(errors="replace").rpartition(")")
        with open(f"/proc/{pid}/wchan", "rb") as file:  # noqa: PTH123
            place = file.read().decode(errors="replace")
    except OSError:
        return "(ended)"
    return f"{head.partition('(')[2]} (state {rest.split()[0]}, in {place if place.strip('0') else 'an unknown place'})"
