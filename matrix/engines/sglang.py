"""A cell as an SGLang command line, for a given release and engine source.

Which flag a release has comes from the flag table, so the same cell is spelled differently from release to release, and
a flag that is missing makes the cell unsupported: nothing is dropped without a word.
"""

from matrix.engines.command_line import (
    CommandLine,
    add_allreduce,
    add_deployment,
    add_server,
    add_speculation,
    tensor_parallel,
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
    """How the cell is launched; with the problems that make it unsupported, if there are any. Pure.

    ``cell`` is not used here: only the simulated engine is told which cell it plays. Raises SpecError for an unknown
    release or variant.
    """
    del cell
    table = FlagTable.load()
    line = CommandLine(table=table, release=flag_release(table, version, overlay))
    speculation = speculate(coordinates, deployment=deployment, overlay=overlay)
    line.problems += speculation.problems
    line.options["model-path"] = deployment.model
    line.options["host"] = deployment.host
    line.options["port"] = deployment.port
    add_server(line, coordinates, deployment)
    add_speculation(line, speculation, deployment)
    add_graph(line, coordinates, deployment)
    _add_nvls(line, coordinates, deployment)
    add_allreduce(line, coordinates)
    add_deployment(line, deployment, overlay, coordinates)
    words = to_words(line.options)
    added = {flag.name: flag.takes_value for flag in overlay.added_flags}
    for problem in table.check_argv(line.release, words, added=added, removed=overlay.removed_flags):
        line.refuse(problem)
    return ResolvedLaunch(
        argv=(deployment.python, "-m", "sglang.launch_server", *words),
        environment=dict(sorted(line.environment.items())),
        expectation=speculation.expectation,
        problems=tuple(line.problems),
        returns_logprobs=speculation.returns_logprobs,
    )


def flag_release(table: FlagTable, version: str, overlay: Overlay) -> str:
    """The release whose flags hold for this engine version: itself, without a local suffix, or the overlay's base.

    Raises SpecError if neither is a known release.
    """
    public = version.partition("+")[0]
    if table.knows(public):
        return public
    if overlay.base_release is not None:
        table.flags_of(overlay.base_release)  # a misspelt base is named here
        return overlay.base_release
    table.flags_of(public)
    return public


def _add_nvls(line: CommandLine, coordinates: Coordinates, deployment: Deployment) -> None:
    """NVLS on by SGLang's flag; off also in the environment, so that a value is not inherited from the host's.

    SGLang sets NCCL_NVLS_ENABLE to 1 with the flag, and to 0 only where it is unset (`srt/entrypoints/engine.py`,
    _set_envs_and_config).
    """
    if coordinates.nvls == "nonvls":
        line.environment["NCCL_NVLS_ENABLE"] = "0"
        return
    line.options["enable-nccl-nvls"] = True
    line.environment["NCCL_NVLS_ENABLE"] = "1"
    if tensor_parallel(coordinates, deployment) == 1:
        line.refuse("NVLS at tensor parallel size 1: there is no collective that could use it", "NCCL's documentation")
