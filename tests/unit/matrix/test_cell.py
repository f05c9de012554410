"""Cells: one spelling for each point, one point for each spelling."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix.cell import Defaults, cell_id, make_cell, parse_arm, spell_arm
from repro.errors import SpecError
from repro.model import Coordinates

B300 = Defaults(architecture="sm_103", tier="full", engine_source="pr29907")
FILE_SAFE = re.compile(r"[A-Za-z0-9_+-][A-Za-z0-9_.+-]{0,199}")

numbers = st.integers(min_value=1, max_value=10**9)
arms = st.one_of(
    st.just("ar"),
    numbers.map("b{}".format),
    st.tuples(numbers, numbers).map(lambda two: f"b{two[0]}t{two[1]}"),
    numbers.map("c{}".format),
    numbers.map("n{}".format),
)
variants = st.dictionaries(
    st.sampled_from(["tp", "allreduce", "debuggraph", "graphpadding", "graphbs", "a", "b"]),
    st.from_regex(r"[a-z0-9][a-z0-9.]{0,8}", fullmatch=True),
    max_size=3,
)
points = st.fixed_dictionaries(
    {
        "arm": arms,
        "graph": st.sampled_from(["graph", "eager", "verify-eager"]),
        "nvls": st.sampled_from(["nvls", "nonvls"]),
        "tier": st.sampled_from(["kernel", "small", "dummy", "full"]),
        "engine_source": st.sampled_from(["stock", "pr29907", "cpu-ddtree", "local", "my_build"]),
        "variant": variants,
    }
)


def spelled(arm: str, **changes: object) -> str:
    return make_cell(arm, **{"graph": "graph", "nvls": "nvls", "defaults": B300, **changes}).id  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arm", "changes", "cell"),
    [
        ("b16t8", {}, "sm_103-b16t8-graph-nvls"),
        ("b16t8", {"nvls": "nonvls", "variant": {"tp": "1"}}, "sm_103-b16t8-graph-nonvls+tp1"),
        ("ar", {"graph": "eager"}, "sm_103-ar-eager-nvls"),
        ("b8t4", {"graph": "verify-eager"}, "sm_103-b8t4-verify-eager-nvls"),
        ("c7", {"tier": "small"}, "sm_103-c7-graph-nvls+small"),
        ("b7", {}, "sm_103-b7-graph-nvls"),
        ("n8", {"engine_source": "stock"}, "sm_103-n8-graph-nvls+stock"),
        ("b8t4", {"variant": {"allreduce": "nccl"}}, "sm_103-b8t4-graph-nvls+allreduce-nccl"),
        ("b8t4", {"variant": {"tp": "1", "graphbs": "1.2.4"}}, "sm_103-b8t4-graph-nvls+graphbs1.2.4+tp1"),
        (
            "ar",
            {"tier": "dummy", "engine_source": "stock", "variant": {"tp": "1"}},
            "sm_103-ar-graph-nvls+dummy+stock+tp1",
        ),
    ],
)
def test_ids_spell_what_differs_from_the_defaults(arm: str, changes: dict[str, object], cell: str) -> None:
    assert spelled(arm, **changes) == cell


@given(points, points)
def test_ids_are_injective_and_file_safe(one: dict[str, object], other: dict[str, object]) -> None:
    first, second = (make_cell(**{**point, "defaults": B300}) for point in (one, other))  # type: ignore[arg-type]
    assert (first.id == second.id) == (first.coordinates == second.coordinates)
    assert FILE_SAFE.fullmatch(first.id)


@given(arms)
def test_parsing_and_spelling_are_inverse(arm: str) -> None:
    cell = make_cell(arm, graph="eager", nvls="nonvls", defaults=B300)
    assert spell_arm(cell.coordinates) == arm


def test_id_does_not_depend_on_the_order_of_a_variant() -> None:
    there = spelled("ar", variant={"tp": "2", "allreduce": "nccl"})
    assert there == spelled("ar", variant={"allreduce": "nccl", "tp": "2"})


def test_ngram_with_a_topk_is_not_spelled_like_one_without() -> None:
    """`n8` has no top-k; a variant that makes an NGRAM cell of b8t4 must not take its id."""
    assert spelled("b8t4", variant={"algorithm": "ngram"}) != spelled("n8")
    assert spelled("c8", variant={"algorithm": "ngram"}) != spelled("c8")


def test_chains_have_topk_one_and_ar_has_nothing() -> None:
    chain, nothing = parse_arm("c7"), parse_arm("ar")
    assert (chain.budget, chain.topk, chain.shape) == (7, 1, "chain")
    assert (nothing.budget, nothing.topk, nothing.shape) == (0, None, "none")
    assert parse_arm("b16t8").topk == 8
    assert parse_arm("b7").topk is None


@pytest.mark.parametrize(
    "text",
    ["", "b", "b0", "b016", "b16t0", "b16x8", "B16t8", "b16t8 ", " ar", "ar\n", "c0", "n", "b-8", "b16t8t4"],
)
def test_unknown_budgets_are_refused(text: str) -> None:
    with pytest.raises(SpecError, match="unknown budget"):
        parse_arm(text)


@pytest.mark.parametrize(
    "variant", [{"TP": "1"}, {"tp": ""}, {"tp": "a-b"}, {"tp": "../x"}, {"t p": "1"}, {"t": "1\n"}]
)
def test_variants_that_cannot_be_spelled_are_refused(variant: dict[str, str]) -> None:
    with pytest.raises(SpecError, match="cannot be part of a cell id"):
        spelled("ar", variant=variant)


def test_id_is_a_function_of_coordinates_and_defaults_alone() -> None:
    where = Coordinates(
        budget=16, topk=8, shape="tree", graph="graph", nvls="nvls", tier="full", engine_source="pr29907", variant={}
    )
    assert cell_id(where, B300) == "sm_103-b16t8-graph-nvls"
    other = Defaults(architecture="sm_103", tier="small", engine_source="stock")
    assert cell_id(where, other) == "sm_103-b16t8-graph-nvls+full+pr29907"
