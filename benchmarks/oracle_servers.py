"""Real CPU servers for `oracle_recordings.py`, each with a planted fault that can change while it runs.

The command lines are those that `python -m matrix plan --spec cpu` gives. They listen on 127.0.0.1 only.
"""

import http.client
import json
import math
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from matrix.promptset import payload_dir

READY_S = 180.0
REPLY_S = 120.0
STOP_S = 30.0
PROMPT_CHARACTERS = 200
TOKENS = 96


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """One output and what the reference says of each token, in nats, None where not finite: its log-probability, how
    far it lies below the first choice (``gaps``), and the first choice above the second (``margins``).
    ``verify_calls``: the engine's own count of verify steps."""

    prompt: str
    concurrency: int
    ids: tuple[int, ...]
    verify_calls: int | None
    logprobs: tuple[float | None, ...]
    gaps: tuple[float | None, ...]
    margins: tuple[float | None, ...]


Scores = tuple[tuple[float | None, ...], tuple[float | None, ...], tuple[float | None, ...]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Server:
    """A server that is ready. ``fault_file`` holds the fault that it shows now."""

    url: str
    fault_file: Path

    def plant(self, fault: str) -> None:
        """Switches to a fault, "" for none, and forgets what the fault before has left in the cache."""
        new = self.fault_file.with_suffix(".new")
        new.write_text(fault, encoding="utf-8")
        new.replace(self.fault_file)
        for _ in range(50):
            try:
                self.ask("/flush_cache", None)
            except urllib.error.HTTPError as refused:
                if refused.code != 400:
                    raise
                time.sleep(0.2)  # the last request is still being taken down
            else:
                return
        raise SystemExit("the server does not flush its cache")

    def ask(self, path: str, body: Mapping[str, Any] | None) -> Any:
        """The reply to a POST, or its text if it is not JSON."""
        data = json.dumps(body or {}).encode()
        request = urllib.request.Request(self.url + path, data=data, headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=REPLY_S) as reply:
            text = reply.read().decode()
        return json.loads(text) if text.startswith(("{", "[")) else text

    def generate(self, input_ids: Sequence[int]) -> tuple[tuple[int, ...], int | None]:
        """Greedy output ids and the number of verify steps."""
        sampling = {"temperature": 0, "max_new_tokens": TOKENS, "ignore_eos": True}
        reply = self.ask("/generate", {"input_ids": list(input_ids), "sampling_params": sampling})
        return tuple(reply["output_ids"]), reply["meta_info"].get("spec_verify_ct")

    def prefill(self, question: Mapping[str, Any], start: int) -> tuple[list[Any], list[Any]]:
        """Log-probabilities of the input from position ``start``: its own, and the first two choices."""
        sampling = {"temperature": 0, "max_new_tokens": 1, "ignore_eos": True}
        wanted = {"return_logprob": True, "logprob_start_len": start, "top_logprobs_num": 2}
        meta = self.ask("/generate", {**question, "sampling_params": sampling, **wanted})["meta_info"]
        return meta["input_token_logprobs"], meta["input_top_logprobs"]

    def score(self, prompt: Sequence[int], output: Sequence[int]) -> Scores:
        """(logprobs, gaps, margins) of the output's tokens."""
        if not output:
            return (), (), ()
        own, top = self.prefill({"input_ids": [*prompt, *output]}, len(prompt) - 1)
        if not _same([entry[1] for entry in own[1:]], output, highest=max(*prompt, *output)):
            raise SystemExit("the reference scored other tokens than it was given")
        logprobs = tuple(_finite(entry[0]) for entry in own[1:])
        first = tuple(_finite(choices[0][0]) for choices in top[1:])
        second = tuple(_finite(choices[1][0]) for choices in top[1:])
        return logprobs, _above(first, logprobs), _above(first, second)


def _above(high: Sequence[float | None], low: Sequence[float | None]) -> tuple[float | None, ...]:
    pairs = zip(high, low, strict=True)
    return tuple(None if a is None or b is None else round(max(a - b, 0.0), 6) for a, b in pairs)


def _same(said: Sequence[int], sent: Sequence[int], *, highest: int) -> bool:
    """SGLang 0.5.23 calls the last token of the vocabulary 0 here, though the log-probability is that of the token."""
    return len(said) == len(sent) and all(a == b or (a == 0 and b == highest) for a, b in zip(said, sent, strict=True))


def _finite(value: Any) -> float | None:
    return round(float(value), 6) if isinstance(value, int | float) and math.isfinite(value) else None


@contextmanager
def started(python: Path, budget: str, folder: Path) -> Iterator[Server]:
    """A server of this budget that is ready. It is stopped at the end, whatever happens."""
    step = _step(budget)
    fault_file, port = folder / f"{budget}.fault", _free_port()
    fault_file.write_text("", encoding="utf-8")
    known = {"python": str(python), "payload": str(payload_dir()), "port": str(port)}
    environment = {key: _filled(value, known) for key, value in step["environment"].items()}
    with (folder / f"{budget}.log").open("ab") as log:
        process = subprocess.Popen(
            [_filled(word, known) for word in step["argv"]],
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment, "GRAPHREPRO_FAULT_FILE": str(fault_file)},
            start_new_session=True,
        )
    try:
        server = Server(url=f"http://127.0.0.1:{port}", fault_file=fault_file)
        _wait_ready(server, process)
        yield server
    finally:
        _stop(process)


def _step(budget: str) -> Mapping[str, Any]:
    command = ["matrix", "plan", "--json", "--spec", "cpu", "--select", f"cpu-{budget}-eager-nonvls"]
    ended = subprocess.run([sys.executable, "-m", *command], check=True, stdout=subprocess.PIPE)
    steps: list[Mapping[str, Any]] = json.loads(ended.stdout)["steps"]
    return next(step for step in steps if step["cell"] == f"cpu-{budget}-eager-nonvls")


def _filled(word: str, known: Mapping[str, str]) -> str:
    return re.sub(r"\{(python|payload|port)\}", lambda found: known[found[1]], word)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_ready(server: Server, process: "subprocess.Popen[bytes]") -> None:
    until = time.monotonic() + READY_S
    while time.monotonic() < until:
        if process.poll() is not None:
            raise SystemExit(f"the server ended with {process.returncode} before it was ready: see its log")
        try:
            with urllib.request.urlopen(server.url + "/health", timeout=10):
                return
        except (OSError, http.client.HTTPException):
            time.sleep(0.5)
    raise SystemExit(f"the server was not ready within {READY_S:g} s: see its log")


def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # its own session, begun above
        process.wait()


def prompt_set(reference: Server, number: int, count: int) -> dict[str, tuple[int, ...]]:
    """Prompts of a set, by id: set 0 is the shipped one, others are windows of the Python documentation that this
    interpreter brings (another version of Python has other text)."""
    if number == 0:
        document = json.loads((payload_dir() / "cpu/model/prompts.json").read_text(encoding="utf-8"))
        return {entry["id"]: tuple(entry["input_ids"]) for entry in document["prompts"][:count]}
    topics: Mapping[str, str] = import_module("pydoc_data.topics").topics
    text, chance = "\n".join(topics[name] for name in sorted(topics)), random.Random(number)
    places = [chance.randrange(len(text) - PROMPT_CHARACTERS) for _ in range(count)]
    return {
        f"set{number:02d}-{at:02d}": _ids(reference, text[place : place + PROMPT_CHARACTERS])
        for at, place in enumerate(places)
    }


def _ids(reference: Server, text: str) -> tuple[int, ...]:
    reply = reference.ask("/tokenize", {"prompt": text, "add_special_tokens": False})
    return tuple(reply["tokens"])


def answers(
    server: Server, reference: Server, prompts: Mapping[str, tuple[int, ...]], concurrency: int
) -> list[Answer]:
    """Every prompt once, so many at a time, and the reference's opinion of each output."""
    with ThreadPoolExecutor(concurrency) as pool:
        made = list(pool.map(server.generate, prompts.values()))
    scored = [reference.score(prompt, ids) for prompt, (ids, _) in zip(prompts.values(), made, strict=True)]
    return [
        Answer(
            prompt=name,
            concurrency=concurrency,
            ids=ids,
            verify_calls=calls,
            logprobs=logprobs,
            gaps=gaps,
            margins=margins,
        )
        for name, (ids, calls), (logprobs, gaps, margins) in zip(prompts, made, scored, strict=True)
    ]
