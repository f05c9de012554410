"""Answers of `/generate` in SGLang's form, made from the state of a request."""

import time
from dataclasses import dataclass
from typing import Any

from simulated.engine import Sequence
from simulated.language import Choice, choose, decode


@dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """What a request wants to see. `logprob_start` is None when no log-probabilities of the prompt are wanted."""

    width: int
    incremental: bool
    logprobs: bool
    top: int
    logprob_start: int | None


def answer(sequence: Sequence, wish: Wish, seen: int) -> dict[str, Any]:
    """The document for all ids so far, of which `seen` were in earlier chunks."""
    shown = sequence.ids[seen:] if wish.incremental else list(sequence.ids)
    meta: dict[str, Any] = {
        "id": sequence.id,
        "finish_reason": _reason(sequence),
        "prompt_tokens": len(sequence.prompt),
        "weight_version": "default",
        "num_retractions": 0,
        "reasoning_tokens": 0,
        "completion_tokens": len(sequence.ids),
        "cached_tokens": 0,
        "cached_tokens_details": None,
        "dp_rank": None,
    }
    if wish.logprobs:
        meta |= _logprobs(sequence, wish)
    if sequence.finished is not None:
        elapsed = max(time.time() - sequence.begun_s, 1e-6)
        meta["e2e_latency"] = elapsed
        meta["decode_throughput"] = len(sequence.ids) / elapsed
        meta |= _speculation(sequence, wish.width)
    return {"text": decode(shown), "output_ids": shown, "meta_info": meta}


def _reason(sequence: Sequence) -> dict[str, Any] | None:
    if sequence.finished is None:
        return None
    if sequence.finished == "abort":
        return {"type": "abort", "message": "Abort before prefill", "status_code": None, "err_type": None}
    return {"type": "length", "length": len(sequence.ids)}


def _speculation(sequence: Sequence, width: int) -> dict[str, Any]:
    """SGLang's figures; its `spec_accept_length` counts the token that the prefill gave."""
    calls = sequence.verify_calls
    if calls == 0:
        return {}
    correct = sum(accepted * count for accepted, count in enumerate(sequence.histogram))
    proposed = calls * (width - 1)
    return {
        "spec_accept_rate": correct / proposed,
        "spec_accept_length": len(sequence.ids) / calls,
        "spec_num_correct_drafts": correct,
        "spec_num_proposed_drafts": proposed,
        "spec_verify_ct": calls,
        "spec_correct_drafts_histogram": list(sequence.histogram),
    }


def _logprobs(sequence: Sequence, wish: Wish) -> dict[str, Any]:
    tokens, begin = sequence.prompt + sequence.ids, len(sequence.prompt)
    said = [(token, choose(tokens[: begin + at])) for at, token in enumerate(sequence.ids)]
    fields: dict[str, Any] = {
        "input_token_logprobs": [],
        "output_token_logprobs": [[_own(token, choice)[0][0], token, None] for token, choice in said],
        "output_token_logprobs_length": len(said),
    }
    if wish.top > 0:
        fields["input_top_logprobs"] = []
        fields["output_top_logprobs"] = [_own(token, choice)[: wish.top] for token, choice in said]
    if wish.logprob_start is not None and wish.logprob_start >= 0:
        given = [(token, choose(tokens[:at])) for at, token in enumerate(sequence.prompt) if at >= wish.logprob_start]
        # Nothing comes before the first position that was asked for, so it has no value.
        fields["input_token_logprobs"] = [
            [choice.logprob(token) if at else None, token, None] for at, (token, choice) in enumerate(given)
        ]
        if wish.top > 0:
            fields["input_top_logprobs"] = [
                _pair(choice)[: wish.top] if at else None for at, (_, choice) in enumerate(given)
            ]
    return fields


def _pair(choice: Choice) -> list[list[Any]]:
    return [[choice.first_logprob, choice.first, None], [choice.second_logprob, choice.second, None]]


def _own(token: int, choice: Choice) -> list[list[Any]]:
    """The engine's own view of a token that it said: its first choice, also when it should not have been. NaN, which
    JSON has not, is null."""
    if token == choice.first:
        return _pair(choice)
    if token == 0:
        return [[None, 0, None], [None, 1, None]]
    return [[choice.first_logprob, token, None], [choice.second_logprob, choice.first, None]]
