"""The command without an installation: `manage.py audit_transcripts` needs no settings, no keys and no server."""

from __future__ import annotations

from django.conf import settings


def main(arguments: list[str]) -> int:
    """Run the command as `manage.py` was called; it ends the process itself where it refuses."""
    settings.configure(USE_I18N=False, USE_TZ=True)
    from console.management.commands.audit_transcripts import Command

    Command().run_from_argv(arguments)
    return 0
