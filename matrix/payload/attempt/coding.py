"""`coding`: the tasks, all at once, as a user would ask them in a chat. Whether an answer is right is judged later."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from attempt.checks import CheckRun
from attempt.reply import DONE, Reply, storable
from attempt.step import Prompt

CHAT = "/v1/chat/completions"


class CodingRun(CheckRun):
    """One request for each task, greedy and streamed; a server that does not stream is understood too."""

    async def send(self) -> None:
        await self.flush("the coding tasks")
        tasks = self._step.tasks
        await asyncio.gather(*(self._ask(task, len(tasks)) for task in tasks))

    async def _ask(self, task: Prompt, concurrency: int) -> None:
        request = self.begin(task, concurrency)
        request.asked_tokens = self._check.max_new_tokens
        question = chat_question(task.text or "", self._check.max_new_tokens, self._step.chat)
        reply = ChatReply()
        lasted = await self._client.ask(request, CHAT, question, reply)
        request.first_token_s = reply.first_s
        await self.end(request, lasted=lasted)


def chat_question(text: str, max_tokens: int, template: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a request; `template` goes to the chat template, as `thinking` does to those that can reason."""
    question: dict[str, Any] = {
        "model": "default",
        "messages": [{"role": "user", "content": text}],
        "temperature": 0,
        "max_tokens": max_tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    return question | ({"chat_template_kwargs": dict(template)} if template else {})


class ChatReply(Reply):
    """What a chat endpoint answers: pieces of text without ids. `text` is the content; where the server keeps the
    reasoning apart, as its reasoning parser makes it do, it stands before that within <think> and </think>."""

    def __init__(self) -> None:
        super().__init__(None, margins=False)
        self.first_s: float | None = None
        self._reasoning: list[str] = []
        self._content: list[str] = []
        self._any = False

    def absorb(self, data: str | bytes, at_s: float) -> None:
        if data == DONE or self.error is not None:
            return
        try:
            document = json.loads(data)
        except ValueError as problem:
            self.error = f"not JSON: {problem}"
            return
        complaint = _complaint(document)
        if complaint is not None:
            self.error = storable(complaint)
            return
        self._any = True
        usage = document.get("usage")
        counted = usage.get("completion_tokens") if isinstance(usage, Mapping) else None
        if isinstance(counted, int) and not isinstance(counted, bool) and counted >= 0:
            self.usage_tokens = counted
        for choice in document["choices"][:1]:
            self._absorb_choice(choice, at_s)

    def settle(self) -> None:
        """Puts the pieces together; called when nothing more comes."""
        reasoning, content = "".join(self._reasoning), "".join(self._content)
        closed = f"\n</think>\n{content}" if content else ""
        text = f"<think>\n{reasoning}{closed}" if reasoning else content
        self.text = storable(text) if self._any else None

    def close(self) -> None:
        self.settle()
        if self.error is None and not self._any:
            self.error = "the reply ended without a single chunk"
        elif self.error is None and self.finish_reason is None:
            self.error = "the reply ended early, without a finish reason"

    def _absorb_choice(self, choice: Any, at_s: float) -> None:
        if not isinstance(choice, Mapping):
            self.error = "a choice that is no object"
            return
        part = choice.get("delta") or choice.get("message")
        said = part if isinstance(part, Mapping) else {}
        for name, pieces in (("reasoning_content", self._reasoning), ("content", self._content)):
            piece = said.get(name)
            if isinstance(piece, str) and piece:
                pieces.append(piece)
                self.first_s = at_s if self.first_s is None else self.first_s
        if choice.get("finish_reason") is not None:
            self.finish_reason = storable(str(choice["finish_reason"])) or "empty"
            if self.finish_reason in ("abort", "error"):
                self.error = "the engine aborted the request"


def _complaint(document: object) -> str | None:
    """Why this is no answer of a chat endpoint; None if it is one."""
    if not isinstance(document, Mapping):
        return f"not an object but {type(document).__name__}"
    error = document.get("error")
    if error is not None or document.get("object") == "error":
        message = error.get("message", error) if isinstance(error, Mapping) else document.get("message", error)
        return f"the engine answered an error: {str(message)[:200]}"
    if not isinstance(document.get("choices"), list):
        return f"no choices in the reply; is this the engine that was started? Keys: {sorted(map(str, document))[:12]}"
    return None
