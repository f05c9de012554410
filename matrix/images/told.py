"""A probe's answer in words, and what it means for the cells of a spec."""

from collections.abc import Mapping

from matrix.arguments import EngineChoice
from matrix.expand import expand
from matrix.images.architecture import NEEDED, lacking, loading
from matrix.images.probe import Changes, ImageProbe
from matrix.spec import Spec

TOLD_PACKAGES = ("sglang", "torch", "triton", "flashinfer-python", "sglang-kernel", "sgl-kernel", "transformers")
TOLD_FILES = 5


def told(probe: ImageProbe, architecture: str) -> str:
    """Lines for a person: versions, local patches, and the GPU code that matters on this architecture."""
    from tabulate import tabulate

    rows = [["python", probe.python]]
    rows += [[name, probe.packages[name]] for name in TOLD_PACKAGES if name in probe.packages]
    flags = probe.flags
    rows.append(["launch flags", str(len(flags.value)) if flags.value is not None else f"unknown: {flags.reason}"])
    rows.append(["engine's files", _changes_told(probe.changes)])
    if architecture != "cpu":
        rows += _libraries_told(probe, architecture)
        rows.append([architecture, "; ".join(lacking(probe.gpu_code(), architecture, probe.unreadable())) or "ok"])
    return tabulate(rows, tablefmt="plain", disable_numparse=True)


def unsupported_cells(spec: Spec, engines: EngineChoice, probe: ImageProbe) -> Mapping[str, tuple[str, ...]]:
    """Cell -> the reasons why the engine in the image cannot run it: flags that it lacks. Cells that can are left out.

    Only cells of the spec's own engine source: those of another source run in another image.
    """
    found = {}
    for entry in expand(spec):
        if entry.excluded or entry.unsupported or entry.cell.coordinates.engine_source != spec.engine.source:
            continue
        reasons = tuple(probe.missing_flags(engines.resolve(spec, entry.cell).argv).values())
        if reasons:
            found[entry.cell.id] = reasons
    return found


def grouped(reasons: Mapping[str, tuple[str, ...]]) -> Mapping[str, tuple[str, ...]]:
    """Reason -> cells: one missing flag usually takes out many."""
    found: dict[str, list[str]] = {}
    for cell, said in reasons.items():
        for reason in said:
            found.setdefault(reason, []).append(cell)
    return {reason: tuple(cells) for reason, cells in found.items()}


def _changes_told(changes: Changes) -> str:
    if changes.value is None:
        return f"unknown: {changes.reason}"
    kinds = (("changed", changes.value.changed), ("added", changes.value.added), ("missing", changes.value.missing))
    parts = [
        f"{len(paths)} {word} ({', '.join(paths[:TOLD_FILES])}{', …' if len(paths) > TOLD_FILES else ''})"
        for word, paths in kinds
        if paths
    ]
    return "; ".join(parts) or "as in its wheel"


def _libraries_told(probe: ImageProbe, architecture: str) -> list[list[str]]:
    rows = []
    for library in probe.libraries:
        if library.code is None:
            rows.append([library.path, f"unknown: {library.reason}"])
        elif any(pattern.fullmatch(library.path) for pattern in NEEDED.values()):
            fits = loading(library.code, architecture)
            rows.append([library.path, f"{', '.join(library.code)}; runs: {', '.join(fits) or 'none'}"])
    return rows
