"""An e-mail address is one thing at every door, however it is typed; one that is easily taken for it is refused."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import IntegrityError, transaction

from console.accounts import queries as accounts_queries
from console.accounts.addresses import appearance, normal_form
from console.accounts.members import queries as members_queries
from console.models import Membership, User
from ledger.db import tenancy
from tests.support.api_tenant import PASSWORD
from tests.support.browser_users import visitor, words
from tests.support.callers import Api, new_client
from tests.web.people.test_proofs import failures

KNOWN = "ada@xn--bcher-kva.example"
SPELLINGS = (
    KNOWN,
    "Ada@Bücher.Example",
    " ada@bücher.example ",
    "\uff21\uff24\uff21@bücher.example",
    "ada@bu\u0308cher.example",
    "ada@bücher。example",
)


@pytest.mark.parametrize("typed", SPELLINGS)
def test_every_spelling_has_one_normal_form(typed: str):
    assert normal_form(typed) == KNOWN
    assert normal_form(normal_form(typed)) == KNOWN


@pytest.mark.parametrize("other", ["a.da@bücher.example", "ada+work@bücher.example", "ada@bücher.example.org"])
def test_dots_and_tags_of_an_address_are_kept(other: str):
    assert normal_form(other) != KNOWN
    assert appearance(other) != appearance(KNOWN)


def invited(by: Any, email: str) -> Any:
    return Api(by.client, {}).post("/members", {"email": email, "name": "Ada", "roles": ["operator"], "groups": []})


def test_an_invitation_in_another_spelling_is_for_the_same_account(stage: Any):
    administrator = visitor(stage, "administrator")
    assert invited(administrator, SPELLINGS[1]).status_code == 201
    for typed in SPELLINGS[1:]:
        # What is no address as it is typed is refused ahead of that.
        if " " not in typed and "." in typed:
            assert invited(administrator, typed).json()["code"] == "MEMBER_ALREADY", typed
    page = administrator.post("people/invite", email=SPELLINGS[2], name="Ada", roles=["operator"])
    assert page.status_code == 409
    assert [each.username for each in User.objects.filter(username__contains="bcher")] == [KNOWN]


@pytest.mark.parametrize("typed", SPELLINGS)
def test_sign_in_and_lockout_apply_to_every_spelling_of_an_address(stage: Any, settings: Any, typed: str):
    settings.AXES_FAILURE_LIMIT = 3
    stage.person("operator", name=KNOWN)
    assert new_client().post("/sign-in", {"username": typed, "password": PASSWORD}).status_code == 302
    for each in (typed, KNOWN, typed):
        new_client().post("/sign-in", {"username": each, "password": "guessed"})
    assert failures(KNOWN) == 3
    assert new_client().post("/sign-in", {"username": KNOWN, "password": PASSWORD}).status_code == 429


@pytest.mark.parametrize("typed", SPELLINGS)
def test_queries_find_an_account_under_every_spelling(stage: Any, typed: str):
    place = stage.person("operator", name=KNOWN)
    with tenancy(stage.tenant):
        assert members_queries.member_by_username(stage.tenant, typed) == place
        assert accounts_queries.member_named(stage.tenant, typed) == place
    assert accounts_queries.person_with_email(typed) == place.user


@pytest.mark.parametrize("name", ["Ada@corp.example", " ada@corp.example", "\uff41da@corp.example"])
def test_the_database_refuses_an_account_in_another_spelling(db: None, name: str):
    with pytest.raises(IntegrityError, match="user_name_in_normal_form"), transaction.atomic():
        User.objects.bulk_create([User(username=name)])


@pytest.mark.parametrize(
    "typed",
    [
        "\u0430da@corp.example",
        "ada@c\u043erp.example",
        "ada@c0rp.example",
        "ada@corp.exarnple",
        "àda@corp.example",
        "ada@xn--crp-sed.example",
    ],
)
def test_an_address_confusable_with_that_of_a_member_is_refused_and_names_it(stage: Any, typed: str):
    stage.person("operator", name="ada@corp.example")
    administrator = visitor(stage, "administrator")
    said = (
        f"{normal_form(typed)} is easily taken for ada@corp.example, which belongs to a member. Check the spelling; if"
        " it is somebody else, invite them under an address that cannot be mistaken."
    )
    refused = invited(administrator, typed)
    assert (refused.status_code, refused.json()["code"], refused.json()["detail"]) == (409, "LOOKS_LIKE_MEMBER", said)
    page = administrator.post("people/invite", email=typed, name="Ada", roles=["operator"])
    # The page's form takes no letters beyond ASCII before the @ in the first place.
    taken = typed.partition("@")[0].isascii()
    assert (page.status_code, said in words(page.content.decode())) == ((409, True) if taken else (422, False))
    assert Membership.objects.filter(user__username=normal_form(typed)).count() == 0


def test_an_address_confusable_with_that_of_a_removed_member_is_accepted(stage: Any):
    row = stage.person("operator", name="ada@corp.example")
    Membership.objects.filter(id=row.id).update(removed_at=row.joined_at)
    assert invited(visitor(stage, "administrator"), "ada@c0rp.example").status_code == 201


def test_an_address_with_two_at_signs_in_normal_form_is_refused(stage: Any):
    refused = invited(visitor(stage, "administrator"), "ada\uff20corp.example@evil.example")
    assert (refused.status_code, refused.json()["code"]) == (422, "BAD_ADDRESS")
