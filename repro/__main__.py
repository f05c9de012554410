"""`python -m repro`: what happened, on what, and can it be trusted."""

import os
import sys

for _descriptor in (0, 1, 2):  # a closed one would be given to the next file, which is then taken for stdin or stderr
    try:
        os.fstat(_descriptor)
    except OSError:
        os.open(os.devnull, os.O_RDWR)

if sys.version_info < (3, 11):  # noqa: UP036 - said in one line, before an import fails on newer syntax
    print("graphrepro needs Python 3.11 or newer; this is " + sys.version.split()[0], file=sys.stderr)  # noqa: T201
    raise SystemExit(4)

try:
    from repro.cli import main
except KeyboardInterrupt:
    print("repro: interrupted", file=sys.stderr)  # noqa: T201
    raise SystemExit(130) from None

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
