"""The picture of the kernel checks."""

from xml.etree import ElementTree as ET

from report.charts.kernels import kernel_map
from report.kernels import NO_KERNELS, Kernels, ShownArm
from repro.kernels.case import cell
from repro.model import CheckState
from repro.model.kernels import KernelResult, KernelSubject

SUBJECT = KernelSubject(
    origin="pinned",
    sglang="0.5.23",
    triton="3.8.0",
    torch=None,
    source_path="extend_attention.py",
    source_sha256="ab" * 32,
    digest=None,
)


def row(budget: int, state: CheckState, number: int = 1) -> KernelResult:
    return KernelResult(
        check="kernel-memory",
        evidence_class="interpreted",
        cell=cell(str(number), architecture="sm_103", budget=budget),
        subject=SUBJECT,
        planted=None,
        state=state,
        reason=None if state == "pass" else "why",
        detail="what",
        measurements=(),
        faults=(),
        compiled=None,
        buffers=(),
        wall_s=0.1,
    )


def kernels(*rows: KernelResult, state: str = "complete") -> Kernels:
    shown = ShownArm(
        run_id="r",
        created_at="2026-11-30T10:00:00Z",
        directory="kernels/r",
        check="kernel-memory",
        state=state,  # type: ignore[arg-type]
        reason=None,
        rows=rows,
    )
    return Kernels(arms=(shown,))


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(svg).iter("text")]


def test_each_square_says_sign_word_and_count() -> None:
    drawn = kernel_map(kernels(row(8, "pass"), row(9, "pass"), row(9, "fail", 2), row(16, "inconclusive")), "k")
    said = texts(drawn)
    assert said[:5] == ["budget", "8", "9", "16", "memory sm_103"]
    assert {"✓ pass", "1 of 1", "✗ fail", "1 of 2", "? open", "0 of 1"} <= set(said)
    root = ET.fromstring(drawn)
    assert root[0].text == "Kernel checks by arm, architecture and budget: cases that pass or fail, no launches"
    assert "memory sm_103, budget 9: fail, 1 of 2" in (root[1].text or "")
    shades = [path.get("opacity") for path in root.iter("path") if path.get("class") == "f-fail"]
    assert sorted(map(str, shades)) == ["0.23", "0.45"], "half of the cases, and the legend"
    dashed = [path.get("d", "").count("M") for path in root.iter("path") if path.get("stroke-dasharray")]
    assert dashed == [1, 1], "nothing decided, and the legend"


def test_a_broken_arm_has_no_shade_and_no_count() -> None:
    drawn = kernel_map(kernels(row(8, "fail"), state="broken"), "k")
    assert "broken" in texts(drawn)
    assert "1 of 1" not in texts(drawn)
    fills = [path for path in ET.fromstring(drawn).iter("path") if path.get("class") == "f-fail"]
    assert len(fills) == 1, "the legend's"


def test_nothing_is_drawn_without_budgets_and_no_more_than_ten_of_them() -> None:
    assert kernel_map(NO_KERNELS, "k") == ""
    drawn = kernel_map(kernels(*(row(budget, "pass") for budget in range(1, 30))), "k")
    assert "10" in texts(drawn)
    assert "11" not in texts(drawn)
