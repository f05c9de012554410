"""Engines: what a cell is on a command line, per engine version and source, and how a server proves what it ran."""

from collections.abc import Mapping
from typing import Protocol

from matrix.engines import sglang, simulated
from matrix.engines.deployment import Deployment, ResolvedLaunch
from matrix.engines.overlay import Overlay
from repro.model import Coordinates

__all__ = ["RESOLVERS", "Resolver"]


class Resolver(Protocol):
    def __call__(
        self, coordinates: Coordinates, /, *, deployment: Deployment, overlay: Overlay, version: str, cell: str = ...
    ) -> ResolvedLaunch: ...


RESOLVERS: Mapping[str, Resolver] = {"sglang": sglang.resolve, "simulated": simulated.resolve}
"""Engine name (an overlay's ``engine``) -> how a cell is resolved on it."""
