"""Which engine adapter and overlay serve a cell, and what the cell becomes on its command line."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from matrix.cell import parse_arm
from matrix.engines import sglang, simulated
from matrix.engines.deployment import ChatSettings, Deployment, LaunchProblem, ResolvedLaunch
from matrix.engines.flags import FlagTable
from matrix.engines.overlay import Overlay, load_overlay
from matrix.spec import Spec
from repro.model import Cell, Coordinates, Engine, Shape, Tier

_ADAPTERS: Mapping[str, Callable[..., ResolvedLaunch]] = {"sglang": sglang.resolve, "simulated": simulated.resolve}


@dataclass(frozen=True, kw_only=True, slots=True)
class Unsupported:
    reason: str
    source: str | None


class Probed(Protocol):
    """What was read from the engine itself."""

    def missing_flags(self, options: Iterable[str], /) -> Mapping[str, str]:
        """Flag -> why the engine cannot run with it, for those of these words that are flags."""


@dataclass(kw_only=True, slots=True)
class EngineChoice:
    """What the command line says about engines.

    ``overlay`` replaces that of the spec's own engine source, as a private build needs; cells of another source
    (`stock`) keep theirs. ``model`` and ``draft_model`` replace the spec's paths. ``probed``: engine source -> the
    engine that its cells will run, and where that is, if it was looked at.
    """

    overlay: Overlay | None = None
    model: str | None = None
    draft_model: str | None = None
    probed: Mapping[str, tuple[Probed, str]] = field(default_factory=dict)
    _resolved: dict[str, ResolvedLaunch] = field(default_factory=dict)
    _deployments: dict[Tier | None, Deployment] = field(default_factory=dict)

    def overlay_for(self, spec: Spec, coordinates: Coordinates) -> Overlay:
        """The overlay of the cell's engine source. Raises SpecError if there is none of that name."""
        if self.overlay is not None and coordinates.engine_source == spec.engine.source:
            return self.overlay
        return load_overlay(coordinates.engine_source)

    def engine(self, spec: Spec, coordinates: Coordinates) -> Engine:
        overlay = self.overlay_for(spec, coordinates)
        return Engine(name=spec.engine.name, version=spec.engine.version, source=overlay.name)

    def release(self, spec: Spec, coordinates: Coordinates) -> str:
        """The SGLang release whose log lines and flags hold for the cell's engine."""
        table = FlagTable.load()
        if spec.engine.name == "simulated":
            return table.newest()
        return sglang.flag_release(table, spec.engine.version, self.overlay_for(spec, coordinates))

    def resolve(self, spec: Spec, cell: Cell) -> ResolvedLaunch:
        """argv, environment and expectation of a cell, with what stands against running it."""
        if cell.id not in self._resolved:
            adapter = _ADAPTERS[spec.engine.name]
            if spec.tier not in self._deployments:
                self._deployments[spec.tier] = self.deployment(spec)
            launch = adapter(
                cell.coordinates,
                deployment=self._deployments[spec.tier],
                overlay=self.overlay_for(spec, cell.coordinates),
                version=spec.engine.version,
                cell=cell.id,
            )
            missing = self._missing(launch, cell.coordinates.engine_source)
            self._resolved[cell.id] = replace(launch, problems=(*launch.problems, *missing)) if missing else launch
        return self._resolved[cell.id]

    def with_probed(self, probed: Mapping[str, tuple[Probed, str]]) -> "EngineChoice":
        """The same choice, now that the engines were looked at."""
        return EngineChoice(overlay=self.overlay, model=self.model, draft_model=self.draft_model, probed=probed)

    def _missing(self, launch: ResolvedLaunch, source: str) -> tuple[LaunchProblem, ...]:
        if source not in self.probed:
            return ()
        probe, where = self.probed[source]
        return tuple(LaunchProblem(reason=why, source=where) for why in probe.missing_flags(launch.argv).values())

    def deployment(self, spec: Spec) -> Deployment:
        """What all cells of the spec share, with the command line's model paths."""
        given = spec.deployment
        return Deployment(
            model=self.model or spec.model.path,
            draft_model=self.draft_model or spec.model.draft_path,
            options=given.options,
            environment=given.environment,
            graph_max_batch=given.graph_max_bs,
            tensor_parallel=given.tensor_parallel,
            window=given.window,
            block_size=given.block_size,
            max_running_requests=given.max_running_requests,
            chat=ChatSettings(template=given.chat.template, template_options=given.chat.template_options),
        )


def arm_of(budget: str) -> tuple[int, int | None, Shape]:
    """(budget, top-k, shape) of an axis value, as it stands in coordinates."""
    arm = parse_arm(budget)
    return arm.budget, arm.topk, arm.shape
