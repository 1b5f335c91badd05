"""Charges and refunds made at two processors that nobody here wrote, and read back.

stripe-stateful-mock keeps Stripe's own protections (idempotency keys, declines, no refund above the charge).
localstripe keeps none of them and is the processor that does not protect you; it also has payment intents.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from reviews.checks.catalogue import check_for
from reviews.checks.interface import CheckFailed, Consistency
from reviews.checks.payments import PaymentCheck
from tests.peers.support import environment

pytestmark = pytest.mark.long


@pytest.mark.req("R-CP-05", "R-VD-03")
def test_a_charge_is_read_back(careful):
    careful.charge(source="tok_visa", metadata__key="key-2")
    made = careful.charge(source="tok_visa")
    found = careful.look(amount="2000", currency="'EUR'", fields=["metadata.key"])
    (effect,) = found.effects
    assert (effect.present, effect.count, effect.pending) == (True, 1, False)
    assert effect.scope == {"tenant": ("acme",)}
    assert effect.fields == {
        "metadata_key": "key-1",
        "id": made["id"],
        "status": "succeeded",
        "state": "captured",
        "amount": 2000,
        "amount_refunded": 0,
        "currency": "EUR",
        "created_at": effect.fields["created_at"],
        "charge": "",
        "payment_intent": "",
        "customer": "",
        "account": "",
        "failure_code": "",
        "livemode": False,
        "metadata": {"key": "key-1", "tenant": "acme"},
    }
    assert found.indicators == ()
    assert found.consistency is Consistency.STRONG
    assert effect.fields["created_at"] in found.freshness
    assert "card" not in str(found.raw)


@pytest.mark.req("R-CP-05")
def test_a_refund_is_read_with_its_charge(careful):
    charge = careful.charge(source="tok_visa")
    made = careful.refund(charge)
    found = careful.look_at_refund(charge, amount="sr.amount", currency="'EUR'")
    (effect,) = found.effects
    assert (effect.present, effect.count) == (True, 1)
    assert effect.fields["id"] == made["id"]
    assert effect.scope["target"] == (charge["id"],)
    assert found.target["amount_refunded"] == 500
    assert found.indicators == ()
    by_id = careful.look({"refund": made["id"]}, kind="refund", match=None, id="sr.refund")
    assert by_id.effects[0].present


@pytest.mark.parametrize(
    ("capture", "refund", "state"),
    [("false", None, "authorized"), ("true", 500, "partially_refunded"), ("true", 2000, "refunded")],
)
def test_the_state_of_a_charge_is_reported(careful, capture, refund, state):
    charge = careful.charge(source="tok_visa", capture=capture)
    if refund:
        careful.refund(charge, amount=refund)
    assert careful.look().effects[0].fields["state"] == state


class TestAbsence:
    def test_a_charge_that_was_never_made_is_absent(self, careful):
        careful.charge(source="tok_visa", metadata__key="key-2")
        found = careful.look()
        assert (found.effects[0].present, found.indicators) == (False, ())

    @pytest.mark.req("R-HS-01")
    def test_a_charge_that_the_processor_did_not_keep_is_absent(self, careful):
        made = careful.charge(source="tok_forget")
        found = careful.look({"charge": made["id"]}, match=None, id="sr.charge")
        assert found.effects[0].present is False

    def test_a_list_longer_than_the_scan_does_not_prove_absence(self, careful, monkeypatch):
        monkeypatch.setattr("reviews.checks.payments.PAGE", 2)
        monkeypatch.setattr("reviews.checks.payments.MAX_PAGES", 2)
        for number in range(5):
            careful.charge(source="tok_visa", metadata__key=f"other-{number}")
        assert careful.look().effects[0].present is None

    def test_a_charge_is_found_over_many_pages(self, careful, monkeypatch):
        monkeypatch.setattr("reviews.checks.payments.PAGE", 2)
        careful.charge(source="tok_visa")
        for number in range(5):
            careful.charge(source="tok_visa", metadata__key=f"other-{number}")
        assert careful.look().effects[0].present

    def test_a_second_charge_is_found_on_another_page(self, careful, monkeypatch):
        monkeypatch.setattr("reviews.checks.payments.PAGE", 2)
        careful.charge(source="tok_visa", key="one")
        for number in range(5):
            careful.charge(source="tok_visa", metadata__key=f"other-{number}")
        careful.charge(source="tok_visa", key="two")
        assert careful.look().indicators == ("duplicate_charge",)


@pytest.mark.req("R-CP-05")
def test_a_declined_charge_is_absent(careful):
    careful.charge(source="tok_chargeDeclinedInsufficientFunds", expect=402)
    found = careful.look()
    assert found.effects[0].present is False
    assert found.effects[0].fields["failure_code"] == "card_declined"
    assert found.indicators == ("decline",)


@pytest.mark.req("R-CP-05", "R-EX-18")
def test_a_repeated_charge_that_the_processor_deduplicated_is_not_reported(careful):
    first = careful.charge(source="tok_visa", key="key-1")
    assert careful.charge(source="tok_visa", key="key-1")["id"] == first["id"]
    assert careful.look().indicators == ()


@pytest.mark.req("R-CP-05", "R-CP-16")
def test_a_charge_made_twice_is_a_duplicate(careless):
    customer = careless.customer()
    careless.charge(**customer, key="key-1")
    careless.charge(**customer, key="key-1")
    found = careless.look(of={"customer": f"'{customer['customer']}'"})
    assert found.effects[0].count == 2
    assert found.indicators == ("duplicate_charge",)


@pytest.mark.req("R-CP-05")
def test_another_amount_is_detected(careful):
    careful.charge(source="tok_visa", amount=2100)
    assert careful.look(amount="2000").indicators == ("amount_mismatch",)
    assert careful.look(currency="'USD'").indicators == ("amount_mismatch",)


class TestRefunds:
    @pytest.mark.req("R-CP-05")
    def test_another_amount_is_detected(self, careful):
        charge = careful.charge(source="tok_visa")
        careful.refund(charge, amount=600)
        assert careful.look_at_refund(charge, amount="sr.amount").indicators == ("refund_mismatch",)

    @pytest.mark.req("R-CP-05")
    def test_a_refund_of_another_charge_is_detected(self, careful):
        charge, other = careful.charge(source="tok_visa"), careful.charge(source="tok_visa")
        made = careful.refund(other)
        found = careful.look_at_refund(charge, match=None, id=f"'{made['id']}'")
        assert found.indicators == ("refund_mismatch",)
        assert found.effects[0].scope["target"] == (other["id"],)

    @pytest.mark.req("R-CP-05")
    def test_a_refund_above_the_charge_is_detected(self, careless):
        charge = careless.charge(**careless.customer())
        careless.refund(charge, amount=9000)
        assert careless.look_at_refund(charge, amount="9000").indicators == ("refund_mismatch",)

    @pytest.mark.req("R-CP-05")
    def test_a_second_refund_is_a_duplicate(self, careless):
        charge = careless.charge(**careless.customer())
        careless.refund(charge, key="key-1")
        careless.refund(charge, key="key-1")
        assert careless.look_at_refund(charge).indicators == ("duplicate_charge",)

    def test_the_missing_charge_of_a_refund_is_reported(self, careful):
        found = careful.look_at_refund({"id": "ch_nothing"})
        assert found.effects[0].present is False
        assert found.target == {"exists": False, "count": 0}


class TestPaymentIntents:
    """Payments that are made in steps; only localstripe has them."""

    PART = {"kind": "payment_intent", "amount": "2000"}

    def pay(self, processor, customer, *, expect=200, **fields):
        given = {"customer": customer["customer"], "payment_method": customer["source"], "confirm": "true"}
        usual = {"amount": 2000, "currency": "eur", "metadata__key": "key-1", "metadata__tenant": "acme"}
        return processor.post("/v1/payment_intents", expect=expect, **(usual | given | fields))

    def test_a_confirmed_payment_is_present(self, careless):
        self.pay(careless, careless.customer())
        found = careless.look(**self.PART)
        assert (found.effects[0].present, found.effects[0].fields["state"]) == (True, "succeeded")
        assert found.indicators == ()

    def test_a_payment_awaiting_capture_is_authorised(self, careless):
        self.pay(careless, careless.customer(), capture_method="manual")
        assert careless.look(**self.PART).effects[0].fields["state"] == "authorized"

    def test_an_unconfirmed_payment_is_absent(self, careless):
        self.pay(careless, careless.customer(), confirm="false")
        assert careless.look(**self.PART).effects[0].present is False

    @pytest.mark.req("R-CP-05")
    def test_a_declined_payment_is_absent(self, careless):
        self.pay(careless, careless.customer("4000000000000341"), expect=402)
        found = careless.look(**self.PART)
        assert found.effects[0].present is False
        assert found.indicators == ("decline",)

    @pytest.mark.req("R-CP-05")
    def test_a_payment_in_processing_is_pending(self, careless):
        """localstripe decides over a direct debit after half a second, hence the tries."""
        for attempt in range(5):
            debit = careless.post("/v1/payment_methods", type="sepa_debit", sepa_debit__iban="DE62370400440532013001",
                                  billing_details__name="Ann", billing_details__email="a@example.test")  # fmt: skip
            customer = careless.post("/v1/customers", email="ann@example.test")
            careless.post(f"/v1/payment_methods/{debit['id']}/attach", customer=customer["id"])
            given = {"customer": customer["id"], "source": debit["id"]}
            made = self.pay(careless, given, metadata__key=f"try-{attempt}")
            asked = {"kind": "payment_intent", "match": None, "id": f"'{made['id']}'", "settle_within_s": 60}
            found = careless.look(**asked, at=datetime.now(UTC) + timedelta(seconds=90))
            if found.effects[0].pending:
                assert found.effects[0].present
                assert found.indicators == ("pending_beyond_sla",)
                return
        pytest.fail("it was never seen while it was processed")


class TestBooks:
    """Our own books beside the processor: a real PostgreSQL."""

    @pytest.fixture
    def books(self, committed_db, superuser_connection):
        schema = f"books_{uuid4().hex[:8]}"

        def run(text, *values):
            superuser_connection.execute(sql.SQL(text).format(s=sql.Identifier(schema)), values)

        run("CREATE SCHEMA {s}")
        run("CREATE TABLE {s}.entries (key text, amount bigint, currency text)")
        info = superuser_connection.info
        address = make_conninfo(
            host=info.host, port=info.port, dbname=info.dbname, user=info.user, password=info.password
        )
        ledger = {
            "table": f"{schema}.entries",
            "where": {"key": "scope.idempotency_key"},
            "amount_column": "amount",
            "currency_column": "currency",
        }
        yield run, {"ledger": ledger, "credential": {"ledger_url": address}}
        run("DROP SCHEMA {s} CASCADE")

    @pytest.mark.req("R-CP-05")
    def test_a_matching_ledger_entry_raises_no_indicator(self, careful, books):
        run, asked = books
        careful.charge(source="tok_visa")
        run("INSERT INTO {s}.entries VALUES ('key-1', 2000, 'EUR')")
        found = careful.look(**asked)
        assert found.context["ledger"] == {"exists": True, "count": 1, "amount": 2000, "currency": "EUR"}
        assert found.indicators == ()

    @pytest.mark.req("R-CP-05")
    @pytest.mark.parametrize("rows", [(), ((1999, "EUR"),), ((2000, "USD"),), ((2000, "EUR"), (2000, "EUR"))])
    def test_a_diverging_ledger_entry_is_detected(self, careful, books, rows):
        run, asked = books
        careful.charge(source="tok_visa")
        for amount, currency in rows:
            run("INSERT INTO {s}.entries VALUES ('key-1', %s, %s)", amount, currency)
        assert careful.look(**asked).indicators == ("provider_local_ledger_divergence",)

    def test_a_ledger_entry_without_a_payment_is_detected(self, careful, books):
        run, asked = books
        run("INSERT INTO {s}.entries VALUES ('key-1', 2000, 'EUR')")
        found = careful.look(**asked)
        assert found.effects[0].present is False
        assert found.indicators == ("provider_local_ledger_divergence",)

    def test_an_unreachable_ledger_is_an_outage(self, careful, books):
        _, asked = books
        with pytest.raises(CheckFailed) as failed:
            careful.look(ledger=asked["ledger"], credential={"ledger_url": "postgresql://a:b@127.0.0.1:1/x"})
        assert failed.value.retryable


@pytest.mark.req("R-VD-16")
def test_a_processor_that_does_not_answer_is_an_outage(careful):
    with pytest.raises(CheckFailed) as failed:
        careful.look(settings={"url": f"http://127.0.0.1:{environment.free_port()}"})
    assert failed.value.retryable


def test_a_refused_key_is_retried(careful):
    with pytest.raises(CheckFailed) as failed:
        careful.look(credential={"token": "rk_wrong"})
    assert failed.value.retryable
    assert "rk_wrong" not in failed.value.reason


def test_a_lookup_without_a_value_is_refused_and_never_widened(careful):
    with pytest.raises(CheckFailed, match="everything"):
        careful.look(scope={"idempotency_key": ""})


def test_an_id_cannot_change_the_requested_path(careful):
    assert careful.look(match=None, id="'ch_1?limit=1'").effects[0].present is False
    for number in ("'../../v1/customers'", "'..'", "''"):
        with pytest.raises(CheckFailed) as failed:
            careful.look(match=None, id=number)
        assert not failed.value.retryable


def test_the_catalogue_contains_the_payment_check():
    assert isinstance(check_for("payments"), PaymentCheck)
