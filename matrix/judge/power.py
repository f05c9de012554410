"""`power`: what the GPUs drew while the checks ran."""

from statistics import fmean

from matrix.judge.results import check_result, measured
from repro.model import CheckPlan, CheckResult, PowerEvidence


def judge_power(plan: CheckPlan, evidence: PowerEvidence | None) -> CheckResult:
    """Watts over all samples of all GPUs. Without NVML the number is null with its reason, and the check `not_run`."""
    if not plan.applicable:
        reason = plan.reason or "no GPU"
        nothing = measured("gpu_power", None, "W", reason=reason)
        return check_result("power", "not_applicable", "not_applicable", reason, measurements=(nothing,))
    watts = [s.power_w for s in evidence.samples if s.power_w is not None] if evidence else []
    if evidence is None or not watts:
        reason = (evidence.reason if evidence else None) or "no sample holds a power reading"
        nothing = measured("gpu_power", None, "W", reason=reason)
        return check_result("power", "not_run", "no_nvml", reason, measurements=(nothing,))
    gpus = len({sample.gpu for sample in evidence.samples})
    told = f"{min(watts):.0f} to {max(watts):.0f} W a GPU over {len(watts)} samples of {gpus} GPUs"
    numbers = (
        measured("gpu_power", round(fmean(watts), 1), "W", n=len(watts)),
        measured("gpu_power_max", round(max(watts), 1), "W", n=len(watts)),
    )
    return check_result("power", "pass", None, told, measurements=numbers)
