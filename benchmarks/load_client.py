"""The client of the throughput check beside SGLang's own load generator, against a server whose clock is known.

    python benchmarks/load_client.py [--rounds N] [--engine-env DIR]

The simulated engine streams to 128 requests at a time and writes down when it wrote which chunk. What each client says
is held against that: the total rate has to be within 1 % of the truth; the error of the median time to first token at
most half of the peer's; the error of the median inter-token latency no larger than the peer's, or within 0.1 ms; the
CPU time of the whole process at most half. Each run has a fresh server, and which client goes first changes from round
to round; for each number the median over the rounds counts. Exit status: 0 if all four bounds are met, 1 if one is not,
4 without an environment that holds SGLang.
"""

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any
from urllib.request import urlopen

from tabulate import tabulate

ROOT = Path(__file__).resolve().parents[1]
PAYLOAD = ROOT / "matrix" / "payload"
sys.path.insert(0, str(PAYLOAD))  # as running the folder does
STREAMS, REQUESTS, TOKENS, PROMPT_TOKENS = 128, 256, 256, 64
SPEED = {
    "ttft_s": 0.05,
    "step_s": 0.066,
    "per_row_s": 0.00001,
    "per_request_s": 0.0001,
    "eager_factor": 1.0,
    "jitter": 0.03,
}
"""Of the simulated engine: about 6,400 tokens a second with 128 requests in the batch."""
CHAIN = ("--speculative-algorithm", "DFLASH", "--speculative-num-draft-tokens", "4")
ACCEPTANCE = {"3": 4.0}
"""Every draft is accepted, so that each chunk brings four ids: were their number random, the median latency would fall
between those of three and of four ids, where the smallest of shifts moves it by much, whoever measures it."""
LIMIT_S = 300.0
NOISE_MS = 0.1
"""Below this an error of the inter-token latency is the scheduling of the machine, for either client: 0.5 % of it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
    """Tokens a second, median time to first token and median inter-token latency in ms, of one run."""

    rate: float
    ttft_ms: float
    itl_ms: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """What a client said, what was true, and the CPU seconds of its whole process."""

    said: Figures
    true: Figures
    cpu_s: float

    @property
    def errors(self) -> tuple[float, float, float]:
        """Of the rate, as a share; of the two latencies, in ms."""
        return (
            abs(self.said.rate / self.true.rate - 1),
            abs(self.said.ttft_ms - self.true.ttft_ms),
            abs(self.said.itl_ms - self.true.itl_ms),
        )


def main(arguments: list[str]) -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="of both clients; default: 3")
    parser.add_argument("--engine-env", type=Path, default=ROOT / ".nox" / "engine-cpu", help="holds SGLang")
    parser.add_argument("--client", nargs=2, metavar=("URL", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.client:
        asyncio.run(our_client(options.client[0], Path(options.client[1])))
        return 0
    python = options.engine_env / "bin" / "python"
    if not python.exists():
        print(f"no {python}: nox -s engine-cpu makes it", file=sys.stderr)
        return 4
    with tempfile.TemporaryDirectory(prefix="load-client-") as folder:
        ours, peers = compare(Path(folder), python, options.rounds)
    return tell(ours, peers)


def compare(folder: Path, python: Path, rounds: int) -> tuple[list[Run], list[Run]]:
    """The runs of both, in turns; which goes first changes from round to round."""
    ours: list[Run] = []
    peers: list[Run] = []
    for number in range(rounds):
        sides = [
            lambda url, place: ours.append(_run(place, our_command(url, place), our_figures)),
            lambda url, place: peers.append(_run(place, peer_command(python, url, place), peer_figures)),
        ]
        for side in (number % 2, 1 - number % 2):
            place = folder / f"{number}-{side}"
            place.mkdir()
            with Server(place) as url:
                sides[side](url, place)
    return ours, peers


def tell(ours: Sequence[Run], peers: Sequence[Run]) -> int:
    """Prints the table; 1 if a bound is missed."""
    our = [median(values) for values in zip(*(run.errors for run in ours), strict=True)]
    peer = [median(values) for values in zip(*(run.errors for run in peers), strict=True)]
    our_cpu_s, peer_cpu_s = median(run.cpu_s for run in ours), median(run.cpu_s for run in peers)
    rows = [
        ["error of the total rate, %", 100 * our[0], 100 * peer[0], "1 %", our[0] <= 0.01],
        ["error of the median TTFT, ms", our[1], peer[1], "half of the peer's", our[1] <= peer[1] / 2],
        ["error of the median ITL, ms", our[2], peer[2], "the peer's, or 0.1", our[2] <= max(peer[2], NOISE_MS)],
        ["CPU of the whole process, s", our_cpu_s, peer_cpu_s, "half of the peer's", our_cpu_s <= peer_cpu_s / 2],
    ]
    true = [run.true for run in (*ours, *peers)]
    print(
        f"{STREAMS} streams, {REQUESTS} requests of {TOKENS} tokens, {len(ours)} rounds; true: "
        f"{median(t.rate for t in true):.0f} tok/s, TTFT {median(t.ttft_ms for t in true):.1f} ms, "
        f"ITL {median(t.itl_ms for t in true):.3f} ms"
    )
    shown = [[*row[:4], "pass" if row[4] else "FAIL"] for row in rows]
    print(tabulate(shown, headers=["median", "ours", "sglang.bench_serving", "at most", ""], floatfmt=".3f"))
    return 0 if all(row[4] for row in rows) else 1


class Server:
    """The simulated engine; `emissions.jsonl` in the folder says when it wrote what."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = int(probe.getsockname()[1])

    def __enter__(self) -> str:
        script = json.loads((PAYLOAD / "simulated" / "scripts" / "default.json").read_text(encoding="utf-8"))
        script["defaults"] |= {"speed": SPEED, "acceptance": ACCEPTANCE}
        (self._folder / "script.json").write_text(json.dumps(script))
        words = ("--port", str(self._port), "--script", str(self._folder / "script.json"))
        more = ("--max-running-requests", str(STREAMS), "--emissions", str(self._folder / "emissions.jsonl"))
        with (self._folder / "server.log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(PAYLOAD), "simulated", *words, *more, *CHAIN], stdout=log, stderr=log
            )
        url = f"http://127.0.0.1:{self._port}"
        limit_s = time.monotonic() + 60
        while time.monotonic() < limit_s:
            try:
                with urlopen(f"{url}/ready", timeout=10):
                    return url
            except OSError:
                time.sleep(0.05)
        raise SystemExit("the simulated engine never became ready")

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(30)


def _run(place: Path, command: Sequence[str], figures: Any) -> Run:
    environment = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "PYTHONPATH": str(PAYLOAD / "cpu" / "standins"),
    }
    with (place / "client.log").open("wb") as log:
        process = subprocess.Popen(list(command), env=environment, stdout=log, stderr=log, cwd=place)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{command[0]} failed:\n{(place / 'client.log').read_text(errors='replace')[-2000:]}")
    return Run(said=figures(place), true=truth(place), cpu_s=usage.ru_utime + usage.ru_stime)


def truth(place: Path) -> Figures:
    """What the server wrote down of the requests of full length: a shorter one is a client's warm-up."""
    lines = [json.loads(line) for line in (place / "emissions.jsonl").read_text().splitlines()]
    replies = [line for line in lines if line["asked"] == TOKENS]
    if len(replies) != REQUESTS:
        raise SystemExit(f"{len(replies)} of {REQUESTS} requests were answered")
    written = [reply["written"] for reply in replies]
    begun_s = min(reply["arrived_s"] for reply in replies)
    tokens = sum(chunks[-1][1] for chunks in written)
    return Figures(
        rate=tokens / (max(chunks[-1][0] for chunks in written) - begun_s),
        ttft_ms=median(1000 * (reply["written"][0][0] - reply["arrived_s"]) for reply in replies),
        itl_ms=median(gap for chunks in written for gap in gaps_ms(chunks)),
    )


def gaps_ms(chunks: Sequence[Sequence[float]]) -> list[float]:
    """Inter-token latency of each id behind the first chunk: both clients share a gap evenly among its ids."""
    gaps: list[float] = []
    for (before_s, seen), (at_s, count) in pairwise(chunks):
        fresh = int(count - seen)
        gaps += [1000 * (at_s - before_s) / fresh] * fresh if fresh else []
    return gaps


# --- ours -------------------------------------------------------------------------------------------------------------


def our_command(url: str, place: Path) -> list[str]:
    return [sys.executable, str(Path(__file__).resolve()), "--client", url, str(place)]


async def our_client(url: str, place: Path) -> None:
    """What the attempt program does for one round of a level of `throughput`, and nothing else."""
    from attempt.checks import Situation
    from attempt.client import Client
    from attempt.evidence import Evidence, Timeline
    from attempt.step import Check, Prompt, Step, Stop
    from attempt.throughput import ThroughputRun

    class Living:
        """A server that does not end."""

        status = None

        def __init__(self) -> None:
            self.exited = asyncio.get_running_loop().create_future()

    host, _, port = url.removeprefix("http://").partition(":")
    check = Check(
        name="throughput",
        prompts=REQUESTS,
        max_new_tokens=TOKENS,
        concurrency=(STREAMS,),
        margins=False,
        limit_s=LIMIT_S,
    )
    prompts = tuple(
        Prompt(id=f"p{n}", text=None, input_ids=tuple(range(n + 10, n + 10 + PROMPT_TOKENS))) for n in range(REQUESTS)
    )
    step = Step(
        argv=("none",),
        environment={},
        host=host,
        port=int(port),
        checks=(check,),
        prompts=prompts,
        limits={},
        marks={},
        stop=Stop(dump_s=1, dump_signal=None, int_s=1, term_s=1, kill_s=1),
    )
    evidence = Evidence(place / "evidence")
    timeline = Timeline(evidence.folder / "timeline.jsonl")
    async with Client(url, timeline.now_s) as client:
        situation = Situation(check=check, step=step, client=client, server=Living(), timeline=timeline)  # type: ignore[arg-type]
        await ThroughputRun(situation).run(evidence)


def our_figures(place: Path) -> Figures:
    """As the judge takes them from the evidence."""
    from matrix.judge.rounds import middle, rounds_of, why_withheld
    from repro import codec
    from repro.model import CheckEvidence

    evidence = codec.read(place / "evidence" / "checks" / "throughput.json", CheckEvidence, where="evidence")
    (round_,) = rounds_of(evidence.requests, evidence.counts, STREAMS)
    if (why := why_withheld(round_)) is not None:
        raise SystemExit(f"our numbers are withheld: {why}")
    return Figures(
        rate=round_.rate() or 0.0,
        ttft_ms=middle(round_.first_tokens_ms()) or 0.0,
        itl_ms=middle(round_.gaps_ms()) or 0.0,
    )


# --- the peer ---------------------------------------------------------------------------------------------------------


def peer_command(python: Path, url: str, place: Path) -> list[str]:
    from attempt.peer import START

    model = str(PAYLOAD / "cpu" / "model")  # only its tokenizer is read
    return [
        *(str(python), "-c", START, "--backend", "sglang", "--base-url", url),
        *("--model", model, "--tokenizer", model, "--dataset-name", "random-ids", "--tokenize-prompt"),
        *("--random-input-len", str(PROMPT_TOKENS), "--random-output-len", str(TOKENS), "--random-range-ratio", "1.0"),
        *("--num-prompts", str(REQUESTS), "--max-concurrency", str(STREAMS), "--request-rate", "inf"),
        *("--warmup-requests", "1", "--disable-tqdm", "--seed", "1", "--output-file", str(place / "peer.jsonl")),
    ]


def peer_figures(place: Path) -> Figures:
    """As it states them."""
    said = json.loads((place / "peer.jsonl").read_text().splitlines()[-1])
    return Figures(rate=said["output_throughput"], ttft_ms=said["median_ttft_ms"], itl_ms=said["median_itl_ms"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
