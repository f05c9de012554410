"""One redactor over many files: the same names, learned once and found everywhere."""

import base64
import json
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repro.errors import SpecError
from repro.redact import Policy, Redactor, survivors, words_from

SECRET = "Lantern!42/green?x"
LEARN = f'{{"password": "{SECRET}"}}'


def _encodings(secret: str) -> dict[str, str]:
    return {
        "plain": secret,
        "json": json.dumps({"a": secret}),
        "percent": quote(secret, safe=""),
        "hex": secret.encode().hex(),
        "base64": base64.b64encode(secret.encode()).decode(),
        "base64-inside": base64.b64encode(f"xy {secret} z".encode()).decode(),
        "repr": repr(secret.encode()),
        "coloured": f"{secret[:5]}\x1b[31m{secret[5:]}",
    }


@pytest.mark.parametrize("encoding", list(_encodings(SECRET)))
def test_a_secret_found_once_goes_everywhere(encoding: str) -> None:
    redactor = Redactor()
    text = f"the value was {_encodings(SECRET)[encoding]} there"
    redactor.learn_text(text, "a.log")
    redactor.learn_text(LEARN, "b.json")
    redacted = redactor.text(text, "a.log")
    assert _encodings(SECRET)[encoding] not in redacted
    assert "secret-1" in redacted


def test_the_same_host_has_one_pseudonym_in_all_files() -> None:
    redactor = Redactor(Policy(hosts=("falcon-07",)))
    redactor.learn_text("http://falcon-07.corp.example:8000/health", "a.log")
    assert redactor.document({"hostname": "falcon-07"}, "b.json") == {"hostname": "host-1"}
    assert redactor.text("falcon-07:12:34 [0] NCCL INFO x", "c.log") == "host-1:12:34 [0] NCCL INFO x"
    assert redactor.text("http://falcon-07.corp.example:8000/health", "a.log") == "http://host-1:8000/health"


def test_pseudonyms_that_stand_in_a_text_are_not_given_again() -> None:
    assert Redactor().text("host-1 asked; hostname: falcon-07", "a.log") == "host-1 asked; hostname: host-2"


def test_environment_by_list() -> None:
    environment = {
        "NCCL_DEBUG": "INFO",
        "ACME_STAGE": "falcon",
        "HF_TOKEN": "plainvalue",
        "SGLANG_API_KEY": "plain-two",
    }
    redacted = Redactor().document({"environment": environment}, "step.json")["environment"]
    assert redacted["NCCL_DEBUG"] == "INFO"
    assert redacted["ACME_STAGE"] == "withheld"
    assert not {"plainvalue", "plain-two"} & set(redacted.values())


def test_versions_of_packages_are_no_addresses() -> None:
    packages = {"packages": {"nvidia-cublas-cu12": "12.9.1.4", "acme": "10.2.3.4"}}
    assert Redactor().document(packages, "environment.json") == packages


def test_own_words() -> None:
    words = words_from(["# customers", "Falcon", "", "Northwind"], "words.txt")
    redactor = Redactor(Policy(words=words))
    assert redactor.text("FALCON for northwind", "a.log") == "word-1 for word-2"
    with pytest.raises(SpecError, match=r"words\.txt:1: .*too short"):
        words_from(["ab"], "words.txt")


def test_hidden_prompts_go_from_records_and_logs() -> None:
    redactor = Redactor(Policy(hide_prompts=True))
    record = {"prompts": [{"id": "p-0", "text": "the quarterly plan of everything", "input_ids": [5, 6, 7]}]}
    log = "Receive: obj=GenerateReqInput(text='the quarterly plan of everything', input_ids=[5, 6, 7], rid='1')\n"
    redactor.learn_document(record, "step.json")
    redactor.learn_text(log, "server.log")
    assert redactor.document(record, "step.json")["prompts"] == [
        {"id": "p-0", "text": "prompt-1", "input_ids": [0, 0, 0]}
    ]
    redacted = redactor.text(log, "server.log")
    assert "quarterly" not in redacted
    assert "[5, 6, 7]" not in redacted
    assert "rid='1'" in redacted


def test_report_and_shown_agree() -> None:
    redactor = Redactor()
    redactor.text("password=hunter22 from 10.1.2.3\n10.1.2.3 again\n", "a.log")
    report = {one.category: one for one in redactor.report()}
    assert (report["ip"].count, report["ip"].pseudonyms, report["secret"].files) == (2, 1, 1)
    assert {(one.before, one.after, one.times) for one in redactor.shown()} == {
        ("10.1.2.3", "ip-1", 2),
        ("hunter22", "secret-1", 1),
    }


def test_a_binary_file_with_a_learned_text_is_refused() -> None:
    redactor = Redactor()
    redactor.text("hostname: falcon-07", "a.log")
    problems = survivors({"kernel/x.cubin": b"\x7fELF\0\0falcon-07\0"}, redactor)
    assert len(problems) == 1
    assert problems[0].startswith("kernel/x.cubin: ")
    assert "falcon" not in problems[0]


def test_survivors_never_show_the_secret() -> None:
    problems = survivors({"x.log": b"one\npassword=hunter22\n"})
    assert problems
    assert problems[0].startswith("x.log:2: ")
    assert "hunter22" not in problems[0]


_SURROUNDINGS = st.text(
    st.characters(codec="utf-8", exclude_characters="\n\r", exclude_categories=("Cs",)), max_size=60
)
_TOKEN = st.text(st.sampled_from("abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"), min_size=24, max_size=40)


@settings(max_examples=60, deadline=None)
@given(before=_SURROUNDINGS, after=_SURROUNDINGS, token=_TOKEN)
def test_a_learned_token_goes_from_any_surroundings(before: str, after: str, token: str) -> None:
    redactor = Redactor()
    redactor.learn_text(f"password={token}", "a.log")
    text = f"{before} {token} {after}\n"
    redacted = redactor.text(text, "b.log")
    assert token not in redacted
    assert redacted.count("\n") == 1


@settings(max_examples=60, deadline=None)
@given(token=_TOKEN, times=st.integers(1, 3), before=st.text(st.sampled_from("abc 123"), max_size=9))
def test_tokens_in_base64_go_however_often_encoded(token: str, times: int, before: str) -> None:
    encoded = f"{before} password={token} ".encode()
    for _ in range(times):
        encoded = base64.b64encode(encoded)
    assert encoded.decode() not in Redactor().text(f"blob: {encoded.decode()} end", "a.log")


@settings(max_examples=60, deadline=None)
@given(text=st.text(max_size=300))
def test_any_text_keeps_its_lines_and_is_done_after_one_pass(text: str) -> None:
    once = Redactor().text(text, "a.log")
    assert once.count("\n") == text.count("\n")
    assert Redactor().text(once, "a.log") == once


@settings(max_examples=30, deadline=None)
@given(data=st.binary(max_size=300))
def test_any_bytes_keep_their_lines(data: bytes) -> None:
    assert Redactor().data(data, "a.log").count(b"\n") == data.count(b"\n")


def test_a_number_in_a_line_of_json_becomes_a_string() -> None:
    line = '{"password": 99887766, "n": 3, "inner": "{\\"password\\": 99887766}"}\n'
    redacted = json.loads(Redactor().text(line, "timeline.jsonl"))
    assert (redacted["password"], redacted["n"]) == ("secret-1", 3)
    assert "99887766" not in redacted["inner"]


def test_lists_of_keys_in_a_line_of_json_stay_lists() -> None:
    line = '{"api_keys": ["k1-brown-Fox", "k2-lazy-Dog"], "cookies": [], "n": [1, 2]}\n'
    redacted = json.loads(Redactor().text(line, "timeline.jsonl"))
    assert redacted == {"api_keys": ["secret-1", "secret-2"], "cookies": [], "n": [1, 2]}


def test_the_owner_of_a_domain_goes_everywhere_and_a_common_word_does_not() -> None:
    redactor = Redactor()
    redactor.learn_text("http://gpu-7.corp.acmerobotics.com:8000/x, mail bo@storage.example.com", "a.log")
    redacted = redactor.text("/data/acmerobotics-llm is storage of acmerobotics", "b.log")
    assert "acmerobotics" not in redacted
    assert "storage" in redacted


@pytest.mark.parametrize(
    ("name", "stays"),
    [
        ("moonshotai/Kimi-K2.6", True),
        ("meta-llama/Llama-3.1-8B-Instruct", True),
        ("yuhuili/EAGLE3-LLaMA3.1-Instruct-8B", True),
        ("acmerobotics/falconet-72b-sft", False),
        ("acmerobotics/Llama-3.1-8B-claims", False),
    ],
)
def test_models_of_known_publishers_stay(name: str, stays: bool) -> None:
    for text in (f"model_path='{name}'", f"Loading weights for {name} from hub", f"--served-model-name {name}"):
        assert (name in Redactor().text(text, "a.log")) is stays
    assert (Redactor().document({"model_path": name}, "a.json") == {"model_path": name}) is stays


@pytest.mark.parametrize("unit", ["%25", "\\'", "\x1b[31m", "password=x1y2z3w4,", "a:b@c/d?e=f&"])
def test_a_long_line_is_done_in_pieces(unit: str) -> None:
    text = unit * (150_000 // len(unit)) + " password=hunter2-Lang " + unit * 100
    redacted = Redactor().text(text, "a.log")
    assert "hunter2-Lang" not in redacted
    assert redacted.count("\n") == 0


def test_text_with_nuls_is_no_binary_file() -> None:
    arguments = b"python\0-m\0sglang.launch_server\0--api-key\0greenTurtle88x\0"
    assert survivors({"cmdline.txt": arguments}) != []
    assert b"greenTurtle88x" not in Redactor().data(arguments, "cmdline.txt")
