"""The GPUs around an attempt: what makes a host suspect, and what an illegal memory access leaves behind."""

import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from matrix.host.commands import Answer
from matrix.preflight.gpus import GpusUnknownError
from matrix.preflight.health import GpuWatch, kernel_log, merged, suspicion, xids_in
from matrix.preflight.limited import LimitedGpus
from matrix.preflight.nvml import NvmlGpus
from repro import codec
from repro.model import GpuHealth, Xid

BUSES = {"00000000:1B:00.0": 0, "00000000:2B:00.0": 1}


def logged(code: int, rest: str = "pid=4711, name=python3, Ch 00000008", bus: str = "0000:1b:00") -> str:
    return f"[ 1234.5] NVRM: Xid (PCI:{bus}): {code}, {rest}\n"


def test_xids_in_a_kernel_log() -> None:
    text = (
        "kernel: something else\n"
        + logged(31, "pid=4711, name=sglang::schedul, Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS")
        + logged(79, "GPU has fallen off the bus.", bus="0000:2b:00.0")
        + "NVRM: Xid (0000:99:00): 13, Graphics Exception\n"
        + "NVRM: Xid (PCI:0000:1b:00): not a number\n"
    )
    found = xids_in(text, BUSES)
    assert [(xid.code, xid.gpu) for xid in found] == [(31, 0), (79, 1), (13, None)]
    assert found[0].text.startswith("NVRM: Xid (PCI:0000:1b:00): 31, pid=4711")


@pytest.mark.parametrize("code", [13, 31, 43, 45])
def test_what_an_illegal_access_looks_like_is_no_suspicion(code: int) -> None:
    assert suspicion((), (), xids_in(logged(code), BUSES)) == ()
    assert suspicion((), (), (Xid(code=code, gpu=0, text="NVML event"),)) == ()


@pytest.mark.parametrize("code", [48, 63, 64, 79, 94, 95])
def test_what_hardware_reports_is_a_suspicion(code: int) -> None:
    (told,) = suspicion((), (), xids_in(logged(code), BUSES))
    assert told.startswith(f"GPU 0: Xid {code} (")


@pytest.mark.parametrize(
    ("rest", "told"),
    [
        ("GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)", "recovery: GPU Reset Required"),
        ("GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)", "recovery: Node Reboot Required"),
        ("GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)", None),
        ("a text of a later driver", None),
    ],
)
def test_xid_154_counts_by_the_action_that_it_asks_for(rest: str, told: str | None) -> None:
    found = suspicion((), (), xids_in(logged(154, rest), BUSES))
    assert found == ((f"GPU 0: Xid 154 ({told})",) if told else ())


def test_each_xid_counts_once_and_in_the_words_of_the_log() -> None:
    log = xids_in(logged(79, "GPU has fallen off the bus."), BUSES)
    events = [Xid(code=79, gpu=0, text="NVML event"), Xid(code=48, gpu=1, text="NVML event")]
    assert merged([*events, *events], log) == (log[0], events[1])


def around(host: Any, nvml: ModuleType, during: Callable[[], object], log: str | None = "") -> GpuHealth:
    nvml.load(host.data["nvml"])
    end = GpuWatch(NvmlGpus(nvml, ours=lambda pid: pid == 42), lambda: lambda: log).begin()
    during()
    found = end()
    assert found is not None
    codec.encode(found)
    return found


def test_a_healthy_host_with_all_gpus_on_record(b300: Any, nvml: ModuleType) -> None:
    def leave_memory() -> None:
        b300.gpus[5]["processes"] = [{"pid": 42, "memory_mib": 100}, {"pid": 43, "memory_mib": 9000}]

    found = around(b300, nvml, leave_memory)
    assert (found.suspect, found.xids, found.unknown) == ((), (), ())
    assert (len(found.before), len(found.after)) == (8, 8)
    assert found.before[5].processes == ()
    assert [(p.pid, p.memory_mib, p.ours) for p in found.after[5].processes] == [(42, 100.0, True), (43, 9000.0, False)]
    assert found.after[5].memory_used_mib == 9104.0
    assert found.after[0].temperature_c == 33.0
    assert found.after[0].recovery_action == "none"


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"ecc_uncorrected": 1}, "GPU 3: 1 uncorrectable memory errors"),
        ({"remapped_rows": [0, 1, 1, 0]}, "GPU 3: a memory row waits to be remapped"),
        ({"remapped_rows": [0, 1, 0, 1]}, "GPU 3: a memory row could not be remapped"),
        ({"recovery_action": 1}, "GPU 3: the driver asks for: gpu_reset"),
        ({"recovery_action": 99}, "GPU 3: the driver asks for: unknown_99"),
        ({"lost": True}, "GPU 3: the driver asks for: gpu_lost"),
    ],
)
def test_what_happens_to_the_hardware_during_an_attempt(
    b300: Any, nvml: ModuleType, values: dict[str, Any], told: str
) -> None:
    assert around(b300, nvml, lambda: b300.gpus[3].update(values)).suspect == (told,)


def test_an_xid_event_of_nvml(b300: Any, nvml: ModuleType) -> None:
    found = around(b300, nvml, lambda: nvml.EVENTS.extend([(2, 31), (2, 79)]))
    assert [(xid.code, xid.gpu) for xid in found.xids] == [(31, 2), (79, 2)]
    assert found.suspect == ("GPU 2: Xid 79 (fallen off the bus)",)


def test_an_xid_of_the_kernel_log(b300: Any, nvml: ModuleType) -> None:
    assert around(b300, nvml, lambda: None, logged(95, "x", "0000:3b:00")).suspect == (
        "GPU 2: Xid 95 (uncontained memory error)",
    )


def test_a_driver_that_stops_answering(b300: Any, nvml: ModuleType) -> None:
    class Dies:
        def __init__(self) -> None:
            self.inner = NvmlGpus(nvml)
            self.asked = 0

        def read(self) -> Any:
            self.asked += 1
            if self.asked > 1:
                raise GpusUnknownError("NVML: Unknown Error")
            return self.inner.read()

        def watch(self) -> Any:
            raise GpusUnknownError("Xid events: Not Supported")

    nvml.load(b300.data["nvml"])
    found = GpuWatch(Dies(), lambda: lambda: None).begin()()
    assert found is not None
    assert found.suspect == ("the driver no longer answers (NVML: Unknown Error)",)
    assert any("neither NVML's events nor the kernel log" in text for text in found.unknown)


def test_no_driver_at_all_is_unknown_and_no_suspicion(b300: Any, nvml: ModuleType) -> None:
    b300.data["nvml"]["init_error"] = "NVML Shared Library Not Found"
    found = around(b300, nvml, lambda: None, None)
    assert (found.suspect, found.before, found.after) == ((), (), ())
    assert "NVML: NVML Shared Library Not Found" in found.unknown


def test_an_old_driver_knows_no_recovery_action(b300: Any, nvml: ModuleType) -> None:
    for gpu in b300.gpus:
        gpu["recovery_action"] = None
    found = around(b300, nvml, lambda: None)
    assert found.after[0].recovery_action is None
    assert found.suspect == ()


def test_a_driver_that_hangs_is_left_alone(b300: Any, nvml: ModuleType) -> None:
    release = threading.Event()

    class Hangs(NvmlGpus):
        asked = 0

        def read(self) -> Any:
            Hangs.asked += 1
            if Hangs.asked > 1:
                release.wait()
            return super().read()

    nvml.load(b300.data["nvml"])
    end = GpuWatch(LimitedGpus(Hangs(nvml), limit_s=0.5), lambda: lambda: "").begin()
    found, again = end(), end()
    release.set()
    assert found is not None
    assert again is not None
    assert found.suspect == ("the driver no longer answers (the driver did not answer within 0.5 s)",)
    assert "not asked again" in again.suspect[0]
    assert Hangs.asked == 2


def test_a_limit_passes_on_what_is_said_in_time(nvml: ModuleType) -> None:
    nvml.load({"init_error": "Driver Not Loaded"})
    with pytest.raises(GpusUnknownError, match="Driver Not Loaded"):
        LimitedGpus(NvmlGpus(nvml)).read()


class Journal:
    def __init__(self, last: str, since: str, status: int = 0) -> None:
        self.last, self.since, self.status, self.asked = last, since, status, [""]

    def path(self, program: str) -> str | None:
        return program

    def run(self, argv: Any, timeout_s: float) -> Answer:
        self.asked.append(" ".join(argv))
        return Answer(status=self.status, out=self.last if "--lines=1" in argv else self.since, said="")


def test_the_kernel_log_since_the_attempt_began() -> None:
    journal = Journal("some line\n", logged(79))
    read = kernel_log(journal, lambda: 1234.9)()
    assert read() == logged(79)
    assert "--since=@1234" in journal.asked[-1]


@pytest.mark.parametrize("journal", [Journal("", ""), Journal("", "", status=1)])
def test_a_kernel_log_that_this_user_may_not_read(journal: Journal) -> None:
    assert kernel_log(journal, lambda: 0.0)()() is None
