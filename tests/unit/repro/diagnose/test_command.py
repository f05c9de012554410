"""`python -m repro diagnose`: files of all sorts in, one screen or one record out."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import zstandard

from repro import codec
from repro.cli import main
from repro.diagnose import Log, diagnose
from repro.model import Diagnosis

ILLEGAL = "RuntimeError: CUDA error: an illegal memory access was encountered\n"
READY = "[2026-01-01 00:00:00] The server is fired up and ready to roll!\n"


def record(capsys: Any, *arguments: str) -> Diagnosis:
    assert main(["diagnose", *arguments, "--json"]) == 0
    return codec.decode(json.loads(capsys.readouterr().out), Diagnosis, where="stdout")


@pytest.mark.parametrize("pack", [lambda data: data, gzip.compress, zstandard.compress], ids=["plain", "gzip", "zstd"])
def test_packed_logs_are_read(tmp_path: Path, capsys: Any, pack: Any) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(pack(f"{READY}{ILLEGAL}".encode()))
    found = record(capsys, str(log), "--exit-status", "1")
    assert (found.kind, found.phase, found.evidence[0].line) == ("cuda_illegal_memory_access", "serving", 2)


def test_a_packed_log_that_breaks_off_is_read_as_far_as_it_goes(tmp_path: Path, capsys: Any) -> None:
    log = tmp_path / "server.log.gz"
    log.write_bytes(gzip.compress(f"{ILLEGAL * 3}{'x' * 99}".encode())[:-8])
    assert record(capsys, str(log)).kind == "cuda_illegal_memory_access"


@pytest.mark.parametrize(
    ("data", "status", "kind"),
    [
        (b"", "0", "unknown"),
        (b"", "1", "unknown"),
        (b"\x00" * 1000, "1", "unknown"),
        (b"\xff\xfe\x00\x9f" * 1000, "1", "unknown"),
        (b"x" * 3_000_000, "1", "unknown"),
        (b"building wheels\nall done\n", "0", "ok"),
        (b"nothing of note\n", "-9", "killed_by_signal_9"),
        (b"nothing of note\n", "137", "killed_by_signal_9"),
        (b"nothing of note\n", "139", "segfault"),
        (b"nothing of note\n", "143", "external_kill"),
        (b"nothing of note\n", "124", "hang_deadlock"),
    ],
)
def test_logs_that_say_nothing(tmp_path: Path, capsys: Any, data: bytes, status: str, kind: str) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(data)
    found = record(capsys, str(log), "--exit-status", status)
    assert found.kind == kind
    assert found.confidence == "low"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["diagnose"], "LOG"),
        (["diagnose", "none.log"], "none.log: cannot be read (No such file or directory)"),
        (["diagnose", "."], "is a directory"),
        (["diagnose", "bad.json", "--probes", "bad.json"], "is not JSON"),
        (["diagnose", "bad.json", "--exit-status", "many"], "no exit status"),
        (["diagnose", "bad.json", "--kernel-log", "none"], "none: cannot be read"),
    ],
)
def test_bad_input_gets_one_line(
    tmp_path: Path, monkeypatch: Any, capsys: Any, arguments: list[str], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.json").write_text("{")
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert says in said.err
    assert said.err.count("\n") == 1


def test_unknown_probes_are_named_and_do_no_harm(tmp_path: Path, capsys: Any) -> None:
    log, probes = tmp_path / "server.log", tmp_path / "probes.json"
    log.write_text(READY)
    probes.write_text(json.dumps({"accept_len": 1.0, "phase_of_the_moon": 3}))
    assert main(["diagnose", str(log), "--exit-status", "0", "--probes", str(probes)]) == 0
    said = capsys.readouterr()
    assert "accept_length_collapse" in said.out
    assert "phase_of_the_moon" in said.err


def test_the_text_fits_a_screen(case: Any, capsys: Any) -> None:
    status = [] if case.exit_status is None else ["--exit-status", str(case.exit_status)]
    assert main(["diagnose", str(case.log), *status]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 200
    assert any(line.startswith("Next: ") for line in lines)


def test_the_first_of_several_launches_decides_and_the_rest_is_said(tmp_path: Path) -> None:
    launch = "[2026-01-01 00:00:00] server_args=ServerArgs(model_path='/m')\n"
    log = tmp_path / "server.log"
    log.write_text((launch + READY + ILLEGAL + "SIGQUIT received. signum=None, frame=None.\n") * 3)
    found = diagnose([Log(path=log)], exit_status=1)
    assert (found.kind, found.phase, found.evidence[0].line) == ("cuda_illegal_memory_access", "serving", 3)
    assert "3 launches" in found.next_step


@pytest.mark.parametrize(
    ("before", "confidence", "says"),
    [
        ("", "low", "the log does not show in which phase"),
        (READY, "high", "GPU memory ran out while serving"),
    ],
    ids=["head cut off", "serving"],
)
def test_memory_that_ran_out_nobody_knows_when(
    tmp_path: Path, capsys: Any, before: str, confidence: str, says: str
) -> None:
    log = tmp_path / "server.log"
    stop = "[2026-01-01 00:00:09] SIGTERM received. signum=None frame=None. Draining requests and shutting down...\n"
    log.write_text(f"{before}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n{stop}")
    assert record(capsys, str(log), "--exit-status", "1").confidence == confidence
    assert main(["diagnose", str(log), "--exit-status", "1"]) == 0
    text = capsys.readouterr().out
    assert says in text
    assert ("set up" in text, "phase not shown" in text) == (False, not before)


def test_a_clock_behind_bars_of_progress_shows_that_the_newest_line_is_first(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    bar = "Downloading shards:  50%|#####     |\r" * 8
    lines = ["[2026-01-01 00:00:02 TP0] Load weight begin. avail mem=138.6 GB", "[2026-01-01 00:00:01] Init"]
    lines += ["[2026-01-01 00:00:00] server_args=ServerArgs(model_path='/m')"]
    log.write_text(ILLEGAL + "".join(f"{bar}{line}\n" for line in lines))
    assert diagnose([Log(path=log)], exit_status=1).phase == "weights_load"


def test_of_two_servers_in_one_log_the_one_that_was_not_stopped_in_good_order_was_killed(tmp_path: Path) -> None:
    stop = "[2026-01-01 00:00:09] SIGTERM received. signum=None frame=None. Draining requests and shutting down...\n"
    loading = "[2026-01-01 00:00:02 TP0] Load weight begin. avail mem=138.6 GB\n"
    lines = [f"llm-1-1  | {READY}", f"llm-0-1  | {loading}", f"llm-1-1  | {stop}", f"llm-0-1  | {stop}"]
    log = tmp_path / "server.log"
    log.write_text("".join(lines))
    found = diagnose([Log(path=log)], exit_status=-15)
    assert (found.kind, found.phase, found.evidence[0].line) == ("external_kill", "weights_load", 4)


def test_a_line_that_its_collector_named_goes_on_with_no_wrapped_one(tmp_path: Path) -> None:
    other = "llm-1-1  | " + "x" * 69 + "\n" + "y" * 9 + "\n"
    log = tmp_path / "server.log"
    log.write_text(
        "llm-0-1  | Usage: trtllm-serve serve [OPTIONS] MODEL\n"
        + other * 3
        + "llm-1-1  | "
        + "x" * 69
        + "\nllm-0-1  | Error: No such option: --max_batchsize Did you mean --max_batch_size?\n"
    )
    found = diagnose([Log(path=log)], exit_status=2)
    assert (found.kind, found.evidence[0].line) == ("argparse_error", 9)


def test_words_before_a_colon_behind_a_stamp_are_no_unit(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    said = ["Downloading shards:  50%|#####", "[--enable-nccl-nvls]", "Downloading shards: 100%|#####", "[--port PORT]"]
    said.append("launch_server.py: error: unrecognized arguments: --reasoning_parser kimi_k2")
    log.write_text("".join(f"2026-05-04T00:00:0{n}.123456789Z {text}\n" for n, text in enumerate(said)))
    assert diagnose([Log(path=log)], exit_status=2).kind == "argparse_error"
