"""The cookies of an installation under https."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PRINTED = """
import json
from django.conf import settings
for cookie in ("SESSION_COOKIE", "CSRF_COOKIE"):
    print(json.dumps([getattr(settings, f"{cookie}_{name}") for name in ("NAME", "SECURE", "PATH", "DOMAIN")]))
"""


@pytest.mark.whole
def test_a_browser_takes_the_cookies_from_this_host_over_https_alone():
    """RFC 6265bis 4.1.3.2: a browser refuses the prefix without Secure, with a domain or with another path."""
    done = subprocess.run(
        [sys.executable, "-c", PRINTED],
        cwd=Path(__file__).parents[3],
        env=os.environ | {"DJANGO_SETTINGS_MODULE": "tests.offline"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    cookies = [json.loads(line) for line in done.stdout.splitlines()]
    assert cookies == [["__Host-sessionid", True, "/", None], ["__Host-csrftoken", True, "/", None]]
