"""What the engine says about itself: stored as it came, and two facts that the attempt program reads from it."""

import json
import math
from collections.abc import Mapping
from typing import Any

from attempt.client import Client
from attempt.evidence import Evidence


async def collect(client: Client, evidence: Evidence, suffix: str, limit_s: float) -> None:
    """Stores `server_info<suffix>.json` and `metrics<suffix>.txt`; an endpoint that does not answer leaves no file."""
    for path, name in (("/server_info", f"server_info{suffix}.json"), ("/metrics", f"metrics{suffix}.txt")):
        answer = await client.get(path, limit_s)
        if answer is not None and answer[0] == 200:
            evidence.write_raw(name, answer[1])


async def accept_length(client: Client, limit_s: float) -> float | None:
    """The engine's own average of tokens per verify step, None without speculation."""
    info = await _server_info(client, limit_s)
    states = info.get("internal_states")
    state = states[0] if isinstance(states, list) and states and isinstance(states[0], Mapping) else {}
    value = state.get("avg_spec_accept_length")
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) and value >= 0 else None


async def _server_info(client: Client, limit_s: float) -> Mapping[str, Any]:
    answer = await client.get("/server_info", limit_s)
    if answer is None or answer[0] != 200:
        return {}
    try:
        info = json.loads(answer[1])
    except ValueError:
        return {}
    return info if isinstance(info, Mapping) else {}
