"""What one administrator may change alone, as a table."""

from __future__ import annotations

from uuid import uuid4

import pytest

from console.accounts.members.rules import BadGroup, MemberRoles, UnknownRole, is_self_promotion

ADA, BEN = uuid4(), uuid4()


@pytest.mark.parametrize(
    ("before", "after", "gains"),
    [
        (("administrator", ""), ("administrator reviewer", ""), True),
        (("reviewer", ""), ("reviewer", "finance"), True),
        (("reviewer", "finance"), ("reviewer", ""), False),
        (("reviewer", "finance"), ("operator", "finance"), False),
        (("administrator", ""), ("administrator", "finance"), False),
        (("administrator", "finance"), ("administrator reviewer", "finance"), True),
        (("administrator", ""), ("administrator operator compliance", ""), False),
    ],
)
def test_power_over_approvals_is_the_role_and_its_groups(before, after, gains):
    """B19: nobody gives it to themselves, through whichever account; to others they may."""
    now, wanted = (MemberRoles.of(roles.split(), groups.split()) for roles, groups in (before, after))
    assert is_self_promotion(now, wanted, person=ADA, by_person=ADA) is gains
    assert not is_self_promotion(now, wanted, person=ADA, by_person=BEN)


@pytest.mark.parametrize("name", ["", "Finance", "reviewers", "a b", "-x", "x" * 41, "fünf", "a/b"])
def test_a_group_is_a_plain_word_and_never_everybody(name):
    with pytest.raises(BadGroup):
        MemberRoles.of(["reviewer"], [name])


def test_an_unknown_role_is_refused():
    with pytest.raises(UnknownRole):
        MemberRoles.of(["superuser"], [])
