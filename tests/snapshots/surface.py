"""The surface that others rely on, as files: they change only on purpose, and the change is read in the diff.

`python -m tests.snapshots.surface` writes them anew; tests/web/edge/test_snapshots.py compares.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ledger.record.rules.refusals import Refused

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).parent
PACKAGES = ("counterfoil_tlog", "ledger", "approvals", "reviews", "console")
# Programs and settings, which do something when they are imported.
NOT_IMPORTED = {"migrations", "management", "settings", "local", "wsgi", "asgi", "celery", "__main__"}


def read_snapshots() -> dict[str, Any]:
    """Every snapshot by the name of its file, computed from the product. Needs Django and no server."""
    from ninja.responses import NinjaJSONEncoder

    from console.api.root import api
    from tests.support import admissions

    document = json.loads(json.dumps(api.get_openapi_schema(), cls=NinjaJSONEncoder))
    return {
        "openapi": document,
        "pages": dict(sorted(_pages())),
        "operations": {name: " ".join(sorted(who)) for name, who in sorted(admissions.OPERATIONS.items())},
        "csv_headings": _csv_headings(),
        "refusal_codes": _refusal_codes(),
    }


def write_snapshots() -> None:
    for name, value in read_snapshots().items():
        path_of(name).write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def path_of(name: str) -> Path:
    return FOLDER / f"{name}.json"


def _pages() -> Iterator[tuple[str, dict[str, Any]]]:
    """Each page's route with its name, its methods (None: any that the view takes) and who may."""
    from console.edge.http import allowed_methods
    from tests.support import admissions, probes

    for route, page in probes.pages():
        roles = admissions.PAGES.get(str(page.name))
        yield (
            route,
            {
                "name": page.name,
                "methods": " ".join(sorted(allowed_methods(page.callback) or [])) or None,
                "roles": None if roles is None else " ".join(sorted(roles)),
            },
        )


def _csv_headings() -> dict[str, list[str]]:
    from console.lists.views import LISTS

    return {
        name: [heading for each in page.columns if each.value is not None for heading in (each.word, *each.more)]
        for name, (page, _) in sorted(LISTS.items())
    }


def _refusal_codes() -> dict[str, str]:
    """Every code with the HTTP statuses under which it is answered."""
    for package in PACKAGES:
        for each in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            if not NOT_IMPORTED & set(each.name.split(".")):
                importlib.import_module(each.name)
    codes: dict[str, set[int]] = {}
    rest = [Refused]
    while rest:
        each_class = rest.pop()
        rest.extend(each_class.__subclasses__())
        if each_class.__module__.split(".")[0] in PACKAGES:
            codes.setdefault(each_class.code, set()).add(each_class.status)
    return {code: " ".join(map(str, sorted(statuses))) for code, statuses in sorted(codes.items())}


if __name__ == "__main__":
    import django

    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.offline"
    django.setup()
    write_snapshots()
