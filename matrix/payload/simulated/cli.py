"""`python PAYLOAD_FOLDER simulated [OPTIONS]`: runs the simulated engine.

The options are SGLang's, and --script, --cell, --launch and --emissions. Exit status: 0 after SIGTERM, 1 configuration
refused, 2 bad options, killed by signal 9 after a planted death.
"""

import os
import signal
import sys

from simulated import arguments, death, faults
from simulated.configuration import Refused, resolve
from simulated.log import Log
from simulated.script import BadScript, find, read


def main(words: list[str]) -> int:
    """The exit status."""
    options = arguments.parse(words)
    log = Log(options.tp_size)
    try:
        known = faults.defaults()
        behaviour = read(find(options.script), cell=options.cell, launch=options.launch, known=known)
        planted = faults.planted(behaviour.faults, os.environ)
    except (BadScript, faults.UnusableFault) as problem:
        print(f"simulated: {problem}", file=sys.stderr)
        return 2
    if "ignore-sigterm" in planted.fixed:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        configuration = resolve(options)
        if "refuse" in planted.fixed:
            raise Refused("refused as planted: the combination of options is not supported")
    except Refused as problem:
        death.refused(log, str(problem))

    from simulated import start

    behaviour = behaviour.with_faults(planted.fixed)
    start.ascend(configuration, behaviour, log)

    # Late, because these take longer than the rest of the start together; a planted death before them is quick.
    import asyncio

    from simulated.engine import Engine
    from simulated.server import leave, serve

    async def run() -> int:
        return await serve(Engine(configuration, behaviour, planted, log), behaviour, log, options.emissions)

    leave(asyncio.run(run()))
    return 0
