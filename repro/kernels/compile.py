"""The compiler arm: the code that SGLang's own launch would run on GPUs that need not be here.

It shows what is compiled, not what runs: a pass means that the code was made and keeps the limits of the architecture.
"""

from pathlib import Path

from repro.kernels.case import Case, Selection, cell, head_shape

SHAPES = ("gqa-64-8-128", "gqa-64-8-64", "mha-8-8-192-128", "mla-12-1-576-512")
QUICK_SHAPES = ("gqa-64-8-128",)
BATCHES = (1, 2)
"""Triton makes other code where a number is 1, as it does for the batch; other batches share theirs (`CONFIRMED`)."""
CONFIRMED = 16
"""A batch that divides by 16, which Triton also tells apart; asked of the first shape, in graph mode."""
MODES = ("graph", "eager")
PLANTED = ("over_shared_memory", "bad_ptx", "dead_compiler", "other_dtype")
# Larger tiles for MLA than sm_120 has room for.
PLANTED_ON = {"over_shared_memory": ("sm_120", "mla-12-1-576-512")}
# A cold variant takes 1 to 3 s on an idle core.
LIMIT_S = 300.0


def plan(selection: Selection) -> tuple[Case, ...]:
    """Cases of this arm: what is planted, then shapes, architectures, modes and batches; again for each Triton."""
    disassembler = _disassembler(selection.tritons)
    return tuple(
        case
        for folder in ("", *selection.tritons)
        for case in (*_planted(selection, folder, disassembler), *_asked(selection, folder, disassembler))
    )


def _planted(selection: Selection, folder: str, disassembler: str) -> list[Case]:
    usual = (selection.some_architectures()[0], selection.some_shapes(SHAPES, QUICK_SHAPES)[0])
    return [
        _case(*PLANTED_ON.get(fault, usual), "graph", 2, (8,), planted=fault, triton=folder, disassembler=disassembler)
        for fault in PLANTED
    ]


def _asked(selection: Selection, folder: str, disassembler: str) -> list[Case]:
    shapes = selection.some_shapes(SHAPES, QUICK_SHAPES)
    budgets = selection.some_budgets()
    return [
        _case(architecture, shape, mode, batch, budgets, planted=None, triton=folder, disassembler=disassembler)
        for shape in shapes
        for architecture in selection.some_architectures()
        for mode in MODES
        for batch in (*BATCHES, *((CONFIRMED,) if shape == shapes[0] and mode == MODES[0] else ()))
        if not selection.quick or batch != CONFIRMED
    ]


def _case(
    architecture: str,
    shape: str,
    mode: str,
    batch: int,
    budgets: tuple[int, ...],
    *,
    planted: str | None,
    triton: str,
    disassembler: str,
) -> Case:
    heads = head_shape(shape)
    compiler = (Path(triton).name.removeprefix("kernels-"),) if triton else ()
    return Case(
        check="kernel-compile",
        evidence_class="compiled",
        program="compile",
        # Two shards, and one Triton a process.
        group="-".join(("compile", *compiler, "a" if architecture in {"sm_90", "sm_103"} else "b")),
        cell=cell(mode, *compiler, architecture=architecture, budgets=budgets, shape=shape, batch=batch, dtype="bf16"),
        planted=planted,
        parameters={
            "mode": mode,
            "budgets": budgets,
            "query_heads": heads.query_heads,
            "key_heads": heads.key_heads,
            "key_dim": heads.key_dim,
            "value_dim": heads.value_dim,
            "triton": triton,
            "disassembler": disassembler,
        },
        limit_s=LIMIT_S,
    )


def _disassembler(folders: tuple[str, ...]) -> str:
    """The newest nvdisasm among other Tritons at hand: that of Triton 3.6 does not know sm_103."""
    found = sorted(
        (folder for folder in folders if Path(folder, "triton/backends/nvidia/bin/nvdisasm").is_file()),
        key=lambda folder: [int(part) for part in Path(folder).name.rpartition("-")[2].split(".") if part.isdigit()],
    )
    return str(Path(found[-1], "triton/backends/nvidia/bin/nvdisasm")) if found else ""
