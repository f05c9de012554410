"""Where things run: names of hosts, addresses, web addresses."""

import ipaddress
import re
from collections.abc import Iterator

from repro.redact.finds import Find
from repro.redact.vocabulary import MODULES, NO_HOST, PRIVATE_BELOW, PSEUDONYM, PUBLIC_HOSTS

_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9])?"
_SURE = (
    "com|org|edu|gov|mil|de|fr|uk|eu|cn|jp|kr|us|ca|au|nl|se|no|fi|dk|pl|cz|at|ch|es|pt|br|mx|ru|ua|tw|hk|sg|il|tr|za|biz|cloud|tech"
    "|corp|intra|intranet|localdomain|online|site|xyz|systems|company|consulting|gmbh|world|arpa|onion|nyc|berlin"
)
_UNSURE = "net|io|ai|dev|local|internal|lan|home|private|app|test|example|invalid|svc|co|tv|fm|gg|ie|domain|zone|network|digital|services|solutions|global|group|team|works|labs?|science|academy|university|institute|energy|health|bank|compute|hpc|cluster"
FQDN = re.compile(
    rf"(?<![A-Za-z0-9_.@$-])(?:{_LABEL}\.){{1,8}}(?P<tld>(?i:{_SURE}|{_UNSURE}))(?![A-Za-z0-9_-]|\.[A-Za-z0-9_]|\()"
)
FQDN_HINT = rf"[A-Za-z0-9]\.(?i:{_SURE}|{_UNSURE})(?:[^A-Za-z0-9_(.-]|\.?$|\.[^A-Za-z0-9_])"
_SURE_TLD = re.compile(_SURE)
_BELOW = re.compile(r"(?::\d{2,5})?(?P<path>/[\w.-]+(?:/[\w.-]+)*)")
URL = re.compile(
    r"(?<![A-Za-z0-9+.-])(?P<scheme>[A-Za-z][A-Za-z0-9+.-]{1,24})://(?:(?P<creds>(?:[^\s/@\"'<>\\]|\\{1,2}(?=[A-Za-z][\w.-]*:[^\s/@]{1,64}@)){0,256}(?::(?!\d{1,5}(?:[/\s\"']|$))[^\s\"'<>\\]{0,512})?)@)?"
    r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9_.-]*)(?P<port>:\d+)?(?P<path>/[^\s\"'<>?#\\)}\],;`]*)?(?P<query>[?#][^\s\"'<>\\)}`]*)?"
)
_PARAMETER = re.compile(r"[?&;#](?P<name>[\w.%-]+)=(?P<value>[^&;#\s]+)")
_PARAMETERS = re.compile(
    r"(?i)(?:x-amz-(?:signature|credential|security-token|id)|x-goog-(?:signature|credential)|googleaccessid|awsaccesskeyid|signature|sig|skoid|sktid|token"
    r"|[\w-]*[_-]?token|api[_-]?key|[\w-]*key|code|state|session\w*|sid|secret|[\w-]*secret|pass\w*|pwd|auth\w*|access|credential|policy|jwt|assertion|ticket|nonce|hmac|key-pair-id|otp|se|user|username|email|login)"
)
_ENDPOINTS = re.compile(
    r"/?(?:v\d+(?:/[a-z_]+){0,3}|generate(?:_stream)?|health(?:_generate|z)?|metrics|server_info|get_server_info|get_model_info|model_info|ping|version"
    r"|flush_cache|docs|openapi\.json|start_profile|stop_profile|get_load|tokenize|detokenize|abort_request|load|readyz|livez|api/v\d+|update_weights\w*)/?"
)
_NODE = (
    r"(?:ip-\d{1,3}-\d{1,3}-\d{1,3}-\d{1,3}|(?:[a-z0-9]+-)*(?:dgx|hgx|gb\d00|gpunode|gpu-node|gpu-server|gpuserver|computenode|compute-node|nid|hpc|(?:gke|aks|eks|k8s|k3s|kube)-|bastion|jumphost|slurmctl)"
    r"[a-z0-9]*(?:-?[a-z0-9]+)*-?\d+|[a-z0-9]+(?:-[a-z0-9]+)*-node-?\d+(?:-[a-z0-9]+)*|nid\d{5,}|(?:gke|aks|eks|k8s|k3s|kube)-[a-z0-9-]{6,}[a-z0-9])"
)
_HOST = rf"{_LABEL}(?:\.{_LABEL})*"
CONTEXTS = (
    (
        r"\] (?:NCCL|init|transport|misc|graph|enqueue|NVSHMEM|RCCL)",
        re.compile(
            rf"(?<![\w.-])(?P<host>{_HOST}):\d+:\d+ \[\d+\] (?:NCCL|init\.cc|transport|misc|graph|enqueue|NVSHMEM|RCCL)"
        ),
    ),
    (
        r"(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S*) [A-Za-z0-9]",
        re.compile(
            rf"(?m)(?:(?:^|[>;|]|\s)(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)?|^\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)) (?P<host>(?!(?:stdout|stderr|INFO|WARN|WARNING|ERROR|DEBUG|TRACE|FATAL)\b){_HOST}) [\w./@-]+(?:\[\d+\])?: "
        ),
    ),
    (
        r"\]:\d{2,5}|srun: error|CANCELLED",
        re.compile(
            rf"\[(?P<host>(?!\d+\]){_HOST})\]:\d{{2,5}}\b|srun: error: (?P<host2>{_HOST}(?:\[[\d,-]+\])?): task|\bON (?P<host3>{_HOST}) CANCELLED"
        ),
    ),
    (
        r"(?i)(?:on|from|to|at|via|into)\s+(?:host|node|machine|server)|(?:host|node|hostname|machine)\s+[\\'`]",
        re.compile(
            rf"(?i)\b(?:on|from|to|at|via|into)\s+(?:host|node|machine|server|hostname)\s+[\"'`]?(?P<host>{_HOST})|\b(?:host|node|hostname|machine)\s+[\"'`](?P<host2>{_HOST})[\"'`]"
        ),
    ),
    (
        r"pod/|assigned ",
        re.compile(
            rf"\[pod/(?P<host>[\w.-]+)/|assigned \S+/(?P<host2>{_HOST}) to (?P<host3>{_HOST})|\bpod/(?P<host4>[a-z0-9][\w.-]+)"
        ),
    ),
    (
        r"(?i)resolve|service not known|unknown host|connect(?:ed|ing)? to|connection (?:to|from)|lookup|ssh ",
        re.compile(
            rf"(?i)\b(?:could not resolve host(?:name)?|name or service not known|unknown host|resolve|connect(?:ed|ing)? to|connection to|connection from|lookup|ssh(?: -\w(?: \S+)?)*)[: ]+[\"'`(\[]?(?P<host>{_HOST})[\"'`)\]]?(?=:\d{{2,5}}\b|:? (?:failed|refused|timed|on|port|closed|established)|[\"'`)\]]?$|\n|, )"
        ),
    ),
    (
        r"[A-Za-z][-\d.A-Za-z]*:[1-9]\d{3}",
        re.compile(
            rf"(?<![\w./@-])(?P<host>(?=[A-Za-z0-9.-]*[A-Za-z])(?=[A-Za-z0-9.-]*[-\d])(?!\w+\.(?:py|cu|cpp|h|cc|c|log|go|rs|js|json|txt):){_HOST}):(?:[1-9]\d{{3,4}})(?![\w:.])"
        ),
    ),
    (
        r"ip-\d|dgx|hgx|gb\d00|gpu-?node|gpu-?server|compute-?node|nid\d|hpc|(?:gke|aks|eks|k8s|k3s|kube)-|bastion|jumphost|slurmctl|-node-?\d",
        re.compile(rf"(?<![A-Za-z0-9_.-])(?P<host>{_NODE})(?![A-Za-z0-9_]|\.\w)"),
    ),
    (
        r"(?m:^)(?:Linux|Darwin) |127\.0\.1\.1",
        re.compile(
            rf"(?m)^(?:Linux|Darwin) (?P<host>{_HOST}) \d+\.\d|^127\.0\.1\.1\s+(?P<host2>{_HOST})(?:\s+(?P<host3>{_HOST}))?"
        ),
    ),
    (
        r"slots=|(?m:^)Host |:\d+:\d+ - |-H |-hosts?|orkstation|omputer |COMPLETED|FAILED|CANCELLED|TIMEOUT",
        re.compile(
            rf"(?m)^[ \t]*(?P<host>{_HOST})[ \t]+(?:max_)?slots=|^Host (?P<host6>{_HOST})\s*$|\[(?P<host2>{_HOST}):\d+:\d+ - |(?:\s-H|\s--?hosts?)[ =](?P<host3>{_HOST}(?::\d+)?(?:,{_HOST}(?::\d+)?)*)"
            rf"|\b[Ww]orkstation (?P<host4>[A-Z0-9-]*\d[A-Z0-9-]*)|\|(?:COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL|OUT_OF_MEMORY|RUNNING)[^|]*\|(?P<host5>{_HOST}(?:\[[\d,-]+\])?)"
        ),
    ),
    (r"<\d{2,5}>", re.compile(rf"(?<![\w.:-])(?P<host>{_HOST})<\d{{2,5}}>")),
    (
        r":/\S+ on /|//\S+ on /|cifs",
        re.compile(
            rf"(?<![\w./-])(?P<host>{_HOST}):/\S{{1,200}} on /|(?<![\w:/])//(?P<host2>{_HOST})/\S{{1,200}} (?:on )?/"
        ),
    ),
)
"""(hint, where programs print names of hosts)."""
_IPV4 = re.compile(
    r"(?<![A-Za-z0-9_.])(?P<ip>(?:\d{1,3}\.){3}\d{1,3})(?![\w]|\.\d)(?P<after>:\d{1,5}(?!\d)|/\d{1,2}(?![\d.]))?"
)
_UNDERLINED = re.compile(r"(?<=_)(?P<ip>(?:10|172|192|100)\.\d{1,3}\.\d{1,3}\.\d{1,3})(?![\w.])(?P<after>)")
_NODE_BEFORE = re.compile(r"(?i)(?:node|host|ip|worker|peer|addr|client)_\Z")
_SPACED = re.compile(r"(?<![\w.])(?P<ip>\d{1,3}(?:(?: \. |\[\.\]|\(dot\)|\[dot\])\d{1,3}){3})(?![\w.])")
_JOINED = re.compile(
    r"(?<![A-Za-z0-9])(?:ip|node|host|worker)[_-](?P<ip>(?:\d{1,3}_){3}\d{1,3}|(?:\d{1,3}-){3}\d{1,3})(?![\w-])"
)
_NUMERIC = re.compile(
    r"(?:://|(?i:\b(?:host|addr|address|ip|peer|connect(?:ed|ing)? to)[\"']?[ =:]+[\"']?))(?P<ip>0[xX][0-9a-fA-F]{8}|[1-4]\d{9}|[1-9]\d{8}|0\d{1,3}(?:\.0?\d{1,3}){3}|0x[0-9a-fA-F]{1,2}(?:\.0x[0-9a-fA-F]{1,2}){3})(?=[:/\s,)}\]\"']|$)"
)
_VERSION_BEFORE = re.compile(
    r"(?i)(?:[=~<>!]=\s*|\.so\.|[-_]|\bv|\bver(?:sion)?s?[\w\s\"':=(,.]{0,20}|\b(?:cudnn|cublas\w*|cuda\w*|nccl|cusparse\w*|cufft|curand|cusolver|nvjitlink|nvtx|nvrtc|tensorrt|driver|release|toolkit|runtime|build|firmware|vbios|vib|cu1[123]|inforom|image version)\b[\w\s\"':=(,@/+-]{0,24})$"
)
_IPV6 = re.compile(
    r"(?<![\w:.])(?:[0-9A-Fa-f]{0,4}:){2,7}(?:[0-9A-Fa-f]{1,4}|(?:\d{1,3}\.){3}\d{1,3})?(?:%[\w.-]+)?(?![\w:])"
)
_MAC = re.compile(
    r"(?<![\w:.-])(?:[0-9A-Fa-f]{2}:){5,}[0-9A-Fa-f]{2}(?![\w:])|(?<![\w-])(?:[0-9A-Fa-f]{2}-){5}[0-9A-Fa-f]{2}(?![\w-])|(?<![\w.])(?:[0-9a-f]{4}\.){2}[0-9a-f]{4}(?![\w.])"
)
_GUID = re.compile(
    r"(?<![\w:])(?:[0-9a-f]{4}:){3}[0-9a-f]{4}(?![\w:])|(?i:\b(?:\w*guid|gid|lid|host_?hash)\\*[\"']?[ =:]+\\*[\"']?)(?P<value>0x[0-9a-fA-F]{12,16})"
)
_OF_BUCKETS = frozenset(
    ("storage.googleapis.com", "storage.cloud.google.com", "s3.amazonaws.com", "dev.azure.com", "wandb.ai")
)
"""Sites of everybody, below which a name is somebody's own."""
_PACKAGE = re.compile(r"(?<![\w.-])(?P<name>[A-Za-z][\w.-]{2,80})(?:\[[\w,-]+\])? @ $")
"""A package that was installed from the address that follows."""
_IN_URL = re.compile(r"://\S*\Z")
_COPIED = re.compile(rf"(?<![\w.-])[\w.-]+@(?P<host>{_HOST}):(?P<path>[A-Za-z0-9_~][\w.~-]*(?:/[\w.~-]+)+)")


def is_public(host: str) -> bool:
    """True for the sites of projects and vendors, and for this machine's own names."""
    name = host.lower().rstrip(".")
    if name in NO_HOST:
        return True
    if name.endswith(PRIVATE_BELOW):
        return name in {"storage.googleapis.com", "s3.amazonaws.com"}
    labels = name.split(".")
    return any(".".join(labels[-count:]) in PUBLIC_HOSTS for count in range(2, min(len(labels), 4) + 1))


def is_host(name: str) -> str | None:
    """The name if it could name a machine of somebody, else None."""
    if PSEUDONYM.fullmatch(name) or is_public(name) or not re.search("[A-Za-z]", name):
        return None
    return name if len(name) >= 2 and not re.fullmatch(r"0x[0-9a-fA-F]+|[0-9a-f]{13,}", name) else None


def hosts_in(value: str, at: int, *, certain: bool) -> Iterator[Find]:
    """The hosts that a value names: one, several with commas, a list of Slurm's (`gpu[01-04]`). Where it is not
    ``certain`` that it names hosts, only those that look like one."""
    for part in re.finditer(r"[A-Za-z0-9](?:[\w.-]|\[[\d,-]+\])*", value):
        before, name = value[: part.start()], part[0].rstrip(".-")
        if before.endswith(":") and name.isdigit():
            continue
        if (
            before.endswith(("/", "@", "=", "(", "'"))
            and not before.endswith("//")
            and part.start() > 0
            and not certain
        ):
            continue
        if part.start() > 0 and not re.fullmatch(r"(?:[\w.\[\]-]+(?::\d+)?,)*(?:[a-z]+://)?", before):
            break
        if re.fullmatch(r"[\d.]+", name) or (host := is_host(name)) is None:
            continue
        if certain or _looks_like_host(name):
            yield Find(at + part.start(), at + part.start() + len(host), "host", host)


def _looks_like_host(name: str) -> bool:
    if (
        re.search(r"\.(?:py|cu|so|json|log|sock|toml|yaml|txt|bin)\b|_", name)
        or name.split(".", maxsplit=1)[0].lower() in MODULES
    ):
        return False
    if re.fullmatch(
        r"(?:rank|gpu|cuda|tp|dp|pp|node|worker|server|client|replica|device|stage|step|host)[-:]?\d+|\d+[a-z]{0,3}|[a-z]{1,2}\d",
        name,
    ):
        return False
    if name.isupper() and not re.search(r"\d", name):
        return False
    return bool(re.search(r"\d", name) or ("." in name and len(name) > 5) or name.count("-") >= 1)


def copied(text: str) -> Iterator[Find]:
    """Paths behind `user@host:`, as of a repository."""
    for found in _COPIED.finditer(text):
        if (
            not is_public(found["host"])
            and not PSEUDONYM.search(found["path"])
            and not _IN_URL.search(text[: found.start()])
        ):
            yield Find(found.start("path"), found.end("path"), "path", found["path"])


def web_addresses(text: str) -> Iterator[Find]:
    """Credentials, hosts, paths and keys in addresses with a scheme."""
    for found in URL.finditer(text):
        scheme, creds, host = found["scheme"].lower(), found["creds"], found["host"]
        if creds:
            yield from _credentials(creds, found.start("creds"), scheme)
        if host and not host.startswith("[") and not re.fullmatch(r"[\d.]+", host) and is_host(host):
            yield Find(found.start("host"), found.end("host"), "host", host.rstrip("."))
        public = bool(host) and is_public(host) and host not in _OF_BUCKETS
        if host and not public:
            yield from _package(text, found.start())
        path = found["path"] or ""
        if (
            not public
            and len(path) > 1
            and scheme != "file"
            and not _ENDPOINTS.fullmatch(path.rstrip(":."))
            and not any(PSEUDONYM.fullmatch(part) for part in path.split("/"))
        ):
            yield Find(found.start("path"), found.start("path") + len(path.rstrip("/.:")), "path", path.rstrip("/.:"))
    if "=" in text:
        yield from _parameters(text)


def _package(text: str, end: int) -> Iterator[Find]:
    found = _PACKAGE.search(text, max(end - 90, 0), end)
    if found and not PSEUDONYM.fullmatch(found["name"]):
        yield Find(found.start("name"), found.end("name"), "name", found["name"])


def _parameters(text: str) -> Iterator[Find]:
    for found in _PARAMETER.finditer(text):
        value = found["value"].rstrip("\"'),.]}`\\>")
        value = re.split(r"[\"'<>]", value, maxsplit=1)[0]
        if (
            not _PARAMETERS.fullmatch(found["name"])
            or PSEUDONYM.fullmatch(value)
            or len(value) < 2
            or re.fullmatch(r"\d{1,8}|true|false|null|none|\$.*|\{.*", value.lower())
        ):
            continue
        yield Find(found.start("value"), found.start("value") + len(value), "secret", value)


def _credentials(creds: str, at: int, scheme: str) -> Iterator[Find]:
    name, _, password = creds.partition(":")
    if password and not PSEUDONYM.fullmatch(password) and not re.fullmatch(r"\*+|x+|\$\{?\w+\}?", password):
        yield Find(at + len(name) + 1, at + len(creds), "secret", password)
    if not name or name == "git" or PSEUDONYM.fullmatch(name):
        return
    if password or scheme in {"ssh", "sftp", "git+ssh", "scp", "rsync", "ftp"}:
        category = "user" if re.fullmatch(r"[A-Za-z][\w.-]{0,24}", name) else "secret"
        yield Find(at, at + len(name), "user" if category == "user" else "secret", name)
    else:
        yield Find(at, at + len(name), "secret", name)


def qualified(text: str) -> Iterator[Find]:
    """Fully qualified names of hosts anywhere; with what follows the name of a registry."""
    for found in FQDN.finditer(text):
        if _is_name_of_host(found[0], found["tld"].lower()) and is_host(found[0]):
            yield Find(found.start(), found.end(), "host", found[0])
            below = _BELOW.match(text, found.end())
            if (
                below
                and not PSEUDONYM.search(below[0])
                and not _ENDPOINTS.fullmatch(below["path"])
                and not text[: found.start()].endswith("://")
            ):
                yield Find(below.start("path"), below.end("path"), "path", below["path"])


def in_context(context: "re.Pattern[str]", text: str) -> Iterator[Find]:
    """Hosts in one of the places where programs print them."""
    for found in context.finditer(text):
        for group, value in found.groupdict().items():
            if value and not _is_code(value):
                yield from hosts_in(value, found.start(group), certain=True)


def _is_code(name: str) -> bool:
    return bool(
        re.fullmatch(
            r"NVIDIA-SMI|sha\d{1,3}|md5|cu\d{2,4}|sm_?\d+\w?|[\d.]+|(?:rank|gpu|cuda|tp|dp|pp|ep|node|worker|device|step|cell|TP|DP|PP)[-_]?\d+(?:[-_][A-Z]+\d+)*",
            name,
        )
    ) or (
        name.split(".", maxsplit=1)[0].lower() in MODULES
        or bool(re.search(r"\.(?:py|cu|cuh|cpp|cc|h|so|json|log|txt|sock|toml|ya?ml)$", name))
    )


def _is_name_of_host(name: str, tld: str) -> bool:
    labels = name.split(".")
    if labels[0].lower() in MODULES or "_" in name or any(not label for label in labels):
        return False
    if _SURE_TLD.fullmatch(tld):
        return len(labels) > 2 or len(labels[0]) > 2
    return (len(labels) > 2 and not any(re.search("[A-Z]", label) for label in labels)) or any(
        re.search(r"[\d-]", label) for label in labels[:-1]
    )


def ipv4(text: str) -> Iterator[Find]:
    """IPv4 addresses that are no versions, and not of this machine itself."""
    for found in (*_IPV4.finditer(text), *_UNDERLINED.finditer(text)):
        if _is_ipv4(found["ip"], found["after"], text, found.start()) or (
            found.re is _UNDERLINED and _NODE_BEFORE.search(text, max(found.start() - 12, 0), found.start())
        ):
            yield Find(found.start("ip"), found.end("ip"), "ip", found["ip"])


def odd_addresses(text: str) -> Iterator[Find]:
    """IPv4 addresses as one number, in octal or hexadecimal, and with other marks between their parts."""
    for found in (*_JOINED.finditer(text), *_NUMERIC.finditer(text), *_SPACED.finditer(text)):
        yield Find(found.start("ip"), found.end("ip"), "ip", found["ip"])


def long_addresses(text: str) -> Iterator[Find]:
    """IPv6, MAC and InfiniBand addresses that lead to one machine."""
    macs = [(found.start(), found.end()) for found in _MAC.finditer(text) if not re.fullmatch(r"[fF0:.-]+", found[0])]
    for start, end in macs:
        yield Find(start, end, "mac", text[start:end].lower())
    for found in _IPV6.finditer(text):
        if _is_ipv6(found[0]) and not any(start <= found.start() < end for start, end in macs):
            yield Find(found.start(), found.end(), "ip", found[0].lower())
    for found in _GUID.finditer(text):
        begin, end = found.span("value") if found["value"] else found.span()
        if re.search("[1-9a-f]", text[begin:end].removeprefix("0x")) and not re.fullmatch(
            r"(?:\d{4}:){3}\d{4}", text[begin:end]
        ):
            yield Find(begin, end, "mac", text[begin:end])


def _is_ipv4(ip: str, after: str | None, text: str, at: int) -> bool:
    parts = [int(part) for part in ip.split(".")]
    if (
        any(part > 255 for part in parts)
        or parts[0] in {0, 127, 255}
        or any(len(p) > 1 and p[0] == "0" for p in ip.split("."))
    ):
        return False
    if after:
        return True
    before = text[max(at - 40, 0) : at]
    return not _VERSION_BEFORE.search(before)


def _is_ipv6(text: str) -> bool:
    bare = text.partition("%")[0]
    try:
        address = ipaddress.IPv6Address(bare)
    except ValueError:
        return False
    groups = [group for group in bare.split(":") if group]
    if address.is_loopback or address.is_unspecified or len(groups) < 2:
        return False
    return (
        len(groups) >= 4
        or len(groups[0]) >= 3
        or (bare.lower().startswith(("fd", "fc", "fe", "2")) and len(groups[0]) == 4)
    )
