"""The colours of pictures: each is drawn in a stand-in of its own, which becomes a class of the page's style sheet."""

NAMES = (
    "ink",
    "soft",
    "line",
    "paper",
    "pass",
    "fail",
    "corrupt",
    "open",
    *(f"c{number}" for number in range(8)),
)
"""`ink` to `open` are those of the page's text and tags; `c0` to `c7` tell series apart (after Okabe and Ito, 2008, as
dark as the page's paper needs)."""

_STAND_INS = {name: f"#00{number:02x}ff" for number, name in enumerate(NAMES)}
_NAMES = {colour: name for name, colour in _STAND_INS.items()}


def ink(name: str) -> str:
    """The stand-in of a colour, to draw with."""
    return _STAND_INS[name]


def name_of(colour: str) -> str | None:
    """The name of a stand-in; None for any other colour."""
    return _NAMES.get(colour.lower())
