"""What was run, in a sentence: engine, models, machine, and the part of the matrix."""

from collections import Counter
from collections.abc import Iterable

from report.load import LoadedRun
from repro.escape import one_line
from repro.model import Coordinates, Result

_MODES = {"graph": "with CUDA graphs", "eager": "eager", "verify-eager": "decode eager"}
_LONGEST = 60


def what_ran(run: LoadedRun) -> str:
    """As the launches state it; where they differ, the two most frequent values. Empty if none has a result."""
    results = [attempt.result for cell in run.cells for attempt in cell.attempts]
    if not results:
        return ""
    engine = _named(f"{result.engine.name} {result.engine.version or ''}".strip() for result in results)
    model, draft = (_fact(results, name) for name in ("model", "draft_model"))
    served = f" with {model}" if model else ""
    served += f"{' and' if model else ' with'} the drafter {draft}" if draft else ""
    machine = _machine(run, results)
    return f"{engine}{served}{f' on {machine}' if machine else ''}: {_part([one.coordinates for one in results])}."


def _machine(run: LoadedRun, results: list[Result]) -> str:
    if not run.about_gpus:
        return _fact(results, "cpu_model")
    count, name = _fact(results, "gpu_count"), _fact(results, "gpu_name")
    return f"{count} x {name}" if count and name else name


def _part(where: list[Coordinates]) -> str:
    trees, chains = (sorted({at.budget for at in where if at.shape == shape}) for shape in ("tree", "chain"))
    parts = [f"budget{'s' if len(trees) > 1 else ''} {_joined(map(str, trees))}"] if trees else []
    parts += [f"flat chain{'s' if len(chains) > 1 else ''} of {_joined(map(str, chains))}"] if chains else []
    parts += ["no speculation"] if any(at.shape == "none" for at in where) else []
    modes = _joined(_MODES[mode] for mode in sorted({at.graph for at in where}, key=list(_MODES).index))
    return f"{', '.join(parts)}; {modes}"


def _fact(results: list[Result], name: str) -> str:
    facts = (result.environment.facts.get(name) for result in results)
    return _named("" if fact is None or fact.value is None else str(fact.value) for fact in facts)


def _named(texts: Iterable[str]) -> str:
    """The two most frequent; empty ones are left out."""
    counted = Counter(text for text in texts if text)
    ordered = sorted(counted, key=lambda text: (-counted[text], text))
    more = f" and {len(ordered) - 2} more" if len(ordered) > 2 else ""
    return " or ".join(one_line(text, _LONGEST) for text in ordered[:2]) + more


def _joined(texts: Iterable[str]) -> str:
    *most, last = texts
    return f"{', '.join(most)} and {last}" if most else last
