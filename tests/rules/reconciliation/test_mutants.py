"""L27: a comparison of the offline verifier or of the tree that is turned round does not go unnoticed."""

from __future__ import annotations

from typing import Any

import pytest

from counterfoil_tlog import merkle, tiles
from ledger import verify_bundle
from tests.rules.cases import test_signed_settlements
from tests.rules.exports import test_bundle_stamps, test_hostile_bundles, test_signed_bundles, test_verify_bundle
from tests.support.mutants import Check, Mutant, checks_of, mutants, notices, survives
from tests.support.outside.authorities import Authority
from tests.tlog import test_merkle, test_tiles

TREE = ("blocks", "Frontier.push", "Frontier.root", "consistent", "_past_left_edges")


SLOW = (
    "test_a_stamp_with_any_changed_byte_is_detected",
    "test_a_changed_document_is_never_verified",
    "test_damaged_bytes_are_never_verified",
)

THOROUGH = (
    "test_every_leaf_of_every_tree_of_up_to_300_leaves_is_proved",
    "test_every_growth_of_up_to_300_leaves_is_proved",
)


def verifying(**fixtures: Any) -> list[Check]:
    modules = (
        test_verify_bundle,
        test_hostile_bundles,
        test_bundle_stamps,
        test_signed_bundles,
        test_signed_settlements,
    )
    return checks_of(*modules, but=SLOW, **fixtures)


def survivors(found: list[Mutant], checks: list[Check]) -> list[str]:
    assert not any(notices(check) for check in checks), "they do not even pass as it is"
    return [str(each) for each in found if survives(each, checks)]


@pytest.mark.whole
def test_every_flipped_comparison_in_the_tree_of_the_verifier_is_detected():
    found = list(mutants(verify_bundle, only=TREE))
    assert len(found) > 10
    assert survivors(found, verifying()) == []


@pytest.mark.long
def test_every_flipped_comparison_in_the_verifier_is_detected(tmp_path):
    found = list(mutants(verify_bundle))
    assert len(found) > 150
    assert survivors(found, verifying(authority=Authority(tmp_path))) == []


@pytest.mark.long
@pytest.mark.parametrize("module", [merkle, tiles])
def test_every_flipped_comparison_in_the_tree_is_detected(module):
    # The thorough ones only for what the quick ones do not notice.
    checks = checks_of(test_verify_bundle, test_merkle, test_tiles, but=THOROUGH) + checks_of(test_tiles)
    assert survivors(list(mutants(module)), checks) == []
