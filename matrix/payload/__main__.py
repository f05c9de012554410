"""`python <this folder> attempt|probe|dummy|simulated …`: the programs that run beside the engine.

Running the folder puts it first on ``sys.path``, also under ``-P`` and PYTHONSAFEPATH, so the packages here import each
other by their bare names and nothing needs to be installed in the engine's environment.
"""

import sys


def main() -> int:
    """The exit status of the program named by the first argument; 2 if there is none of that name."""
    name, arguments = (sys.argv[1], sys.argv[2:]) if len(sys.argv) > 1 else ("", [])
    # Imported only when named: the attempt program must not pay for the simulated server, nor the other way round.
    if name == "attempt":
        from attempt.cli import main as program
    elif name == "probe":
        from probe.cli import main as program
    elif name == "dummy":
        from dummy.cli import main as program
    elif name == "simulated":
        from simulated.cli import main as program
    else:
        print("usage: python PAYLOAD_FOLDER attempt FOLDER | probe | dummy | simulated [OPTIONS]", file=sys.stderr)
        return 2
    return program(arguments)


if __name__ == "__main__":
    sys.exit(main())
