"""Says which code would be tested here, and ends: it imports neither torch nor the kernel."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import loading
from .protocol import Channel


def main(request: Mapping[str, Any], channel: Channel) -> None:
    try:
        channel.subject(loading.find(request["sglang"], Path(request["scratch"])).subject())
    except loading.LoadingError as problem:
        raise SystemExit(str(problem)) from None
