"""People who settle cases: they read the case, and stand for what they decide with their password."""

from __future__ import annotations

import re
from typing import Any

from tests.support.api_tenant import PASSWORD
from tests.support.browser_users import Visitor
from tests.support.callers import Api

EVIDENCE = ["I looked into the folder: the file is there."]


def screen(api: Api, case_id: Any) -> str:
    """What the case covers as this caller reads it; "" where they may not."""
    answer = api.get(f"/reviews/{case_id}")
    return str(answer.json()["covers_digest"]) if answer.status_code == 200 else ""


def settle(api: Api, case_id: Any, resolution: str, **changes: Any) -> Any:
    """The answer to settling a case that was just read."""
    body = {"resolution": resolution, "reason": "I looked.", "evidence": EVIDENCE, "password": PASSWORD}
    return api.post(f"/reviews/{case_id}/resolve", body | {"covers": screen(api, case_id)} | changes)


def confirm(api: Api, case_id: Any, *, accept: bool = True, **changes: Any) -> Any:
    """The answer to the second person's word on what was proposed."""
    body = {"accept": accept, "password": PASSWORD, "covers": screen(api, case_id)}
    return api.post(f"/reviews/{case_id}/resolve/confirm", body | changes)


def covers_of(page: str) -> str:
    """What a case's page covers, as its forms send it back."""
    found = re.search(r'name="covers" value="([0-9a-f]{64})"', page)
    return found.group(1) if found else ""


def settle_on_page(one: Visitor, case_id: Any, resolution: str, **fields: Any) -> Any:
    """The answer to the form of one way, filled in on the page that was just read."""
    sent = {"resolution": resolution, "password": PASSWORD, "covers": covers_of(one.page(f"cases/{case_id}"))}
    return one.post(f"cases/{case_id}/resolve", **(sent | fields))


def confirm_on_page(one: Visitor, case_id: Any, answer: str = "confirm", **fields: Any) -> Any:
    """The answer to the second person's form, filled in on the page that was just read."""
    sent = {"answer": answer, "password": PASSWORD, "covers": covers_of(one.page(f"cases/{case_id}"))}
    return one.post(f"cases/{case_id}/confirm", **(sent | fields))
