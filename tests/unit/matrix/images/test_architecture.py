"""Which GPU code loads where: CUDA's rules as a table."""

import pytest

from matrix.images.architecture import Code, demand_architecture, lacking, loading
from repro.errors import UnavailableError

TABLE = [
    # code, sm_90, sm_100, sm_103, sm_120, sm_121
    ("sm_80", "....."),
    ("sm_90", "x...."),
    ("sm_90a", "x...."),
    ("sm_100", ".xx.."),
    ("sm_100a", ".x..."),
    ("sm_100f", ".xx.."),
    ("sm_103", "..x.."),
    ("sm_103a", "..x.."),
    ("sm_103f", "..x.."),
    ("sm_120", "...xx"),
    ("sm_120a", "...x."),
    ("sm_120f", "...xx"),
    ("sm_121a", "....x"),
    ("compute_80", "xxxxx"),
    ("compute_90", "xxxxx"),
    ("compute_90a", "x...."),
    ("compute_100", ".xxxx"),
    ("compute_100a", ".x..."),
    ("compute_100f", ".xx.."),
    ("compute_103", "..xxx"),
    ("compute_120f", "...xx"),
    ("compute_121", "....x"),
]
GPUS = ("sm_90", "sm_100", "sm_103", "sm_120", "sm_121")


@pytest.mark.parametrize(("code", "expected"), TABLE)
def test_what_loads(code: str, expected: str) -> None:
    assert "".join("x" if loading([code], gpu) else "." for gpu in GPUS) == expected


@pytest.mark.parametrize("name", ["", "sm_1", "sm_100x", "gfx942", "sm100"])
def test_no_architecture(name: str) -> None:
    with pytest.raises(ValueError, match="no architecture"):
        Code.parse(name)


SHIPPED = {
    "torch/lib/libtorch_cuda.so": ("sm_100", "sm_120", "sm_90"),
    # sglang-kernel 0.4.10, as cuobjdump lists it
    "sgl_kernel/sm100/common_ops.abi3.so": ("sm_100", "sm_120a", "sm_80", "sm_89", "sm_90", "sm_90a"),
    "sgl_kernel/flash_ops.abi3.so": ("sm_80", "sm_86", "sm_90a"),
}


@pytest.mark.parametrize("gpu", ["sm_90", "sm_100", "sm_103", "sm_120"])
def test_what_ships_runs_where_it_should(gpu: str) -> None:
    assert lacking(SHIPPED, gpu) == ()


def test_code_for_one_architecture_alone_is_not_enough() -> None:
    kernels = {"sgl_kernel/common_ops.abi3.so": ("sm_100a", "sm_90a")}
    with pytest.raises(UnavailableError) as caught:
        demand_architecture(SHIPPED | {"sgl_kernel/sm100/common_ops.abi3.so": ()} | kernels, "sm_103", where="image x")
    assert caught.value.exit_code == 4
    assert str(caught.value).startswith(
        "image x: sglang-kernel has code for sm_100a, sm_90a, none of which loads on sm_103: build it for sm_103"
    )


def test_nothing_installed() -> None:
    assert lacking({}, "sm_120") == (
        "torch holds no GPU code, or is not installed",
        "sglang-kernel holds no GPU code, or is not installed",
    )
    assert lacking({}, "cpu") == ()
