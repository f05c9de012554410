"""`python PAYLOAD_FOLDER probe [--image]`: prints the environment, or what the image holds, as JSON."""

import json
import sys


def main(arguments: list[str]) -> int:
    """The exit status: 0, or 2 for arguments that it does not know."""
    if arguments == ["--image"]:
        from probe.image import describe_image

        document = {"record": "image-probe", "schema_version": 1, **describe_image()}
    elif not arguments:
        from probe.environment import describe

        document = {"record": "environment", "schema_version": 1, **describe()}
    else:
        print("usage: python PAYLOAD_FOLDER probe [--image]", file=sys.stderr)
        return 2
    print(json.dumps(document, indent=1))
    return 0
