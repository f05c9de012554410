"""Samples the GPUs' power, temperature, clock and memory while the checks run."""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

PERIOD_S = 1.0


class PowerSampler:
    """A thread that samples once a second between entry and exit. `fields()` is the content of `power.json`.

    NVML is read through `pynvml`, which engines for GPUs bring; where it is missing, or finds no driver, there are no
    samples and a reason says so.
    """

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._samples: list[dict[str, Any]] = []
        self._reason: str | None = "the checks were not reached"

    def __enter__(self) -> "PowerSampler":
        nvml = self._open()
        if nvml is not None:
            self._thread = threading.Thread(target=self._sample, args=(nvml,), daemon=True)
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join(2 * PERIOD_S)

    def fields(self) -> dict[str, Any]:
        """Reason and samples."""
        samples = list(self._samples)
        return {"reason": None if samples else self._reason, "samples": samples}

    def _open(self) -> Any:
        try:
            import pynvml  # type: ignore[import-not-found,import-untyped,unused-ignore]

            pynvml.nvmlInit()
        except Exception as problem:  # noqa: BLE001  # any failure of a third-party binding means: no samples
            self._reason = f"NVML is not available: {type(problem).__name__}: {problem}"
            return None
        self._reason = "NVML gave no sample"
        return pynvml

    def _sample(self, nvml: Any) -> None:
        while True:
            try:
                count = nvml.nvmlDeviceGetCount()
            except nvml.NVMLError as problem:
                self._reason = f"NVML is not available: {problem}"
                return
            self._samples += [_gpu(nvml, index, self._now_s()) for index in range(count)]
            if self._over.wait(PERIOD_S):
                return


def _gpu(nvml: Any, index: int, at_s: float) -> dict[str, Any]:
    def read(name: str, scale: float, *arguments: Any) -> float | None:
        try:
            value = getattr(nvml, name)(nvml.nvmlDeviceGetHandleByIndex(index), *arguments)
            return round(float(getattr(value, "used", value)) * scale, 3)
        except (nvml.NVMLError, AttributeError):
            return None

    return {
        "at_s": at_s,
        "gpu": index,
        "power_w": read("nvmlDeviceGetPowerUsage", 1e-3),
        "temperature_c": read("nvmlDeviceGetTemperature", 1.0, 0),
        "sm_clock_mhz": read("nvmlDeviceGetClockInfo", 1.0, 1),
        "memory_used_mib": read("nvmlDeviceGetMemoryInfo", 1 / (1 << 20)),
    }
