"""The forms of pages as they are sent out: empty, and again with the faults of what was entered.

Each page has a file in tests/snapshots/forms. `WRITE_SNAPSHOTS=1 pytest tests/web/writes/test_forms.py` writes them
anew; their change is read in the diff.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from console.edge.form_pages import find_page
from tests.support.probes import Day
from tests.web.writes.scenes import WRITES
from tests.web.writes.write import Write, address, proposer, undone

FOLDER = Path(__file__).parents[2] / "snapshots" / "forms"
FORM = re.compile(r"<form\b[^>]*method=\"post\".*?</form>", re.DOTALL)
OF_ONE_TIME = (
    (re.compile(r'name="csrfmiddlewaretoken" value="\w+"'), 'name="csrfmiddlewaretoken"'),
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "<id>"),
    (re.compile(r"\b\d{1,2} (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\b"), "<day>"),
    (re.compile(r"\s+"), " "),
)


def forms_in(answer: Any, action: str) -> list[str]:
    """The forms of a page that are sent to an address, without what is another one each time; each once."""
    found = []
    for each in FORM.findall(answer.content.decode()):
        if f'action="{action}"' in each:
            for pattern, instead in OF_ONE_TIME:
                each = pattern.sub(instead, each)
            found.append(each.replace(str(settings.COUNTERFOIL_SECRETS_DIR), "<secrets>"))
    return list(dict.fromkeys(found))


def messages_in(answer: Any) -> list[str]:
    return [str(each) for each in getattr(answer.wsgi_request, "_messages", ())]


def sent_out(write: Write, day: Day) -> dict[str, Any]:
    """The forms of a write before anything is entered, and what comes back for each fault."""
    with undone():
        ids = write.begin(day)
        action, person = address(write.page, ids), day.own[write.role()]
        shown: dict[str, Any] = {
            "page": {
                name: forms_in(caller.client.get(find_page(action)), action)
                for name, caller in (("second", person.again()), ("proposer", proposer(day).again()))
            }
        }
        for given in write.faults:
            with undone():
                answer = person.again().client.post(action, dict(given))
                shown[json.dumps({name: str(value)[:40] for name, value in given.items()})] = {
                    "status": answer.status_code,
                    "messages": messages_in(answer),
                    "forms": forms_in(answer, action),
                }
    return shown


@pytest.mark.parametrize("write", WRITES, ids=lambda each: each.operation)
def test_forms_equal_their_snapshot(day: Day, write: Write):
    file = FOLDER / f"{write.operation}.json"
    found = sent_out(write, day)
    if os.environ.get("WRITE_SNAPSHOTS"):
        file.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    assert found == json.loads(file.read_text()), "changed: WRITE_SNAPSHOTS=1 pytest tests/web/writes/test_forms.py"


def test_every_snapshot_of_forms_is_compared():
    assert {file.stem for file in FOLDER.glob("*.json")} == {each.operation for each in WRITES}
