"""Tokens and keys that show by their form which service gave them out."""

import re
from collections.abc import Iterator

from repro.redact.finds import Find

_T = r"[A-Za-z0-9_-]"
_FORMS = (
    # models and data
    rf"(?:hf|api_org)_[A-Za-z0-9]{{16,}}|sk-{_T}{{16,}}|nvapi-{_T}{{16,}}|wandb_v\d_{_T}{{16,}}|local-[a-f0-9]{{40}}|r8_[A-Za-z0-9]{{16,}}",
    rf"gsk_[A-Za-z0-9]{{20,}}|(?:xai|pplx|csk|fw|tgp_v1|ms|jina|co)[-_][A-Za-z0-9]{{24,}}{_T}*|rpa_[A-Za-z0-9]{{20,}}",
    rf"(?:sk|pk)-lf-{_T}{{16,}}|ls(?:v2_(?:pt|sk)|__)_?{_T}{{16,}}|pcsk_{_T}{{16,}}|dapi[a-f0-9]{{32}}(?:-\d)?|kaggle_{_T}{{16,}}",
    # code
    rf"gh[pousr]_[A-Za-z0-9_]{{16,}}|github_pat_[A-Za-z0-9_]{{16,}}|gl(?:pat|ptt|dt|rt|soat|imt|agent|cbt|ft|oas)-{_T}{{12,}}",
    rf"npm_[A-Za-z0-9]{{20,}}|pypi-{_T}{{16,}}|rubygems_[a-f0-9]{{20,}}|dckr_[a-z]{{2,5}}_{_T}{{16,}}|CLOJARS_[a-z0-9]{{20,}}",
    rf"AT[A-Z]{{2,4}}[3x]?[A-Za-z0-9]{{2}}{_T}{{16,}}(?:=[A-F0-9]{{8}})?|lin_(?:api|oauth)_[A-Za-z0-9]{{16,}}|sntry[us]_{_T}{{16,}}[={{}}\w+/]*",
    rf"cio[A-Za-z0-9]{{32}}\b|oy2[a-z0-9]{{43}}\b|figd_{_T}{{16,}}|PMAK-[a-f0-9]{{16,}}-?[a-f0-9]*|ntn_[A-Za-z0-9]{{20,}}",
    # clouds
    r"(?:AKIA|ASIA|ABIA|ACCA|AROA|AIDA|AGPA|ANPA)[A-Z0-9]{12,}|AIza[\w-]{25,}|GOOG[A-Z0-9]{20,}|ya29\.[\w.-]{16,}|GOCSPX-[\w-]{16,}",
    rf"dop_v1_[a-f0-9]{{16,}}|do[or]_v1_[a-f0-9]{{16,}}|dp\.(?:pt|st|ct|sa|scim|audit)\.{_T}[\w.-]{{12,}}|hv[sbr]\.{_T}{{16,}}",
    rf"\w{{14}}\.atlasv1\.{_T}{{20,}}|pul-[a-f0-9]{{32,}}|(?:ops_)?eyJ{_T}{{8,}}(?:\.{_T}*){{0,4}}|LTAI[A-Za-z0-9]{{12,}}|AKID[A-Za-z0-9]{{13,}}",
    rf"[A-Za-z0-9_~.-]{{3}}\dQ~[A-Za-z0-9_~.-]{{16,}}|nebius_{_T}{{16,}}|fly?[A-Za-z]*_v1_{_T}{{16,}}|tskey-{_T}{{16,}}",
    # messages, money, monitoring
    rf"xox[a-z](?:\.xox[a-z])?-{_T}{{10,}}|xapp-\d-{_T}{{10,}}|[MNO][A-Za-z\d_-]{{22,}}\.[\w-]{{6}}\.[\w-]{{25,}}|\d{{8,10}}:AA[\w-]{{30,}}",
    rf"(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{{10,}}|whsec_[A-Za-z0-9+/=]{{16,}}|sq0(?:atp|csp|idp)-{_T}{{16,}}|shp(?:at|ss|ca|pa)_[a-fA-F0-9]{{16,}}",
    rf"SG\.{_T}{{12,}}\.{_T}{{12,}}|key-[a-f0-9]{{32}}|xkeysib-{_T}{{16,}}|(?:SK|AC)[a-f0-9]{{32}}|[a-f0-9]{{32}}-us\d{{1,2}}",
    rf"glsa_{_T}{{16,}}|glc_{_T}{{16,}}[=\w+/]*|NRAK-[A-Z0-9]{{16,}}|NRJS-[a-f0-9]{{16,}}|phc_[A-Za-z0-9]{{20,}}|dt0[a-z]\d{{2}}\.[A-Z0-9]{{20,}}\.[A-Z0-9]{{20,}}",
    r"AGE-SECRET-KEY-1[A-Z0-9]{16,}|EAA[A-Za-z0-9]{40,}|(?<!\w)1//0[\w-]{24,}|\$(?:2[abxy]|1|5|6|y|apr1|argon2\w*)\$[\w$./=,+-]{16,}",
    r"(?:ssh-(?:rsa|dss|ed25519)|ecdsa-sha2-nistp\d+|sk-ssh-ed25519@openssh\.com) AAAA[A-Za-z0-9+/=]{20,}|PuTTY-User-Key-File-\d: \S+",
    r"SHA256:[A-Za-z0-9+/]{43}=?|-----BEGIN [A-Z0-9 ]{3,60}-----\s*(?!secret-\d)[^\s'-][\s\S]*?(?:-----END [A-Z0-9 ]{3,60}-----|\Z)",
    r"(?<!-)(?=[A-Z-]*\d)(?:(?:[A-Z0-9]{5}-){3,}[A-Z0-9]{5}|(?:[A-Z0-9]{4}-){3,4}[A-Z0-9]{4}|(?:[A-Z0-9]{6}-){3,}[A-Z0-9]{6})(?![A-Za-z0-9-])",
    # web addresses that are keys themselves
    r"(?<=hooks\.slack\.com/)[\w/-]{10,}|(?<=/api/webhooks/)[\w/-]{10,}|(?<=webhook\.office\.com/)[^\s\"']{10,}|(?<=/webhookb2/)[^\s\"']+",
    r"(?<=api\.telegram\.org/)bot[\w:-]+",
)
TOKENS = re.compile(r"(?<![A-Za-z0-9])(?:" + "|".join(_FORMS) + ")")
BEGINNINGS = re.compile(
    r"(?<![A-Za-z0-9])(?:hf_|sk-|gh[pousr]_|github_pat_|glpat-|nvapi-|xox[a-z]-|AKIA|AIza|eyJ|npm_|pypi-|dckr_pat_|hvs\.)"
    r"[\w.-]*\Z"
)
"""A known token that runs to the end of a line, and may go on in the next."""
HINT = (
    r"(?:hf|org|r8|gsk|v1|v2|rpa|pcsk|kaggle|gh[pousr]|pat|npm|rubygems|dckr|CLOJARS|api|oauth|sntry[us]|figd|ntn|oat"
    r"|nebius|live|test|whsec|shp[a-z]{2}|glsa|glc|phc|tgp)_[A-Za-z0-9_-]{10}"
    r"|(?:sk|nvapi|gl[a-z]{2,5}|pypi|PMAK|GOCSPX|pul|tskey|xapp|xox[a-z]|sq0[a-z]{3}|key|xkeysib|NR[A-Z]{2}|xai|pplx|csk|fw|ms|co|lf|local)"
    r"-[A-Za-z0-9_-]{10}"
    r"|A[KSBCRIGN][A-Z]A[A-Z0-9]{12}|AT[A-Z]{2}|cio|oy2|AIza|GOOG|ya29|dapi|d[pt][.0]|hv[sbr]\.|atlasv1|eyJ|LTAI|AKID|\dQ~|[MNO][A-Za-z\d_-]{22}"
    r"|:AA|(?:[A-Z0-9]{4,6}-){3}|SG\.|(?:SK|AC)[a-f0-9]{32}|-us\d|SECRET-KEY|EAA|1//0|\$[1256yxba]|ssh-|ecdsa|PuTTY|SHA256:|-----BEGIN|hooks\.slack|webhook|telegram"
)


def tokens(text: str) -> Iterator[Find]:
    """All that has the form of a token of a known service."""
    for found in TOKENS.finditer(text):
        yield Find(found.start(), found.end(), "secret", found[0])
