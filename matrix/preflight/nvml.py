"""The GPUs through NVML (nvidia-ml-py). No CUDA context is made, so an engine finds them untouched.

Every question is asked by itself: a GPU that has fallen off the bus, or a field that a driver does not know, costs that
answer and no other. Field meanings: NVIDIA's NVML API reference.
"""

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from matrix.preflight.gpus import Gpu, GpusUnknownError, Machine
from repro.model import GpuProcess, GpuState, Xid

_MIB = 1024 * 1024
RECOVERY = {
    0: "none",
    1: "gpu_reset",
    2: "node_reboot",
    3: "drain_p2p",
    4: "drain_and_reset",
    5: "recover_imex_domain",
    6: "bus_reset",
    7: "system_reboot",
}
"""nvmlGpuRecoveryAction_t."""
_FABRIC = {0: "not_supported", 1: "not_started", 2: "in_progress", 3: "completed"}
"""nvmlGpuFabricState_t."""
_THROTTLING = {0x8: "hw_slowdown", 0x20: "sw_thermal", 0x40: "hw_thermal", 0x80: "hw_power_brake"}
"""Bits of nvmlClocksEventReasons that mean trouble; a power cap or an idle GPU is none."""


class NvmlGpus:
    """``library``: the module `pynvml`, or what stands in for it; ``ours`` tells whether a process is the attempt's."""

    def __init__(self, library: Any | None = None, ours: Callable[[int], bool | None] = lambda _: None) -> None:
        if library is None:
            import pynvml

            library = pynvml
        self._nvml = library
        self._ours = ours
        self._begun = False

    def read(self) -> Machine:
        self._begin()
        unknown: list[str] = []
        nvml = self._nvml
        cuda = self._ask("CUDA version of the driver", unknown, nvml.nvmlSystemGetCudaDriverVersion_v2)
        count = int(self._ask("number of GPUs", unknown, nvml.nvmlDeviceGetCount) or 0)
        return Machine(
            driver=_text(self._ask("driver version", unknown, nvml.nvmlSystemGetDriverVersion)),
            cuda=None if cuda is None else f"{cuda // 1000}.{cuda % 1000 // 10}",
            gpus=tuple(self._gpu(index, unknown) for index in range(count)),
            unknown=tuple(unknown),
        )

    def watch(self) -> "NvmlXidWatch":
        self._begin()
        return NvmlXidWatch(self._nvml)

    def _begin(self) -> None:
        if self._begun:
            return
        try:
            self._nvml.nvmlInit()
        except self._nvml.NVMLError as problem:
            raise GpusUnknownError(f"NVML: {problem}") from None
        self._begun = True

    def _ask(self, what: str, unknown: list[str], question: Callable[..., Any], *arguments: Any) -> Any:
        """The answer, or None; what the GPU does not have is no answer missing."""
        try:
            return question(*arguments)
        except self._nvml.NVMLError as problem:
            if "not supported" not in str(problem).lower():
                unknown.append(f"{what}: {problem}")
            return None

    def _gpu(self, index: int, unknown: list[str]) -> Gpu:
        nvml = self._nvml
        handle = self._ask(f"GPU {index}", unknown, nvml.nvmlDeviceGetHandleByIndex, index)
        if handle is None:
            return _lost(index)

        def ask(what: str, name: str, *arguments: Any) -> Any:
            return self._ask(f"GPU {index}: {what}", unknown, getattr(nvml, name), handle, *arguments)

        memory, mig = ask("memory", "nvmlDeviceGetMemoryInfo"), ask("MIG", "nvmlDeviceGetMigMode")
        capability, pci = ask("capability", "nvmlDeviceGetCudaComputeCapability"), ask("bus", "nvmlDeviceGetPciInfo")
        ecc = ask("ECC mode", "nvmlDeviceGetEccMode")
        return Gpu(
            state=self._state(index, ask, memory),
            name=_text(ask("name", "nvmlDeviceGetName")) or "unknown",
            capability=None if capability is None else f"{capability[0]}.{capability[1]}",
            bus=(_text(pci.busId) or "").lower() if pci is not None else "",
            memory_mib=None if memory is None else memory.total / _MIB,
            default_power_limit_w=_scaled(ask("power", "nvmlDeviceGetPowerManagementDefaultLimit"), 1000),
            max_sm_clock_mhz=_scaled(ask("clocks", "nvmlDeviceGetMaxClockInfo", nvml.NVML_CLOCK_SM), 1),
            ecc=None if ecc is None else bool(ecc[0]),
            mig=None if mig is None else bool(mig[0]),
            fabric=self._fabric(ask),
            switch_links=self._switch_links(handle),
        )

    def _state(self, index: int, ask: Callable[..., Any], memory: Any) -> GpuState:
        nvml = self._nvml
        rows = ask("row remapping", "nvmlDeviceGetRemappedRows")
        reasons = ask("throttling", "nvmlDeviceGetCurrentClocksEventReasons") or 0
        errors, counter = nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
        processes = ask("processes", "nvmlDeviceGetComputeRunningProcesses") or ()
        return GpuState(
            gpu=index,
            temperature_c=_scaled(ask("temperature", "nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU), 1),
            power_w=_scaled(ask("power", "nvmlDeviceGetPowerUsage"), 1000),
            power_limit_w=_scaled(ask("power limit", "nvmlDeviceGetEnforcedPowerLimit"), 1000),
            sm_clock_mhz=_scaled(ask("clocks", "nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM), 1),
            memory_clock_mhz=_scaled(ask("clocks", "nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_MEM), 1),
            memory_used_mib=None if memory is None else memory.used / _MIB,
            throttling=tuple(name for bit, name in _THROTTLING.items() if reasons & bit),
            ecc_uncorrected=ask("ECC errors", "nvmlDeviceGetTotalEccErrors", errors, counter),
            remap_pending=None if rows is None else bool(rows[2]),
            remap_failed=None if rows is None else bool(rows[3]),
            recovery_action=self._recovery(ask),
            processes=tuple(
                GpuProcess(pid=p.pid, memory_mib=_scaled(p.usedGpuMemory, _MIB), ours=self._ours(p.pid))
                for p in processes
            ),
        )

    def _recovery(self, ask: Callable[..., Any]) -> str | None:
        values = ask("recovery action", "nvmlDeviceGetFieldValues", [self._nvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION])
        if not values or values[0].nvmlReturn != 0:
            return None  # drivers before branch 565 do not know the field
        number = int(values[0].value.uiVal)
        return RECOVERY.get(number, f"unknown_{number}")

    def _fabric(self, ask: Callable[..., Any]) -> str | None:
        info = self._nvml.c_nvmlGpuFabricInfo_v2_t()
        if ask("fabric", "nvmlDeviceGetGpuFabricInfoV", info) is None:
            return None
        state = _FABRIC.get(int(info.state), f"unknown ({info.state})")
        return f"failed (status {info.status})" if state == "completed" and info.status != 0 else state

    def _switch_links(self, handle: Any) -> int | None:
        """NVLinks that are up and end at a switch. None if the driver tells nothing about links."""
        nvml, found, told = self._nvml, 0, False
        for link in range(nvml.NVML_NVLINK_MAX_LINKS):
            with contextlib.suppress(nvml.NVMLError):
                up = nvml.nvmlDeviceGetNvLinkState(handle, link)
                told = True
                kind = nvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle, link) if up else None
                found += kind == nvml.NVML_NVLINK_DEVICE_TYPE_SWITCH
        return found if told else None


class NvmlXidWatch:
    """NVML's own listener: it needs no right to read the kernel log, but tells the number only."""

    def __init__(self, library: Any) -> None:
        self._nvml = library
        self._gpus: Mapping[str, int] = {}
        try:
            self._events = library.nvmlEventSetCreate()
            buses = {}
            for index in range(library.nvmlDeviceGetCount()):
                handle = library.nvmlDeviceGetHandleByIndex(index)
                library.nvmlDeviceRegisterEvents(handle, library.nvmlEventTypeXidCriticalError, self._events)
                buses[str(_text(library.nvmlDeviceGetPciInfo(handle).busId))] = index
            self._gpus = buses
        except library.NVMLError as problem:
            raise GpusUnknownError(f"Xid events: {problem}") from None

    def seen(self) -> tuple[Xid, ...]:
        nvml, found = self._nvml, []
        with contextlib.suppress(nvml.NVMLError):  # a timeout: there are no more
            for _ in range(1000):
                event = nvml.nvmlEventSetWait(self._events, 0)
                found.append(Xid(code=int(event.eventData), gpu=self._place(event.device), text="NVML event"))
        with contextlib.suppress(nvml.NVMLError):
            nvml.nvmlEventSetFree(self._events)
        return tuple(found)

    def _place(self, device: Any) -> int | None:
        try:
            return self._gpus.get(str(_text(self._nvml.nvmlDeviceGetPciInfo(device).busId)))
        except self._nvml.NVMLError:
            return None


def _lost(index: int) -> Gpu:
    nothing = GpuState(
        gpu=index,
        temperature_c=None,
        power_w=None,
        power_limit_w=None,
        sm_clock_mhz=None,
        memory_clock_mhz=None,
        memory_used_mib=None,
        throttling=(),
        ecc_uncorrected=None,
        remap_pending=None,
        remap_failed=None,
        recovery_action="gpu_lost",
        processes=(),
    )
    return Gpu(
        state=nothing,
        name="lost",
        capability=None,
        bus="",
        memory_mib=None,
        default_power_limit_w=None,
        max_sm_clock_mhz=None,
        ecc=None,
        mig=None,
        fabric=None,
        switch_links=None,
    )


def _scaled(value: Any, by: int) -> float | None:
    return None if value is None else round(value / by, 1)


def _text(value: Any) -> str | None:
    """Older versions of the bindings answer bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
