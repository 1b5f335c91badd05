"""Evidence: sealed apart from the record that promises it."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID, uuid4

import pytest
from django.db import DatabaseError, IntegrityError, connection, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ledger import keystore
from ledger.catalogue.operations import registration
from ledger.db import execute, tenancy
from ledger.models import SubjectKey
from ledger.record import operations
from ledger.record.queries import events as queries
from ledger.record.queries import evidence
from ledger.record.rules import encryption, envelope
from ledger.record.rules.refusals import NotFound
from tests.support.builders import AT

PAYLOAD = b'{"amount":100,"to":"alice@example.org"}'


def store(tenant: UUID, subject: UUID, data: bytes = PAYLOAD, **changes) -> operations.SealedEvidence:
    fields = {"purpose": "payload", "media_type": "application/json", "source": "agent", "at": AT}
    return operations.store_evidence(tenant_id=tenant, subject_id=subject, data=data, **(fields | changes))


def commit(tenant: UUID, subject: UUID, *sealed: operations.SealedEvidence) -> None:
    """An event of a session, its first if it has none, that commits to this evidence."""
    try:
        head = operations.lock_subject(tenant_id=tenant, subject_id=subject, kind="session")
        event = operations.NewEvent(kind="ask_drifted", evidence=sealed)
    except NotFound:
        head = operations.SubjectHead(tenant_id=tenant, id=subject, kind="session")
        event = operations.NewEvent(kind="session_opened", to="OPEN", evidence=sealed)
    operations.append(head, event, actor=operations.SYSTEM, at=AT)


def seal(tenant: UUID, subject: UUID, data: bytes = PAYLOAD, **changes) -> operations.SealedEvidence:
    """Evidence as an operation stores it: with its event, in one transaction."""
    sealed = store(tenant, subject, data, **changes)
    commit(tenant, subject, sealed)
    return sealed


@pytest.fixture
def inside(tenant):
    with tenancy(tenant):
        yield tenant


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=2000))
def test_sealed_evidence_can_be_opened(inside, data):
    sealed = seal(inside, uuid4(), data)
    assert evidence.open_evidence(inside, sealed.pointer) == data


@pytest.mark.req("R-LE-20")
def test_no_evidence_is_stored_in_clear(inside):
    subject = uuid4()
    sealed = seal(inside, subject)
    with connection.cursor() as cursor:
        for table in ("ledger_evidence", "ledger_subjectkey"):
            cursor.execute(f"SELECT t::text FROM {table} t")
            stored = " ".join(text for (text,) in cursor.fetchall())
            for secret in (b"alice", b"amount", PAYLOAD, keystore.key_encryption_key()):
                assert secret.hex() not in stored
                assert secret.decode("latin-1") not in stored
    assert PAYLOAD not in bytes(evidence.evidence(inside, sealed.pointer).sealed)


@pytest.mark.req("R-LE-17")
def test_a_commitment_covers_the_bytes_with_a_salt_of_its_own(inside):
    sealed = seal(inside, uuid4())
    row = evidence.evidence(inside, sealed.pointer)
    assert sealed.commitment == envelope.Commitment(
        "payload", str(sealed.pointer), len(PAYLOAD), envelope.commitment("payload", bytes(row.salt), PAYLOAD)
    )
    assert (row.commitment, row.length) == (sealed.commitment.digest, len(PAYLOAD))


def test_equal_bytes_are_stored_with_different_ids_salts_and_ciphertexts(inside):
    subject = uuid4()
    one, other = (evidence.evidence(inside, seal(inside, subject).pointer) for _ in range(2))
    for name in ("id", "salt", "sealed", "commitment"):
        assert getattr(one, name) != getattr(other, name)


def test_each_subject_has_exactly_one_key_of_its_own(inside):
    subjects = uuid4(), uuid4()
    for subject in (*subjects, *subjects):
        seal(inside, subject)
    one, other = (evidence.key_id(inside, subject) for subject in subjects)
    assert one != other
    assert evidence.data_key(one) != evidence.data_key(other)
    assert SubjectKey.objects.count() == 2


def test_an_empty_document_can_be_evidence(inside):
    assert evidence.open_evidence(inside, seal(inside, uuid4(), b"").pointer) == b""


def test_a_given_pointer_is_used_and_cannot_be_reused(inside):
    pointer = uuid4()
    assert seal(inside, uuid4(), pointer=pointer).pointer == pointer
    with pytest.raises(DatabaseError), transaction.atomic():
        seal(inside, uuid4(), pointer=pointer)


def test_a_long_source_name_is_truncated_and_not_refused(inside):
    sealed = seal(inside, uuid4(), source="s" * 500)
    assert evidence.evidence(inside, sealed.pointer).source == "s" * 200


def test_another_tenants_evidence_is_not_found(tenant, other_tenant):
    with tenancy(tenant):
        sealed = seal(tenant, uuid4())
    with tenancy(other_tenant):
        assert evidence.evidence(other_tenant, sealed.pointer) is None
        assert evidence.open_evidence(other_tenant, sealed.pointer) is None
        assert evidence.open_evidence(tenant, sealed.pointer) is None


def test_evidence_of_a_subject_is_listed_without_opening_it(inside):
    subject = uuid4()
    pointers = [seal(inside, subject, purpose=purpose).pointer for purpose in ("payload", "readback")]
    seal(inside, uuid4())
    found = evidence.evidence_of(inside, subject)
    assert sorted(row.id for row in found) == sorted(pointers)
    assert all("sealed" in row.get_deferred_fields() for row in found)


def test_an_unknown_pointer_opens_nothing(inside):
    assert evidence.open_evidence(inside, uuid4()) is None


def test_evidence_cannot_be_opened_with_another_key_encryption_key(inside, monkeypatch):
    sealed = seal(inside, uuid4())
    keystore.clear_cache()
    monkeypatch.setattr(keystore, "key_encryption_keys", lambda: (bytes(32),))
    with pytest.raises(keystore.KeyEncryptionKeyMissing):
        evidence.open_evidence(inside, sealed.pointer)


def test_evidence_whose_key_was_destroyed_is_unreadable_but_its_commitment_remains(committed_db, superuser_connection):
    """What erasing will do: ciphertext that opens for nobody, and an event that still proves itself."""
    tenant = operations.new_id(AT)
    registration.create_tenant(tenant_id=tenant, slug="orchid", name="Orchid", host="console.test", at=AT)
    with tenancy(tenant):
        subject = uuid4()
        sealed = seal(tenant, subject)
    superuser_connection.execute("ALTER TABLE ledger_subjectkey DISABLE TRIGGER no_change")
    superuser_connection.execute("DELETE FROM ledger_subjectkey")
    with tenancy(tenant):
        with pytest.raises(encryption.CannotOpen):
            evidence.open_evidence(tenant, sealed.pointer)
        ((event, _, _),) = queries.history(tenant, subject)
    assert envelope.parse(bytes(event.envelope)).commitments == (sealed.commitment,)


# Evidence and its event


@pytest.mark.req("R-LE-02")
class TestEvidenceWithoutAnEvent:
    """At its commit the database asks each piece of evidence for an event that commits to it."""

    def test_evidence_without_an_event_is_refused_at_commit(self, committed_db):
        tenant = registration.set_up_tenant(
            tenant_id=operations.new_id(AT), slug="orchid", name="Orchid", host="console.test", at=AT
        ).id
        subject = uuid4()
        with pytest.raises(IntegrityError, match="no event of its subject commits to the evidence"), tenancy(tenant):
            store(tenant, subject)
        with tenancy(tenant):
            assert evidence.evidence_of(tenant, subject) == []
            kept = seal(tenant, subject)
            seal(tenant, subject)
        with tenancy(tenant):
            assert evidence.open_evidence(tenant, kept.pointer) == PAYLOAD

    @pytest.mark.parametrize("field", ["pointer", "digest", "length", "purpose"])
    def test_an_event_with_another_commitment_does_not_cover_the_evidence(self, inside, field):
        sealed = store(inside, subject := uuid4())
        other = {"pointer": str(uuid4()), "digest": "ab" * 32, "length": 7, "purpose": "goal"}[field]
        commit(inside, subject, replace(sealed, commitment=replace(sealed.commitment, **{field: other})))
        with pytest.raises(IntegrityError), transaction.atomic():
            connection.cursor().execute("SET CONSTRAINTS ALL IMMEDIATE")
        commit(inside, subject, sealed)

    def test_an_event_of_another_subject_does_not_cover_the_evidence(self, inside):
        sealed = store(inside, subject := uuid4())
        commit(inside, uuid4(), sealed)
        with pytest.raises(IntegrityError), transaction.atomic():
            connection.cursor().execute("SET CONSTRAINTS ALL IMMEDIATE")
        commit(inside, subject, sealed)

    def test_a_transaction_may_end_under_another_tenant(self, inside, other_tenant):
        with tenancy(other_tenant):
            seal(other_tenant, uuid4())
        connection.cursor().execute("SET CONSTRAINTS ALL IMMEDIATE")
        assert execute("SELECT ledger_current_tenant()") == [(inside,)]
