"""Two payment processors that nobody here wrote: one that protects its callers, and one that does not."""

from __future__ import annotations

from datetime import UTC, datetime

import httpx
import pytest

from reviews.checks.interface import SystemAccess
from reviews.checks.payments import PaymentCheck
from tests.peers.support import environment

NODE = ("stripe-stateful-mock@0.0.16",)
PYTHON = ("localstripe==1.15.10",)
# Both would listen on every address by themselves.
SERVE_NODE = "require('stripe-stateful-mock').createExpressApp().listen(+process.argv[1], '127.0.0.1')"
SERVE_PYTHON = (
    "import sys; from aiohttp import web; from localstripe import server;"
    " web.run_app(server.app, host='127.0.0.1', port=int(sys.argv[1]), print=None)"
)
SCOPE = {"idempotency_key": "key-1", "tenant": "acme"}
MATCH = {"metadata.key": "scope.idempotency_key"}


class Processor:
    """A processor, as an executor uses it and as the check reads it."""

    def __init__(self, url):
        self.url = url
        self.client = httpx.Client(base_url=url, auth=("sk_test_word", ""), trust_env=False, timeout=10)

    def post(self, path, *, expect=200, key=None, **fields):
        form = {name.replace("__", "[") + ("]" if "__" in name else ""): str(one) for name, one in fields.items()}
        headers = {"Idempotency-Key": key} if key else {}
        answer = self.client.post(path, data=form, headers=headers)
        assert answer.status_code == expect, answer.text
        return answer.json()

    def customer(self, number="4242424242424242"):
        """A customer with a card, as localstripe wants one for each charge."""
        card = {"card__number": number, "card__exp_month": 12, "card__exp_year": 2040, "card__cvc": 123}
        method = self.post("/v1/payment_methods", type="card", **card)
        customer = self.post("/v1/customers", email="ann@example.test")
        self.post(f"/v1/payment_methods/{method['id']}/attach", customer=customer["id"])
        return {"customer": customer["id"], "source": method["id"]}

    def charge(self, **fields):
        usual = {"amount": 2000, "currency": "eur", "metadata__key": "key-1", "metadata__tenant": "acme"}
        return self.post("/v1/charges", **(usual | fields))

    def refund(self, charge, **fields):
        usual = {"charge": charge["id"], "amount": 500, "metadata__key": "key-1", "metadata__tenant": "acme"}
        return self.post("/v1/refunds", **(usual | fields))

    def look(self, sr=None, *, settings=None, credential=None, at=None, scope=SCOPE, ledger=None, **part):
        lookup = {"kind": "charge", "match": MATCH, "tenant_field": "metadata.tenant"} | part
        effects = {"effects": {"pay": {name: value for name, value in lookup.items() if value is not None}}}
        return PaymentCheck().read(
            system=SystemAccess(
                "stripe",
                "payments",
                {"url": self.url} | (settings or {}),
                {"token": "sk_test_word"} | (credential or {}),
            ),
            verification={"lookup": effects | ({"ledger": ledger} if ledger else {})},
            bindings={"sr": sr or {}, "scope": scope},
            at=at or datetime.now(UTC),
            timeout_s=10,
        )

    def look_at_refund(self, charge, **part):
        usual = {"kind": "refund", "of": {"charge": "sr.charge"}, "target_field": "charge"}
        return self.look({"charge": charge["id"], "amount": 500}, **(usual | part))


@pytest.fixture
def careful(tmp_path):
    folder = environment.peer_node(NODE)
    port = environment.free_port()
    url = f"http://127.0.0.1:{port}"
    argv = ["node", "-e", SERVE_NODE, str(port)]
    outside = {"NODE_PATH": str(folder / "node_modules")}
    with environment.running(argv, tmp_path / "mock.log", ready=environment.answers(url), environment=outside):
        processor = Processor(url)
        yield processor
        processor.client.close()


@pytest.fixture
def careless(tmp_path):
    python = environment.peer_python(PYTHON)
    port = environment.free_port()
    url = f"http://127.0.0.1:{port}"
    argv = [str(python), "-c", SERVE_PYTHON, str(port)]
    outside = {"TMPDIR": str(tmp_path)}
    with environment.running(argv, tmp_path / "local.log", ready=environment.answers(url), environment=outside):
        processor = Processor(url)
        yield processor
        processor.client.close()
