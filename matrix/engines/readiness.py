"""The log texts by which a starting server says which phase begins.

Each text was read in the wheels of every release from 0.5.9 to 0.5.23, or, for uvicorn's line, in recorded logs:
`Load weight begin` in `srt/model_executor/model_runner.py`; the capture lines there (up to 0.5.15.post1), in
`model_runner_components/cuda_graph_setup.py` (from 0.5.16) and in `srt/speculative/eagle_worker_v2.py`.
"""

from matrix.engines.flags import FlagTable
from matrix.engines.overlay import Overlay
from matrix.engines.sglang import flag_release
from repro.model import PhaseMark

_WEIGHTS = PhaseMark(phase="weights_load", texts=("Load weight begin",))
_WARMUP = PhaseMark(phase="warmup", texts=("Application startup complete.",))
_CAPTURE = (
    # first release, texts; 0.5.14 gave target and draft, verify and decode their own names
    (
        "0.5.9",
        (
            "Capture cuda graph begin",
            "Capture draft cuda graph begin",
            "Capture draft extend cuda graph begin",
            "Capture piecewise CUDA graph begin",
        ),
    ),
    (
        "0.5.14",
        (
            "Capture target decode CUDA graph begin",
            "Capture target prefill CUDA graph begin",
            "Capture target verify CUDA graph begin",
            "Capture draft ",
        ),
    ),
)


def phase_marks(version: str, overlay: Overlay | None = None) -> tuple[PhaseMark, ...]:
    """The marks of an engine version, in the order in which a server passes them.

    With an overlay, a private build has those of its base release, and the simulated engine those of the newest;
    without one, ``version`` is a release. Raises SpecError for a version that is neither.
    """
    table = FlagTable.load()
    if overlay is None:
        table.flags_of(version)
        release = version
    else:
        release = table.newest() if overlay.engine == "simulated" else flag_release(table, version, overlay)
    place = table.versions.index(release)
    texts = next(texts for first, texts in reversed(_CAPTURE) if table.versions.index(first) <= place)
    return (_WEIGHTS, PhaseMark(phase="graph_capture", texts=texts), _WARMUP)
