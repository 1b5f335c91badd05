"""E-mail addresses used for sign-in: their normal form, and confusable spellings. Pure.

Every door compares the normal form alone: invitation, sign-in, single sign-on, linked accounts, the command line. It is
NFKC without white space at its ends, case-folded, with the domain in ASCII (IDNA 2008 after UTS 46). The database
refuses an account under another form. Dots and tags before the `@` are up to the receiving server and count as written.
"""

from __future__ import annotations

import unicodedata
from typing import Final

import idna

from ledger.record.rules.refusals import Refused
from reviews.guarding.rules.folding import fold

# What takes a second look to tell apart in most fonts, once letters of other scripts are folded to Latin ones.
_ALIKE: Final = (("rn", "m"), ("vv", "w"), ("0", "o"), ("1", "l"))


class BadAddress(Refused):
    """An email address is written name@domain, with one @ and no spaces."""

    code = "BAD_ADDRESS"
    status = 422


def normal_form(address: str) -> str:
    """The form of an address, or of another name to sign in with, in which it is stored and compared."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", address).strip().casefold())
    local, at, domain = folded.rpartition("@")
    return f"{local}{at}{_ascii_domain(domain)}" if at else folded


def check_address(address: str) -> str:
    """The normal form of an address for an invitation; `BadAddress` if it is invalid."""
    normal = normal_form(address)
    local, at, domain = normal.partition("@")
    if not (local and at and domain) or "@" in domain or any(each.isspace() for each in normal):
        raise BadAddress
    return normal


def appearance(address: str) -> str:
    """The visual form of an address: two that are easily confused have the same."""
    local, at, domain = normal_form(address).rpartition("@")
    seen = fold(f"{local}{at}{_shown_domain(domain)}").lower
    for one, other in _ALIKE:
        seen = seen.replace(one, other)
    return seen


def _ascii_domain(domain: str) -> str:
    try:
        return domain if domain.isascii() else idna.encode(domain, uts46=True).decode()
    except idna.IDNAError:
        return domain


def _shown_domain(domain: str) -> str:
    try:
        return idna.decode(domain)
    except idna.IDNAError:
        return domain
