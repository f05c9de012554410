"""What the engine answered to one request: output ids, counters and margins, from one document or a stream of them.

Tokens are counted from ids alone. Chunks are no measure: one chunk may bring several tokens, or none, or be sent twice.
"""

import json
import math
import re
from collections.abc import Mapping
from typing import Any

DONE = "[DONE]"
_MIDDLE = re.compile(r'"finish_reason":\s*null')


class Reply:
    """Collects the documents of one reply. `error` says why it cannot be used, None while all is well."""

    def __init__(self, prompt_tokens: int | None, *, margins: bool) -> None:
        self._prompt_tokens = prompt_tokens
        self._wants_margins = margins
        self._cumulative: bool | None = None
        self._answered = False
        self._unread: str | bytes | None = None
        self._count = 0
        self.ids: list[int] = []
        self.text: str | None = None
        self.finish_reason: str | None = None
        self.usage_tokens: int | None = None
        self.verify_calls: int | None = None
        self.accept_histogram: tuple[int, ...] | None = None
        self.margins: tuple[float, ...] | None = None
        self.token_times: list[tuple[float, int]] = []
        self.error: str | None = None

    @property
    def count(self) -> int:
        """How many output ids have come."""
        return self._count

    def unfinished(self) -> bool:
        """Whether more is to come, for all that is known."""
        self.settle()
        return self.error is None and self.finish_reason is None

    def absorb(self, data: str | bytes, at_s: float) -> None:
        """Takes the data of one event, or the body of a reply that was not streamed."""
        if data == DONE or self.error is not None:
            return
        count = _glance(data) if self._cumulative and isinstance(data, str) else None
        if count is None or count < self._count:
            self._read_at_last(data)
            count = len(self.ids)
        else:
            self._unread = data
        if count > self._count:
            self.token_times.append((at_s, count))
            self._count = count

    def _read_at_last(self, data: str | bytes) -> None:
        """Reads a chunk in full; when it is none, what the one before it brought still counts."""
        before, self._unread = self._unread, None
        self._read(data)
        if self.error is not None and before is not None:
            error, self.error = self.error, None
            self._read(before)
            self.error = error

    def settle(self) -> None:
        """Reads the last chunk, if there was only a glance at it: nothing comes after it any more."""
        if self._unread is not None:
            self._read(self._unread)
            self._unread = None

    def close(self) -> None:
        """The stream, or the body, has ended: finds what is missing."""
        self.settle()
        if self.error is not None:
            return
        if not self._answered:
            self.error = "the reply ended without a single chunk"
        elif self.finish_reason is None:
            self.error = f"the reply ended early, after {len(self.ids)} tokens and without a finish reason"
        elif self._wants_margins and len(self.margins or ()) != len(self.ids):
            self.error = "the reply lacks usable log-probabilities"

    def _read(self, data: str | bytes) -> None:
        try:
            document = json.loads(data)
        except ValueError as problem:
            self.error = f"not JSON: {problem}"
            return
        if isinstance(document, list) and len(document) == 1:
            document = document[0]
        complaint = _complaint(document)
        if complaint is not None:
            self.error = storable(complaint)
            return
        meta = document["meta_info"]
        self._absorb_meta(meta)
        self._absorb_ids(document["output_ids"], document.get("text"), _integer(meta.get("completion_tokens"), None))
        self._answered = True

    def _absorb_meta(self, meta: Mapping[str, Any]) -> None:
        self.usage_tokens = _integer(meta.get("completion_tokens"), self.usage_tokens)
        self.verify_calls = _integer(meta.get("spec_verify_ct"), self.verify_calls)
        histogram = meta.get("spec_correct_drafts_histogram")
        if isinstance(histogram, list) and all(_integer(count, None) is not None for count in histogram):
            self.accept_histogram = tuple(histogram)
        if self._wants_margins:
            self.margins = _margins(meta.get("output_top_logprobs"))
        reason = meta.get("finish_reason")
        if isinstance(reason, Mapping):
            self.finish_reason = storable(str(reason.get("type")))
            if self.finish_reason == "abort":
                self.error = storable(f"the engine aborted the request: {str(reason.get('message'))[:200]}")
        elif reason is not None:
            self.finish_reason = storable(str(reason)) or "empty"
        counted = meta.get("prompt_tokens")
        if self._prompt_tokens is not None and _is_integer(counted) and counted != self._prompt_tokens:
            self.error = f"another prompt was answered: {self._prompt_tokens} tokens sent, {counted} counted"

    def _absorb_ids(self, new: list[int], text: object, count: int | None) -> None:
        """SGLang sends all ids so far in each chunk, or with --incremental-streaming-output those since the last one.

        The chunk's own count of completion tokens tells which: cumulative ids may be ahead of it but never fall short,
        ids since the last chunk always do. The manner holds for the whole reply. A chunk sent twice adds nothing.
        """
        extends = new[: len(self.ids)] == self.ids
        if self.ids and new and self._cumulative is None:
            # A count that fits neither manner is a lie, and must not turn right ids into wrong ones.
            fits = count is not None and (len(new) >= count or count == len(self.ids) + len(new))
            self._cumulative = len(new) >= count if fits and count is not None else extends
        said = storable(text) if isinstance(text, str) else None
        if not self.ids or (self._cumulative and extends):
            self.ids, self.text = list(new), self.text if said is None else said
        elif self._cumulative:
            if len(new) >= len(self.ids):
                self.error = (
                    f"the engine took back tokens it had sent: {len(self.ids)} ids, not the beginning of the next"
                )
        elif not (count == len(self.ids) and self.ids[len(self.ids) - len(new) :] == new):
            self.ids += new
            self.text = self.text if said is None else (self.text or "") + said


def _glance(data: str) -> int | None:
    """How many ids an ordinary middle chunk has, by its commas; None for any other chunk.

    Cumulative chunks grow, and at high concurrency the client must not be slower than the server it measures: only the
    last one is read in full. The names cannot be part of a text, in which quotation marks are escaped.
    """
    begin = data.find('"output_ids":')
    if begin < 0 or _MIDDLE.search(data, begin) is None or '"error":' in data:
        return None
    opened, closed = data.find("[", begin), data.find("]", begin)
    if not 0 <= opened < closed or not data[opened + 1 : closed].strip():
        return None
    return data.count(",", opened, closed) + 1


def _complaint(document: object) -> str | None:
    """Why this is not an answer of the engine to `/generate`; None if it is one."""
    if not isinstance(document, Mapping):
        return f"not an object but {type(document).__name__}"
    if "error" in document:
        error = document["error"]
        message = error.get("message", error) if isinstance(error, Mapping) else error
        return f"the engine answered an error: {str(message)[:200]}"
    ids = document.get("output_ids")
    if not isinstance(ids, list) or not set(map(type, ids)) <= {int}:
        return (
            f"no output ids in the reply; is this the engine that was started? Keys: {sorted(map(str, document))[:12]}"
        )
    if not isinstance(document.get("meta_info"), Mapping):
        return "no meta_info in the reply; is this the engine that was started?"
    return None


def _margins(top: object) -> tuple[float, ...] | None:
    """For each output token the first log-probability minus the second; None if one is missing or not finite."""
    try:
        pairs = [(float(entry[0][0]), float(entry[1][0])) for entry in top]  # type: ignore[attr-defined]
    except (TypeError, ValueError, IndexError, KeyError):
        return None
    margins = tuple(round(first - second, 6) for first, second in pairs)
    return margins if all(map(math.isfinite, margins)) else None


def storable(text: str) -> str:
    """The text without halves of surrogate pairs, which JSON can carry but UTF-8 cannot."""
    return text.encode(errors="replace").decode()


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _integer(value: object, otherwise: int | None) -> int | None:
    """A count, or the one known before."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else otherwise
