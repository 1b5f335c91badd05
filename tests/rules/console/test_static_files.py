"""Static files that were collected: compressed, named after their content, and small enough for a first page."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SERVED = """
import json
import django
django.setup()
from django.core.management import call_command
call_command("collectstatic", verbosity=0, interactive=False)
from django.templatetags.static import static
from django.test import RequestFactory
from whitenoise.middleware import WhiteNoiseMiddleware
serve = WhiteNoiseMiddleware(lambda request: None)
found = {}
for name in NAMES:
    address = static(name)
    answer = serve(RequestFactory().get(address, HTTP_ACCEPT_ENCODING="gzip, br"))
    size = len(b"".join(answer.streaming_content))
    found[name] = [address, answer.status_code, answer.get("Content-Encoding"), answer["Cache-Control"], size]
print(json.dumps(found))
"""
FIRST_PAGE = (
    *("console/console.css", "console/console.js", "console/proof.js", "console/vote.js", "console/sprite.svg"),
    *("console/mark.svg", "django_htmx/htmx-2.min.js"),
)


@pytest.mark.whole
def test_collected_files_are_compressed_hashed_and_immutable_and_a_first_page_is_small(tmp_path):
    settings = os.environ | {"COUNTERFOIL_STATIC_ROOT": str(tmp_path), "DJANGO_SETTINGS_MODULE": "tests.offline"}
    script = SERVED.replace("NAMES", repr(FIRST_PAGE))
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=settings, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    for name, (address, status, encoding, kept, _) in found.items():
        stem, _, ending = name.rpartition(".")
        assert address.startswith(f"/static/{stem}."), address
        assert address.endswith(f".{ending}"), address
        assert address != f"/static/{name}"
        assert not (tmp_path / name).exists(), name
        assert (status, kept) == (200, "max-age=315360000, public, immutable"), name
        assert encoding == "br" or name == "console/mark.svg", name
    sizes = {name: size for name, (*_, size) in found.items()}
    # Leaves 35 KB of the 90 to the page itself.
    assert sum(sizes.values()) < 55_000, sizes
