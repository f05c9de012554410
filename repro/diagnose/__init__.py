"""Log and exit status -> diagnosis: a first reader of deaths.

It knows the ways in which a server of one machine dies, takes consequences (watchdog, SIGQUIT, exit -9) for what they
are, and says `unknown` where it does not know. It reads a log line by line, in constant memory.
"""

from repro.diagnose.reader import Event, read_log
from repro.diagnose.rules import judge

__all__ = ["Event", "judge", "read_log"]
