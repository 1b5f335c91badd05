"""The commands without an installation: `audit_transcripts` and `suggest_sayings` need no settings, keys or server."""

from __future__ import annotations

from django.conf import settings


def main(arguments: list[str]) -> int:
    """Run the audit as called from `manage.py`; a refusal ends the process."""
    settings.configure(USE_I18N=False, USE_TZ=True)
    from console.management.commands.audit_transcripts import Command

    Command().run_from_argv(arguments)
    return 0


def suggest(arguments: list[str]) -> int:
    """Run the suggestions as `manage.py` was called."""
    settings.configure(USE_I18N=False, USE_TZ=True)
    from console.management.commands.suggest_sayings import Command

    Command().run_from_argv(arguments)
    return 0
