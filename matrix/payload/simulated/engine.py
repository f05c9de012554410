"""The scheduler: runs all requests in one batch, a step at a time, and counts what SGLang's scheduler counts."""

import asyncio
import time
from dataclasses import dataclass, field

from simulated import death
from simulated.acceptance import Acceptance, mean_for
from simulated.chance import share
from simulated.configuration import Configuration
from simulated.faults import Planted
from simulated.language import choose
from simulated.log import Log
from simulated.script import Behaviour
from simulated.spoiling import BROKEN_TREES, CRASHES, Spoiler


@dataclass(kw_only=True, slots=True)
class Sequence:
    """A request in the scheduler. `news` is set whenever ids were added or it ended; `ids` only grow."""

    id: str
    prompt: list[int]
    max_new_tokens: int
    ids: list[int] = field(default_factory=list)
    verify_calls: int = 0
    histogram: list[int] = field(default_factory=list)
    finished: str | None = None
    begun_s: float = field(default_factory=time.time)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def context(self) -> tuple[int, int, int, int]:
        """The last four tokens."""
        last = self.ids[-4:] if len(self.ids) >= 4 else (self.prompt[-4:] + self.ids)[-4:]
        return tuple([0] * (4 - len(last)) + last)  # type: ignore[return-value]

    def count(self, correct: int) -> None:
        """Counts a verify step that accepted so many drafts."""
        self.verify_calls += 1
        self.histogram += [0] * (correct + 1 - len(self.histogram))
        self.histogram[correct] += 1


@dataclass(kw_only=True, slots=True)
class Counters:
    """What `/metrics` and `/server_info` are made from."""

    generation_tokens: int = 0
    prompt_tokens: int = 0
    requests: int = 0
    verify_calls: int = 0
    accepted_tokens: int = 0
    last_accept_length: float = 0.0
    last_throughput: float = 0.0
    passes: dict[str, int] = field(default_factory=dict)

    def passed(self, mode: str) -> None:
        """Counts a forward pass."""
        self.passes[mode] = self.passes.get(mode, 0) + 1


class Engine:
    """Requests enter by `submit`; `run` is the loop that serves them."""

    def __init__(self, configuration: Configuration, behaviour: Behaviour, planted: Planted, log: Log) -> None:
        self.configuration = configuration
        self.counters = Counters()
        self._behaviour = behaviour
        self._log = log
        self._spoiler = Spoiler(planted)
        self._acceptance: dict[float, Acceptance] = {}
        self._waiting: list[Sequence] = []
        self._running: list[Sequence] = []
        self._wake = asyncio.Event()
        self._steps = 0
        self.hung = False

    @property
    def idle(self) -> bool:
        """Whether no request is in the engine."""
        return not self._waiting and not self._running

    @property
    def running(self) -> int:
        """Requests in the batch."""
        return len(self._running)

    def planted(self, name: str) -> int | None:
        """The number of a fault that is in force now, None if it is not."""
        self._spoiler.refresh()
        return self._spoiler.faults.get(name)

    def submit(self, sequence: Sequence) -> None:
        """Queues a request."""
        self._waiting.append(sequence)
        self._wake.set()

    def abort(self, id: str | None) -> None:  # noqa: A002
        """Ends the request of this id, or all."""
        for sequence in [*self._waiting, *self._running]:
            if id is None or sequence.id == id:
                self._finish(sequence, "abort")
        self._waiting = [sequence for sequence in self._waiting if sequence.finished is None]
        self._running = [sequence for sequence in self._running if sequence.finished is None]

    def reset_acceptance(self) -> None:
        """Starts the average over, as flushing the cache does."""
        self.counters.verify_calls = self.counters.accepted_tokens = 0

    async def run(self) -> None:
        """Serves for ever. Steps keep to a timetable, so a late wake-up does not slow the engine down."""
        due = time.monotonic()
        while True:
            if self.idle:
                self._wake.clear()
                await self._wake.wait()
                due = time.monotonic()
            due = max(due, time.monotonic() - 0.05)
            admitted = self._admit()
            due += self._behaviour.speed.ttft_s if admitted else self._step_s()
            await asyncio.sleep(max(due - time.monotonic(), 0))
            if admitted:
                self._prefill(admitted)
            elif self._running:
                await self._step()

    def _admit(self) -> list[Sequence]:
        room = int(self.configuration.options["max_running_requests"]) - len(self._running)
        admitted, self._waiting = self._waiting[:room], self._waiting[room:]
        return admitted

    def _step_s(self) -> float:
        """Seconds of the next step."""
        speed, batch = self._behaviour.speed, len(self._running)
        step_s = speed.step_s + speed.per_row_s * self.configuration.budget + speed.per_request_s * max(batch - 1, 0)
        if not self.replays(batch):
            step_s *= speed.eager_factor
        return step_s * (1 + speed.jitter * (2 * share("step", self._behaviour.seed, self._steps) - 1))

    def replays(self, batch: int) -> bool:
        """Whether a batch of this size runs as a graph."""
        graphs = self.configuration.graphs
        return bool(graphs) and batch <= max(graphs) and self.planted("silent-eager") is None

    def _prefill(self, admitted: list[Sequence]) -> None:
        self._spoiler.refresh()
        tokens = sum(len(sequence.prompt) for sequence in admitted)
        self.counters.prompt_tokens += tokens
        self.counters.passed("prefill_none")
        self._log.line(
            f"Prefill batch, #new-seq: {len(admitted)}, #new-token: {tokens}, #cached-token: 0, token usage: 0.01, "
            f"#running-req: {len(self._running)}, #queue-req: {len(self._waiting)}, #pending-token: 0, "
            f"cuda graph: False, input throughput (token/s): {tokens / max(self._behaviour.speed.ttft_s, 1e-6):.2f}",
            scheduler=True,
        )
        for sequence in admitted:
            if sequence.max_new_tokens <= 0 or "no-tokens" in self._spoiler.faults:
                self._finish(sequence)
            else:
                self._give(sequence, choose(sequence.context()).first)
                self._running.append(sequence)
        self._retire()

    async def _step(self) -> None:
        self._spoiler.refresh()
        self._steps += 1
        self._spoiler.step()
        await self._break_down()
        batch = len(self._running)
        self.counters.passed("decode_cuda_graph" if self.replays(batch) else "decode_none")
        given = 0
        for sequence in self._running:
            given += self._advance(sequence, batch)
        self.counters.last_accept_length = given / batch
        self._report(batch, given)
        self._retire()

    async def _break_down(self) -> None:
        name = self._spoiler.due(CRASHES)
        if name is not None:
            death.of_the_scheduler(self._log, name)
        if self._spoiler.due(("host-hang",)) is not None:
            self.hung = True
            timeout = self.configuration.options["watchdog_timeout"] or 300.0
            await asyncio.sleep(timeout)
            death.of_the_scheduler(self._log, "host-hang", timeout=timeout, running=len(self._running))

    def _advance(self, sequence: Sequence, batch: int) -> int:
        """One step of one request: how many tokens it brought.

        The counters take a step for what it accepted, as SGLang's do, also where the last one is cut off by the limit.
        """
        correct = 0
        if self.configuration.algorithm is not None:
            correct = 0 if self._spoiler.drafts_fail() else self._draw(sequence)
            sequence.count(correct)
            self.counters.verify_calls += 1
            self.counters.accepted_tokens += correct + 1
        given = min(correct + 1, sequence.max_new_tokens - len(sequence.ids))
        for _ in range(given):
            right = choose(sequence.context())
            self._give(sequence, self._spoiler.token(sequence, right, batch))
        return given

    def _draw(self, sequence: Sequence) -> int:
        mean = mean_for(self.configuration.budget, self._behaviour.acceptance)
        for name, spoiled in BROKEN_TREES.items():
            if name in self._spoiler.faults:
                mean = min(mean, spoiled)
        if mean not in self._acceptance:
            self._acceptance[mean] = Acceptance(mean, self.configuration.depth)
        return self._acceptance[mean].draw(sequence.context())

    def _give(self, sequence: Sequence, token: int) -> None:
        sequence.ids.append(token)
        sequence.news.set()

    def _finish(self, sequence: Sequence, reason: str = "length") -> None:
        """Ends a request; only now SGLang counts it and its tokens, whatever ended it."""
        sequence.finished = reason
        self.counters.requests += 1
        self.counters.generation_tokens += len(sequence.ids)
        sequence.news.set()

    def _retire(self) -> None:
        for sequence in self._running:
            if len(sequence.ids) >= sequence.max_new_tokens:
                self._finish(sequence)
        self._running = [sequence for sequence in self._running if sequence.finished is None]

    def _report(self, batch: int, given: int) -> None:
        if self._steps % max(int(self.configuration.options["decode_log_interval"]), 1):
            return
        speculating = ""
        if self.configuration.algorithm is not None:
            rate = (given / batch - 1) / max(self.configuration.budget, 1)
            speculating = f"accept len: {given / batch:.2f}, accept rate: {rate:.2f}, "
        throughput = given / max(self._step_s(), 1e-6)
        self.counters.last_throughput = throughput
        held = sum(len(sequence.prompt) + len(sequence.ids) for sequence in self._running)
        self._log.line(
            f"Decode batch, #running-req: {batch}, #token: {held}, token usage: 0.01, {speculating}"
            f"cuda graph: {self.replays(batch)}, gen throughput (token/s): {throughput:.2f}, "
            f"#queue-req: {len(self._waiting)}",
            scheduler=True,
        )
