"""Files that are there whole or not at all."""

import contextlib
import errno
import os
import secrets
from pathlib import Path

from repro.errors import UnavailableError


def write_atomic(path: Path, data: bytes) -> None:
    """Put ``data`` at ``path`` whole: a kill at any moment leaves the old file or the new one.

    The folder must exist. Raises `UnavailableError` if it cannot be written; the old file, if any, is then untouched.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        write_new(temporary, data)
        temporary.replace(path)
        sync_directory(path.parent)
    except OSError as error:
        raise unwritable(path, error) from None
    finally:
        # After the rename there is nothing left to remove; on every other path, an interrupt included, there is.
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_new(path: Path, data: bytes) -> None:
    """Write a file that must not exist, down to the disk. Raises OSError."""
    with path.open("xb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def sync_directory(path: Path) -> None:
    """Bring a directory's names down to the disk: a rename is durable only then. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some network file systems cannot, and need not
            raise
    finally:
        os.close(descriptor)


def unwritable(path: Path, error: OSError) -> UnavailableError:
    """The error to raise when ``path`` could not be written, with what to do about it."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return UnavailableError(
            f"{path}: no space left ({error.strerror}); what was finished is kept: free space and run the same again"
        )
    return UnavailableError(f"{path}: cannot be written ({error.strerror}); check the directory and its permissions")
