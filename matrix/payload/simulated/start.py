"""The start of the server, phase by phase, with the log lines by which a reader can tell the phases apart."""

import signal
import time
from typing import NoReturn

from simulated import death
from simulated.configuration import Configuration
from simulated.log import Log
from simulated.script import Behaviour

_NEWLINE_FREE_CHUNK = b"\x00\xff progress 42% \r" * 4096


def ascend(configuration: Configuration, behaviour: Behaviour, log: Log) -> None:
    """All that comes before the HTTP server listens. Does not return where a fault ends the start."""
    faults = behaviour.faults
    log.line(f"server_args={configuration.options}")
    if "orphan" in faults:
        death.leave_orphans(faults["orphan"])
    log.each_rank("Init parallel begin.")
    _spend(behaviour, "launch", log, hang="hang-launch", crash="crash-launch")
    log.each_rank("Init parallel ends. elapsed=0.02 s")
    _load_weights(behaviour, log)
    if configuration.graphs:
        _capture(configuration, behaviour, log)
    else:
        log.each_rank("Disable decode CUDA graph because cuda_graph_config resolved decode.backend='disabled'.")
    log.line(
        "max_total_num_tokens=404777, chunked_prefill_size=8192, max_prefill_tokens=16384, "
        f"max_running_requests={configuration.options['max_running_requests']}, context_len=32768, "
        "available_gpu_mem=10.84 GB",
        scheduler=True,
    )


def _load_weights(behaviour: Behaviour, log: Log) -> None:
    log.each_rank("Load weight begin. avail mem=93.60 GB")
    log.raw(b"\rMulti-thread loading shards:   0% Completed | 0/4 [00:00<?, ?it/s]")
    _spend(behaviour, "weights_load", log, hang="hang-weights", crash="crash-weights")
    log.raw(b"\rMulti-thread loading shards: 100% Completed | 4/4 [00:00<00:00, 61.56it/s]\n")
    log.each_rank("Load weight end. elapsed=0.03 s, type=SimulatedForCausalLM, avail mem=61.82 GB, mem usage=31.78 GB.")
    log.each_rank("KV Cache is allocated. dtype: torch.bfloat16, #tokens: 404777, K size: 24.71 GB, V size: 24.71 GB")
    log.each_rank("Memory pool end. avail mem=10.90 GB")


def _capture(configuration: Configuration, behaviour: Behaviour, log: Log) -> None:
    name = "target verify" if configuration.algorithm else "target decode"
    log.each_rank(
        f"Capture {name} CUDA graph begin. backend=full, num_tokens_per_req={configuration.width}, avail mem=10.90 GB"
    )
    for _ in range(behaviour.faults.get("log-flood", 0) * (1 << 20) // len(_NEWLINE_FREE_CHUNK)):
        log.raw(_NEWLINE_FREE_CHUNK)
    sizes = sorted(configuration.graphs, reverse=True)
    for at, size in enumerate(sizes):
        log.raw(f"\rCapturing batches (bs={size} avail_mem=10.90 GB): {at}/{len(sizes)}".encode())
    log.raw(b"\n")
    _spend(behaviour, "graph_capture", log, hang="hang-capture", crash="crash-capture")
    if "oom-capture" in behaviour.faults:
        death.of_the_scheduler(log, "oom-capture")
    log.each_rank(
        f"Capture {name} CUDA graph end. bs={list(configuration.graphs)}, elapsed=5.38 s, "
        f"mem usage={0.11 * len(sizes):.2f} GB, avail mem=10.13 GB."
    )


def _spend(behaviour: Behaviour, phase: str, log: Log, *, hang: str, crash: str) -> None:
    time.sleep(behaviour.phases_s[phase])
    if hang in behaviour.faults:
        stand_still()
    if crash in behaviour.faults:
        death.of_the_scheduler(log, crash)


def stand_still() -> NoReturn:
    """Does nothing for ever."""
    while True:
        signal.pause()
