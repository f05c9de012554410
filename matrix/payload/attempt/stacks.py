"""What the processes of a hanging server are doing, as the host sees it: taken before anything is sent to them.

`py-spy dump` is used where it lies beside the engine; it reads without stopping the process, and prints Python's own
stacks. What the kernel says is stored in any case, since py-spy may be missing, forbidden (ptrace), or see no Python.
A process's environment is never read: it may hold secrets.
"""

import asyncio
import shutil
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from attempt.evidence import Evidence

AT_ONCE = 4
THREADS = 512
"""How many threads of a process are listed at most."""


def find_py_spy(program: str, search: str) -> str | None:
    """py-spy beside the engine's interpreter, on its PATH, or beside our own interpreter; None if it is nowhere."""
    folders = [str(Path(program).parent) if "/" in program else "", search, str(Path(sys.executable).parent)]
    return next((found for folder in folders if folder and (found := shutil.which("py-spy", path=folder))), None)


async def take(pids: Sequence[int], evidence: Evidence, py_spy: str | None, limit_s: float) -> str:
    """Fills `evidence/stacks/` within the limit, and says for the timeline what was taken."""
    (evidence.folder / "stacks").mkdir(exist_ok=True)
    # Reading /proc of a process that sits in the kernel may block, so it has a thread that nobody has to wait for.
    seen = await _in_thread(lambda: _store_kernel_views(pids, evidence), limit_s / 2)
    told = f"host stacks of {len(pids)} process{'' if len(pids) == 1 else 'es'} from /proc"
    if not seen:
        told += " (incomplete: reading them blocks)"
    if py_spy is None:
        return f"{told}; py-spy is not installed beside the engine"
    turn = asyncio.Semaphore(AT_ONCE)

    async def dump(pid: int) -> bool:
        async with turn:
            return await _py_spy(pid, evidence, py_spy)

    dumps = [asyncio.ensure_future(dump(pid)) for pid in pids]
    try:
        if dumps:
            await asyncio.wait(dumps, timeout=limit_s / 2)
    finally:
        for task in dumps:
            task.cancel()
        ended = await asyncio.gather(*dumps, return_exceptions=True)
    return f"{told}; by py-spy of {sum(result is True for result in ended)} of {len(pids)}"


async def _py_spy(pid: int, evidence: Evidence, py_spy: str) -> bool:
    """Whether py-spy had stacks to show; what it says is stored in any case."""
    with (evidence.folder / "stacks" / f"{pid}.py-spy.txt").open("wb") as said:
        process = await asyncio.create_subprocess_exec(
            *(py_spy, "dump", "--nonblocking", "--pid", str(pid)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=said,
            stderr=asyncio.subprocess.STDOUT,
        )
    try:
        return await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await asyncio.wait([asyncio.ensure_future(process.wait())], timeout=1.0)


async def _in_thread(work: Callable[[], object], limit_s: float) -> bool:
    """Whether the work was done within the limit. It goes on if it was not, in a thread that ends with the process."""
    loop = asyncio.get_running_loop()
    done = asyncio.Event()

    def run() -> None:
        try:
            work()
        except OSError:
            return
        loop.call_soon_threadsafe(done.set)

    threading.Thread(target=run, daemon=True).start()
    try:
        await asyncio.wait_for(done.wait(), limit_s)
    except (TimeoutError, asyncio.TimeoutError):  # noqa: UP041  # two classes in Python 3.10
        return False
    return True


def _store_kernel_views(pids: Sequence[int], evidence: Evidence) -> None:
    for pid in pids:
        evidence.write_raw(f"stacks/{pid}.proc.txt", _kernel_view(pid).encode(errors="replace"))


def _kernel_view(pid: int) -> str:
    place = Path("/proc") / str(pid)
    parts = [f"command line: {_read(place / 'cmdline').replace(chr(0), ' ')}", _read(place / "status")]
    try:
        threads = sorted((place / "task").iterdir(), key=lambda path: int(path.name))
    except OSError as problem:
        threads, parts = [], [*parts, f"threads: {problem.strerror}"]
    parts += [_thread(path) for path in threads[:THREADS]]
    if len(threads) > THREADS:
        parts.append(f"{len(threads) - THREADS} more threads")
    return "\n".join(parts) + "\n"


def _thread(place: Path) -> str:
    state = _read(place / "stat").rpartition(")")[2].split()[:1]
    lines = [f"thread {place.name} {_read(place / 'comm')} state {''.join(state) or 'unknown'}"]
    lines += [f"  {name}: {_read(place / name)}" for name in ("wchan", "syscall", "stack")]
    return "\n".join(lines)


def _read(path: Path) -> str:
    try:
        return path.read_bytes()[: 1 << 16].decode(errors="replace").rstrip("\n\0")
    except OSError as problem:
        return f"({problem.strerror})"
