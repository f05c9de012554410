"""Results that an earlier graphrepro wrote: they count, and it is said that they were migrated."""

from report.load import LoadedRun
from report.rules.draft import Draft
from report.rules.settings import selected


def migrated(run: LoadedRun) -> tuple[Draft, ...]:
    """One, if results of the run were brought up to the present version of the record as they were read."""
    if not run.earlier:
        return ()
    count = sum(count for _, count in run.earlier)
    told = ", ".join(f"{count} of version {version}" for version, count in run.earlier)
    cells = tuple(cell for cell in run.cells if cell.attempts)
    were = "1 result was" if count == 1 else f"{count} results were"
    return (
        Draft(
            run=run,
            family="earlier",
            kind="records_migrated",
            severity="info",
            statement=f"{were} written by an earlier graphrepro ({told}) and migrated to be read: what it did not "
            "record is unknown here.",
            cells=cells,
            next=f"python -m matrix run --spec {run.run.target} {selected(c.id for c in cells[:1])}".rstrip(),
            n=count,
        ),
    )
