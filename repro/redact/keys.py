"""Names of keys, flags, headers and variables: what kind of value each has."""

import re
from functools import lru_cache
from typing import Literal, TypeAlias

from repro.redact.chance import drawn
from repro.redact.vocabulary import NOTHING, PSEUDONYM, WITHHELD

KeyClass: TypeAlias = Literal[
    "password", "secret", "weak", "weakest", "number", "header", "user", "host", "maybe_host", "serial", "uuid", "path"
]

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_PASSWORDS = frozenset(
    "password passwd passwort passphrase passcode pwd pswd psw passwords motdepasse contrasena kennwort pw"
    " userpassword rootpassword dbpassword userpass dbpass pgpassword mysqlpwd rediscliauth sshpass".split()
)
_SECRETS = frozenset(
    "secret secrets credential credentials cred creds apikey apikeys secretkey privatekey accesskey authtoken"
    " accesstoken mnemonic connectionstring connstr dsn psk jwt authkey accountkey sharedaccesskey sharedkey"
    " clientsecret apitoken hftoken sessionid sessiontoken refreshtoken bearertoken signingkey encryptionkey masterkey"
    " sastoken sessionkey subscriptionkey storagekey licensekey licencekey webhook seedphrase passkey"
    " csrftoken xsrftoken phpsessid jsessionid idtoken keyphrase".split()
)
_NUMBERS = frozenset("pin otp totp cvv cvc ssn mfa tan puk".split())
_HEADERS = frozenset("authorization cookie cookies bearer".split())
_LAST_QUALIFIED = frozenset(
    "key keys token auth sig signature pass code salt nonce seed id sid string url uri hook phrase".split()
)
_KEY_OWNERS = frozenset(
    "api access private secret signing sign encryption encrypt master account storage license licence ssh deploy shared"
    " client admin hmac aes rsa des gpg pgp consumer subscription service hf openai anthropic wandb aws azure gcp google"
    " app application session webhook auth function host ingest write read jwt token vault user bot project instrumentation"
    " cipher data decryption decrypt tls ssl pem wrapping unseal recovery root shared site x fernet cohere groq mistral"
    " ngc nvidia dd datadog sentry stripe sendgrid twilio slack github gitlab comet neptune mlflow s3 minio rest".split()
)
_TOKEN_WORDS = frozenset(
    "bos eos pad unk sep cls mask image video audio special stop draft first next last per think begin end new max min"
    " num total prompt completion input output generated cached accepted bonus target verify sampled top logprob extra"
    " add split start boi eoi im user assistant system tool fim prefix suffix middle bot eot decode prefill each one"
    " image_start added chat thinking reasoning".split()
)
_TRAILERS = frozenset(
    "value b64 base64 str plain plaintext raw old new current data hash text enc encoded 1 2 3 0 json pem".split()
)
_USERS = frozenset("user username login logname owner userid uname usr loginname ruser luser author submitter".split())
_HOSTS = frozenset("hostname fqdn nodename nodelist hostnames nodelists".split())
_MAYBE_HOSTS = frozenset(
    "host node server peer addr address endpoint pod machine remote hosts nodes workers rendezvous proxy broker upstream"
    " gateway ip name".split()
)
_SERIALS = frozenset("serial serialnumber sn serialno".split())
_PATH_KEYS = frozenset(
    "model tokenizer draft-model speculative-draft-model model-dir model-name-or-path model-path tokenizer-path speculative-draft-model-path draft-model-path lora-paths download-dir file-storage-path"
    " model-loader-extra-config ssl-keyfile ssl-certfile ssl-ca-certs chat-template served-model-name crash-dump-folder"
    " quantization-param-path export-metrics-to-file-dir modelopt-checkpoint-restore-path load-format-path".split()
)
_HARMLESS_KEYS = frozenset("HASH CACHE SORT PRIMARY FOREIGN MAP DICT KV PUBLIC ATTENTION LOOKUP CONFIG".split())
_REFERENCE = re.compile(
    r"\$\{?\w+\}?|\$\(.*|%\(?\w+\)?[s%]?|\{\{?[^'\"]*\}?\}|<[^<>]*>|\[[A-Za-z_ ]*\]|\*{3,}|[xX.…*•-]{3,}|\\?u2022.*"
)
_REPLACED = re.compile(rf"/*{PSEUDONYM.pattern}(?:/.*)?")
_TYPE = re.compile(
    r"(?:Optional|Union|Sequence|list|dict|tuple|List|Dict)\[.*|(?:str|bytes|SecretStr)\b.*|SecretStr\('\*+'\)"
)


@lru_cache(maxsize=1 << 15)
def key_class(name: str) -> KeyClass | None:  # one return for each kind of key
    """What the value of this key is, None if nothing that must go."""
    if PSEUDONYM.fullmatch(name):
        return None
    words = [word.lower() for word in _WORDS.findall(name)]
    while len(words) > 1 and words[-1] in _TRAILERS:
        words.pop()
    if not words:
        return None
    last, joined = words[-1], "".join(words)
    pair = "".join(words[-2:])
    if last in _PASSWORDS or joined in _PASSWORDS or joined.endswith(("password", "passwd", "passphrase")):
        return "password"
    if (
        last == "pass"
        and len(words) > 1
        and words[-2] not in {"forward", "backward", "per", "first", "second", "decode", "prefill", "graph", "the"}
    ):
        return "password"
    if last in _NUMBERS and last not in _SECRETS:
        return "number"
    if last in _HEADERS:
        return "header"
    if last in _SECRETS or pair in _SECRETS or joined in _SECRETS or "".join(words[-3:]) in _SECRETS:
        return "secret"
    if (kind := _qualified(name, words)) is not None:
        return kind
    return _identifying(words, last, pair)


def _qualified(name: str, words: list[str]) -> KeyClass | None:
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if last in _NUMBERS:
        return "number"
    if last == "pass" and not before:
        return "secret"
    if last in {"auth", "sig", "signature", "sas"} and not before:
        return "weak"
    if last in {"key", "keys"}:
        if before in _KEY_OWNERS:
            return "secret"
        if name.isupper() and len(words) > 1 and before.upper() not in _HARMLESS_KEYS:
            return "secret"
        return "weakest"
    if last == "token":
        if before in _TOKEN_WORDS:
            return None
        return "secret" if before else "weak"
    if last == "id" and before == "key" and ("access" in words or "private" in words):
        return "secret"
    if last in {"pin", "salt", "sas", "sig", "code", "signature", "sid"} and before in _KEY_OWNERS | {
        "amz",
        "goog",
        "session",
        "security",
        "mfa",
        "sms",
    }:
        return "secret"
    if last in {"url", "uri", "string"} and before in {"connection", "conn", "webhook", "database", "db"}:
        return "weak" if last != "string" else "secret"
    if last == "credential" or (
        last == "auth" and before in {"basic", "proxy", "x", "redis", "requirepass", "registry", "docker", "http"}
    ):
        return "secret"
    return None


def _identifying(words: list[str], last: str, pair: str) -> KeyClass | None:
    if pair in {
        "systemuuid",
        "productuuid",
        "machineid",
        "bootid",
        "hardwareid",
        "deviceuuid",
        "gpuuuid",
        "systemid",
        "boarduuid",
        "instanceid",
        "hostid",
        "guid",
    }:
        return "uuid"
    if last in {"uuid", "uuids", "guid"}:
        return "uuid"
    if (
        last in _SERIALS
        or pair in _SERIALS
        or pair in {"servicetag", "assettag", "chassisid", "chassistag", "systemtag"}
    ):
        return "serial"
    if last in _HOSTS or pair in {
        "nodename",
        "hostname",
        "masteraddr",
        "podname",
        "servername",
        "machinename",
        "computername",
    }:
        return "host"
    if last in _USERS or pair in {"username", "userid", "loginname", "accountname", "userlogin", "useremail"}:
        return "user"
    if "-".join(words) in _PATH_KEYS:
        return "path"
    if last in _MAYBE_HOSTS and last not in {"name", "ip"}:
        return "maybe_host"
    return None


def says_nothing(value: str) -> bool:
    """True for a value that is no secret by itself: none, a reference to a variable, a placeholder, a pseudonym."""
    bare = value.strip().strip("\"'`,;()")
    return (
        not bare
        or bare.lower() in NOTHING
        or _REPLACED.fullmatch(bare) is not None
        or bare == WITHHELD
        or _REFERENCE.fullmatch(bare) is not None
        or _TYPE.fullmatch(bare) is not None
    )


def is_secret(value: str, kind: KeyClass) -> bool:
    """True if a value of such a key must not be shown."""
    if says_nothing(value):
        return False
    if kind == "password":
        return True
    if kind == "number":
        return re.fullmatch(r"\d{3,9}|\d[\d -]{5,12}\d", value) is not None or guarded(value)
    numeric = re.fullmatch(r"[-+]?[\d.,:e+]+%?", value) is not None
    if kind == "secret":
        return not numeric or len(value) >= 12
    return not numeric and (drawn(value) if kind == "weakest" else guarded(value))


def guarded(value: str) -> bool:
    """A value that somebody would guard: long enough, one word, and more than letters of one case."""
    if len(value) < 8 or " " in value or value.startswith(("<", "[", "(", "Ġ", "▁")):
        return False
    has_digit = any(c.isdigit() for c in value)
    has_letter = any(c.isalpha() for c in value)
    has_mark = any(not c.isalnum() and c not in "_-./:" for c in value)
    if re.fullmatch(r"[0-9a-fA-F]{8,16}|0x[0-9a-fA-F]+|[\w.]+\.\w+|/.*|\w+\(.*", value):
        return False
    return (
        has_letter and (has_digit or has_mark) and not re.fullmatch(r"[a-z]+[_-]?\d{1,3}|[A-Z]?[a-z_]+[=:]\S*", value)
    )
