"""Stands in for nvidia-ml-py: answers from a file of a host, named by GRAPHREPRO_FAKE_NVML or given to `load`.

Only what graphrepro asks is here. A value of "lost" for a GPU makes every question about it fail as a GPU that has
fallen off the bus does; a value that the file does not have is "Not Supported", as on hardware without it.
"""

# ruff: noqa: N801, N816 - the names are those of the bindings

import json
import os
from pathlib import Path
from types import SimpleNamespace

NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0
NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC = 1, 0
NVML_FI_DEV_GET_GPU_RECOVERY_ACTION = 230
NVML_NVLINK_MAX_LINKS, NVML_NVLINK_DEVICE_TYPE_SWITCH = 36, 2
nvmlEventTypeXidCriticalError = 8


class NVMLError(Exception):
    """As in the bindings: the text is NVML's own."""


class c_nvmlGpuFabricInfo_v2_t:
    state = status = 0


HOST: dict = {}
EVENTS: list = []


def load(host: dict) -> None:
    HOST.clear()
    HOST.update(host)
    EVENTS.clear()


def nvmlInit() -> None:
    if not HOST and os.environ.get("GRAPHREPRO_FAKE_NVML"):
        load(json.loads(Path(os.environ["GRAPHREPRO_FAKE_NVML"]).read_text(encoding="utf-8"))["nvml"])
    if "init_error" in HOST:
        raise NVMLError(HOST["init_error"])


def _of(gpu: dict, name: str) -> object:
    if "lost" in gpu:
        raise NVMLError("GPU is lost")
    if gpu.get(name) is None:
        raise NVMLError("Not Supported")
    return gpu[name]


def nvmlSystemGetDriverVersion() -> str:
    return HOST["driver"]


def nvmlSystemGetCudaDriverVersion_v2() -> int:
    return HOST["cuda"]


def nvmlDeviceGetCount() -> int:
    return len(HOST["gpus"])


def nvmlDeviceGetHandleByIndex(index: int) -> dict:
    _of(HOST["gpus"][index], "name")
    return HOST["gpus"][index]


def _question(name: str, *, pick=lambda value: value):
    def ask(gpu: dict, *_: object) -> object:
        return pick(_of(gpu, name))

    return ask


nvmlDeviceGetName = _question("name")
nvmlDeviceGetPciInfo = _question("bus", pick=lambda bus: SimpleNamespace(busId=bus))
nvmlDeviceGetCudaComputeCapability = _question("capability", pick=tuple)
nvmlDeviceGetMigMode = _question("mig", pick=tuple)
nvmlDeviceGetEccMode = _question("ecc", pick=tuple)
nvmlDeviceGetPowerManagementDefaultLimit = _question("default_power_limit_mw")
nvmlDeviceGetEnforcedPowerLimit = _question("power_limit_mw")
nvmlDeviceGetPowerUsage = _question("power_mw")
nvmlDeviceGetMaxClockInfo = _question("max_sm_clock_mhz")
nvmlDeviceGetTemperature = _question("temperature_c")
nvmlDeviceGetCurrentClocksEventReasons = _question("clocks_event_reasons")
nvmlDeviceGetTotalEccErrors = _question("ecc_uncorrected")
nvmlDeviceGetRemappedRows = _question("remapped_rows", pick=tuple)


def nvmlDeviceGetMemoryInfo(gpu: dict) -> SimpleNamespace:
    used = sum(process["memory_mib"] for process in gpu.get("processes", ())) + _of(gpu, "reserved_mib")
    return SimpleNamespace(total=_of(gpu, "memory_mib") << 20, used=used << 20)


def nvmlDeviceGetClockInfo(gpu: dict, kind: int) -> object:
    return _of(gpu, "sm_clock_mhz" if kind == NVML_CLOCK_SM else "memory_clock_mhz")


def nvmlDeviceGetComputeRunningProcesses(gpu: dict) -> list:
    _of(gpu, "name")
    return [SimpleNamespace(pid=p["pid"], usedGpuMemory=p["memory_mib"] << 20) for p in gpu.get("processes", ())]


def nvmlDeviceGetFieldValues(gpu: dict, fields: list) -> list:
    assert fields == [NVML_FI_DEV_GET_GPU_RECOVERY_ACTION]
    _of(gpu, "name")
    known = gpu.get("recovery_action") is not None
    value = SimpleNamespace(uiVal=gpu.get("recovery_action") or 0)
    return [SimpleNamespace(nvmlReturn=0 if known else 3, value=value)]


def nvmlDeviceGetGpuFabricInfoV(gpu: dict, info: c_nvmlGpuFabricInfo_v2_t) -> int:
    info.state, info.status = _of(gpu, "fabric")
    return 0


def nvmlDeviceGetNvLinkState(gpu: dict, link: int) -> int:
    return int(link < _of(gpu, "switch_links"))


def nvmlDeviceGetNvLinkRemoteDeviceType(gpu: dict, link: int) -> int:
    return NVML_NVLINK_DEVICE_TYPE_SWITCH


def nvmlEventSetCreate() -> list:
    return []


def nvmlDeviceRegisterEvents(gpu: dict, kinds: int, events: list) -> None:
    _of(gpu, "name")


def nvmlEventSetWait(events: list, timeout_ms: int) -> SimpleNamespace:
    if not EVENTS:
        raise NVMLError("Timeout")
    gpu, code = EVENTS.pop(0)
    return SimpleNamespace(device=HOST["gpus"][gpu], eventData=code)


def nvmlEventSetFree(events: list) -> None:
    pass
