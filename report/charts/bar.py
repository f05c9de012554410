"""A bar in a table: where k of n lies between 0 and 1, with its interval. There is one for each cell, so that it is
three rectangles of markup, and no picture of the library."""

from markupsafe import Markup

from report.words import interval_label


def interval_bar(k: int, n: int, interval: tuple[float, float] | None) -> Markup:
    """The bar; nothing when n is 0."""
    if interval is None or not n:
        return Markup("")
    low, high = (round(100 * bound, 1) for bound in interval)
    return Markup(
        '<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" role="img" aria-label="{label}">'
        '<rect class="track" x="0" y="4" width="100" height="2"/>'
        '<rect class="span" x="{low}" y="2" width="{width}" height="6"/>'
        '<rect class="dot" x="{dot}" y="0" width="2" height="10"/></svg>'
    ).format(
        label=f"{k} of {n}, 95 % interval {interval_label(interval)}",
        low=low,
        width=round(high - low, 1),
        dot=round(98 * k / n, 1),
    )
