"""The reader of GPU code against what nvcc wrote (tests/data/images), and against files that are damaged."""

import random
from contextlib import suppress
from pathlib import Path

import pytest
from probe import fatbin

DATA = Path(__file__).parents[3] / "data" / "images"


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("each", {"sm_90a", "sm_100", "sm_100a", "sm_103a", "sm_120", "compute_90", "compute_120a"}),
        ("family", {"sm_100f", "sm_120f", "compute_103f"}),
        ("plain", {"sm_100a", "compute_120f"}),
        ("rdc", {"sm_103"}),
        ("none", set()),
    ],
)
def test_the_code_that_nvcc_wrote(name: str, code: set[str]) -> None:
    found = fatbin.code_of(DATA / f"{name}.elf")
    assert set(found) == code
    assert list(found) == sorted(code)


@pytest.mark.parametrize("content", [b"", b"\x7fEL", b"text\n" * 20, b"\x7fELF\x01\x01" + b"\0" * 60])
def test_no_elf_of_64_bits(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.so"
    path.write_bytes(content)
    with pytest.raises(fatbin.NotReadable):
        fatbin.code_of(path)


def test_a_cut_file_is_told(tmp_path: Path) -> None:
    whole = (DATA / "each.elf").read_bytes()
    path = tmp_path / "x.so"
    for length in range(64, len(whole) - 64, 97):
        path.write_bytes(whole[:length])
        with pytest.raises(fatbin.NotReadable):
            fatbin.code_of(path)


def test_a_damaged_file_never_raises_anything_else_and_always_ends(tmp_path: Path) -> None:
    whole = (DATA / "family.elf").read_bytes()
    chance = random.Random(1)
    path = tmp_path / "x.so"
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(chance.randint(1, 8)):
            damaged[chance.randrange(len(damaged))] = chance.choice((0, 1, 0x7F, 0xFF, chance.randrange(256)))
        path.write_bytes(bytes(damaged))
        with suppress(fatbin.NotReadable):
            fatbin.code_of(path)
