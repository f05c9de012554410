"""The matrix as a grid."""

from pathlib import Path
from types import SimpleNamespace

from report.grid import grid, places
from report.load import load


def test_rows_are_arms_and_columns_are_modes(all_states: Path) -> None:
    table = grid(load([all_states]).newest()[0])
    assert table.columns == ("graph · nonvls", "graph · nvls", "eager · nonvls", "eager · nvls")
    assert [row.label for row in table.rows] == ["ar", "c7", "b8t4", "b12t4", "b16t8", "b16t8+tp1", "b32t8"]


def test_every_cell_and_every_skip_has_its_place(all_states: Path) -> None:
    run = load([all_states]).newest()[0]
    shown = [place.cell for row in grid(run).rows for column in row.places for place in column]
    assert sorted(shown) == sorted(place.cell for place in places(run))
    assert {place.word for place in places(run)} >= {"not_run", "deselected", "over_budget", "corrupt", "pass"}


def test_an_id_that_is_not_spelled_as_ids_are_is_not_lost(tmp_path: Path, make: SimpleNamespace) -> None:
    skip = make.Skip(cell="strange", state="unsupported", reason="who knows", source=None)
    make.write_run(tmp_path, make.run_record(), [], planned={"cpu-n8-verify-eager-nonvls": 1}, skips=[skip])
    table = grid(load([tmp_path]).newest()[0])
    assert table.columns == ("verify-eager · nonvls", "other")
    assert [row.label for row in table.rows] == ["n8", "strange"]
