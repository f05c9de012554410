"""`python start.py PROGRAM < REQUEST`: runs one program of this folder, whatever else the environment can import.

The folder is made importable as the package ``beside_torch`` without being put on the path, where its modules could
shadow others.
"""

import ctypes
import importlib
import importlib.util
import json
import os
import resource
import signal
import sys
from pathlib import Path

PR_SET_PDEATHSIG = 1
PROTOCOL = 1


def main() -> None:
    request = json.load(sys.stdin)
    if request["protocol"] != PROTOCOL:
        raise SystemExit(f"protocol {request['protocol']} is asked for, and this program speaks {PROTOCOL}")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # some cases are meant to end with a segmentation fault
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if request["parent"] not in (None, os.getppid()):  # it died before the line above; None: not known
        raise SystemExit("the process that asked is gone")
    sys.path[:0] = request["paths"]
    here = Path(__file__).resolve().parent
    spec = importlib.util.spec_from_file_location(
        "beside_torch", here / "__init__.py", submodule_search_locations=[str(here)]
    )
    if spec is None or spec.loader is None:
        raise SystemExit(f"{here}: is no package")
    package = importlib.util.module_from_spec(spec)
    sys.modules["beside_torch"] = package
    spec.loader.exec_module(package)
    protocol = importlib.import_module("beside_torch.protocol")
    channel = protocol.Channel.take_stdout()
    importlib.import_module(f"beside_torch.{sys.argv[1]}").main(request, channel)


if __name__ == "__main__":
    main()
