"""Compares the direction and the method of a payment in a sentence with those of the changes.

1. An amount that equals an effect of a change, beside words of paying back or of charging and not of both, must go that
   way. Where a sentence names only "the difference", it must go as every difference does.
2. A method that a sentence about money names, or the last four digits of a card, must be of a method that the changes
   were asked to use or show, joined with what was read of it.
3. Offers, conditions, denials and questions are left alone.

The words are English; in another language nothing is concluded.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from reviews.guarding.rules.effects import Effects, MoneyEffect
from reviews.guarding.rules.records import Record
from reviews.guarding.rules.values import stated_values

_BACK = re.compile(
    r"\b(?:refund\w*|credited|returned to your|paid back|reimburs\w*|savings?|cheaper|money back|give you back)\b"
)
_OUT = re.compile(
    r"\b(?:charged?|charges|billed|paid(?! back)|additional cost|extra cost|additional charge|payment of|owe|due"
    r"|to pay|will pay|pay an|deducted)\b"
)
_OPEN = re.compile(
    r"\b(?:would|if|could|can i|may|might|shall i|once you|please confirm|do you want|unless|not eligible|cannot|can't"
    r"|unable|not|no|never|instead of|originally|previously|either|or)\b|n't\b|\?"
)
_METHOD = re.compile(
    r"\b(gift card|paypal|credit card|debit card|visa|mastercard|amex|american express|certificate|apple pay|google pay"
    r"|bank account|bank transfer|voucher|store credit)\b"
)
_DIGITS = re.compile(
    r"\b(?:ending|ends)\s+(?:in|with)\s+\W{0,3}(\d{4})\b|\((\d{4})\)|[*\u2022x]{2,}\s?(\d{4})\b"
    r"|\blast four(?: digits)? (?:of )?(\d{4})\b"
)
_OF_MONEY = re.compile(r"payment|method|refund|charge|paid|credit")
_FOUR = re.compile(r"\b\d{4}\b")
_CARDS = frozenset({"credit card", "debit card"})


def wrong_direction(sentence: str, changes: Sequence[Record], effects: Effects) -> tuple[Record, MoneyEffect] | None:
    """The change and its effect that a sentence in lower case tells the wrong way round (rule 1)."""
    found = [(record, each) for record in changes for each in effects.money_of(record) if each.direction]
    said = _said_direction(sentence) if found else 0
    if not said:
        return None
    amounts = {each.value for each in stated_values(sentence) if each.sort == "amount"}
    if amounts:
        meant = [each for each in found if round(each[1].amount, 2) in amounts]
    else:
        meant = found if re.search(r"\bdifference\b", sentence) and _is_told(sentence) else []
    if meant and all(each.direction != said for _, each in meant):
        return meant[-1]
    return None


def _said_direction(sentence: str) -> int:
    back, out = _BACK.search(sentence) is not None, _OUT.search(sentence) is not None
    if back == out or _OPEN.search(sentence):
        return 0
    return -1 if back else 1


def _is_told(sentence: str) -> bool:
    return re.search(r"\b(?:has|have|was|were|been|is|will)\b", sentence) is not None


def other_method(sentence: str, changes: Sequence[Record], effects: Effects) -> str | None:
    """Return the method that a sentence in lower case names instead of those of the changes (rule 2)."""
    if not _OF_MONEY.search(sentence) or _OPEN.search(sentence):
        return None
    digits = [next(filter(None, each)) for each in _DIGITS.findall(sentence)]
    named = _METHOD.findall(sentence)
    if not digits and not named:
        return None
    methods = {each for record in changes for each in effects.methods_of(record)}
    known = [_words_of(each, effects) for each in methods]
    if not known:
        return None
    fours = {four for each in known for four in _FOUR.findall(each)}
    if digits and fours:
        return None if fours & set(digits) else digits[0]
    if (
        named
        and all(_is_kind_known(each) for each in known)
        and not any(_fits(each, one) for each in named for one in known)
    ):
        return str(named[0])
    return None


def _words_of(method: str, effects: Effects) -> str:
    told = " ".join(map(str, effects.read_of(method).values()))
    return f"{method} {told}".lower().replace("_", " ")


def _is_kind_known(words: str) -> bool:
    """Return True if the kind of a method is known from its id or from a reading of it."""
    return _METHOD.search(words) is not None or re.search(r"\bcard\b|\bbank\b", words) is not None


def _fits(named: str, words: str) -> bool:
    if named in words or (
        named in _CARDS and re.search(r"visa|mastercard|amex|card(?! gift)", words) and "gift card" not in words
    ):
        return True
    return (
        named in ("certificate", "voucher", "store credit")
        and re.search(r"certificate|voucher|credit", words) is not None
    )
