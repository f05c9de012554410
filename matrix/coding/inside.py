"""What runs in the sandbox, as its process 1: it lets an answer run in a child process, and tells what came of it.

It is never imported by the host: its text is handed to the container's interpreter. It needs the standard library of
Python 3.9 or newer. What it prints is not to be trusted: the answer may have forged all of it. So it is not told what
the tests expect, and only tells values, which the host compares.

Arguments: seconds that the answer may take, bytes that it may report. Standard input: the length of a JSON document, a
newline, and the document: `code` and `cases`.

Output: a line `begun`, then a line of JSON (`ended`, `status`, `oom_kills`), then what the child reported, which is a
line of JSON for each test.
"""

import contextlib
import json
import os
import select
import signal
import sys
import time
from typing import Any

PR_SET_DUMPABLE = 4
DEEPEST = 50
MOST_ITEMS = 100_000


def main(limit_s: float, most_bytes: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # process 1 gets no signal from inside that it has no handler for
    _hide()
    document = json.loads(sys.stdin.buffer.read(int(sys.stdin.buffer.readline())))
    os.write(1, b"begun\n")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _isolate(writer)
            answer(document)
        finally:
            os._exit(0)
    os.close(writer)
    ended, status, report = _watch(child, reader, time.monotonic() + limit_s, most_bytes)
    head = json.dumps({"ended": ended, "status": status, "oom_kills": _oom_kills()}).encode() + b"\n"
    rest = head + report
    while rest:
        rest = rest[os.write(1, rest) :]
    os._exit(0)  # with process 1 all others in the container end


def _hide() -> None:
    """Keeps the child, which has the same user, from reading or writing this process's memory and open files."""
    with contextlib.suppress(Exception):
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def _isolate(writer: int) -> None:
    """In the child: nothing is open but the way to report."""
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    os.dup2(writer, 3)
    os.closerange(4, 256)


def _watch(child: int, reader: int, deadline: float, most_bytes: int) -> tuple[str, int, bytes]:
    """(how the child ended, its status or signal, what it reported)."""
    report = b""
    poll = select.poll()
    poll.register(reader, select.POLLIN)
    poll.register(0, select.POLLIN)
    while True:
        gone, status = os.waitpid(child, os.WNOHANG)
        for number, _ in poll.poll(0 if gone else 20):
            if number == 0 and not os.read(0, 1):
                os._exit(1)  # the harness is gone
            if number == reader:
                piece = os.read(reader, 65536)
                report += piece
                if not piece:
                    poll.unregister(reader)
        if len(report) > most_bytes:
            return "flooded", 0, report[:most_bytes]
        if gone:
            while select.select([reader], [], [], 0)[0] and len(report) <= most_bytes:
                piece = os.read(reader, 65536)
                if not piece:
                    break
                report += piece
            signalled = os.WIFSIGNALED(status)
            number = os.WTERMSIG(status) if signalled else os.WEXITSTATUS(status)
            return "signalled" if signalled else "exited", number, report[:most_bytes]
        if time.monotonic() > deadline:
            return "timed_out", 0, report


def _oom_kills() -> int:
    """How many processes of this container the kernel has killed for want of memory (control groups 2 and 1)."""
    for name in ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"):
        with contextlib.suppress(OSError, ValueError), open(name) as file:  # noqa: PTH123
            for line in file:
                word, _, number = line.partition(" ")
                if word == "oom_kill":
                    return int(number)
    return 0


def answer(document: Any) -> None:
    """Runs the answer and the cases, and reports each, to file descriptor 3."""
    dumps, write = json.dumps, os.write

    def tell(**fields: object) -> None:
        rest = dumps(fields).encode() + b"\n"
        while rest:
            rest = rest[write(3, rest) :]

    namespace = {"__name__": "answer", "__builtins__": __builtins__}
    try:
        exec(compile(document["code"], "answer.py", "exec"), namespace)  # noqa: S102 - this is what a sandbox is for
    except BaseException as problem:  # noqa: BLE001
        tell(loaded=False, **_said(problem))
        return
    tell(loaded=True)
    for number, case in enumerate(document["cases"]):
        scope = dict(namespace)
        try:
            exec(compile(case["setup"], "test", "exec"), scope)  # noqa: S102
            value = _plain(eval(compile(case["value"], "test", "eval"), scope), 0)  # noqa: S307
        except BaseException as problem:  # noqa: BLE001
            tell(case=number, **_said(problem))
        else:
            tell(case=number, value=value)


def _said(problem: BaseException) -> dict[str, Any]:
    try:
        text = str(problem)[:200]
    except BaseException:  # noqa: BLE001
        text = ""
    return {"raised": [kind.__name__ for kind in type(problem).__mro__], "said": text}


def _plain(value: Any, depth: int) -> Any:
    """The value as JSON has it; TypeError if that would hide what it is."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if depth < DEEPEST and isinstance(value, (list, tuple)) and len(value) <= MOST_ITEMS:
        return [_plain(item, depth + 1) for item in value]
    if depth < DEEPEST and isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: _plain(item, depth + 1) for key, item in value.items()}
    raise TypeError(f"the value is a {type(value).__name__}, which cannot be told")


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]))
