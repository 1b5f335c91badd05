"""The file by which a supervisor sees that a process still works. Beat renews it, too, which runs without Django."""

from __future__ import annotations

from contextlib import suppress

from django.conf import settings


def renew_alive_file() -> None:
    """Renew COUNTERFOIL_ALIVE_FILE, whose age tells a supervisor that this process still works; if none is named,
    nothing.
    """
    if settings.COUNTERFOIL_ALIVE_FILE is not None:
        # A file that cannot be written grows old, which is what is looked at.
        with suppress(OSError):
            settings.COUNTERFOIL_ALIVE_FILE.touch()
