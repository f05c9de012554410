"""Exit statuses: of a shell, of `timeout`, of a parent that waits for its child."""

_TIME_LIMIT = 124
_SHELL_SIGNALS = range(129, 160)
_BY_STATUS = {
    -9: "killed_by_signal_9",
    -11: "segfault",
    -7: "bus_error_shm",
    -15: "external_kill",
    -2: "external_kill",
    -1: "external_kill",
}


def plain_status(status: int | None) -> tuple[int | None, bool]:
    """(the status as a parent sees it, whether it says that a time limit was reached): 137 is -9, 124 a time limit."""
    if status is None:
        return None, False
    if status == _TIME_LIMIT:
        return status, True
    return (128 - status if status in _SHELL_SIGNALS else status), False


def by_status(status: int | None) -> str | None:
    """The kind of a death of which nothing but the status is known; None if the status says nothing."""
    return None if status is None else _BY_STATUS.get(status)
