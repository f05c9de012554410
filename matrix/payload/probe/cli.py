"""`python PAYLOAD_FOLDER probe`: prints the environment as JSON (record `environment`)."""

import json
import sys

from probe.environment import describe


def main(arguments: list[str]) -> int:
    """The exit status: 0, or 2 for arguments, of which there are none."""
    if arguments:
        print("usage: python PAYLOAD_FOLDER probe", file=sys.stderr)
        return 2
    print(json.dumps({"record": "environment", "schema_version": 1, **describe()}, indent=1))
    return 0
