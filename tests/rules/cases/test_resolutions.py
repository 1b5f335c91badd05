"""Resolutions: what a person may decide about a held action."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ledger.catalogue.rules.effects import Reversibility, SideEffectClass
from ledger.record.rules.lifecycle import State
from reviews.cases.rules.resolutions import HeldAction, Resolution, allowed_resolutions


@pytest.mark.req("R-SM-19")
@pytest.mark.parametrize("state", [State.REVIEW_REQUIRED, State.UNKNOWN])
def test_an_action_can_be_abandoned_only_with_a_discrepancy_on_record(state: State):
    held = HeldAction(
        state=state,
        executed=True,
        verifiable=True,
        discrepancy="UNKNOWN_STATE",
        side_effect_class=SideEffectClass.HIGH_RISK_EXTERNAL,
        reversibility=Reversibility.IRREVERSIBLE,
    )
    assert Resolution.ABANDON in allowed_resolutions(held)
    assert Resolution.ABANDON not in allowed_resolutions(replace(held, discrepancy=""))
