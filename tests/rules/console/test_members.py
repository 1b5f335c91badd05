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
def test_gaining_approval_rights_for_oneself_counts_as_self_promotion(before, after, gains):
    """B19: nobody gives it to themselves, through whichever account; to others they may."""
    now, wanted = (MemberRoles.of(roles.split(), groups.split()) for roles, groups in (before, after))
    assert is_self_promotion(now, wanted, person=ADA, by_person=ADA) is gains
    assert not is_self_promotion(now, wanted, person=ADA, by_person=BEN)


@pytest.mark.parametrize("name", ["", "Finance", "reviewers", "a b", "-x", "x" * 41, "fünf", "a/b"])
def test_an_invalid_or_reserved_group_name_is_refused(name):
    with pytest.raises(BadGroup):
        MemberRoles.of(["reviewer"], [name])


def test_an_unknown_role_is_refused():
    with pytest.raises(UnknownRole):
        MemberRoles.of(["superuser"], [])
