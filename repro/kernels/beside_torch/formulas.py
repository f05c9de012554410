"""A formula for numbers that the release's code computes: the polynomial that all evaluated points agree with."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from random import Random

LOWEST, HIGHEST = 2, 9
PRIME = 2**61 - 1
NO_FORMULA = "no polynomial of these degrees"
SPARE = 12
"""Points beyond those that determine the polynomial: a number that is no such polynomial does not pass all of them."""


def fitted(evaluate: Callable[..., int], degrees: Mapping[str, int]) -> str | None:
    """The polynomial, in words, that equals ``evaluate`` at every point tried; None if none of these degrees does.

    ``degrees``: the names of the arguments, and the highest power of each. The points are the same in every run.
    """
    names = list(degrees)
    powers = list(itertools.product(*(range(degree + 1) for degree in degrees.values())))
    random = Random(8)  # noqa: S311 - points, not secrets
    points = [[random.randint(LOWEST, HIGHEST) for _ in names] for _ in range(2 * len(powers) + SPARE)]
    values = [evaluate(**dict(zip(names, point, strict=True))) for point in points]
    rows = [[_product(point, power) for power in powers] for point in points]
    factors = solved(rows, values)
    return None if factors is None else _words(names, powers, factors)


def said(evaluate: Callable[..., int], degrees: Mapping[str, int]) -> str:
    """`fitted`, or words for that there is none."""
    return fitted(evaluate, degrees) or NO_FORMULA


def solved(rows: Sequence[Sequence[int]], values: Sequence[int]) -> list[int] | None:
    """The whole numbers with which all rows give their values, exactly; None if there are none, or many.

    Found modulo a prime, which keeps the numbers small, then checked with whole numbers.
    """
    width = len(rows[0])
    table = [[number % PRIME for number in (*row, value)] for row, value in zip(rows, values, strict=True)]
    for column in range(width):
        pivot = next((index for index in range(column, len(table)) if table[index][column]), None)
        if pivot is None:
            return None
        table[column], table[pivot] = table[pivot], table[column]
        inverse = pow(table[column][column], -1, PRIME)
        lead = table[column] = [number * inverse % PRIME for number in table[column]]
        for index in range(len(table)):
            factor = table[index][column]
            if index != column and factor:
                pairs = zip(table[index], lead, strict=True)
                table[index] = [(number - factor * base) % PRIME for number, base in pairs]
    factors = [row[width] - (PRIME if row[width] > PRIME // 2 else 0) for row in table[:width]]
    sums = (sum(number * factor for number, factor in zip(row, factors, strict=True)) for row in rows)
    return factors if all(total == value for total, value in zip(sums, values, strict=True)) else None


def _product(point: Sequence[int], power: Sequence[int]) -> int:
    result = 1
    for number, exponent in zip(point, power, strict=True):
        result *= number**exponent
    return result


def _words(names: Sequence[str], powers: Sequence[Sequence[int]], coefficients: Sequence[int]) -> str:
    """The terms of highest degree first: ``batch * context + batch``."""
    terms = [(sum(power), power, factor) for power, factor in zip(powers, coefficients, strict=True) if factor]
    return " + ".join(_term(names, power, factor) for _, power, factor in sorted(terms, reverse=True)) or "0"


def _term(names: Sequence[str], power: Sequence[int], factor: int) -> str:
    present = [(name, exponent) for name, exponent in zip(names, power, strict=True) if exponent]
    named = [name if exponent == 1 else f"{name}^{exponent}" for name, exponent in present]
    return " * ".join((*(() if factor == 1 and named else (str(factor),)), *named))
