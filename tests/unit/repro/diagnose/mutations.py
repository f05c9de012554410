"""What happens to logs on their way to a reader: random, repeatable changes that keep track of the original lines."""

import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

_TIME = re.compile(rb"(\d\d):(\d\d):(\d\d)")
_RANK = re.compile(
    rb"^\[[^\]]*?\b(TP\d+|RANK \d+)\]|^\[rank(\d+)\]|\((?:Vllm)?Worker[^)]*?(?:TP|rank=)(\d+)|\[(\d)\] (?:\S+ )?NCCL"
)
_MARKS = re.compile(r"\x1b\[[0-9;]*m|.")
_WORDS = re.compile(rb"[A-Za-z]{4,}")


@dataclass(frozen=True)
class Line:
    """A line and the number of the original line that it still holds whole, None if it holds none."""

    text: bytes
    origin: int | None


@dataclass(frozen=True)
class Mutant:
    """``ordered``: lines stand where the phases of the server can be told from."""

    lines: tuple[Line, ...]
    ordered: bool
    said: tuple[str, ...]

    @property
    def data(self) -> bytes:
        return b"".join(line.text + b"\n" for line in self.lines)

    @property
    def intact(self) -> frozenset[int]:
        return frozenset(line.origin for line in self.lines if line.origin is not None)


Mutation = Callable[[Mutant, random.Random], Mutant]


def original(data: bytes) -> Mutant:
    lines = data.removesuffix(b"\n").split(b"\n")
    return Mutant(tuple(Line(text, number) for number, text in enumerate(lines, start=1)), ordered=True, said=())


def _changed(mutant: Mutant, lines: Sequence[Line], *, ordered: bool = True) -> Mutant:
    return replace(mutant, lines=tuple(lines), ordered=mutant.ordered and ordered)


def shuffled_ranks(mutant: Mutant, chance: random.Random) -> Mutant:
    """Ranks are late by less than a second; each keeps its order, and lines of no rank keep their place."""
    late: dict[bytes, float] = {}
    now, rank, run, keyed = 0.0, None, 0, []
    for place, line in enumerate(mutant.lines):
        clock = _TIME.search(line.text[:60])
        if clock:
            now = max(now, int(clock[1]) * 3600 + int(clock[2]) * 60 + int(clock[3]) + 0.0)
            found = _RANK.search(line.text)
            rank = next(filter(None, found.groups())) if found else None
        run += rank is None
        keyed.append((run, now + (late.setdefault(rank, chance.random() * 0.9) if rank else 0.0), place, line))
    return _changed(mutant, [line for *_, line in sorted(keyed, key=lambda item: item[:3])])


def cut_head(mutant: Mutant, chance: random.Random) -> Mutant:
    return _changed(mutant, mutant.lines[chance.randrange(1 + int(len(mutant.lines) * 0.7)) :], ordered=False)


def cut_tail(mutant: Mutant, chance: random.Random) -> Mutant:
    return _changed(
        mutant, mutant.lines[: len(mutant.lines) - chance.randrange(1 + int(len(mutant.lines) * 0.7))], ordered=False
    )


def _wrapped(width: int) -> Mutation:
    """As a terminal wraps: colours have no width, and what a carriage return has overwritten is no longer counted."""

    def wrap(mutant: Mutant, chance: random.Random) -> Mutant:
        lines: list[Line] = []
        for line in mutant.lines:
            bar, _, shown = line.text.decode("utf-8", "replace").rstrip("\r").rpartition("\r")
            pieces = [piece.encode() for piece in _columns(shown, width)]
            pieces[0] = f"{bar}\r".encode() + pieces[0] if bar else pieces[0]
            # The last piece stands for the whole: with it the line is complete.
            lines += [Line(piece, None) for piece in pieces[:-1]] + [Line(pieces[-1], line.origin)]
        return _changed(mutant, lines)

    return wrap


def _columns(text: str, width: int) -> list[str]:
    pieces, used = [""], 0
    for mark in _MARKS.findall(text):
        if used == width and not mark.startswith("\x1b"):
            pieces.append("")
            used = 0
        pieces[-1] += mark
        used += not mark.startswith("\x1b")
    return pieces


def coloured(mutant: Mutant, chance: random.Random) -> Mutant:
    def paint(text: bytes) -> bytes:
        def break_word(word: re.Match[bytes]) -> bytes:
            at = chance.randrange(1, len(word[0]))
            return word[0][:at] + b"\x1b[1;31m" + word[0][at:] + b"\x1b[0m"

        return _WORDS.sub(break_word, text, count=8) if chance.random() < 0.5 else b"\x1b[33m" + text + b"\x1b[0m"

    return _changed(mutant, [replace(line, text=paint(line.text)) for line in mutant.lines])


def nuls(mutant: Mutant, chance: random.Random) -> Mutant:
    def spoil(text: bytes) -> bytes:
        at = chance.randrange(len(text) + 1)
        return text[:at] + b"\x00" * chance.randrange(1, 9) + text[at:] if chance.random() < 0.4 else text

    return _changed(mutant, [replace(line, text=spoil(line.text)) for line in mutant.lines])


def crlf(mutant: Mutant, chance: random.Random) -> Mutant:
    return _changed(mutant, [replace(line, text=line.text + b"\r") for line in mutant.lines])


def bars(mutant: Mutant, chance: random.Random) -> Mutant:
    """Bars of progress that end in the middle of a line."""
    bar = b"".join(
        b"Downloading shards: %3d%%|\xe2\x96\x88\xe2\x96\x88   |\r" % percent for percent in range(0, 101, 20)
    )
    return _changed(
        mutant, [replace(line, text=bar + line.text) if chance.random() < 0.3 else line for line in mutant.lines]
    )


def bad_utf8(mutant: Mutant, chance: random.Random) -> Mutant:
    return _changed(
        mutant,
        [replace(line, text=line.text + b" \xff\xc3") if chance.random() < 0.5 else line for line in mutant.lines],
    )


def newest_first(mutant: Mutant, chance: random.Random) -> Mutant:
    dated = sum(bool(_TIME.search(line.text[:60])) for line in mutant.lines)
    return _changed(mutant, mutant.lines[::-1], ordered=dated > 5)


def _prefixed(prefix: Callable[[int, bytes], bytes]) -> Mutation:
    def collect(mutant: Mutant, chance: random.Random) -> Mutant:
        return _changed(mutant, [replace(line, text=prefix(n, line.text)) for n, line in enumerate(mutant.lines)])

    return collect


def _stamp(number: int) -> bytes:
    return b"2026-05-04T%02d:%02d:%02d.123456789Z" % (number // 3600, number // 60 % 60, number % 60)


def _docker_json(number: int, text: bytes) -> bytes:
    record = {"log": text.decode("utf-8", "replace") + "\n", "stream": "stderr", "time": _stamp(number).decode()}
    return json.dumps(record).encode()


def _cloud_json(number: int, text: bytes) -> bytes:
    record = {"timestamp": _stamp(number).decode(), "jsonPayload": {"message": text.decode("utf-8", "replace")}}
    return json.dumps(record, ensure_ascii=False).encode()


PREFIXES: dict[str, Mutation] = {
    "cri": _prefixed(lambda n, text: _stamp(n) + b" stderr F " + text),
    "docker -t": _prefixed(lambda n, text: _stamp(n) + b" " + text),
    "kubectl": _prefixed(lambda n, text: b"[pod/llm-0/server] " + text),
    "journald": _prefixed(
        lambda n, text: b"May 04 %02d:%02d:%02d node-1 llm[812]: " % (n // 3600, n // 60 % 60, n % 60) + text
    ),
    "compose": _prefixed(lambda n, text: b"server-1  | " + text),
    "docker json": _prefixed(_docker_json),
    "cloud json": _prefixed(_cloud_json),
}

_LINE_WISE: dict[str, Mutation] = {"colours": coloured, "nuls": nuls, "bars": bars, "bad utf-8": bad_utf8}
_SHAPES: dict[str, Mutation] = {
    "ranks": shuffled_ranks,
    "head": cut_head,
    "tail": cut_tail,
    "reversed": newest_first,
    "wrap 80": _wrapped(80),
    "wrap 100": _wrapped(100),
}


def interleaved(healthy: Mutant) -> Mutation:
    """With the log of a healthy server in between, each under the name that a collector gave it."""

    def mix(mutant: Mutant, chance: random.Random) -> Mutant:
        mine = [replace(line, text=b"llm-0-1  | " + line.text) for line in mutant.lines]
        others = [Line(b"llm-1-1  | " + line.text, None) for line in healthy.lines]
        order = [True] * len(mine) + [False] * len(others)
        chance.shuffle(order)
        ours, theirs = iter(mine), iter(others)
        return _changed(mutant, [next(ours) if is_mine else next(theirs) for is_mine in order])

    return mix


def mutate(mutant: Mutant, healthy: Mutant, seed: str) -> Mutant:
    """One to three changes, in the order in which they happen: in the log, by its collector, by whoever looks at it."""
    chance = random.Random(seed)
    name, change = chance.choice(list(_SHAPES.items()))
    before: list[tuple[str, Mutation]] = []
    if chance.random() < 0.5:
        before.append(chance.choice(list(_LINE_WISE.items())))
    third = chance.random()
    collector: list[tuple[str, Mutation]] = []
    if third < 0.35:
        collector.append(chance.choice(list(PREFIXES.items())))
    elif third < 0.55:
        collector.append(("healthy", interleaved(healthy)))
    elif third < 0.65:
        collector.append(("crlf", crlf))
    on_screen = name == "reversed" or (name.startswith("wrap") and bool(collector) and "json" not in collector[0][0])
    first = [*before, (name, change)] if name.startswith("wrap") else [(name, change), *before]
    steps = [*before, *collector, (name, change)] if on_screen else [*first, *collector]
    for said, step in steps:
        mutant = replace(step(mutant, chance), said=(*mutant.said, said))
    return mutant
