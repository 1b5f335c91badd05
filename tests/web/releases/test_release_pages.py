"""The pages of releases: who drafted what, where it stands and what is next, and the steps of those who may."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest

from console.releases.release_sentences import next_step, scope_sentence, standing_sentence
from ledger.catalogue import queries
from ledger.catalogue.rules.policies import default_policy
from ledger.catalogue.rules.releases import CanaryScope
from ledger.db import tenancy
from tests.support.api_tenant import PASSWORD, Clock, Workshop
from tests.support.browser_users import Visitor, words
from tests.support.callers import pass_gates, put_in_force

WORD = {"reason": "It was tried on the night shift.", "password": PASSWORD, "otp": ""}


def visitor(shop: Workshop, role: str = "administrator", name: str = "") -> Visitor:
    return Visitor(shop.person(role, name=name).client, shop.slug)


def drafted(person: Visitor, **changes: Any) -> str:
    """The address of a release that this person drafts by the form."""
    document = default_policy("verification") | {"repeat_limit": 5}
    fields = {"kind": "verification", "version": "2", "reason": "Doubts take longer to settle."}
    answer = person.post("releases/draft", **fields | {"document": json.dumps(document)} | changes)
    assert answer.status_code == 302, words(answer.content.decode())
    return str(answer["Location"].removeprefix(f"/t/{person.slug}/"))


def refused(person: Visitor, path: str, **fields: Any) -> str:
    answer = person.post(path, **fields)
    assert answer.status_code in (403, 409, 422), answer.status_code
    return str(answer.content.decode())


@pytest.mark.req("R-UI-19")
def test_a_draft_starts_from_the_version_in_force_and_keeps_the_typed_text(shop: Workshop):
    ada = visitor(shop)
    assert "Change this policy: draft a release" in words(ada.page("policies/"))
    form = words(ada.page("releases/draft", kind="verification"))
    assert "based on the version in force, 1" in form
    assert '"repeat_limit": 3' in form.replace("&quot;", '"')
    sent = {"kind": "verification", "version": "2", "reason": "Doubts take longer to settle."}
    for document, said in (
        ('{"repeat_limit": ', "The text is not JSON"),
        ("[]", "The document must be a JSON object."),
        (json.dumps(default_policy("verification") | {"repeat_limit": 0}), "/repeat_limit"),
    ):
        page = refused(ada, "releases/draft", **sent, document=document)
        assert said in words(page)
        assert "Doubts take longer to settle." in page
    assert "No drafts yet." in words(ada.page("releases"))
    assert ada.get("releases/draft", kind="approval").status_code == 200


@pytest.mark.req("R-UI-19", "R-RG-11")
def test_a_release_shows_its_gates_its_difference_and_the_missing_people_until_it_is_promoted(
    shop: Workshop, clock: Clock
):
    ada, ben = visitor(shop, name="ada@pages"), visitor(shop, "operator", name="ben@pages")
    path = drafted(ada)
    said = words(ada.page(path))
    for sentence in (
        "It is a draft and has no effect yet. No gate was run.",
        "Next: Run the gates.",
        "Trace replay: not run Stored actions are replayed under the draft and their outcomes compared.",
        "before: If 3 readings could not settle a doubt, a person decides.",
        "now: If 5 readings could not settle a doubt, a person decides.",
        "Drafted by Ada Promoted first by nobody yet Promoted by a second person nobody yet",
    ):
        assert sentence in said, sentence
    assert ada.post(f"{path}/gates").status_code == 302
    said = words(ada.page(path))
    for sentence in (
        "A person who did not draft it must sign RG-02 (Predicate diff review).",
        "Failure injection: passed",
        "35 of 35 passed. by Ada",
        "You drafted it, so another person must sign.",
        "Actions with a different outcome of 0 that RG-01 judged again None.",
    ):
        assert sentence in said, sentence
    assert "This is not your password." in words(
        refused(ben, f"{path}/signatures", **WORD | {"gate": "RG-02", "password": "no"})
    )
    kept = refused(ben, f"{path}/signatures", **WORD | {"gate": "RG-02", "password": ""})
    assert "Confirm with your password or a one-time code." in words(kept)
    assert "It was tried on the night shift." in kept
    assert ben.post(f"{path}/signatures", **WORD, gate="RG-02").status_code == 302
    said = words(ben.page(path))
    assert "Every gate except the canary has passed. It has no effect yet." in said
    assert "Signed: It was tried on the night shift. by Ben" in said
    assert "less than or equal to 100" in words(refused(ben, f"{path}/canary", share=101, actions=2))
    assert ben.post(f"{path}/canary", tools="delete_document", share=50, actions=2).status_code == 302
    said = words(ben.page(path))
    for sentence in (
        "It decides some live actions; the version in force decides all others.",
        "Wait until 2 more actions of its canary have ended.",
        "It covers 50 percent of the actions of the tool delete_document, of those that were proposed after it began.",
        "Ended 0 0",
        "Stop the canary",
    ):
        assert sentence in said, sentence


@pytest.mark.req("R-UI-19", "R-RG-12")
def test_two_people_promote_on_the_page_and_one_can_restore_the_previous_version(shop: Workshop):
    ada, ben = visitor(shop, name="ada@pages"), visitor(shop, "operator", name="ben@pages")
    path = drafted(ada)
    with tenancy(shop.tenant):
        pass_gates(shop.tenant, UUID(path.rpartition("/")[2]))
    assert "Two people must promote it." in words(ada.page(path))
    assert ada.post(f"{path}/promotion", **WORD).status_code == 302
    said = words(ada.page(path))
    assert "Ada promoted it; another person must promote it as well." in said
    assert "You promoted it first, so another person must promote it as well." in said
    assert "Another person must confirm this" in words(refused(ada, f"{path}/promotion", **WORD))
    assert ben.post(f"{path}/promotion", **WORD).status_code == 302
    said = words(ben.page(path))
    assert "Two people promoted it. It is in force." in said
    assert "Promoted first by Ada Promoted by a second person Ben" in said
    assert "Roll back to version 1" in said
    assert "took effect through release 2" in words(ben.page("policies/verification/2"))
    back = "policies/verification/1/rollback"
    assert "Enter a reason. It is kept in the audit log." in words(refused(ben, back, reason="", password=PASSWORD))
    assert "This is not your password." in words(refused(ben, back, **WORD | {"password": "no"}))
    assert ben.post(back, **WORD).status_code == 302
    said = words(ben.page(path))
    assert "It was in force and was rolled back to an earlier version." in said
    assert "It cannot be reinstated; create a new release." in said
    assert "Rolled back" in words(ben.page("releases"))
    with tenancy(shop.tenant):
        assert queries.active_policies(shop.tenant)["verification"].version == "1"
    late = refused(ben, "policies/verification/2/rollback", **WORD)
    assert "Only a version that was in force, and was not itself rolled back, can be put in force again." in words(late)


def test_a_draft_is_withdrawn_with_a_reason_and_outdated_gates_are_run_again(shop: Workshop):
    ada = visitor(shop)
    path = drafted(ada, version="3")
    with tenancy(shop.tenant):
        pass_gates(shop.tenant, UUID(path.rpartition("/")[2]), but="RG-03")
        put_in_force(shop.tenant, "verification", "2", default_policy("verification") | {"repeat_limit": 9})
    assert "Another version has taken effect since its gates ran. Run the gates again." in words(ada.page(path))
    assert "Another version took effect" in words(refused(ada, f"{path}/canary", tools="", share=100, actions=1))
    assert "Enter a reason. It is kept in the audit log." in words(refused(ada, f"{path}/end", reason=""))
    assert ada.post(f"{path}/end", reason="Nobody needs it.").status_code == 302
    said = words(ada.page(path))
    assert "It was withdrawn before it took effect." in said
    assert "Run the gates" not in said
    assert "The release is WITHDRAWN" in words(refused(ada, f"{path}/end", reason="Again."))


def test_the_audit_log_links_to_the_release(shop: Workshop):
    ada = visitor(shop)
    path = drafted(ada)
    release_id = path.rpartition("/")[2]
    assert f'href="/t/{shop.slug}/releases/{release_id}"' in ada.page(f"events/{release_id}/1")
    assert f'href="/t/{shop.slug}/releases/{release_id}"' in ada.page("audit", kind="release_drafted")


def test_a_reader_sees_no_form(shop: Workshop):
    path = drafted(visitor(shop))
    reader = visitor(shop, "compliance")
    page = reader.page(path).split('id="results"')[1].split("</main>")[0]
    assert "<form" not in page
    assert "Draft: verification policy" not in words(reader.page("releases"))


@pytest.mark.parametrize(
    ("state", "given", "said"),
    [
        ("DRAFT", {"red": ["RG-04", "RG-02"], "ran": True}, "Failures are listed below."),
        ("DRAFT", {"red": ["RG-01", "RG-02", "RG-03"], "ran": True}, "must sign RG-01 (Trace replay) and RG-02"),
        ("CANARY", {"red": [], "ran": True, "left": 1}, "Wait until 1 more action of its canary"),
        (
            "READY",
            {"red": [], "ran": True, "is_basis_old": True, "is_on_canary": True},
            "Stop it and create a new draft.",
        ),
        ("READY", {"red": [], "ran": True, "is_basis_old": True}, "Withdraw it and create a new draft."),
    ],
)
def test_the_next_step_follows_from_the_state_of_a_release(state: str, given: dict[str, Any], said: str):
    assert said in next_step(state, **given)


def test_the_status_names_the_failed_gates():
    assert standing_sentence("DRAFT", red=["RG-07"], ran=True) == (
        "It is a draft and has no effect yet. RG-07 (False-success guard test) is not passed."
    )


def test_a_canary_without_limits_is_described_as_such(clock: Clock):
    assert scope_sentence(CanaryScope(since=clock.now(), actions=3)) == (
        "It covers every action of every tool, of those that were proposed after it began."
        " It is passed when 3 of them have ended and none of the figures is worse."
    )
