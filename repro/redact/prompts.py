"""Prompts and answers, where they are echoed: in records, and in the logs of requests."""

import re
from collections.abc import Iterator

from repro.redact.finds import Find
from repro.redact.vocabulary import PSEUDONYM

TEXT_KEYS = frozenset(
    "text prompt prompts output_text generated_text input_text content system_prompt question answer completion reasoning_content"
    " reference_text reference actual expected_text prefix suffix instruction image_url image_data audio_data code program stdin"
    " input_string output_string chat_history last_text messages input query user_prompt decoded_text delta output texts".split()
)
ID_KEYS = frozenset(
    "input_ids output_ids prompt_token_ids token_ids origin_input_ids prompt_ids reference_ids actual_ids fill_ids"
    " output_token_ids ids".split()
)
_Q = r"\\*[\"']"
_ECHOED = re.compile(
    rf"(?<![A-Za-z0-9_-]){_Q}?(?P<name>{'|'.join(sorted(TEXT_KEYS | ID_KEYS, key=len, reverse=True))}){_Q}?\s*[=:]\s*(?P<value>[bru]?{_Q}|\[)"
)
_IDS = re.compile(r"\[[\d\s,.…-]*\]?")


def prompts(text: str) -> Iterator[Find]:
    """Quoted texts and lists of ids after the names under which servers log requests and answers."""
    at = 0
    while (found := _ECHOED.search(text, at)) is not None:
        begin, at = found.end("value"), found.end()
        if found["value"] == "[":
            listed = _IDS.match(text, begin - 1)
            if listed and re.search(r"\d", listed[0]):
                yield Find(begin, listed.end() - listed[0].endswith("]"), "prompt", listed[0])
                at = listed.end()
            continue
        mark = found["value"].lstrip("bru")
        end = _closing(text, begin, mark)
        if end > begin and not PSEUDONYM.match(text, begin, end):
            yield Find(begin, end, "prompt", text[begin:end])
        at = end


def _closing(text: str, begin: int, mark: str) -> int:
    """Where the quoted text ends; at the end of the line if it was cut."""
    at = begin
    while (at := text.find(mark, at)) >= 0:
        slashes = at
        while slashes > begin and text[slashes - 1] == "\\":
            slashes -= 1
        if (at - slashes) % 2 == 0:
            return at
        at += len(mark)
    return len(text)
