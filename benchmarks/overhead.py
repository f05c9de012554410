"""What the harness costs on top of what it runs: on the simulated engine, side by side with a bare shell loop.

    python benchmarks/overhead.py [--rounds N]

Two targets. An attempt on the target `sim`, less its launch, checks and stop, takes at most 0.5 s (median). And a cell
whose server is at work for ten seconds or more takes at most 1.05 times as long under `python -m matrix run` as under a
shell loop that starts the same server with the same arguments, waits for /health with curl, sends the same requests,
and stops the server. The two take turns, so that a busy machine slows both, and the fastest round of each counts. Exit
status: 0 if both targets are met, else 1.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tabulate import tabulate

OVERHEAD_S = 0.5
RATIO = 1.05
CELL = "sim-b8t4-eager-nonvls"
SLOW_STEP_S = 0.035
"""Seconds of a decode step in the long cell: with it, the requests below take ten seconds."""
LOOP = r"""
set -eu
port=$1 requests=$2 log=$3; shift 3
"$@" >"$log" 2>&1 &
server=$!
until curl --silent --fail --output /dev/null "http://127.0.0.1:$port/health"; do sleep 0.02; done
"$PYTHON" "$CLIENT" "$port" "$requests"
kill -TERM "$server"
wait "$server" || true
"""
CLIENT = '''
"""Sends what the checks of a step send: each level in turn, so many requests at a time, streamed."""
import asyncio, json, sys
import aiohttp

async def send(session, url, body):
    async with session.post(url, json=body) as response:
        async for _ in response.content.iter_any():
            pass

async def main(port, levels):
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None)) as session:
        for level in levels:
            queue = iter(level["bodies"])
            async def worker():
                for body in queue:
                    await send(session, f"http://127.0.0.1:{port}/generate", body)
            await asyncio.gather(*(worker() for _ in range(level["concurrency"])))

asyncio.run(main(int(sys.argv[1]), json.load(open(sys.argv[2]))))
'''


def main(arguments: list[str]) -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="of the comparison; default: 3")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="overhead-") as folder:
        overhead = attempt_overheads(Path(folder, "short"))
        pairs = compare(Path(folder, "long"), options.rounds)
    median_s = statistics.median(overhead)
    ratio = min(ours for ours, _ in pairs) / min(bare for _, bare in pairs)
    attempts = f"{len(overhead)} attempts, {min(overhead):.2f} to {max(overhead):.2f} s"
    rounds = ", ".join(f"{ours:.2f} s / {bare:.2f} s" for ours, bare in pairs)
    rows = [
        ["overhead of an attempt, s (median)", median_s, OVERHEAD_S, _word(median_s <= OVERHEAD_S), attempts],
        ["harness / shell loop (fastest of each)", ratio, RATIO, _word(ratio <= RATIO), rounds],
    ]
    print(tabulate(rows, headers=["", "is", "target", "", "measured"], floatfmt=".3f"))
    return 0 if median_s <= OVERHEAD_S and ratio <= RATIO else 1


def attempt_overheads(folder: Path) -> list[float]:
    """Seconds from one result to the next that are neither launch nor checks nor stop, attempt by attempt.

    An attempt's time is that between two lines of progress, of which one comes when a result is stored; the phases are
    those of its result, from the start of the server to its end.
    """
    folder.mkdir()
    spec = folder / "short.toml"
    spec.write_text(_without_coding(_spec_text()), encoding="utf-8")
    command = _harness(folder, "--spec", str(spec), "--select", "*b16*")
    process = subprocess.Popen(
        command, cwd=folder, env=_environment(), text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    moments = [time.monotonic() for line in process.stderr if ": pass (" in line or line.startswith("[1/")]
    if process.wait() != 0:
        raise SystemExit(f"a run that should pass ended with status {process.returncode}")
    results = [json.loads(path.read_bytes()) for path in folder.glob("results/*/*/cells/*/*/result.json")]
    results.sort(key=lambda result: str(result["begun_at"]))
    phases = [
        sum(phase["ended_s"] - phase["begun_s"] for phase in result["phases"] if phase["ended_s"] is not None)
        for result in results
    ]
    # The first two lines are the begin and the end of the first attempt.
    return [after - before - at for before, after, at in zip(moments, moments[1:], phases, strict=False)]


def compare(folder: Path, rounds: int) -> list[tuple[float, float]]:
    """(seconds under the harness, seconds under the loop) of each round; the whole processes."""
    folder.mkdir()
    spec, client = folder / "long.toml", folder / "client.py"
    client.write_text(CLIENT)
    _write_long_spec(spec)
    _timed(_harness(folder, *_LONG, "--spec", str(spec)), folder)  # not counted; it leaves the step to send again
    (step_path,) = folder.glob("results/*/*/cells/*/*/step.json")
    step = json.loads(step_path.read_bytes())
    requests = folder / "requests.json"
    requests.write_text(json.dumps(_levels(step)))
    pairs = []
    for number in range(rounds):
        loop = ["bash", "-c", LOOP, "loop", str(step["port"]), str(requests), str(folder / f"{number}.log")]
        sides = [_harness(folder, *_LONG, "--spec", str(spec)), [*loop, *step["argv"]]]
        first = number % 2  # they take turns in going first
        taken_s = {side: _timed(sides[side], folder) for side in (first, 1 - first)}
        pairs.append((taken_s[0], taken_s[1]))
    return pairs


_LONG = ("--select", CELL, "--no-references")


def _write_long_spec(path: Path) -> None:
    """`sim` with a slow engine: the same requests take ten seconds. Each level is measured once, since the loop cannot
    know when a rate has settled."""
    from importlib import resources

    package = resources.files("matrix")
    script = json.loads((package / "payload" / "simulated" / "scripts" / "default.json").read_text(encoding="utf-8"))
    script["defaults"]["speed"]["step_s"] = SLOW_STEP_S
    slow = path.with_name("slow.json")
    slow.write_text(json.dumps(script))
    once = "\n".join(line for line in _without_coding(_spec_text()).split("\n") if not line.startswith("repeats = "))
    path.write_text(once.replace('script = "default"', f'script = "{slow}"'), encoding="utf-8")


def _spec_text() -> str:
    from importlib import resources

    return (resources.files("matrix") / "specs" / "sim.toml").read_text(encoding="utf-8")


def _without_coding(text: str) -> str:
    """Answers to coding tasks are run in containers, which are no part of what is measured here."""
    return text.replace("[checks]\n", '[checks]\ncoding = "not measured here"\n')


def _levels(step: dict[str, object]) -> list[dict[str, object]]:
    """The bodies that the attempt program sends for the checks of a step, level by level, its warm-up first."""
    prompts = [{"text": p["text"]} if p["text"] is not None else {"input_ids": p["input_ids"]} for p in step["prompts"]]  # type: ignore[attr-defined]

    def body(prompt: dict[str, object], tokens: int) -> dict[str, object]:
        sampling = {"temperature": 0, "max_new_tokens": tokens, "ignore_eos": True}
        return {**prompt, "sampling_params": sampling, "stream": True}

    levels: list[dict[str, object]] = [{"concurrency": 1, "bodies": [body(prompts[0], 4)]}]
    for check in step["checks"]:  # type: ignore[attr-defined]
        for level in check["concurrency"] if check["prompts"] else ():
            chosen = prompts[: check["prompts"]]
            count = len(chosen) if level == 1 else max(len(chosen), 2 * level)
            bodies = [body(chosen[at % len(chosen)], check["max_new_tokens"]) for at in range(count)]
            levels.append({"concurrency": level, "bodies": bodies})
    return levels


def _harness(folder: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "matrix", "run", "--results", str(folder / "results"), *options]


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONSAFEPATH": "1", "PYTHON": sys.executable}


def _timed(command: list[str], folder: Path) -> float:
    environment = {**_environment(), "CLIENT": str(folder / "client.py")}
    began = time.monotonic()
    ended = subprocess.run(command, check=False, cwd=folder, env=environment, capture_output=True, text=True)
    taken_s = time.monotonic() - began
    if ended.returncode not in {0, 7}:  # what failed did not do the work; without a reference nothing passes (7)
        raise SystemExit(f"{command[0]} ended with status {ended.returncode}:\n{ended.stderr[-2000:]}")
    return taken_s


def _word(met: bool) -> str:
    return "pass" if met else "FAIL"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
