"""One confirmation by a second person: who may give it."""

from __future__ import annotations

from ledger.record.rules.refusals import Refused


class SecondPersonNeeded(Refused):
    """Another person must confirm this; you cannot confirm your own proposal from any account."""

    code = "SECOND_PERSON_NEEDED"
    status = 403
