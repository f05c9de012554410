"""An SVG file of matplotlib -> an element of the page: no inline style, which the page's policy forbids, no id that
another picture has, no colour of its own, and few bytes."""

import re
from collections.abc import Iterator
from xml.etree import ElementTree as ET

from markupsafe import Markup

from report.charts.ink import name_of

_NAMESPACE = re.compile(r"\{[^}]*\}")
_NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")
_GAP = re.compile(r"\s*([A-Za-z])\s*")
_NO_TURN = re.compile(r"^rotate\(-?0(?:\.0*)?[ )]")
_REFERENCE = re.compile(r"#([\w.+-]+)")
_SIZE = re.compile(r"([\d.]+)px")
_FONT_SIZE = "11px"
_ROUNDED = frozenset({"x", "y", "width", "height", "d", "transform", "cx", "cy", "r"})
_LEFT_OUT = frozenset({"clip-path", "font-family", "font", "text-align", "stroke-linejoin", "stroke-miterlimit"})
_DEFAULTS = {
    ("stroke-width", "1"),
    ("stroke-linecap", "butt"),
    ("fill-rule", "nonzero"),
    ("font-size", _FONT_SIZE),
    ("stroke-dashoffset", "0"),
    ("text-anchor", "start"),
}


def for_page(text: str, *, width: int, height: int, key: str, title: str, told: str, style: str) -> Markup:
    """The picture as markup. Its texts have been cleaned of control characters before they were drawn; matplotlib
    escapes them, and the serializer does so again."""
    drawn = ET.fromstring(text)  # noqa: S314 - written by matplotlib just now; its document type names no entity
    for element in drawn.iter():
        _plain(element)
    _drop(drawn, {"metadata", "style", "clipPath"})
    _flatten(drawn)
    _name_ids(drawn, key)
    root = ET.Element(
        "svg",
        {
            "class": f"chart {style}".strip(),
            "viewBox": f"0 0 {width} {height}",
            "width": str(width),
            "height": str(height),
            "role": "img",
            "aria-labelledby": f"{key}-title {key}-told",
        },
    )
    ET.SubElement(root, "title", {"id": f"{key}-title"}).text = title
    ET.SubElement(root, "desc", {"id": f"{key}-told"}).text = told
    root.extend(drawn)
    return Markup(ET.tostring(root, encoding="unicode"))  # noqa: S704 - escaped by the serializer


def _plain(element: ET.Element) -> None:
    """Names without their namespace; styles as attributes, and colours as classes."""
    element.tag = _NAMESPACE.sub("", element.tag)
    element.tail = None
    if element.tag != "text":
        element.text = None
    said = {_NAMESPACE.sub("", name): value for name, value in element.attrib.items()}
    style = [part.partition(":") for part in said.pop("style", "").split(";")]
    said |= {name.strip(): value.strip() for name, _, value in style if name.strip()}
    element.attrib.clear()
    classes = _classes(said)
    for name, value in said.items():
        short = _short(name, value)
        if short is not None and (name, short) not in _DEFAULTS and name not in _LEFT_OUT:
            element.set(name, short)
    if classes:
        element.set("class", " ".join(classes))


def _classes(said: dict[str, str]) -> list[str]:
    """The classes that stand for what was said of colour and font, which is taken out."""
    classes = []
    for name, letter in (("fill", "f"), ("stroke", "k")):
        colour = name_of(said.get(name, ""))
        if colour is not None:
            classes.append(f"{letter}-{colour}")
            del said[name]
    font = f"{said.pop('font-family', '')} {said.get('font', '')}"
    size = _SIZE.search(said.pop("font", ""))
    if size is not None:
        said["font-size"] = size[0]
    if font.lstrip(" '0123456789.px").startswith("DejaVu Sans Mono"):
        classes.append("log")
    return classes


def _short(name: str, value: str) -> str | None:
    """The value in few bytes; None if it says nothing."""
    if name == "transform" and _NO_TURN.match(value):
        return None
    if name in _ROUNDED:
        value = _NUMBER.sub(lambda found: _rounded(found[0], 1), value)
    else:
        value = value if "#" in value else _NUMBER.sub(lambda found: _rounded(found[0], 2), value)
    return _GAP.sub(r"\1", value).strip() if name == "d" else value


def _rounded(number: str, places: int) -> str:
    short = f"{float(number):.{places}f}".rstrip("0").rstrip(".")
    return "0" if short == "-0" else short


def _drop(parent: ET.Element, tags: set[str]) -> None:
    for child in list(parent):
        if child.tag in tags:
            parent.remove(child)
        else:
            _drop(child, tags)


def _seen(element: ET.Element) -> bool:
    """Whether a path has any colour: frames of axes and figures have none."""
    return element.tag != "path" or element.get("fill") != "none" or "k-" in element.get("class", "")


def _flatten(parent: ET.Element) -> None:
    """Groups that say nothing but their name give way to what is in them; empty ones go."""
    kept: list[ET.Element] = []
    for child in list(parent):
        _flatten(child)
        if child.tag == "g" and not set(child.attrib) - {"id"}:
            kept += child
        elif (child.tag != "defs" or len(child)) and _seen(child):
            kept.append(child)
    parent[:] = kept
    _share_class(parent)


def _share_class(parent: ET.Element) -> None:
    """Marks of one series have the same class: their group has it instead."""
    classes = {child.get("class") for child in parent}
    marks = all(child.tag == "use" for child in parent)
    if parent.tag == "g" and marks and len(parent) > 2 and len(classes) == 1 and None not in classes:
        for child in parent:
            parent.set("class", child.attrib.pop("class"))


def _name_ids(root: ET.Element, key: str) -> None:
    """Ids that are referred to get names that begin with ``key``, in the order of the document; the others go."""
    used = {name for element in root.iter() for name in _references(element)}
    new: dict[str, str] = {}
    for element in root.iter():
        name = element.attrib.pop("id", None)
        if name in used:
            element.set("id", new.setdefault(name, f"{key}-{len(new)}"))
    for element in root.iter():
        for attribute, value in element.attrib.items():
            if attribute == "href" or value.startswith("url("):
                element.set(attribute, _REFERENCE.sub(lambda found: f"#{new.get(found[1], '')}", value))


def _references(element: ET.Element) -> Iterator[str]:
    for attribute, value in element.attrib.items():
        if attribute == "href" or value.startswith("url("):
            yield from _REFERENCE.findall(value)
