"""Secrets that programs take in other places than behind a telling name: `curl -u`, `7z -p`, `IDENTIFIED BY`."""

import re
from collections.abc import Iterator

from repro.redact.finds import Find
from repro.redact.keys import guarded, is_secret, key_class, says_nothing
from repro.redact.people import user

_PASSED = re.compile(
    r"(?:sshpass\s+-p\s*|\blogin\b.{0,160}?\s-p\s*|redis-cli\b.{0,80}?\s(?:-a|--pass)\s+"
    r"|(?:mysql|mysqldump|mariadb|mysqladmin)\b.{0,80}?\s-p|ldap\w+\b.{0,120}?\s-w\s+|-pass(?:in|out)?\s+pass:|curl\b.{0,200}?\s-u\s*[\"']?(?P<who>[^\s:\"']+):"
    r"|curl\b.{0,200}?--user[ =][\"']?[^\s:\"']+:|wget\b.{0,120}?--(?:http-)?password[ =]|curl\b.{0,200}?\s(?:-b|--cookie)[ =]*|(?i:auth)\s+(?:LOGIN|PLAIN)\s+(?:\S+\s+)?|\buser(?:name)?\s+[A-Za-z_][\w.@-]{1,40}:(?!\s)|expect\s+.{0,40}send\s+\"|echo\s+(?=\S+\s*\|\s*(?:sudo|docker|podman|gh|passwd|huggingface-cli))"
    r"|huggingface-cli\s+login\b.{0,40}?--token\s+|wandb\s+login\s+(?:--\S+\s+)*|ngc\s+config\s+set\s+.{0,20}|net\s+use\s+.{0,60}?\s/user:\S+\s+)"
    r"[\"']?(?P<value>[^\s\"'|]{3,})"
)
_BESIDE = re.compile(
    r"(?:\bopenssl\b.{0,120}?\s-(?:k|K)\s+|\bunzip\b.{0,80}?\s-P\s*|\b7z\w*\s.{0,80}?\s-p|\bzip\b.{0,80}?\s-P\s*|\bhttps?\s.{0,80}?(?:-a|--auth)[ =](?P<who>[^\s:]+):"
    r"|\bsnmp\w+\b.{0,80}?\s-c\s+|\bipmi\w+\b.{0,160}?\s-P\s+|\bmc\s+(?:alias|config\s+host)\s+(?:set|add)\s+\S+\s+\S+\s+\S+\s+|\bAUTH\s+(?:[a-z][\w-]*\s+)?(?=\S*[^A-Za-z\s])"
    r"|\bwpa_passphrase\s+\S+\s+|(?i:identified\s+(?:with\s+\S+\s+)?by\s+)|\[default: (?=[^\]\s]+\]$)|(?i:\b(?:creds|credentials|log ?in|sign in|logon)\b[^\n]{0,24}?\s)(?P<name>[A-Za-z][\w.-]{2,30})\s?[:/]\s?)"
    r"[\"']?(?P<value>[^\s\"'|\]]{4,})"
)
_FOREIGN = re.compile(
    r"(?i)(?:пароль|секрет|токен|密码|密碼|令牌|口令|密钥|パスワード|비밀번호|mot de passe|contraseñas?|contrasena|senha|wachtwoord|lösenord|hasło|kennwort|parola|adgangskode|salasana)"
    r"\s*(?:[:=\uff1a\uff1d]+|ist|es|est)\s*[\"'«„]?(?P<value>[^\s\"'»“,;]{3,})"
)
FOREIGN_HINT = (
    "|".join(
        "".join(f"\\x{byte:02x}" for byte in word.encode())
        for word in "ароль екрет окен 密码 密碼 令牌 口令 密钥 パスワード 비밀번호 ñ öse ł".split()
    )
    + "|(?i:mot de passe|contrasena|senha|wachtwoord|kennwort|parola|adgangskode|salasana)"
)
COMMANDS_HINT = (
    r"curl|sshpass|login|redis-cli|mysql|maria|ldap|-pass|wget|expect|echo|huggingface-cli|wandb|ngc|net use|openssl|zip|7z|https? .*-a|snmp|ipmi|mc (?:alias|config)"
    r"|AUTH |(?i:auth) (?:LOGIN|PLAIN)|wpa_|(?i:identified)|default: |(?i:creds|credentials|log ?in|sign in|logon)|user(?:name)? [\w.@-]+:[^\s]"
)
_ATTRIBUTES = re.compile(
    r"(?i)<[^<>]{0,200}?\b(?:key|name|id|type)=\\*[\"'](?P<name>[\w.:-]{2,80})\\*[\"'][^<>]{0,120}?\bvalue=\\*[\"'](?P<value>[^\"'<>\\]{3,})"
)
_PLIST = re.compile(r"<key>(?P<name>[\w .-]{2,80})</key>\s*<string>(?P<value>[^<>]{3,})</string>")
_CDATA = re.compile(r"<(?P<name>[\w.:-]{2,80})[^<>]*><!\[CDATA\[(?P<value>.{3,}?)\]\]>")
ELEMENTS_HINT = r"(?i:value=)|<key>|CDATA"


def commands(text: str) -> Iterator[Find]:
    """Arguments of commands, statements of SQL, defaults of options, and `user / password` in a sentence."""
    for found in _PASSED.finditer(text):
        if found["who"] and (person := user(found["who"], found.start("who"))) is not None:
            yield person
        if not says_nothing(found["value"]):
            yield Find(found.start("value"), found.end("value"), "secret", found["value"])
    for found in _BESIDE.finditer(text):
        value = found["value"].rstrip(".,;)")
        if says_nothing(value) or (
            found[0].startswith("[default") and not re.search("(?i)passw|secret|token|key", text)
        ):
            continue
        if (found["name"] or found[0].startswith("[default")) and not guarded(value):
            continue
        yield Find(found.start("value"), found.start("value") + len(value), "secret", value)
        for group in ("who", "name"):
            if found[group] and (person := user(found[group], found.start(group))) is not None:
                yield person


def foreign(text: str) -> Iterator[Find]:
    """Values behind words for a password in other languages than English."""
    for found in _FOREIGN.finditer(text):
        if not says_nothing(found["value"]):
            yield Find(found.start("value"), found.end("value"), "secret", found["value"])


def elements(text: str) -> Iterator[Find]:
    """Values of XML and HTML whose name is an attribute or an element before them."""
    for form in (_ATTRIBUTES, _PLIST, _CDATA):
        for found in form.finditer(text):
            kind = key_class(found["name"])
            if kind in {"password", "secret", "header"} and is_secret(found["value"], kind):
                yield Find(found.start("value"), found.end("value"), "secret", found["value"])
