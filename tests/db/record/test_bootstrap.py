"""The commands that found a tenant and make keys."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from console.accounts import queries as accounts_queries
from console.accounts.machine_keys import tenant_in
from console.models import User
from ledger.catalogue import queries as catalogue_queries
from ledger.catalogue.rules.policies import POLICY_KINDS, default_policy
from ledger.db import tenancy
from ledger.record.queries import events as ledger_queries
from ledger.record.rules.canonical import digest
from reviews.guarding.queries import message_rule_of

pytestmark = pytest.mark.django_db


def bootstrap(*options: str, mode: str = "pass") -> str:
    said = StringIO()
    asked = ("--messages", mode) if mode else ()
    call_command("bootstrap", "--tenant", "orchid", *asked, *options, stdout=said)
    return said.getvalue()


def made(*options: str) -> dict:
    return json.loads(bootstrap("--json", *options))


def key_of(secret: str):
    return accounts_queries.active_key(tenant_in(secret), digest(secret.encode()), at=datetime.now(UTC))


def test_each_role_has_one_person_who_can_sign_in():
    people = made()["people"]
    assert [each["role"] for each in people] == ["reviewer", "operator", "compliance", "administrator"]
    for each in people:
        user = User.objects.get(username=each["username"])
        (place,) = accounts_queries.memberships(user)
        roles = [
            role for role in ("reviewer", "operator", "compliance", "administrator") if getattr(place, f"is_{role}")
        ]
        assert user.check_password(each["password"])
        assert roles == [each["role"]]
        assert not user.is_superuser


def test_further_people_of_a_role_are_made_where_they_are_asked_for():
    people = made("--also", "reviewer", "--also", "administrator", "--also", "reviewer")["people"]
    assert [each["username"] for each in people[4:]] == [
        "reviewer-2@orchid",
        "administrator-2@orchid",
        "reviewer-3@orchid",
    ]
    second = User.objects.get(username="administrator-2@orchid")
    (place,) = accounts_queries.memberships(second)
    assert (place.is_administrator, place.is_reviewer) == (True, False)
    assert accounts_queries.name_of(place) == "Administrator 2"


def test_each_kind_has_one_key_of_the_tenant():
    answer = made()
    assert list(answer["keys"]) == ["agent", "exec", "oper", "audit"]
    for kind, secret in answer["keys"].items():
        key = key_of(secret)
        assert (key.kind, str(key.tenant_id)) == (kind, answer["tenant"]["id"])


def test_the_tenant_starts_with_a_first_event_and_every_policy():
    answer = made("--name", "Orchid & Sons")
    tenant = ledger_queries.tenant("orchid")
    assert (str(tenant.id), tenant.name) == (answer["tenant"]["id"], "Orchid & Sons")
    with tenancy(tenant.id):
        assert [event.kind for event, _, _ in ledger_queries.history(tenant.id, tenant.id)] == ["tenant_founded"]
        assert set(catalogue_queries.active_policies(tenant.id)) == set(POLICY_KINDS)


def test_a_tenant_begins_with_the_policy_of_the_installation(tmp_path):
    file = tmp_path / "approval.json"
    file.write_text('{"standing_approvals": {"after": 3}}')
    made("--policy", f"approval={file}")
    tenant = ledger_queries.tenant("orchid")
    with tenancy(tenant.id):
        first = catalogue_queries.active_policies(tenant.id)["approval"]
        assert json.loads(bytes(first.document)) == {"standing_approvals": {"after": 3}, "version": "1"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            "mood=x",
            "'mood=x' is not KIND=FILE. KIND is one of autonomy, approval, veri",
        ),
        ("approval=", "'approval=' is not KIND=FILE"),
        ("approval=nowhere.json", "The approval policy in nowhere.json cannot be read"),
        ('approval:{"after": 3}', r"The approval policy in .* was refused: /.*after"),
        ("approval:[]", r"The approval policy in .* is not a JSON object\."),
    ],
)
def test_an_unusable_policy_prevents_the_creation_of_the_tenant(tmp_path, given, said):
    kind, _, text = given.partition(":")
    if text:
        (tmp_path / "policy.json").write_text(text)
        given = f"{kind}={tmp_path / 'policy.json'}"
    with pytest.raises(CommandError, match=said):
        made("--policy", given)
    assert ledger_queries.tenant("orchid") is None


def test_the_text_shows_every_secret():
    said = bootstrap()
    assert [kind for kind in ("agent", "exec", "oper", "audit") if f"cf_{kind}_" in said] == [
        "agent",
        "exec",
        "oper",
        "audit",
    ]
    assert "administrator@orchid" in said


def test_no_secret_is_in_the_record():
    answer = made()
    tenant = ledger_queries.tenant("orchid")
    secrets = [each["password"] for each in answer["people"]] + list(answer["keys"].values())
    with tenancy(tenant.id):
        stored = [
            str(detail)
            for event in ledger_queries.recent_events(tenant.id, after=datetime(2026, 1, 1, tzinfo=UTC))
            for _, _, detail in ledger_queries.history(tenant.id, event[2])
        ]
    assert len(stored) > len(secrets)
    assert not [secret for secret in secrets for text in stored if secret in text]


def test_an_existing_tenant_is_left_unchanged():
    bootstrap()
    with pytest.raises(CommandError, match=r"^The tenant orchid already exists; nothing was changed\.$"):
        bootstrap()
    assert User.objects.count() == 4


@pytest.mark.parametrize("mode", ["pass", "mark", "hold"])
def test_the_chosen_mode_of_the_guard_is_in_the_first_policy(mode):
    bootstrap(mode=mode)
    tenant = ledger_queries.tenant("orchid")
    with tenancy(tenant.id):
        assert message_rule_of(tenant.id, "any agent").uncited == mode


def test_without_a_mode_nothing_is_set_up_and_the_modes_are_listed(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stdin", StringIO())
    with pytest.raises(CommandError, match=r"Choose with --messages pass\|mark\|hold; there is no default"):
        bootstrap(mode="")
    assert ledger_queries.tenant("orchid") is None
    file = tmp_path / "verification.json"
    file.write_text(json.dumps(default_policy("verification") | {"messages": {"uncited": "hold"}}))
    with pytest.raises(CommandError, match="--messages says pass, the verification policy says hold"):
        bootstrap(f"--policy=verification={file}")
    bootstrap(f"--policy=verification={file}", mode="")


def test_an_existing_user_is_not_given_a_new_password():
    User.objects.create_user(username="operator@orchid", password="their own")
    with pytest.raises(CommandError, match="operator@orchid already exists"):
        bootstrap()
    assert ledger_queries.tenant("orchid") is None


@pytest.mark.parametrize("slug", ["", "Orchid", "or chid", "-orchid", "orchid-", "../orchid", "a" * 64])
def test_a_tenant_name_that_cannot_be_part_of_a_url_is_refused(slug):
    with pytest.raises(CommandError, match="is not a valid tenant name"):
        call_command("bootstrap", f"--tenant={slug}")


def test_a_key_made_later_has_its_name_scopes_and_end():
    bootstrap()
    said = StringIO()
    words = ["exec", "--tenant", "orchid", "--name", "refunds", "--scope", "tool:issue_refund", "--expires", "30"]
    call_command("create_key", *words, stdout=said)
    key = key_of(said.getvalue().strip())
    assert (key.kind, key.name, key.scopes) == ("exec", "refunds", ["tool:issue_refund"])
    assert key.expires_at - key.created_at == timedelta(days=30)


def test_an_expired_key_is_not_active():
    bootstrap()
    said = StringIO()
    call_command("create_key", "audit", "--tenant", "orchid", "--expires", "1", stdout=said)
    secret = said.getvalue().strip()
    late = datetime.now(UTC) + timedelta(days=1, seconds=1)
    assert accounts_queries.active_key(tenant_in(secret), digest(secret.encode()), at=late) is None


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["agent", "--tenant", "nowhere"], "There is no tenant nowhere"),
        (["agent", "--tenant", "orchid", "--expires", "0"], "--expires must be between 1 and 3650"),
        (["root", "--tenant", "orchid"], "invalid choice"),
    ],
)
def test_a_key_that_cannot_be_created_is_refused_in_one_sentence(words, sentence):
    bootstrap()
    with pytest.raises(CommandError, match=sentence):
        call_command("create_key", *words)
