"""The simulated engine in this process: the scheduler alone, without its HTTP server."""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import matrix

PAYLOAD = Path(matrix.__file__).parent / "payload"
sys.path.insert(0, str(PAYLOAD))  # as running the folder does

from simulated import arguments, faults  # noqa: E402
from simulated.configuration import resolve  # noqa: E402
from simulated.engine import Engine, Sequence  # noqa: E402
from simulated.log import Log  # noqa: E402
from simulated.native import finished  # noqa: E402
from simulated.script import Behaviour, Speed  # noqa: E402

ACCEPTANCE = {8: 3.05, 12: 3.24, 16: 3.37, 32: 3.62}
AT_ONCE = Speed(ttft_s=0.0, step_s=0.0, per_row_s=0.0, per_request_s=0.0, eager_factor=1.0, jitter=0.0)


class Bench:
    """Runs requests through an engine, all at the same time."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.engine: Engine

    def run(self, *options: str, fault: str = "", requests: int = 1, tokens: int = 60) -> list[Sequence]:
        planted = faults.planted(faults.parse(fault, faults.defaults()), {})
        behaviour = Behaviour(seed=1, phases_s={}, speed=AT_ONCE, acceptance=ACCEPTANCE, faults=planted.fixed)
        log = Log(1)
        log.raw = lambda content: self.log.append(content.decode())  # type: ignore[method-assign]

        async def play() -> list[Sequence]:
            self.engine = Engine(resolve(arguments.parse(options)), behaviour, planted, log)
            sequences = [Sequence(id=str(n), prompt=[n, 20, 30, 40], max_new_tokens=tokens) for n in range(requests)]
            for sequence in sequences:
                self.engine.submit(sequence)
            serving = asyncio.ensure_future(self.engine.run())
            watching = asyncio.ensure_future(asyncio.wait(list(map(asyncio.ensure_future, map(finished, sequences)))))
            await asyncio.wait({serving, watching}, return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                serving.result()
            serving.cancel()
            return sequences

        return asyncio.run(play())


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def tree() -> Callable[[int], tuple[str, ...]]:
    """The options of a tree with this budget."""
    return lambda budget: (
        "--speculative-algorithm",
        "DDTREE",
        "--speculative-num-draft-tokens",
        str(budget + 1),
        "--speculative-eagle-topk",
        "8",
    )
