"""A cell as a command line of the simulated engine: SGLang's speculation and graph options, on a scripted server."""

from matrix.engines.command_line import (
    CommandLine,
    add_allreduce,
    add_deployment,
    add_server,
    add_speculation,
    to_words,
)
from matrix.engines.deployment import Deployment, ResolvedLaunch
from matrix.engines.flags import FlagTable
from matrix.engines.graph_flags import add_graph
from matrix.engines.overlay import Overlay
from matrix.engines.speculation import speculate
from repro.model import Coordinates


def resolve(
    coordinates: Coordinates, *, deployment: Deployment, overlay: Overlay, version: str, cell: str = "{cell}"
) -> ResolvedLaunch:
    """How the simulated server plays the cell. ``{attempt}`` in the argv is the number of the launch. Pure.

    ``version`` is the simulated engine's own; its options are spelled as in the newest release of the flag table.
    Raises SpecError for coordinates or variants that contradict themselves.
    """
    del version
    table = FlagTable.load()
    line = CommandLine(table=table, release=table.newest())
    speculation = speculate(coordinates, deployment=deployment, overlay=overlay)
    line.problems += speculation.problems
    line.options["host"] = deployment.host
    add_server(line, coordinates, deployment)
    add_speculation(line, speculation, deployment)
    add_graph(line, coordinates, deployment)
    if coordinates.nvls == "nvls":
        line.options["enable-nccl-nvls"] = True
    add_allreduce(line, coordinates)
    add_deployment(line, deployment, overlay, coordinates)
    play = ("--port", deployment.port, "--script", deployment.script, "--cell", cell, "--launch", "{attempt}")
    return ResolvedLaunch(
        argv=(deployment.python, deployment.payload, "simulated", *play, *to_words(line.options)),
        environment=dict(sorted(line.environment.items())),
        expectation=speculation.expectation,
        problems=tuple(line.problems),
        returns_logprobs=speculation.returns_logprobs,
    )
