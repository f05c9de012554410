"""SVG elements. The serializer escapes every text and attribute; control characters are spelled out before."""

from xml.etree import ElementTree as ET

from markupsafe import Markup

from repro.escape import one_line


def picture(width: int, height: int, label: str) -> ET.Element:
    """An empty picture; ``label`` is its text alternative."""
    return ET.Element(
        "svg", {"class": "chart", "viewBox": f"0 0 {width} {height}", "role": "img", "aria-label": one_line(label)}
    )


def add(parent: ET.Element, tag: str, text: str | None = None, **attributes: str | float) -> ET.Element:
    """A child element. ``class_`` and ``text_anchor`` stand for `class` and `text-anchor`; numbers get one decimal."""
    child = ET.SubElement(parent, tag)
    for name, value in attributes.items():
        told = one_line(value) if isinstance(value, str) else f"{value:.1f}"
        child.set(name.rstrip("_").replace("_", "-"), told)
    if text is not None:
        child.text = one_line(text)
    return child


def markup(root: ET.Element) -> Markup:
    """The picture as text that a template takes as it is."""
    return Markup(ET.tostring(root, encoding="unicode"))  # noqa: S704 - escaped by the serializer
