"""`verify_attention_repro.py`: one case of the verify kernel in one file, for whoever looks at the kernel first.

Its code is that of the programs beside torch, included as text, so that there is one truth about inputs, reference and
tolerance. The same case gives the same bytes.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

from repro.errors import SpecError
from repro.kernels.case import PINNED_SGLANG, SHAPES, capability, head_shape
from repro.kernels.gpu import TOOLS
from repro.kernels.single_file import single_file
from repro.model.kernels import KernelCell, KernelMode

TORCH = "2.14.1"
TRITON = "3.8.0"
"""What the pinned release of SGLang asks for, and the Triton that belongs to that torch."""
FILE_NAME = "verify_attention_repro.py"
DTYPES = ("fp32", "fp16", "bf16")
MODES: tuple[KernelMode, ...] = get_args(KernelMode)
BESIDE_TORCH = Path(__file__).with_name("beside_torch")
_ENTRY, _START = "reproduce", "main"
_CELL = re.compile(
    r"(?:(?P<architecture>sm_\d{2,3})-)?b(?P<budget>\d{1,4})-(?P<shape>(?:gqa|mha|mla)(?:-\d+){3,4})"
    rf"-(?P<dtype>{'|'.join(DTYPES)})(?:-bs(?P<batch>\d{{1,3}}))?(?:-(?P<mode>{'|'.join(MODES)}))?"
    rf"(?:-(?:empty|{'|'.join(TOOLS)}))?"
)

_HEADER = '''#!/usr/bin/env python3
"""{purpose}

Made by graphrepro for this case:

    {case}

Run it in an environment with torch, Triton and SGLang; nothing else is needed:

    pip install torch=={torch} triton=={triton} numpy; pip install --no-deps sglang=={sglang}
    python {file}                        # the case
    python {file} --plant causal_mask    # with a fault in it, to see that it shows: exit status 1
    python {file} --help                 # other budgets, shapes, modes, tiles, contents
"""

# SPDX-License-Identifier: {license}

{imports}

try:
    import torch
except ImportError as missing:
    sys.stdout.write(f"CANNOT RUN {{missing}}\\n")
    raise SystemExit(2) from None


{body}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
'''


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """The case that the file runs unless it is told otherwise."""

    budget: int
    shape: str
    batch: int
    dtype: str
    mode: KernelMode
    architecture: str

    def __str__(self) -> str:
        """In words."""
        size = f"budget {self.budget}, {self.shape}, {self.batch} requests"
        return f"{size}, {self.dtype}, {self.mode}, {self.architecture}"


def asked_by_cell(cell: KernelCell) -> Asked:
    """The case of a cell of the reference arm or the GPU arm. Raises `SpecError` for one that names no single case."""
    if cell.budget is None or cell.shape is None or cell.dtype not in DTYPES:
        raise SpecError(f"cell {cell.id}: has no budget, shape or dtype that a reproducer could run; name another cell")
    return Asked(
        budget=cell.budget,
        shape=cell.shape,
        batch=cell.batch or 1,
        dtype=cell.dtype,
        mode=cell.mode or "eager",
        architecture=cell.architecture or "sm_103",
    )


def asked_by_id(text: str) -> Asked:
    """The case that the id of a cell spells, such as ``sm_103-b16-gqa-4-2-128-fp16-bs3``. Raises `SpecError`."""
    found = _CELL.fullmatch(text)
    if found is None:
        raise SpecError(
            f"{text!r} is no cell with a reproducer; give one of the reference or GPU arm, such as "
            "sm_103-b16-gqa-4-2-128-fp16-bs3 or sm_90-b16-mla-12-1-576-512-bf16-bs2-replay-refreshed"
        )
    mode: KernelMode = next((mode for mode in MODES if mode == found["mode"]), "eager")
    head_shape(found["shape"])
    return Asked(
        budget=int(found["budget"]),
        shape=found["shape"],
        batch=int(found["batch"] or 1),
        dtype=found["dtype"],
        mode=mode,
        architecture=found["architecture"] or "sm_103",
    )


def asked_singly(
    cell: str | None,
    *,
    budgets: Sequence[int] | None,
    shapes: Sequence[str] | None,
    architectures: Sequence[str] | None,
    dtype: str | None,
    batch: int | None,
    mode: KernelMode | None,
) -> Asked:
    """The case of a cell's id, but for what is given beside it; without an id the rest is the reference arm's.

    Raises `SpecError` for several values of one kind, and for what is no cell.
    """
    for name, values in (("budget", budgets), ("shape", shapes), ("architecture", architectures)):
        if values is not None and len(values) != 1:
            raise SpecError(f"--{name} with {len(values)} values: a reproducer runs one case; give one")
    own = Asked(budget=16, shape=SHAPES[0], batch=3, dtype="fp16", mode="eager", architecture="sm_103")
    asked = own if cell is None else asked_by_id(cell)
    given = {
        "budget": budgets and budgets[0],
        "shape": shapes and shapes[0],
        "architecture": architectures and architectures[0],
        "dtype": dtype,
        "batch": batch,
        "mode": mode,
    }
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    return replace(asked, **changes)


def reproducer(asked: Asked) -> bytes:
    """The file's bytes. Raises `SpecError` for a case that cannot be."""
    capability(asked.architecture)
    heads = head_shape(asked.shape)
    if not 1 <= asked.budget <= 1024 or not 1 <= asked.batch <= 512:
        raise SpecError(f"budget {asked.budget} with {asked.batch} requests: give 1 to 1024, and 1 to 512 requests")
    values = {
        "budget": asked.budget,
        "heads": (heads.query_heads, heads.key_heads, heads.key_dim, heads.value_dim),
        "batch": asked.batch,
        "dtype": asked.dtype,
        "mode": asked.mode,
        "architecture": asked.architecture,
        "seed": asked.budget,
    }
    case = "CASE = {\n" + "".join(f'    "{name}": {_literal(value)},\n' for name, value in values.items()) + "}"
    sources = {path.stem: path.read_text(encoding="utf-8") for path in sorted(BESIDE_TORCH.glob("*.py"))}
    imports, body = single_file(sources, _ENTRY, _START, {"CASE": case})
    lines = {*imports.splitlines(), "import sys", "from types import SimpleNamespace"} - {"import torch"}
    plain = "\n".join(sorted(lines, key=lambda line: (line.startswith("from"), line)))
    purpose = sources[_ENTRY].split('"""')[1].strip()
    text = _HEADER.format(
        purpose=purpose,
        case=asked,
        torch=TORCH,
        triton=TRITON,
        sglang=PINNED_SGLANG,
        file=FILE_NAME,
        license="Apache-2.0",
        imports=plain,
        body=body,
    )
    return text.encode("utf-8")


def _literal(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)
