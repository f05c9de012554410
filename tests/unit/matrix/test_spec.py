"""Specs: the four that ship, and what a wrong one is told."""

from importlib import resources

import pytest

from matrix.expand import NO_NVSWITCH, SINGLE_RANK, expand, reference_cell
from matrix.spec import Spec, built_in_specs, load_spec, parse_spec
from repro.errors import SpecError


def text_of(name: str) -> str:
    return (resources.files("matrix") / "specs" / f"{name}.toml").read_text(encoding="utf-8")


def changed(name: str, *changes: tuple[str, str]) -> Spec:
    text = text_of(name)
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    return parse_spec(text.encode(), origin="mine.toml")


def test_all_built_in_specs_load() -> None:
    assert built_in_specs() == ("b300", "cpu", "rtxpro6000", "sim")
    for name in built_in_specs():
        spec = load_spec(name)
        assert spec.target == name
        assert len(expand(spec)) == len({entry.cell.id for entry in expand(spec)})
        assert reference_cell(spec).id in {entry.cell.id for entry in expand(spec)}
        assert len(spec.sha256) == 64


def test_every_cell_beside_the_matrix_says_why() -> None:
    for name in built_in_specs():
        for entry in expand(load_spec(name)):
            assert (entry.why is None) == (entry.role == "cell")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("max_running_requests =", "max_runing_requests =", "/deployment: .*did you mean 'max_running_requests'"),
        ("title =", "titel =", "did you mean 'title'"),
        ("[deployment.environment]", "[deployment.enviroment]", "did you mean 'environment'"),
        ('"b16t8"', '"b16x8"', r"/axes/budget/3: 'b16x8' is not: a budget \(ar, b<budget>t<top-k>"),
        ('graph = ["graph", "eager"]', 'graph = ["grph"]', "/axes/graph/0: 'grph' is not one of"),
        ("schema_version = 1", "schema_version = 2", "newer than this graphrepro, which reads 1: upgrade"),
        ("count = 20", "count = 0", "/load/count"),
        ("tie_margin = 1e-3", "tie_margin = inf", "/load/tie_margin"),
        ("tie_margin = 1e-3", "tie_margin = 2020-01-01", "date"),
        ('"ar", "b8t4"', '"b8t4"', "`ar` is missing"),
        ('[reference]\ngraph = "eager"', '[reference]\ngraph = "verify-eager"', "/reference"),
        ('name = "sglang"', 'name = "simulated"', "/engine/script: needed"),
    ],
)
def test_wrong_specs_are_told_where_and_what(old: str, new: str, told: str) -> None:
    with pytest.raises(SpecError, match=told) as problem:
        changed("cpu", (old, new))
    assert "mine.toml" in str(problem.value)
    assert "\n" not in str(problem.value)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "is empty"),
        (b"# only words\n", "is empty"),
        (b"\xff\xfe", "not UTF-8 at byte 0"),
        (b"a = 1\nb = \n", r"not TOML: .*line 2"),
        (b"a = 1\na = 2\n", "line 2"),
        (b"a = " + b"[" * 20_000, "not TOML"),
        (b"a = 1\n", "spec mine.toml"),
    ],
)
def test_what_is_no_spec_at_all(data: bytes, told: str) -> None:
    with pytest.raises(SpecError, match=told) as problem:
        parse_spec(data, origin="mine.toml")
    assert "\n" not in str(problem.value)


def test_duplicate_cells_name_both_places() -> None:
    extra = '[[include]]\nbudget = ["b8t4"]\nwhy = "again"\n\n[load]'
    with pytest.raises(SpecError, match=r"/include/2: duplicate cell cpu-b8t4-eager-nonvls, first made by /axes"):
        expand(changed("cpu", ("[load]", extra)))


def test_a_rule_that_matches_nothing_is_an_error() -> None:
    for kind in ("unsupported", "exclude"):
        rule = f'[[{kind}]]\nmatch = "cpu-b17*"\nreason = "r"\nsource = "s"\n\n[load]'
        with pytest.raises(SpecError, match=rf"/{kind}/\d/match: 'cpu-b17\*' matches no cell"):
            expand(changed("cpu", ("[load]", rule)))


def test_globs_match_whole_ids_and_their_case() -> None:
    for glob in ("b8t4", "CPU-*", "cpu-b8t4-eager-nonvl"):
        rule = f'[[exclude]]\nmatch = "{glob}"\nreason = "r"\nsource = "s"\n\n[load]'
        with pytest.raises(SpecError, match="matches no cell"):
            expand(changed("cpu", ("[load]", rule)))


def test_the_hardware_rules_give_a_reason_and_a_source() -> None:
    without = {entry.cell.id: entry.unsupported for entry in expand(load_spec("rtxpro6000"))}
    assert without["sm_120-b16t8-graph-nvls"] == NO_NVSWITCH
    assert without["sm_120-b16t8-graph-nonvls"] is None
    single = '[[include]]\nbudget = ["b8t4"]\nnvls = ["nvls", "nonvls"]\nvariant = { tp = "1" }\nwhy = "w"\n\n[load]'
    with_one = {entry.cell.id: entry.unsupported for entry in expand(changed("b300", ("[load]", single)))}
    assert with_one["sm_103-b8t4-graph-nvls+tp1"] == SINGLE_RANK
    assert with_one["sm_103-b8t4-graph-nonvls+tp1"] is None


def test_unknown_targets_get_a_suggestion() -> None:
    with pytest.raises(SpecError, match="unknown target 'b30': did you mean 'b300'"):
        load_spec("b30")
