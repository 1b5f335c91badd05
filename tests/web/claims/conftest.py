"""A tenant whose refunds are made at a processor."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import PreparedDatabase
from tests.support.outside.processor import TOKEN, Processor, serving


@pytest.fixture
def processor() -> Iterator[Processor]:
    with serving() as made:
        yield made


@pytest.fixture
def desk(
    db: None, database_of_counter: PreparedDatabase, secrets_dir: Path, processor: Processor, clock: Any, broker: Any
) -> Any:
    from tests.web.claims.desk import Desk

    shop = database_of_counter.content.with_clients_of_its_own()
    folder = secrets_dir / "systems" / shop.slug
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "payments.json").write_text(json.dumps({"url": processor.url, "token": TOKEN}))
    settings = {"url": processor.url, "operation_field": "metadata.operation"}
    body = {"name": "payments", "pattern": "payments", "settings": settings}
    answer = shop.operator_key.post("/systems", body)
    assert answer.status_code == 201, answer.content
    clock.stop()
    return Desk(shop=shop, processor=processor, clock=clock)
