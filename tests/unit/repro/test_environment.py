"""The comparability key."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repro.environment import KEY_FIELDS, common_facts, compare_keys, key_facts
from repro.model import Fact


def known(**values: str | float) -> dict[str, Fact]:
    return {name: Fact(value=value, status="verified", reason=None) for name, value in values.items()}


def everything(**changes: str | float) -> dict[str, Fact]:
    values: dict[str, str | float] = {name: f"some {name}" for name in KEY_FIELDS} | {"gpu_count": 8}
    return known(**(values | changes))


def test_equal_and_known_is_comparable() -> None:
    assert compare_keys(everything(), everything()) == ("comparable", (), (), ())


def test_a_known_difference_is_told_with_both_sides() -> None:
    found = compare_keys(everything(architecture="cpu"), everything(architecture="sm_103"))
    assert found.state == "not_comparable"
    assert found.reasons == ("architecture is cpu here and sm_103 there",)


@pytest.mark.parametrize("side", ["here", "there"])
@pytest.mark.parametrize("field", [name for name in KEY_FIELDS if not name.startswith("cpu_")])
def test_a_fact_that_one_side_does_not_state_leaves_it_unverified(field: str, side: str) -> None:
    partial = everything()
    partial[field] = Fact(value=None, status="unknown", reason="nvidia-smi is not installed")
    sides = (partial, everything()) if side == "here" else (everything(), partial)
    assert compare_keys(*sides) == ("unverified", (), (field,), ())


def test_a_missing_fact_is_as_unknown_as_one_that_says_so() -> None:
    partial = everything()
    del partial["dtype"]
    assert compare_keys(partial, everything()).unknowns == ("dtype",)


def test_a_difference_outweighs_what_is_unknown() -> None:
    partial = everything(model="another")
    del partial["dtype"]
    found = compare_keys(partial, everything())
    assert (found.state, found.unknowns) == ("not_comparable", ("dtype",))


@pytest.mark.parametrize("written", ["Kimi K2.6", "moonshotai/Kimi-K2.6", "kimi_k2.6", " moonshotai/kimi-K2.6 "])
def test_a_model_is_the_same_however_its_name_is_written(written: str) -> None:
    assert compare_keys(everything(model=written), everything(model="Kimi K2.6")).state == "comparable"


def test_a_quantised_model_is_another_one() -> None:
    assert compare_keys(everything(model="Kimi-K2.6-FP4"), everything(model="Kimi K2.6")).state == "not_comparable"


def test_without_a_gpu_on_either_side_the_processor_counts_instead() -> None:
    ours, theirs = everything(gpu_count=0), everything(gpu_count=0)
    for side in (ours, theirs):
        del side["gpu_name"], side["gpu_driver"]
    assert compare_keys(ours, theirs).state == "comparable"
    assert compare_keys(ours | known(cpu_model="other"), theirs).state == "not_comparable"


def test_with_gpus_the_processor_does_not_count() -> None:
    assert compare_keys(everything(cpu_model="other"), everything()).state == "comparable"


def test_without_speculation_the_draft_does_not_count() -> None:
    other = everything(draft_model="other", window=2048)
    assert compare_keys(other, everything()).state == "not_comparable"
    assert compare_keys(other, everything(), drafts=False).state == "comparable"


def test_a_recorded_fact_outranks_a_declared_one() -> None:
    facts = key_facts(known(architecture="sm_120"), known(architecture="sm_103", model="m"))
    assert facts["architecture"].value == "sm_120"
    assert facts["model"].value == "m"
    assert facts["dtype"].status == "unknown"


def test_an_unknown_recorded_fact_leaves_room_for_the_declared_one() -> None:
    recorded = {"gpu_count": Fact(value=None, status="unknown", reason="no nvidia-smi")}
    assert key_facts(recorded, known(gpu_count=0))["gpu_count"].value == 0


def test_what_differs_between_attempts_is_unknown_for_the_cell() -> None:
    facts = common_facts([known(gpu_driver="580.1"), known(gpu_driver="580.2")])
    assert facts["gpu_driver"].status == "unknown"
    assert facts["gpu_driver"].reason == "not the same in all attempts: 580.1, 580.2"


facts = st.dictionaries(st.sampled_from(KEY_FIELDS), st.sampled_from(["a", "b"])).map(lambda values: known(**values))


@given(facts, facts)
def test_both_orders_agree(ours: dict[str, Fact], theirs: dict[str, Fact]) -> None:
    one, other = compare_keys(ours, theirs), compare_keys(theirs, ours)
    assert (one.state, one.unknowns) == (other.state, other.unknowns)
