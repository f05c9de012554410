"""What the second net sees of a document: the first net's knowledge of keys, and nothing else taken away."""

import json

from repro.redact import Redactor, survivors
from repro.redact.documents import for_the_net

_PROGRAM = 'import re\n\ndef f(text):\n    tokens = re.findall(r"[0-9]+|[-+*/()]|[^ ]", text)\n    return tokens\n'


def _caught(document: object) -> list[str]:
    return survivors({"a.json": json.dumps(for_the_net(document), indent=1).encode()}, Redactor())


def test_a_program_that_a_model_wrote_is_no_secret() -> None:
    assert _caught({"requests": [{"output_text": _PROGRAM}]}) == []


def test_a_token_of_a_known_form_in_an_answer_is() -> None:
    token = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7xY9zA1cD3eF5"
    assert _caught({"requests": [{"output_text": f"{_PROGRAM} # {token}"}]}) != []


def test_versions_of_four_parts_are_no_addresses_and_elsewhere_they_are() -> None:
    assert _caught({"packages": {"nvidia-cublas": "12.4.5.8"}}) == []
    assert _caught({"listener": "12.4.5.8"}) != []


def test_an_environment_called_like_a_prompt_is_looked_at_whole() -> None:
    assert _caught({"environment": {"prompt": "password=tr0ub4dor&3-horse"}}) != []
