"""No page reads more because of what is behind it: three sizes of one record, in a database nobody has analysed.

The server may not read a table whole where an index serves: for a page of fifty it would, up to some thousand rows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
from django.db import connection

from ledger.actions.queries import actions
from tests.support.api_tenant import Clock, workshop
from tests.support.browser_users import Visitor
from tests.support.callers import person_for
from tests.web.execution.grown import SIZES, Grown, more
from tests.web.execution.test_growth import trip

# The gate limits how much may wait for people, and every request that waits is looked at to put them in order.
WAITING = 60
EVERYTHING = ("reviewer", "operator", "compliance", "administrator")
# Without executors, which reads the newest thousand grants.
LISTS = """
    home approvals approvals?tab=approved approvals?tab=decided approvals?tool=delete_document
    actions actions?sort=agent actions?outcome=VERIFYING actions?outcome=VERIFIED actions?state=VALIDATED
    actions?tool=delete_document
    actions?q=notes actions?q=nowhere actions?agent=librarian
    cases cases?tab=settled incidents agents agents/librarian contracts metrics/ systems calls
    calls/hallucinations audit audit?agent=librarian audit?tool=delete_document ledger people notices search?q=notes
    search?q=nowhere
"""


def look(grown: Grown, person: Visitor, pages: dict[str, str]) -> dict[str, Any]:
    """What the server read for each page, once this process has kept what it keeps."""
    grown.read = {}
    for name, path in pages.items():
        person.page(path)
        with grown.counted(name):
            person.page(path)
    return grown.read


def test_no_page_reads_more_in_a_larger_record(
    committed_db: Any, superuser_connection: psycopg.Connection, tmp_path: Path, settings: Any, monkeypatch: Any
) -> None:
    settings.COUNTERFOIL_FRAME_KEPT_S = 0
    monkeypatch.setattr(actions, "LOOKED_THROUGH", 100)
    monkeypatch.setitem(actions.count_standings.__kwdefaults__, "most", 100)
    shop = workshop("orchid").set_up(tmp_path)
    grown, clock = Grown(shop, superuser_connection), Clock()
    person = Visitor(person_for(shop.tenant, *EVERYTHING, name="all@orchid").client, shop.slug)
    done, decided = trip(grown, clock, 0)
    waits = shop.propose(path="notes/waits.md", reason="Old.")
    asked = shop.approval_of(waits)["approval_id"]
    pages = {each: each.removeprefix("home") for each in LISTS.split()}
    pages |= {
        "action": f"actions/{done}",
        "approval": f"approvals/{asked}",
        "event": f"events/{done}/1",
    }
    with connection.cursor() as cursor:
        cursor.execute("SET enable_seqscan = off")
    grown.copy(waits, asked, up_to=WAITING)
    read = []
    for size in SIZES:
        grown.copy(done, decided, up_to=size)
        read.append(look(grown, person, pages))
    assert [more(read[0], each) for each in read[1:]] == [{}, {}]
