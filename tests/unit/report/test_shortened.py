"""A text that is never too long: what goes first, what never stands alone, and that all of it is counted."""

from hypothesis import given
from hypothesis import strategies as st

from report.shortened import Kind, LeftOut, Part, shorten

KINDS = (
    Kind(name="first", words="what matters", first_bytes=400),
    Kind(name="second", words="what follows", first_bytes=200),
    Kind(name="last", words="the rest"),
)


def listed(kind: str, count: int, size: int = 20, turn: str = "") -> tuple[Part, ...]:
    return tuple(
        Part(text=f"{kind}{turn}{number:03} ".ljust(size, "x"), kind=kind, turn=turn) for number in range(count)
    )


def test_what_fits_is_whole_and_a_heading_over_nothing_is_not_there() -> None:
    parts = (Part(text="# A", below=listed("last", 2)), Part(text="# B"), *listed("first", 1))
    text, left = shorten(parts, KINDS, 1000)
    assert left == ()
    assert "# A" in text
    assert "# B" not in text


def test_what_matters_least_goes_first_whatever_its_place() -> None:
    parts = (Part(text="# A", below=listed("last", 20)), *listed("first", 8))
    text, left = shorten(parts, KINDS, 500)
    assert text.count("first") == 8
    assert left == (LeftOut(words="the rest", told=text.count("last"), total=20),)
    assert 0 < text.count("last") < 20
    assert text.index("last") < text.index("first")


def test_no_kind_takes_the_place_of_the_next_before_its_first_share() -> None:
    text, left = shorten((*listed("first", 100), *listed("second", 100)), KINDS, 700)
    assert 200 <= text.count("second") * 24 < 300
    assert [one.words for one in left] == ["what matters", "what follows"]


def test_targets_take_turns() -> None:
    parts = (*listed("last", 50, turn="a"), *listed("last", 50, turn="b"))
    text, _ = shorten(parts, KINDS, 600)
    assert text.count("lastb") > 5
    assert text.count("lasta") - text.count("lastb") in {0, 1}


def test_a_detail_never_stands_without_what_it_is_a_detail_of() -> None:
    parts = tuple(
        Part(text=f"[{n}]".ljust(90, "."), kind="first", below=(Part(text=f"<{n}>", kind="last"),)) for n in range(20)
    )
    text, left = shorten(parts, KINDS, 600)
    for number in range(20):
        assert f"<{number}>" not in text or f"[{number}]" in text
    assert {one.words for one in left} == {"what matters", "the rest"}


def test_a_table_says_how_many_rows_are_left_out_below_it() -> None:
    table = Part(text="| a |\n|---|", below=listed("last", 40), tight=True)
    text, (left,) = shorten((table,), KINDS, 500)
    assert text.splitlines()[:2] == ["| a |", "|---|"]
    assert text.endswith(f"\n\n*{40 - left.told} more are left out here.*")


@given(
    st.lists(
        st.tuples(st.sampled_from(["first", "second", "last"]), st.integers(0, 30), st.integers(8, 900)), max_size=6
    ),
    st.integers(100, 3000),
)
def test_never_longer_and_all_counted(shape: list[tuple[str, int, int]], limit: int) -> None:
    parts = [
        Part(text="# Ä", below=listed(kind, count, size), foot="end", tight=size % 2 == 0)
        for kind, count, size in shape
    ]
    text, left = shorten(parts, KINDS, limit)
    assert len(text.encode()) <= limit
    for one in left:
        assert 0 <= one.told < one.total
