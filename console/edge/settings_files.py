"""Read the witness and time-stamp authority files named by two settings.

Read once, when the process starts: a wrong file stops it with a sentence, and is never half believed.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from cryptography import x509

from counterfoil_tlog import witness_policy
from counterfoil_tlog.witness_policy import WitnessPolicy
from ledger.record.rules.refusals import Refused


class UnusableFile(Exception):
    """The file cannot be used; the message is the sentence a person reads."""


def load_witness_policy(file: Path) -> WitnessPolicy:
    """The witnesses with their addresses, and the required number: a C2SP tlog-policy file."""
    try:
        policy = witness_policy.read(file.read_bytes())
    except OSError as problem:
        raise UnusableFile(f"{file} cannot be read: {problem.strerror}.") from None
    except Refused as refused:
        raise UnusableFile(f"{file}: {refused.detail}") from None
    if not policy.witnesses or policy.quorum is None:
        raise UnusableFile(f"{file} must name a witness and a quorum, or nothing would ever count as anchored.")
    for each in policy.witnesses:
        if each.url is None or not is_plain_http_address(each.url):
            raise UnusableFile(
                f"{file}: the witness {each.name} needs an address that begins with http:// or https://."
            )
    return policy


def load_authorities(file: Path) -> tuple[x509.Certificate, ...]:
    """The roots to which a time-stamp authority's certificate must lead, in PEM."""
    try:
        return tuple(x509.load_pem_x509_certificates(file.read_bytes()))
    except OSError as problem:
        raise UnusableFile(f"{file} cannot be read: {problem.strerror}.") from None
    except ValueError:
        raise UnusableFile(f"{file} holds no certificates in PEM.") from None


def is_plain_http_address(text: str) -> bool:
    """Return whether this is a plain HTTP address, without a name and password in it."""
    try:
        parts = urlsplit(text)
        whole = parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc
        return whole and not parts.query and not parts.fragment and (parts.port is None or parts.port > 0)
    except ValueError:
        return False
