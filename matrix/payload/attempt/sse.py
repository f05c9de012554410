"""Server-sent events from bytes that arrive in any pieces (the `text/event-stream` format of the HTML standard)."""

MAX_EVENT_BYTES = 64 << 20


class OversizedEventError(ValueError):
    """An event that does not end: more than `MAX_EVENT_BYTES` without a blank line."""


class EventStream:
    """Turns pieces of a stream into the data of whole events.

    Bytes are only decoded when a line is complete, so a piece may end inside a character; lines end with LF, CRLF or
    CR; comments (keep-alives) and fields other than `data` are skipped. An event that the end of the stream cuts off is
    dropped, as the standard says, unless it is asked for with `rest()`.
    """

    def __init__(self) -> None:
        self._line = bytearray()
        self._data: list[str] = []
        self._size = 0
        self._after_cr = False

    def feed(self, piece: bytes) -> list[str]:
        """The data of each event that this piece completes."""
        events: list[str] = []
        if self._after_cr and piece:
            piece = piece[1:] if piece[:1] == b"\n" else piece
            self._after_cr = False
        while piece:
            end, skip = _line_end(piece)
            if end < 0:
                self._grow(piece)
                break
            self._grow(piece[:end])
            self._after_cr = piece[end:] == b"\r"  # whether LF follows is in the next piece
            piece = piece[end + skip :]
            self._end_line(events)
        return events

    def rest(self) -> str | None:
        """The data of an event that was still open when the stream ended, None if there is none."""
        events: list[str] = []
        if self._line:
            self._end_line(events)
        self._end_line(events)
        return events[0] if events else None

    def _grow(self, piece: bytes) -> None:
        self._line += piece
        self._size += len(piece)
        if self._size > MAX_EVENT_BYTES:
            raise OversizedEventError(f"an event of more than {MAX_EVENT_BYTES} bytes")

    def _end_line(self, events: list[str]) -> None:
        line = self._line.decode("utf-8", errors="replace")
        self._line.clear()
        if not line:
            if self._data:
                events.append("\n".join(self._data))
            self._data, self._size = [], 0
            return
        name, _, value = line.partition(":")
        if name.lstrip("\ufeff") == "data":
            self._data.append(value.removeprefix(" "))


def _line_end(piece: bytes) -> tuple[int, int]:
    """(where the first line of the piece ends or -1, how many bytes its end takes)."""
    lf, cr = piece.find(b"\n"), piece.find(b"\r")
    if cr < 0 or 0 <= lf < cr:
        return lf, 1
    return cr, 2 if piece[cr + 1 : cr + 2] == b"\n" else 1
