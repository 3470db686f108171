"""Secrets that are told by their form alone, whatever stands around them.

The forms are those their issuers document; each begins with letters that nothing else in a log begins with.
"""

from __future__ import annotations

import re

from vdiag.redact.book import Book

_FORMS = {
    "hf-token": r"(?:hf|api_org)_[A-Za-z0-9]{16,}|aGZf[A-Za-z0-9+/]{24,}={0,2}",
    "anthropic-key": r"sk-ant-[A-Za-z0-9_-]{16,}",
    "openai-key": r"sk-(?:(?:proj|svcacct|admin|None|or-v1)-)?[A-Za-z0-9_-]{16,}|sess-[A-Za-z0-9]{32,}|c2st[A-Za-z0-9+/]{24,}={0,2}",
    "aws-key": r"(?:A3T[A-Z0-9]|ABIA|ACCA|AKIA|ASIA|AROA|AIDA)[A-Z0-9]{16}(?![A-Z0-9])|QUtJQ[A-Za-z0-9+/]{22}=?(?![A-Za-z0-9+/])",
    "github-token": r"gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|Z2h[wvdtz][A-Za-z0-9+/]{24,}={0,2}",
    "gitlab-token": r"(?:gl(?:pat|dt|ft|soat|rt|cbt|imt|ptt|agent|oas|ffct)-|GR1348941)[A-Za-z0-9_-]{16,}",
    "google-key": r"AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{16,}|GOCSPX-[A-Za-z0-9_-]{20,}|1//0[A-Za-z0-9_-]{30,}",
    "azure-key": r"(?<=AccountKey=)[A-Za-z0-9+/]{20,}={0,2}|(?<=SharedAccessKey=)[A-Za-z0-9+/]{20,}={0,2}"
    r"|(?<=[?&]sig=)[A-Za-z0-9%+/=_-]{16,}|(?<=SharedAccessSignature=)[^\s\"']{16,}",
    "slack-token": r"xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-\d-[A-Za-z0-9-]{10,}"
    r"|(?<=hooks\.slack\.com/services/)[A-Za-z0-9/_-]{12,}",
    "npm-token": r"npm_[A-Za-z0-9]{30,}|(?<=_authToken=)[^\s\"']{8,}",
    "pypi-token": r"pypi-[A-Za-z0-9_-]{30,}",
    "nvidia-key": r"nvapi-[A-Za-z0-9_-]{16,}",
    "jwt": r"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?(?:\.[A-Za-z0-9_-]+){0,2}",
    # Stripe, SendGrid, DigitalOcean, Databricks, Replicate, Groq, xAI, Perplexity, Vault, Telegram; signed addresses
    "api-token": r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,}|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}|do[opr]_v1_[a-f0-9]{40,}"
    r"|dapi[a-f0-9]{32}|r8_[A-Za-z0-9]{30,}|gsk_[A-Za-z0-9]{30,}|xai-[A-Za-z0-9]{30,}|pplx-[A-Za-z0-9]{30,}"
    r"|hv[sbr]\.[A-Za-z0-9_-]{20,}|\d{8,10}:AA[A-Za-z0-9_-]{33}"
    r"|(?<=[?&]X-Amz-Signature=)[a-f0-9]{32,}|(?<=[?&]X-Amz-Credential=)[^&\s\"']{16,}"
    r"|(?<=[?&]X-Amz-Security-Token=)[^&\s\"']{16,}|(?<=[?&]Signature=)[^&\s\"']{16,}|(?<=[?&]Key-Pair-Id=)[A-Z0-9]{8,}"
    r"|(?<=[?&]X-Goog-Signature=)[a-f0-9]{32,}|(?<=[?&]X-Goog-Credential=)[^&\s\"']{16,}|(?<=[?&]Policy=)[^&\s\"']{16,}"
    r"|(?:hf_|sk-|gh[pousr]_|github_pat_|glpat-|nvapi-|AKIA|ASIA)[A-Za-z0-9_-]{4,}(?=\.{3}|…|\*{3})",  # cut short
}  # fmt: skip

# What one of them begins with (also in base64), as the prefilter of long logs looks for it; in lower case.
LITERALS = (
    "hf_", "api_org_", "sk-", "sess-", "a3t", "abia", "acca", "akia", "asia", "aroa", "aida", "ghp_", "gho_", "ghu_",
    "ghs_", "ghr_", "github_pat_", "glpat-", "gldt-", "glft-", "glsoat-", "glrt-", "glcbt-", "glimt-", "glptt-", "glagent-",
    "gloas-", "glffct-", "gr1348941", "aiza", "ya29.", "gocspx-", "1//0", "key=", "sig=", "signature=", "credential=",
    "xox", "xapp-", "hooks.slack.com", "npm_", "_authtoken=", "pypi-", "nvapi-", "eyj", "sk_live_", "sk_test_", "rk_live_",
    "rk_test_", "sg.", "_v1_", "dapi", "r8_", "gsk_", "xai-", "pplx-", "hvs.", "hvb.", "hvr.", ":aa", "key-pair-id=",
    "policy=", "security-token=", "agzf", "c2st", "qutjq", "z2hw", "z2hv", "z2hd", "z2ht", "z2hz",
)  # fmt: skip

# Not inside a word, but behind what an address (`%20`) or a spelled-out character (`\n`, `\u003d`) leaves in front.
_STARTS = r"(?:(?<![A-Za-z0-9])|(?<=%[0-9A-Fa-f][0-9A-Fa-f])|(?<=\\[nrt])|(?<=\\u00[0-9A-Fa-f][0-9A-Fa-f])|(?<=\\x[0-9A-Fa-f][0-9A-Fa-f]))"
_ALL = re.compile("|".join(f"(?P<k{n}>{_STARTS}(?:{form}))" for n, form in enumerate(_FORMS.values())))
_KINDS = tuple(_FORMS)


def replace(text: str, book: Book) -> str:
    """The text without tokens that their own form gives away."""

    def named(found: re.Match[str]) -> str:
        token = found[0]
        if not any(c.isdigit() or c.isupper() for c in token[4:]):
            return token  # words that happen to begin so, such as a function's name
        kind = _KINDS[int(str(found.lastgroup)[1:])]
        book.spread(kind, token)
        return book.name(kind, token)

    return _ALL.sub(named, text)
