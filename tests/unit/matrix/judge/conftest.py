"""Answers of a server, made by hand."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from matrix.checks import plan_checks
from matrix.spec import load_spec
from repro.model import CheckEvidence, CheckName, CheckPlan, Coordinates, RequestRecord


def _answer(
    prompt: str = "p1", ids: Sequence[int] = (1, 2, 3, 4), *, concurrency: int = 1, **changes: Any
) -> RequestRecord:
    facts: dict[str, Any] = {
        "prompt": prompt,
        "concurrency": concurrency,
        "repeat": 1,
        "cancelled": False,
        "asked_tokens": len(ids),
        "begun_s": 1.0,
        "first_token_s": 1.5,
        "ended_s": 3.0,
        "status": 200,
        "error": None,
        "finish_reason": "length",
        "output_ids": tuple(ids),
        "output_text": None,
        "usage_tokens": len(ids),
        "verify_calls": 1,
        "accept_histogram": None,
        "margins": None,
        "token_times": (),
        **changes,
    }
    return RequestRecord(**facts)


def _evidence(check: CheckName, *requests: RequestRecord, complete: bool = True, **changes: Any) -> CheckEvidence:
    facts: dict[str, Any] = {
        "check": check,
        "begun_s": 1.0,
        "ended_s": 3.0,
        "complete": complete,
        "stopped_because": None if complete else "the limit was reached",
        "requests": requests,
        "server_accept_length": None,
        "counts": (),
        **changes,
    }
    return CheckEvidence(**facts)


def _plan(check: CheckName, *, shape: str = "tree", role: str = "cell", target: str = "b300") -> CheckPlan:
    where = Coordinates(
        budget=0 if shape == "none" else 16,
        topk=None if shape == "none" else 8,
        shape=shape,  # type: ignore[arg-type]
        graph="graph",
        nvls="nvls",
        tier="full",
        engine_source="pr29907",
        variant={},
    )
    checks = plan_checks(load_spec(target), where, role, "screen", with_references=True)  # type: ignore[arg-type]
    return next(plan for plan in checks if plan.check == check)


@pytest.fixture
def answer() -> Callable[..., RequestRecord]:
    return _answer


@pytest.fixture
def evidence() -> Callable[..., CheckEvidence]:
    return _evidence


@pytest.fixture
def check_plan() -> Callable[..., CheckPlan]:
    return _plan
