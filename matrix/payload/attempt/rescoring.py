"""`rescoring`: outputs of other launches, read by this server without speculation, one prefill each.

What comes back is the log-probability of every output token given all before it, and that of the server's own first
choice there: nothing is asked of the server that wrote the output.
"""

import asyncio
import json
import math
from collections.abc import Mapping
from typing import Any

from attempt.checks import CheckRun, Situation
from attempt.client import Request
from attempt.evidence import Evidence
from attempt.reply import DONE, Reply, storable
from attempt.step import Prompt, Text

_CLIPPED = 0
"""SGLang 0.5.23 calls the last token of the vocabulary by this id when it lists log-probabilities, which are right
(scheduler_components/logprob_result_processor.py)."""
AT_ONCE = 4
"""Prefills are long and few: more at a time only wait in the server's queue."""


class RescoringRun(CheckRun):
    """Each text of the step once. What was scored before an end is kept."""

    def __init__(self, situation: Situation) -> None:
        super().__init__(situation)
        self._by_id = {prompt.id: prompt for prompt in self._step.prompts}
        self._prompt_ids: dict[str, tuple[int, ...] | str] = {}
        self._scored: list[dict[str, Any]] = []

    async def send(self) -> None:
        await self.flush("rescoring")
        for name in dict.fromkeys(text.prompt for text in self._step.texts):
            self._prompt_ids[name] = await self._ids_of(self._by_id.get(name))
        queue = iter(self._step.texts)
        await asyncio.gather(*(self._worker(queue) for _ in range(AT_ONCE)))

    def store(self, evidence: Evidence, begun_s: float, because: str | None) -> None:
        done = {entry["id"]: entry for entry in self._scored}
        left = because or "it was not asked for"
        texts = [done.get(text.id) or _unscored(text, None, f"not scored: {left}") for text in self._step.texts]
        fields = {
            "begun_s": begun_s,
            "ended_s": self._timeline.now_s(),
            "complete": because is None,
            "stopped_because": because,
            "texts": texts,
        }
        evidence.write("rescoring.json", "rescore-evidence", fields)

    async def _ids_of(self, prompt: Prompt | None) -> tuple[int, ...] | str:
        """The prompt's token ids as this server counts them; or why there are none."""
        if prompt is None:
            return "the step has no such prompt"
        if prompt.input_ids is not None:
            return prompt.input_ids
        reply, problem = await self._ask({"text": prompt.text}, start=0)
        if problem is not None:
            return problem
        ids = reply.prompt_ids()
        return ids if ids is not None else "the server does not say how it tokenizes the prompt"

    async def _worker(self, queue: Any) -> None:
        for text in queue:
            if self._server.exited.done():
                return
            self._scored.append(await self._score(text))

    async def _score(self, text: Text) -> dict[str, Any]:
        before = self._prompt_ids[text.prompt]
        if isinstance(before, str):
            return _unscored(text, None, before)
        question = {"input_ids": [*before, *text.output_ids]}
        reply, problem = await self._ask(question, start=len(before) - 1)
        if problem is not None:
            return _unscored(text, len(before), problem)
        scores = reply.scores(text.output_ids)
        if isinstance(scores, str):
            return _unscored(text, len(before), scores)
        logprobs, gaps = scores
        return {"id": text.id, "error": None, "prompt_tokens": len(before), "logprobs": logprobs, "gaps": gaps}

    async def _ask(self, question: dict[str, Any], *, start: int) -> "tuple[_Scores, str | None]":
        """One prefill with the log-probabilities of the input from position `start`; and what went wrong, if so."""
        request = Request(prompt="rescoring", concurrency=AT_ONCE, begun_s=self._timeline.now_s())
        reply = _Scores()
        asked = question | {
            "sampling_params": {"temperature": 0, "max_new_tokens": 1, "ignore_eos": True},
            "return_logprob": True,
            "logprob_start_len": start,
            "top_logprobs_num": 2,
        }
        await self._client.ask(request, "/generate", asked, reply)
        return reply, request.error


class _Scores(Reply):
    """The reply to one prefill: only the log-probabilities of the input count."""

    def __init__(self) -> None:
        super().__init__(None, margins=False)
        self._own: list[Any] = []
        self._top: list[Any] = []
        self._any = False

    def absorb(self, data: str | bytes, at_s: float) -> None:  # noqa: ARG002 - it is not timed
        if data == DONE or self.error is not None:
            return
        try:
            document = json.loads(data)
        except ValueError as problem:
            self.error = f"not JSON: {problem}"
            return
        if isinstance(document, list) and len(document) == 1:
            document = document[0]
        meta = document.get("meta_info") if isinstance(document, Mapping) else None
        if not isinstance(meta, Mapping):
            said = document.get("error", document) if isinstance(document, Mapping) else document
            self.error = storable(f"the engine answered an error: {str(said)[:200]}")
            return
        self._any = True
        own, top = meta.get("input_token_logprobs"), meta.get("input_top_logprobs")
        self._own = own if isinstance(own, list) else []
        self._top = top if isinstance(top, list) else []

    def settle(self) -> None:
        """Nothing is read late."""

    def close(self) -> None:
        if self.error is None and not self._any:
            self.error = "the reply ended without a single chunk"
        elif self.error is None and not self._own:
            self.error = "the engine gives no log-probabilities of the input"

    def prompt_ids(self) -> tuple[int, ...] | None:
        """The token ids that the log-probabilities are of; None if one is missing."""
        try:
            ids = tuple(entry[1] for entry in self._own)
        except (TypeError, IndexError, KeyError):
            return None
        return ids if ids and all(type(token) is int for token in ids) else None

    def scores(self, output_ids: tuple[int, ...]) -> tuple[list[float | None], list[float | None]] | str:
        """Log-probability and gap (nats) of each output token, None where one is not finite; or why there are none.

        The first entry of the reply is the last token of the prompt. A token may be missing from the top choices, then
        its own log-probability stands beside the best of them. The gap is never below 0: what rounds to less is 0.
        """
        own, top = self._own[1:], self._top[1:]
        try:
            said = [entry[1] for entry in own]
            if len(said) != len(output_ids) or any(a not in (b, _CLIPPED) for a, b in zip(said, output_ids)):  # noqa: B905
                return f"{len(output_ids)} output tokens were sent, and {len(said)} others scored"
            logprobs = [_finite(entry[0]) for entry in own]
            best = [_finite(choices[0][0]) if choices else None for choices in top]
        except (TypeError, IndexError, KeyError):
            return "the log-probabilities of the input are not of the form that is known"
        if len(best) != len(logprobs):
            return "the engine gives no top log-probabilities of the input"
        gaps = [None if a is None or b is None else round(max(b - a, 0.0), 6) for a, b in zip(logprobs, best)]  # noqa: B905
        return logprobs, gaps


def _finite(value: Any) -> float | None:
    return round(float(value), 6) if isinstance(value, (int, float)) and math.isfinite(value) else None


def _unscored(text: Text, prompt_tokens: int | None, error: str) -> dict[str, Any]:
    return {"id": text.id, "error": storable(error), "prompt_tokens": prompt_tokens, "logprobs": [], "gaps": []}
