"""How the server ends: as SGLang's launcher does, which kills its own process tree after any death of a scheduler."""

import os
import signal
import time
from typing import NoReturn

from simulated.log import Log


def of_the_scheduler(log: Log, text: str, **values: object) -> NoReturn:
    """Writes what a scheduler's death leaves in the log, and dies by SIGKILL, whatever the scheduler died of."""
    log.text(text, **values)
    os.kill(os.getpid(), signal.SIGKILL)
    while True:  # the signal may be delivered a moment later
        time.sleep(1)


def refused(log: Log, message: str) -> NoReturn:
    """The launcher refuses its configuration: exit status 1."""
    log.text("refuse", message=message)
    os._exit(1)


def port_taken(log: Log, host: str, port: int) -> NoReturn:
    """The port could not be bound: exit status 1."""
    log.text("port-in-use", host=host, port=port)
    os._exit(1)


def leave_orphans(count: int) -> None:
    """Processes in sessions of their own that ignore SIGTERM and stay when the server is gone."""
    for _ in range(count):
        if os.fork() == 0:
            os.setsid()
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
            while True:
                time.sleep(3600)
