"""Text from outside (model output, logs, file names) made harmless for a terminal, for Markdown and for XML.

Every string that a record holds is somebody else's text. HTML is escaped by the templates; everything passes through
:func:`visible` first, so that no reader sees a control code act.
"""

import re

_ANSI = re.compile(
    r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # OSC: window titles, hyperlinks
    r"|\x1b[PX^_][^\x1b]*(?:\x1b\\)?"  # DCS, SOS, PM, APC
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor movement
    r"|\x1b[ -/]*[0-~]"  # the two-character codes
)
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but tab and newline, DEL, C1
    "\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # bidi controls, zero width
    "\ud800-\udfff\ufffe\uffff\U000e0000-\U000e007f]"  # lone surrogates, non-characters, tags
)
_MARKDOWN = re.compile(r"([\\`*_\[\]#|~$])|^(?=[-+=])")
_AUTOLINK = re.compile(r"(?i)//|www\.|mailto:")
_ISSUE = re.compile(r"(?i)\bGH-(?=\d)")
_BREAK = "\u200b"


def visible(text: str) -> str:
    """Terminal control sequences removed; every other character that acts or hides is spelled out (`\\x07`)."""
    if text.isascii() and text.isprintable():  # nearly all texts: nothing in them acts or hides
        return text
    text = _ANSI.sub("", text.replace("\r\n", "\n"))
    return _INVISIBLE.sub(_spelled, text)


def one_line(text: str, limit: int | None = None) -> str:
    """Visible text on one line; longer than ``limit`` characters it is cut, and ends with an ellipsis."""
    line = " ".join(visible(text).split())
    return line if limit is None or len(line) <= limit else line[: limit - 1] + "…"


def markdown(text: str) -> str:
    """Text for a paragraph or a table cell of Markdown in which nothing acts: no markup, HTML, link, mention or
    reference to an issue."""
    text = one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = _MARKDOWN.sub(r"\\\g<0>", text)
    text = _AUTOLINK.sub(lambda found: found[0][:1] + _BREAK + found[0][1:], text)
    text = re.sub(r"\\#(?=\d)", r"\\#" + _BREAK, text)
    text = _ISSUE.sub(lambda found: found[0] + _BREAK, text)
    text = re.sub(r"^(\d+)(?=[.)](?:\s|$))", r"\1\\", text)
    return text.replace("@", "@" + _BREAK)


def markdown_code(text: str) -> str:
    """Text as inline code that holds in a table cell too."""
    line = one_line(text).replace("|", "\\|")
    ticks = "`" * (_longest_run(line) + 1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{ticks}{pad}{line}{pad}{ticks}" if line else ""


def markdown_block(lines: list[str]) -> str:
    """Lines as a code block whose fence no content can close."""
    body = [visible(line).replace("\n", " ") for line in lines]
    fence = "`" * max(3, _longest_run("\n".join(body)) + 1)
    return "\n".join((f"{fence}text", *body, fence))


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall(r"`+", text)), default=0)


def _spelled(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
