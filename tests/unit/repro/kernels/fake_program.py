"""Stands for the programs beside torch: speaks the protocol, and misbehaves where FAKE says so.

FAKE is a JSON object: part of a case's key -> what is done there (the functions below). Everything else passes.
"""

import json
import os
import signal
import subprocess
import sys
import time

FAKE = json.loads(os.environ.get("FAKE", "{}"))


def say(kind, **fields):
    print(json.dumps({"kind": kind, **fields}), flush=True)


def row(key, **fields):
    rest = {"measurements": [], "faults": [], "compiled": None, "buffers": [], "cell": {}, "reason": None}
    say("row", key=key, **{**rest, "state": "pass", "detail": "well", "wall_s": 0.5, **fields})


def passes(key, cell):
    row(key, cell={"tile": "64x64"})


def fails(key, cell):
    fault = {"kind": "wrong_values", "source": None, "tensor": "o", "element": 1, "row": 0, "detail": "off"}
    row(key, state="fail", reason="wrong_values", detail="off", faults=[fault])


def dies(key, cell):
    line = '  File "/x/sglang/kernels/extend_attention.py", line 740 in _fwd_kernel'
    print(f"Fatal Python error: Segmentation fault\n\n{line}", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGSEGV)


def is_killed(key, cell):
    os.kill(os.getpid(), signal.SIGKILL)


def exits(key, cell):
    print("Traceback\nRuntimeError: no more", file=sys.stderr, flush=True)
    sys.exit(3)


def loses_gpu(key, cell):
    fault = {"kind": "cuda_error", "source": None, "tensor": None, "element": None, "row": None, "detail": "CUDA error"}
    row(key, state="fail", reason="cuda_error", detail="CUDA error", faults=[fault])
    say("end", key=key)
    sys.exit(0)


def hangs(key, cell):
    time.sleep(600)


def hangs_with_child(key, cell):
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    time.sleep(600)


def floods(key, cell):
    for _ in range(100_000):
        print("{not a document", flush=False)
    time.sleep(600)


def prints_between(key, cell):
    print("a library says hello")
    print('{"kind": "row", "key": "of/another"}')
    print("\x00\xff[]")
    say("end", key="of/another")
    passes(key, cell)


def says_nonsense(key, cell):
    row(key, state="splendid")


def says_nothing(key, cell):
    pass


def says_more(key, cell):
    row(key, cell={"id": cell["id"] + ".one"}, detail="first")
    row(key, cell={"id": "of-another"}, detail="not mine")
    passes(key, cell)


def other_release(key, cell):
    digest = "cd" * 32
    say(
        "subject",
        sglang="0.5.15",
        triton=None,
        torch=None,
        source_path="a/b.py",
        source_sha256=digest,
        origin="release",
    )
    passes(key, cell)


def slowly(key, cell):
    time.sleep(0.2)
    passes(key, cell)


def main():
    request = json.load(sys.stdin)
    module = sys.argv[-1]
    if FAKE.get("start") == "fails":
        print("ModuleNotFoundError: no kernel here", file=sys.stderr)
        sys.exit(1)
    digest = os.environ.get("FAKE_DIGEST", "ab" * 32)
    say("subject", sglang="0.5.23", triton="3.8.0", torch="2.13.0", source_path="a/b.py", source_sha256=digest)
    if FAKE.get("start") == "fails later" and module != "subject":
        sys.exit("ImportError: no Triton interpreter")
    for case in request["cases"]:
        say("begin", key=case["key"])
        does = next((does for part, does in FAKE.items() if part in case["key"]), "passes")
        globals()[does](case["key"], case["cell"])
        say("end", key=case["key"])


if __name__ == "__main__":
    main()
