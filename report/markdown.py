"""The report as Markdown, for an issue or a chat. Nothing in it acts: no HTML, link or mention out of a log.

It is never longer than `LIMIT_BYTES`, because GitHub takes comments of at most 65,536 characters. `KINDS` says in which
order things are kept.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from report.answers import MOST_CARDS, in_order, overview
from report.console import because, certainty, outcome_of, planted_mark, run_summary, two_sides
from report.document import Document
from report.gains import BEST_HEADINGS, best_rows, crossover_words
from report.grid import GridRow, Place, grid
from report.kernels_markdown import beside_parts, kernel_answers, kernel_part
from report.load import LoadedRun
from report.markdown_cells import cell_parts
from report.markdown_words import block, code, flag, row, rows, said, word
from report.shortened import Kind, LeftOut, Part, shorten
from report.words import ABOUT_A_FINDING, NOT_A_GPU, PLANTED, TERMS, VERDICTS, spoken
from repro.model import Comparison, Finding

LIMIT_BYTES = 60_000
_RESERVE_BYTES = 3_000  # for the lines that tell what is left out
KINDS: tuple[Kind, ...] = (
    Kind(name="answers", words="runs, in a few sentences", first_bytes=9_000),
    Kind(name="finding", words="findings", first_bytes=22_000),
    Kind(name="grid", words="rows of the matrix in which something did not pass", first_bytes=12_000),
    Kind(name="passed", words="rows of the matrix in which everything passed", first_bytes=4_000),
    Kind(name="kernels", words="arms of the kernel checks, and their rows beside cells", first_bytes=5_000),
    Kind(name="about", words="where a finding holds, what is open, and its evidence"),
    Kind(name="best", words="best stable configurations and crossovers"),
    Kind(name="decided", words="comparisons with a verdict"),
    Kind(name="problem", words="records that could not be used"),
    Kind(name="skip", words="cells that are not part of a run"),
    Kind(name="oracle", words="lines of the oracles"),
    Kind(name="kernel_budget", words="what the kernel checks say of budgets"),
    Kind(name="bad", words="cells that did not pass, and their launches"),
    Kind(name="undecided", words="comparisons without a verdict"),
    Kind(name="kernel_row", words="rows of the kernel checks' tables"),
    Kind(name="older", words="older runs"),
    Kind(name="words", words="words explained"),
    Kind(name="good", words="cells that passed, and their launches"),
)
"""What stands in the file, the most important first: what does not fit is left out from the end."""
_MOST_CELLS = 12
_LONGEST_STATEMENT, _LONGEST_COMMAND, _LONGEST_REASON = 2_000, 2_000, 240


def render(document: Document) -> str:
    """The file, with a final newline."""
    text, left = shorten(_parts(document), KINDS, LIMIT_BYTES - _RESERVE_BYTES)
    head = ["# Findings"]
    if document.planted:
        head.append(f"> **{PLANTED}**")
    if said_of_all := overview(document.shown):
        head.append(said(said_of_all))
    if left:
        head.append("> Shortened: what is left out is counted at the end, and stands in `findings.html`.")
    return "\n\n".join((*head, text, *([_left_out(left)] if left else []))) + "\n"


def _left_out(left: Sequence[LeftOut]) -> str:
    kb = LIMIT_BYTES // 1000
    told = block(("what", "told here", "of"), ([one.words, f"{one.told}", f"{one.total}"] for one in left), kind=None)
    head = f"## Left out\n\nThis file stays below {kb} KB. `findings.html` and `findings.json` beside it have the rest."
    return "\n\n".join((head, told.text + "\n" + "\n".join(part.text for part in told.below)))


def _parts(document: Document) -> tuple[Part, ...]:
    record = document.record
    found = [_finding(document, finding) for finding in record.findings]
    none = Part(text=document.nothing, kind="answers")
    parts = [
        Part(
            text="",
            below=(*(_answers(document, run) for run in in_order(document.shown)), *kernel_answers(document)),
            tight=True,
        ),
        Part(text="## What was found", below=tuple(found) or (none,)),
        *(part for run in document.shown for part in _run(document, run)),
        *kernel_part(document),
    ]
    older = [
        [code(run.target), code(run.run_id), run.created_at, spoken(run.state), flag(run.planted)]
        for run in document.older
    ]
    problems = [[code(p.path), said(p.problem)] for p in record.problems]
    legend = [f"- **{word(name)}**: {said(told)}" for name, told in VERDICTS.items()]
    legend += [f"- **{said(name)}**: {said(told)}" for name, told in TERMS.items()]
    return (
        *parts,
        Part(
            text="## Older runs, not shown", below=(block(("target", "run", "created", "state", ""), older, "older"),)
        ),
        Part(
            text=f"## Problems: {len(problems)} could not be used",
            below=(block(("record", "problem"), problems, "problem"),),
        ),
        Part(
            text="## Words",
            below=(
                Part(
                    text="<details><summary>What the words mean</summary>\n",
                    foot="</details>",
                    below=tuple(Part(text=line, kind="words") for line in legend),
                    tight=True,
                ),
            ),
        ),
    )


def _answers(document: Document, run: LoadedRun) -> Part:
    found = document.answers(run)
    left_out = found.ran if len(document.shown) > MOST_CARDS else ""
    told = [line for line in found.lines if line != left_out]
    lines = [f"- {said(run_summary(run))}", *(f"  - {said(line, 900)}" for line in told)]
    return Part(text="\n".join(lines), kind="answers")


def _finding(document: Document, finding: Finding) -> Part:
    known, near = document.known.get(finding.id), document.near.get(finding.id)
    planted = f"**{PLANTED}.** " if finding.planted else ""
    cells = ", ".join(code(cell) for cell in finding.cells[:_MOST_CELLS])
    more = len(finding.cells) - _MOST_CELLS
    lines = [
        f"### {finding.id} · {finding.severity} · {said(spoken(finding.kind))}",
        "",
        planted + said(finding.statement, _LONGEST_STATEMENT),
        "",
        f"- cells: {cells}" + (f" and {more} more" if more > 0 else ""),
        *([f"- {said(known)}"] if known else []),
        *([f"- {said(near.text, _LONGEST_STATEMENT)}"] if near else []),
        f"- next: {_command(finding.next)}",
    ]
    if finding.bundle is not None:
        lines.append(f"- bundle: {_command(finding.bundle)}")
    about = list(_about(finding))
    below = _details("Where it holds, what is open, and the evidence", about, "about") if about else ()
    return Part(text="\n".join(lines), kind="finding", below=below)


def _about(finding: Finding) -> Iterable[str]:
    for title, field in ABOUT_A_FINDING.items():
        yield from (f"- {title}: {said(line)}" for line in getattr(finding, field))
    if finding.settle is not None:
        yield f"- would settle it: {_command(finding.settle)}"
    for link in finding.evidence:
        where = code(link.path) if link.path else said(f"{link.cell} attempt {link.attempt}")
        yield f"- evidence: {where}: {said(link.text)}"


def _command(command: str) -> str:
    """A command that was cut would do something else."""
    return code(command) if len(command) <= _LONGEST_COMMAND else "too long to stand here; `findings.json` has it"


def _details(summary: str, lines: Sequence[str], kind: str) -> tuple[Part, ...]:
    text = "\n".join((f"<details><summary>{summary}</summary>", "", *lines, "", "</details>"))
    return (Part(text=text, kind=kind),)


def _run(document: Document, run: LoadedRun) -> tuple[Part, ...]:
    target = run.run.target
    notes = [f"> **{PLANTED}**"] if run.planted else []
    notes += [f"> {NOT_A_GPU}"] if not run.about_gpus else []
    best, crossovers = document.gains(target)
    comparisons = document.comparisons(target)
    skips = [[code(s.cell), word(s.state), said(s.reason), said(s.source or "")] for s in run.skips]
    cells = cell_parts(run, target)
    sections = (
        ("### Kernel checks beside these cells", beside_parts(document, run)),
        ("### Best stable configurations", _best(best_rows(best), [crossover_words(one) for one in crossovers])),
        ("### Not part of the run", (block(("cell", "state", "reason", "source"), skips, "skip", target),)),
        ("### Oracles", (rows([f"- {said(line)}" for line in run.oracles], "oracle", target),)),
        ("### Compared with", _comparisons(document, comparisons, target)),
        ("### Cells", cells),
    )
    below = (_grid(run), *(Part(text=title, below=parts) for title, parts in sections))
    return (Part(text="\n\n".join((f"## Target {said(target)}", *notes)), below=below),)


def _grid(run: LoadedRun) -> Part:
    table = grid(run)
    head = block(("arm", *(said(column) for column in table.columns)), (), None)
    return replace(head, below=tuple(_grid_row(line, run.run.target) for line in table.rows))


def _grid_row(line: GridRow, target: str) -> Part:
    passed = all(place.word == "pass" for places in line.places for place in places)
    places = ["; ".join(_place(place) for place in places) for places in line.places]
    return Part(text=row([code(line.label), *places]), kind="passed" if passed else "grid", turn=target)


def _place(place: Place) -> str:
    told = certainty(place)
    return planted_mark(place) + word(place.word) + (f": {said(told)}" if told else "")


def _best(told: Sequence[Sequence[str]], crossovers: Sequence[str]) -> tuple[Part, ...]:
    table = block(BEST_HEADINGS, [[said(text) for text in line] for line in told], "best")
    return table, rows([f"- {said(line)}" for line in crossovers], "best")


def _comparisons(document: Document, comparisons: Sequence[Comparison], target: str) -> tuple[Part, ...]:
    headings = ("baseline", "cell", "comparable", "change", "number", "here", "there", "ratio (95 %)", "why")
    lines = []
    for item in sorted(comparisons, key=lambda item: item.comparable != "comparable"):
        kind = "decided" if item.comparable == "comparable" else "undecided"
        lines.append(Part(text="\n".join(_comparison(document, item)), kind=kind, turn=target))
    return (replace(block(headings, (), None), below=tuple(lines)),)


def _comparison(document: Document, item: Comparison) -> Iterable[str]:
    first = [code(item.baseline), code(item.cell) if item.cell else "—", word(item.comparable)]
    baseline = document.baselines.get(item.baseline)
    if not item.numbers:
        yield row([*first, "", "", "", "", "", said(because(item), _LONGEST_REASON)])
    for index, number in enumerate(item.numbers):
        sides = [said(side) for side in two_sides(number, baseline)]
        why = said(because(item), _LONGEST_REASON) if index == 0 else ""
        change = said(outcome_of(number), _LONGEST_REASON)
        yield row([*(first if index == 0 else [""] * 3), change, *sides, why])
