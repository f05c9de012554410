"""Formulas are found from values, and are not claimed where there is none."""

import pytest

from repro.kernels.beside_torch.formulas import fitted, solved


def test_the_formula_of_a_mask() -> None:
    def cells(*, batch: int, width: int, prefix: int) -> int:
        return sum(width * (prefix + width) for _ in range(batch))

    assert fitted(cells, {"batch": 1, "width": 2, "prefix": 1}) == "batch * width^2 + batch * width * prefix"


def test_a_constant_and_an_argument_that_does_not_matter() -> None:
    assert fitted(lambda size, other: 3 * size + 1 + 0 * other, {"size": 1, "other": 1}) == "3 * size + 1"


def test_differences_are_negative_terms() -> None:
    assert fitted(lambda size: size**2 - size, {"size": 2}) == "size^2 + -1 * size"


def test_nothing_is_zero() -> None:
    assert fitted(lambda size: 0 * size, {"size": 1}) == "0"


def max_of(first: int, second: int) -> int:
    return max(first, second)


@pytest.mark.parametrize(
    "evaluate",
    [
        max_of,
        lambda first, second: first // 2 + second,
        lambda first, second: first**2 + second,
        lambda first, second: (first + second) % 7,
    ],
    ids=["larger", "half", "square", "remainder"],
)
def test_what_is_no_such_polynomial_has_no_formula(evaluate: object) -> None:
    assert fitted(evaluate, {"first": 1, "second": 1}) is None  # type: ignore[arg-type]


def test_too_few_points_are_not_solved() -> None:
    assert solved([[1, 2], [2, 4]], [3, 6]) is None
