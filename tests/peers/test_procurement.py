"""Purchase orders made in a real Tryton by its own workflow, and read back by a user who may only read."""

from __future__ import annotations

import shutil
import subprocess
from datetime import UTC, datetime

import httpx
import pytest

from ledger.rules.lifecycle import State
from reviews.checks.catalogue import check_for
from reviews.checks.interface import CheckFailed, Consistency, SystemAccess
from tests.peers import environment, verdicts

pytestmark = pytest.mark.long

AT = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
CHECK = check_for("procurement")
PINS = ("trytond==8.2.1", "trytond-purchase==8.2.0")
READABLE = (
    "purchase.purchase", "purchase.line", "purchase.product_supplier", "purchase.product_supplier.price",
    "party.party", "product.product", "product.template", "company.company", "company.employee",
    "currency.currency", "account.invoice.payment_term",
)  # fmt: skip
LOOKUP = {
    "match": {"reference": "scope.idempotency_key"},
    "vendor": "sr.vendor",
    "sku": "sr.sku",
    "amount": "sr.amount",
    "currency": "'EUR'",
    "catalogue": True,
    "tenant_field": "company",
    "target_field": "vendor",
}
BINDINGS = {
    "sr": {"vendor": "V-1", "sku": "SKU-1", "amount": "30.00"},
    "scope": {"idempotency_key": "key-1"},
}


class Refused(Exception):
    """Tryton's own refusal."""


class Tryton:
    """The server, written to by us as its administrator."""

    def __init__(self, url):
        self.url = url
        self.client = httpx.Client(auth=("admin", "secret"), trust_env=False, timeout=60)
        self.context = {}

    def call(self, method, *params):
        question = {"id": 1, "method": f"model.{method}", "params": [*params, self.context]}
        said = self.client.post(f"{self.url}/tr/rpc/", json=question).json()
        if "error" in said:
            raise Refused(said["error"])
        return said["result"]

    def one(self, model, /, **fields):
        return self.call(f"{model}.create", [fields])[0]

    def prepare(self):
        self.euro = self.one("currency.currency", name="Euro", symbol="E", code="EUR", digits=2, rounding=money("0.01"))
        party = self.one("party.party", name="Acme", code="acme")
        self.company = self.one("company.company", party=party, currency=self.euro)
        self.call("res.user.write", [1], {"companies": [["add", [self.company]]], "company": self.company})
        self.context = {"company": self.company}
        self.vendors = {code: self.one("party.party", name=f"Vendor {code}", code=code,
                                       addresses=[["create", [{"street_unstructured": "Road 1"}]]])
                        for code in ("V-1", "V-2")}  # fmt: skip
        self.unit = self.call("product.uom.search", [["name", "=", "Unit"]], 0, 1, None)[0]
        self.products = {sku: self.product(sku) for sku in ("SKU-1", "SKU-2")}
        self.terms = self.one("account.invoice.payment_term", name="30 days",
                              lines=[["create", [{"type": "remainder"}]]])  # fmt: skip
        self.offer("V-1", "SKU-1", "10.00")
        group = self.one("res.group", name="Readback")
        for model in READABLE:
            self.one("ir.model.access", model=model, group=group, perm_read=True, perm_write=False,
                     perm_create=False, perm_delete=False)  # fmt: skip
        self.one("res.user", name="Reader", login="reader", password="Only-reads-26", groups=[["add", [group]]],
                 companies=[["add", [self.company]]], company=self.company)  # fmt: skip
        self.one("res.user", name="Stranger", login="stranger", password="Only-reads-26", groups=[["add", [group]]],
                 companies=[], company=None)  # fmt: skip

    def product(self, sku):
        template = self.one("product.template", name=sku, type="service", default_uom=self.unit, purchasable=True,
                            purchase_uom=self.unit, products=[["create", [{"suffix_code": sku}]]])  # fmt: skip
        return template, self.call("product.product.search", [["template", "=", template]], 0, 1, None)[0]

    def offer(self, vendor, sku, price):
        template, product = self.products[sku]
        self.one("purchase.product_supplier", template=template, product=product, party=self.vendors[vendor],
                 company=self.company, currency=self.euro,
                 prices=[["create", [{"quantity": 0, "unit_price": money(price)}]]])  # fmt: skip

    def order(self, *, reference="key-1", vendor="V-1", sku="SKU-1", price="10.00", upto="confirm", **fields):
        """An order of three pieces, taken through the workflow up to one of its steps."""
        address = self.call("party.address.search", [["party", "=", self.vendors[vendor]]], 0, 1, None)[0]
        line = {"type": "line", "product": self.products[sku][1], "quantity": 3, "unit": self.unit,
                "unit_price": money(price)}  # fmt: skip
        order = self.one("purchase.purchase", party=self.vendors[vendor], company=self.company, currency=self.euro,
                         invoice_address=address, reference=reference, invoice_method="manual",
                         lines=[["create", [line]]], **fields)  # fmt: skip
        for step in ("quote", "confirm"):
            if upto in {step, "confirm"}:
                self.call(f"purchase.purchase.{step}", [order])
        return order

    def cancel(self, order):
        self.call("purchase.purchase.cancel", [order])


def money(text):
    return {"__class__": "Decimal", "decimal": text}


@pytest.fixture(scope="module")
def tryton(tmp_path_factory):
    python = environment.peer_python(PINS)
    folder = tmp_path_factory.mktemp("tryton")
    port = environment.free_port()
    settings = folder / "trytond.conf"
    settings.write_text(
        f"[database]\nuri = sqlite://\npath = {folder}\n[web]\nlisten = 127.0.0.1:{port}\n"
        "[session]\nauthentications = password\n"
    )
    shutil.copy(database(python), folder / "tr.sqlite")
    argv = [str(python.with_name("trytond")), "-c", str(settings), "-d", "tr"]
    with environment.running(argv, folder / "trytond.log", ready=environment.listens(port)):
        server = Tryton(f"http://127.0.0.1:{port}")
        server.prepare()
        yield server
        server.client.close()


def database(python):
    """An empty database with the purchasing module: it takes half a minute to make, and is kept."""
    kept = python.parents[1] / "purchase.sqlite"
    if kept.exists():
        return kept
    folder = python.parents[1] / "database"
    folder.mkdir(exist_ok=True)
    (folder / "tr.sqlite").write_bytes(b"")
    (folder / "password").write_text("secret")
    settings = folder / "trytond.conf"
    settings.write_text(f"[database]\nuri = sqlite://\npath = {folder}\n")
    argv = [str(python.with_name("trytond-admin")), "-c", str(settings), "-d", "tr", "--all", "-u", "purchase",
            "--activate-dependencies", "--email", "admin@example.test"]  # fmt: skip
    given = {"TRYTONPASSFILE": str(folder / "password"), "PATH": "/usr/bin:/bin"}
    subprocess.run(argv, check=True, capture_output=True, timeout=600, env=given)
    return (folder / "tr.sqlite").rename(kept)


@pytest.fixture
def shop(tryton):
    """The server with none of the last test's orders still standing."""
    for order in tryton.call("purchase.purchase.search", [], 0, 100, None):
        tryton.call("purchase.purchase.write", [order], {"reference": None})
    return tryton


def look(shop, *, bindings=BINDINGS, user="reader", url=None, settings=None, **part):
    lookup = {name: value for name, value in (LOOKUP | part).items() if value is not None}
    given = {"url": url or shop.url, "database": "tr", "company": "Acme", **(settings or {})}
    return CHECK.read(
        system=SystemAccess("purchasing", "procurement", given, {"user": user, "password": "Only-reads-26"}),
        verification={"lookup": {"effects": {"order": lookup}}},
        bindings=bindings,
        at=AT,
        timeout_s=30,
    )


@pytest.mark.req("R-CP-08")
def test_an_order_that_was_confirmed_is_there(shop):
    shop.order(payment_term=shop.terms)
    found = look(shop, terms="'30 days'")
    (effect,) = found.effects
    assert (effect.present, effect.count) == (True, 1)
    assert {"vendor": "V-1", "amount": "30.00", "currency": "EUR", "company": "Acme", "requester": "admin",
            "terms": "30 days", "skus": ["SKU-1"], "approved": True}.items() <= effect.fields.items()  # fmt: skip
    assert effect.scope == {"tenant": ("Acme",), "target": ("V-1",)}
    assert found.consistency is Consistency.PRIMARY
    assert found.indicators == ()


@pytest.mark.req("R-CP-08")
@pytest.mark.parametrize("upto", ["draft", "quote"])
def test_an_order_that_nobody_confirmed_lacks_its_approval(shop, upto):
    shop.order(upto=upto)
    found = look(shop)
    assert found.effects[0].present
    assert found.indicators == ("approval_missing",)
    assert look(shop, states=["draft", "quotation"]).indicators == ()


@pytest.mark.req("R-CP-08")
def test_one_that_somebody_else_confirmed_lacks_it_as_well(shop):
    shop.order()
    assert look(shop, approver="'Director'").indicators == ("approval_missing",)


@pytest.mark.req("R-CP-08")
def test_another_vendor_is_not_authorised(shop):
    shop.offer("V-2", "SKU-1", "10.00")
    shop.order(vendor="V-2")
    found = look(shop)
    assert found.indicators == ("unauthorized_vendor_or_sku",)
    assert found.effects[0].scope["target"] == ("V-2",)


@pytest.mark.req("R-CP-08")
def test_another_item_is_not_authorised(shop):
    shop.order(sku="SKU-2")
    assert look(shop, catalogue=False).indicators == ("unauthorized_vendor_or_sku",)


@pytest.mark.req("R-CP-08")
def test_an_item_that_the_vendor_does_not_sell_is_not_authorised(shop):
    shop.order(sku="SKU-2")
    assert look(shop, sku=None).indicators == ("unauthorized_vendor_or_sku",)


@pytest.mark.req("R-CP-08")
@pytest.mark.parametrize("catalogue", [True, False])
def test_another_price_is_a_mismatch(shop, catalogue):
    shop.order(price="12.50")
    expected = {"amount": None} if catalogue else {}
    assert look(shop, catalogue=catalogue, **expected).indicators == ("price_mismatch",)


@pytest.mark.req("R-CP-08")
@pytest.mark.parametrize("other", [{"currency": "'USD'"}, {"terms": "'60 days'"}])
def test_another_currency_or_other_terms_are_a_mismatch(shop, other):
    shop.order(payment_term=shop.terms)
    assert look(shop, **other).indicators == ("price_mismatch",)


@pytest.mark.req("R-CP-08")
def test_two_orders_are_duplicates(shop):
    shop.order()
    shop.order()
    found = look(shop)
    assert found.effects[0].count == 2
    assert found.indicators == ("duplicate_po",)


@pytest.mark.req("R-CP-08")
def test_an_order_that_was_cancelled_is_rejected(shop):
    shop.cancel(shop.order(upto="quote"))
    found = look(shop)
    assert (found.effects[0].present, found.effects[0].fields["state"]) == (False, "cancelled")
    assert found.indicators == ("rejected_purchase",)
    shop.order()
    assert look(shop).indicators == ()


@pytest.mark.req("R-CP-08")
def test_a_budget_that_is_exceeded_is_seen(shop):
    for key in ("key-1", "key-2"):
        shop.order(reference=key, description="team-7")
    budget = {"match": {"description": "'team-7'"}}
    enough = look(shop, budget={**budget, "limit": "'60.00'"})
    assert enough.indicators == ()
    assert enough.effects[0].fields["committed"] == "60.00"
    assert look(shop, budget={**budget, "limit": "59"}).indicators == ("budget_breach",)


def test_an_order_that_does_not_exist_is_absent(shop):
    assert look(shop).effects[0].present is False


def test_a_user_of_no_company_cannot_tell(shop):
    shop.order()
    assert look(shop, user="stranger").effects[0].present in {None, True}
    assert look(shop, user="stranger", match={"reference": "'none'"}).effects[0].present is None
    assert look(shop, settings={"company": "Other"}, match={"reference": "'none'"}).effects[0].present is None


def test_an_order_that_changes_while_it_is_read_gives_no_answer(shop, monkeypatch):
    from reviews.checks.procurement import Register

    order = shop.order(upto="draft")
    lines = Register._lines

    def slow(register, number):
        shop.call("purchase.purchase.write", [order], {"description": "changed"})
        return lines(register, number)

    monkeypatch.setattr(Register, "_lines", slow)
    with pytest.raises(CheckFailed, match="changed") as failed:
        look(shop)
    assert failed.value.retryable


def test_a_field_that_does_not_exist_never_answers(shop):
    with pytest.raises(CheckFailed) as failed:
        look(shop, match={"color": "'red'"})
    assert not failed.value.retryable


@pytest.mark.req("R-VD-16")
def test_a_server_that_is_gone_or_refuses_the_password_is_an_outage(shop):
    for changes in ({"url": f"http://127.0.0.1:{environment.free_port()}"}, {"user": "nobody"}):
        with pytest.raises(CheckFailed) as failed:
            look(shop, **changes)
        assert failed.value.retryable


def test_another_database_never_answers(shop):
    with pytest.raises(CheckFailed):
        look(shop, settings={"database": "none"})


def test_the_credential_can_only_read(shop):
    order = shop.order(upto="draft")
    question = {"id": 1, "method": "model.purchase.purchase.write", "params": [[order], {"reference": "x"}, {}]}
    said = httpx.post(f"{shop.url}/tr/rpc/", json=question, auth=("reader", "Only-reads-26"), trust_env=False).json()
    assert "not allowed" in str(said["error"])


@pytest.mark.req("R-CP-08", "R-CP-16")
class TestToTheEnd:
    """The check and the rules together."""

    def outcome(self, reading):
        predicates = ("sa.amount == '30.00'", "sa.approved")
        return verdicts.outcome(reading, target="vendor/V-1", tenant="Acme", predicates=predicates)

    def test_a_confirmed_order_is_a_success(self, shop):
        shop.order()
        assert self.outcome(look(shop)).state is State.RECONCILED_SUCCESS

    @pytest.mark.parametrize(
        ("orders", "discrepancy"),
        [
            ([{"vendor": "V-2"}], "WRONG_TARGET_MODIFIED"),
            ([{}, {}], "DUPLICATE_SIDE_EFFECT"),
            ([{"upto": "draft"}], "COMPENSATION_REQUIRED"),
            ([{"price": "11.00"}], "VALUE_MISMATCH"),
            ([], "NO_OP_FAILURE"),
        ],
    )
    def test_anything_else_is_none(self, shop, orders, discrepancy):
        for order in orders:
            shop.order(**order)
        found = self.outcome(look(shop))
        assert found.verdict.discrepancy == discrepancy
        assert found.state is not State.RECONCILED_SUCCESS

    def test_a_rejected_order_is_none(self, shop):
        shop.cancel(shop.order(upto="quote"))
        assert self.outcome(look(shop)).verdict.discrepancy == "NO_OP_FAILURE"
