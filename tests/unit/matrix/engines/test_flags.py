"""The flag table against what is known of the releases, and what it says of a wrong command line."""

import itertools

import pytest

from matrix.engines.flags import FlagTable, read_table
from repro.errors import SpecError

TABLE = FlagTable.load()

# One release of each column that was opened by hand, oldest first.
OPENED = (
    "0.5.9",
    "0.5.10.post1",
    "0.5.11",
    "0.5.12.post1",
    "0.5.13.post1",
    "0.5.14",
    "0.5.15.post1",
    "0.5.16",
    "0.5.17",
    "0.5.18",
    "0.5.20",
    "0.5.22",
    "0.5.23",
)
KNOWN = {
    "cuda-graph-max-bs": "YYYYYYYYYY---",
    "cuda-graph-bs": "YYYYYYYYYY---",
    "cuda-graph-config": "-----YYYYYYYY",
    "cuda-graph-backend-decode": "-----YYYYYYYY",
    "cuda-graph-max-bs-decode": "-----YYYYYYYY",
    "cuda-graph-bs-decode": "-----YYYYYYYY",
    "debug-cuda-graph": "--YYYYYYYYYYY",
    "disable-piecewise-cuda-graph": "-YYYYYYYYY---",
    "speculative-dflash-block-size": "--YYYYYYYYYYY",
    "speculative-dflash-draft-window-size": "--YYYYYYYY---",
    "speculative-draft-window-size": "---YYYYYYYYYY",
    "flashinfer-allreduce-fusion-backend": "-----YYYYYYYY",
    "speculative-ddtree-budget": "-------------",
    **dict.fromkeys(
        (
            "disable-cuda-graph",
            "disable-cuda-graph-padding",
            "enable-nccl-nvls",
            "enable-symm-mem",
            "enable-torch-symm-mem",
            "enable-mscclpp",
            "disable-custom-all-reduce",
            "speculative-num-draft-tokens",
            "speculative-eagle-topk",
            "enable-metrics",
            "random-seed",
            "enable-deterministic-inference",
            "page-size",
        ),
        "YYYYYYYYYYYYY",
    ),
}


@pytest.mark.parametrize("flag", KNOWN)
def test_availability_is_what_was_read_by_hand(flag: str) -> None:
    assert "".join("Y" if TABLE.has(version, flag) else "-" for version in OPENED) == KNOWN[flag]


def test_every_stable_release_is_there_in_order() -> None:
    assert len(TABLE.versions) == 19
    assert TABLE.versions[0] == "0.5.9"
    assert TABLE.newest() == "0.5.23"
    assert TABLE.versions.index("0.5.15") + 1 == TABLE.versions.index("0.5.15.post1")
    pins = {release.version: release.torch for release in TABLE.releases}
    assert (pins["0.5.10"], pins["0.5.17"], pins["0.5.20"], pins["0.5.23"]) == ("2.9.1", "2.11.0", "2.13.0", "2.14.1")


def test_what_a_flag_takes() -> None:
    assert TABLE.takes("0.5.23", "--enable-nccl-nvls") == "nothing"
    assert not TABLE.takes_value("0.5.23", "enable-nccl-nvls")
    assert TABLE.takes("0.5.23", "--page-size") == "value"
    assert TABLE.takes("0.5.23", "--cuda-graph-bs-decode") == "values"
    assert TABLE.takes("0.5.9", "--disable-cuda-graph") == "nothing"
    assert (
        TABLE.takes("0.5.23", "--no-enable-fp32-lm-head") == "nothing"
        if TABLE.has("0.5.23", "--no-enable-fp32-lm-head")
        else True
    )
    with pytest.raises(SpecError, match="no flag --nonsense"):
        TABLE.takes("0.5.23", "nonsense")


def test_an_alias_names_its_flag() -> None:
    assert TABLE.has("0.5.23", "--tensor-parallel-size")
    assert TABLE.flags["--tensor-parallel-size"][-1].alias_of == "--tp-size"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--page-size", "1", "--enable-metrics"], []),
        (["--page-size=1"], []),
        (["--cuda-graph-bs-decode", "1", "2", "4"], []),
        (["--cuda-graph-max-bs", "128"], ["ambiguous: --cuda-graph-max-bs-decode, --cuda-graph-max-bs-prefill"]),
        (["--enable-nccl-nvl"], ["silently take it for --enable-nccl-nvls"]),
        (["--speculative-dflash-draft-window-size", "8"], ["it was there from 0.5.11 to 0.5.19"]),
        (["--pagesize", "1"], ["did you mean --page-size?"]),
        (["--zzz"], ["SGLang 0.5.23 has no flag --zzz"]),
        (["--cuda-graph-backend-decode", "tc_piecewise"], ["knows only full, breakable, disabled"]),
        (["--enable-metrics", "yes"], ["takes no value"]),
        (["--page-size"], ["needs a value"]),
        (["--page-size", "1", "2"], ["takes one value, but 2 follow it"]),
        (["stray", "--page-size", "1"], ["'stray' is no flag"]),
        (["--model-path", "{model}"], []),
    ],
)
def test_command_lines(words: list[str], said: list[str]) -> None:
    problems = TABLE.check_argv("0.5.23", words)
    assert len(problems) == len(said)
    for problem, part in zip(problems, said, strict=True):
        assert part in problem


def test_a_private_build_adds_and_removes_flags() -> None:
    words = ["--speculative-ddtree-budget", "16"]
    assert TABLE.check_argv("0.5.15.post1", words)
    assert TABLE.check_argv("0.5.15.post1", words, added={"speculative-ddtree-budget": True}) == ()
    assert "needs a value" in TABLE.check_argv("0.5.15.post1", words[:1], added={"speculative-ddtree-budget": True})[0]
    assert TABLE.check_argv("0.5.15.post1", ["--page-size", "1"], removed=["page-size"])


def test_an_unknown_release_names_its_nearest() -> None:
    with pytest.raises(
        SpecError, match=r"unknown SGLang release '0\.5\.24': did you mean '0\.5\.2.'\? known: 0\.5\.9, "
    ):
        TABLE.has("0.5.24", "page-size")


def test_spans_do_not_overlap_and_stay_in_order() -> None:
    for spans in TABLE.flags.values():
        places = [place for span in spans for place in (span.first, span.last)]
        assert places == sorted(places)
        assert all(before.last < after.first for before, after in itertools.pairwise(spans))


def test_a_table_is_checked_when_read() -> None:
    with pytest.raises(ValueError, match=r"here\.json"):
        read_table({"releases": [], "flags": {}}, "here.json")
