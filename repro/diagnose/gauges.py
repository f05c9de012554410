"""What a server says of itself while it works: acceptance lengths, decode steps with and without graphs."""

import re

from repro.diagnose.catalogue import Pattern
from repro.diagnose.events import Event, Gauges

GAUGE = Pattern(
    id="gauge",
    role="context",
    literals=("accept len: ", "Mean acceptance length: ", "cuda graph: True", "cuda graph: False"),
    match=(),
    no_match=(),
    source="https://github.com/sgl-project/sglang/blob/v0.5.2/python/sglang/srt/managers/scheduler_metrics_mixin.py",
)
_LENGTH = re.compile(r"(?:accept len|Mean acceptance length): (\d{1,4}(?:\.\d{1,6})?)")
_MOST_LENGTHS = 512


class GaugeReader:
    def __init__(self) -> None:
        self.gauges = Gauges()

    def add(self, event: Event) -> None:
        found = _LENGTH.search(event.text)
        if found and len(self.gauges.accept_lengths) < _MOST_LENGTHS:
            self.gauges.accept_lengths.append(float(found[1]))
            self.gauges.accept_line = event
        if "Decode batch" in event.text:
            self.gauges.with_graph += "cuda graph: True" in event.text
            self.gauges.without_graph += "cuda graph: False" in event.text
            if "cuda graph: False" in event.text:
                self.gauges.eager_line = event
