"""What a cell's budget, top-k and shape become on an engine source: options, environment and what must be proven."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from matrix.engines.deployment import Deployment, LaunchProblem, OptionValue
from matrix.engines.overlay import Overlay, ShapeName, ShapeRule
from repro.errors import SpecError
from repro.model import Coordinates, Expectation

_PLACEHOLDER = re.compile(r"\{(budget|width|topk|block_size|draft_model)\}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Speculation:
    """``options`` by flag without dashes. ``takes_window``: the draft's window belongs on the command line too."""

    options: Mapping[str, OptionValue]
    environment: Mapping[str, str]
    expectation: Expectation
    problems: tuple[LaunchProblem, ...]
    takes_window: bool
    returns_logprobs: bool


def shape_name(coordinates: Coordinates) -> ShapeName | None:
    """Which of an overlay's shapes the cell uses; None without speculation.

    Raises SpecError for an unknown variant ``algorithm``.
    """
    algorithm = coordinates.variant.get("algorithm")
    if algorithm is not None and (algorithm != "ngram" or coordinates.shape != "tree"):
        raise SpecError(f"variant algorithm={algorithm} at shape {coordinates.shape}: only ngram trees are known")
    if coordinates.shape == "none":
        return None
    return "ngram" if algorithm == "ngram" else coordinates.shape


def speculate(coordinates: Coordinates, *, deployment: Deployment, overlay: Overlay) -> Speculation:
    """The cell's speculation on this engine source; its problems, if the source cannot do it. Pure.

    Raises SpecError for coordinates that contradict themselves.
    """
    name = shape_name(coordinates)
    if name is None:
        if coordinates.budget:
            raise SpecError(f"budget {coordinates.budget} without a shape: give tree or chain")
        return _nothing(coordinates, None, ())
    if coordinates.budget < 1:
        raise SpecError(f"shape {coordinates.shape} needs a budget of at least 1")
    rule = overlay.shapes.get(name)
    if rule is None:
        reason = f"engine source {overlay.name!r} has no {name} speculation"
        if overlay.name == "stock" and name == "tree":
            reason += ": no release up to 0.5.23 has DDTREE"
        return _nothing(coordinates, None, (LaunchProblem(reason=reason, source=overlay.source),))
    return _by_rule(coordinates, name, rule, deployment, overlay)


def _by_rule(
    coordinates: Coordinates, name: ShapeName, rule: ShapeRule, deployment: Deployment, overlay: Overlay
) -> Speculation:
    values = {
        "budget": coordinates.budget,
        "width": coordinates.budget + 1,
        "topk": 1 if rule.topk.rule == "one" else coordinates.topk,
        "block_size": deployment.block_size,
        "draft_model": deployment.draft_model,
    }
    problems: list[LaunchProblem] = []
    if rule.needs_draft_model and deployment.draft_model is None:
        problems.append(
            LaunchProblem(reason=f"{rule.algorithm} needs a draft model: give --draft-model", source=overlay.source)
        )
    options: dict[str, OptionValue] = {}
    for option, value in rule.options.items():
        filled = _filled(value, values) if isinstance(value, str) else value
        if filled is not None:
            options[option] = filled
    problems += _constrain(name, options, deployment, overlay)
    filled_environment = {key: _filled(value, values) for key, value in rule.environment.items()}
    return Speculation(
        options=options,
        environment={key: value for key, value in filled_environment.items() if value is not None},
        expectation=_expectation(coordinates, rule, deployment, overlay),
        problems=tuple(problems),
        takes_window=rule.window,
        returns_logprobs=rule.logprobs,
    )


def _constrain(
    name: ShapeName, options: dict[str, OptionValue], deployment: Deployment, overlay: Overlay
) -> list[LaunchProblem]:
    """Add what the source demands to ``options``; problems where the deployment says otherwise."""
    problems = []
    for rule in overlay.constraints:
        if rule.option is None or rule.value is None or name not in rule.shapes:
            continue
        given = deployment.options.get(rule.option)
        unset = given is None or given is False
        if rule.value is False:
            if not unset:
                reason = f"{rule.text}, but the deployment gives {rule.option}"
                problems.append(LaunchProblem(reason=reason, source=rule.source))
        elif unset:
            options[rule.option] = rule.value
        elif str(given) != str(rule.value):
            reason = f"{rule.text}, but the deployment gives {rule.option} = {given}"
            problems.append(LaunchProblem(reason=reason, source=rule.source))
    return problems


def _expectation(coordinates: Coordinates, rule: ShapeRule, deployment: Deployment, overlay: Overlay) -> Expectation:
    block, requested = deployment.block_size, coordinates.topk
    made = rule.topk.effective(budget=coordinates.budget, requested=requested, block_size=block)
    notes = []
    if requested is not None and made is None:
        notes.append(
            f"{overlay.name} does not say what it makes of top-k {requested}"
            + (": the draft's block size is not known" if rule.topk.rule == "spread" else "")
        )
    elif requested is not None and made != requested:
        notes.append(f"{overlay.name} makes top-k {made} of the requested {requested} at budget {coordinates.budget}")
    elif requested is None and made is not None:
        notes.append(f"no top-k is requested; {overlay.name} makes it {made}")
    if coordinates.shape == "chain" and block is not None and rule.window and coordinates.budget != block - 1:
        notes.append(f"the draft's block size is {block}, this chain verifies {coordinates.budget + 1} positions")
    return Expectation(
        algorithm=rule.algorithm,
        width=coordinates.budget + 1,
        topk_requested=requested,
        topk_effective=None if requested is None else made,
        window=deployment.window if rule.window else None,
        graph=coordinates.graph,
        nvls=coordinates.nvls,
        note="; ".join(notes) or None,
    )


def _nothing(coordinates: Coordinates, note: str | None, problems: tuple[LaunchProblem, ...]) -> Speculation:
    expectation = Expectation(
        algorithm=None,
        width=None,
        topk_requested=None,
        topk_effective=None,
        window=None,
        graph=coordinates.graph,
        nvls=coordinates.nvls,
        note=note,
    )
    return Speculation(
        options={},
        environment={},
        expectation=expectation,
        problems=problems,
        takes_window=False,
        returns_logprobs=True,
    )


def _filled(text: str, values: Mapping[str, object]) -> str | None:
    """The text with its placeholders filled; None if one has no value."""
    names = _PLACEHOLDER.findall(text)
    if any(values[name] is None for name in names):
        return None
    return _PLACEHOLDER.sub(lambda found: str(values[found[1]]), text)
