"""A real Tryton with its purchasing module, and a user who may only read."""

from __future__ import annotations

import base64
import shutil
import subprocess
from datetime import UTC, datetime
from uuid import uuid4

import httpx
import pytest

from reviews.checks.catalogue import check_for
from reviews.checks.interface import SystemAccess
from tests.peers.support import environment

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
        self.client = httpx.Client(trust_env=False, timeout=60)
        self.context = {}

    def sign_in(self):
        """A session: a password is hashed slowly, with every call."""
        question = {"id": 1, "method": "common.db.login", "params": ["admin", {"password": "secret"}, "en"]}
        user, key = self.client.post(f"{self.url}/tr/rpc/", json=question).json()["result"][:2]
        word = base64.b64encode(f"admin:{user}:{key}".encode()).decode()
        self.client.headers["Authorization"] = f"Session {word}"

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
        party = self.one("party.party", name="acme", code="acme")
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
        server.sign_in()
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
    tryton.team = f"team-{uuid4().hex[:8]}"
    return tryton


def look(shop, *, bindings=BINDINGS, user="reader", url=None, settings=None, **part):
    lookup = {name: value for name, value in (LOOKUP | part).items() if value is not None}
    given = {"url": url or shop.url, "database": "tr", "company": "acme", **(settings or {})}
    return CHECK.read(
        system=SystemAccess("purchasing", "procurement", given, {"user": user, "password": "Only-reads-26"}),
        verification={"lookup": {"effects": {"order": lookup}}},
        bindings=bindings,
        at=AT,
        timeout_s=30,
    )
