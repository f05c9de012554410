"""Figures and words."""

import pytest

from report.words import SIGNS, VERDICTS, figure, interval_label, percent, spoken


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, "—"), (303.0, "303"), (4723.0, "4723"), (4.4812345, "4.4812"), (0.00012345, "0.00012"), (0.0, "0")],
)
def test_figure(value: float | None, expected: str) -> None:
    assert figure(value) == expected


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0.0, "0 %"), (1.0, "100 %"), (0.2065, "21 %"), (0.0258, "2.6 %"), (0.0002, "< 0.1 %"), (0.9999, "99.9 %")],
)
def test_percent_never_rounds_to_certainty(share: float, expected: str) -> None:
    assert percent(share) == expected


def test_interval() -> None:
    assert interval_label((0.2077, 0.9385)) == "21 % to 94 %"
    assert interval_label(None) == ""


def test_every_verdict_has_a_sign_of_its_own_beside_its_colour() -> None:
    assert all(SIGNS[word] for word in VERDICTS)
    told = {"pass", "fail", "corrupt", "inconclusive", "void", "not_run"}
    assert len({SIGNS[word] for word in told}) == len(told)


def test_spoken() -> None:
    assert spoken("not_run") == "not run"
