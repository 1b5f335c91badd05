"""The console without the distributions that it does not need."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NOT_NEEDED = ("counterfoil_witness",)
START = """
import sys
for name in sys.argv[1:]:
    sys.modules[name] = None  # an import of it fails, as where it is not installed
import django
django.setup()
import console.asgi, console.beat, console.celery, console.tasks
from django.core.management import call_command, get_commands, load_command_class
from django.urls import get_resolver
call_command("check")
for name, app in get_commands().items():
    if not app.startswith("django."):
        load_command_class(app, name)
print(len(get_resolver().reverse_dict))
"""


def test_the_console_starts_without_them():
    """Its pages, its API, its commands, workers and beat; none of them is in the tree of what it imports."""
    ran = subprocess.run(
        [sys.executable, "-c", START, *NOT_NEEDED],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "DJANGO_SETTINGS_MODULE": "tests.offline"},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout.split()[-1]) > 200
