"""Whom this installation asks to vouch for its logs: the files that two settings name.

Read once, when the process starts: a wrong file stops it with a sentence, and is never half believed.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from cryptography import x509

from ledger.log.rules import witness_policy
from ledger.log.rules.witness_policy import Policy
from ledger.record.rules.refusals import Refused


class Unusable(Exception):
    """The file cannot be used; the message is the sentence a person reads."""


def witnesses(file: Path) -> Policy:
    """The witnesses to ask, each with its address, and how many of them are enough: a C2SP tlog-policy file."""
    try:
        policy = witness_policy.read(file.read_bytes())
    except OSError as problem:
        raise Unusable(f"{file} cannot be read: {problem.strerror}.") from None
    except Refused as refused:
        raise Unusable(f"{file}: {refused.detail}") from None
    if not policy.witnesses or policy.quorum is None:
        raise Unusable(f"{file} must name a witness and a quorum, or nothing would ever count as anchored.")
    for each in policy.witnesses:
        if each.url is None or not is_address(each.url):
            raise Unusable(f"{file}: the witness {each.name} needs an address that begins with http:// or https://.")
    return policy


def authorities(file: Path) -> tuple[x509.Certificate, ...]:
    """The roots to which a time-stamp authority's certificate must lead, in PEM."""
    try:
        return tuple(x509.load_pem_x509_certificates(file.read_bytes()))
    except OSError as problem:
        raise Unusable(f"{file} cannot be read: {problem.strerror}.") from None
    except ValueError:
        raise Unusable(f"{file} holds no certificates in PEM.") from None


def is_address(text: str) -> bool:
    """Whether this is a plain address of HTTP, without a name and password in it."""
    try:
        parts = urlsplit(text)
        whole = parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc
        return whole and not parts.query and not parts.fragment and (parts.port is None or parts.port > 0)
    except ValueError:
        return False
