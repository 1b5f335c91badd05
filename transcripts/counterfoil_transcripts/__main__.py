"""`counterfoil-transcripts audit FILE…` and `counterfoil-transcripts suggest FILE…`, over recorded conversations.

Both read files and nothing else: no settings, no keys, no server. Only `audit --import` needs an installation of the
console: that of `make up`, or the one that the environment names.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import django
from django.conf import settings

COMMANDS = ("audit", "suggest")
CLOSED_PIPE = 141
"""The exit code where the reader of the output went away, as a shell has it of a process that SIGPIPE ended."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one of the commands; a refusal ends the process."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] and words[0] not in COMMANDS and words[0] not in ("-h", "--help"):
        sys.stderr.write(f"counterfoil-transcripts: there is no command {words[0]}; name audit or suggest.\n")
        return 2
    if not words or words[0] not in COMMANDS:
        sys.stdout.write(f"{(__doc__ or '').strip()}\n\nEach has a --help of its own.\n")
        return 0 if words else 2
    if words[0] == "audit" and "--import" in words:
        from console.local.installation import fill_environment

        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
        fill_environment(words)
        django.setup()
    else:
        settings.configure(USE_I18N=False, USE_TZ=True)
    from counterfoil_transcripts.commands import audit, suggest

    command = audit.Command() if words[0] == "audit" else suggest.Command()
    try:
        command.run_from_argv(["counterfoil-transcripts", *words])
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read the output has seen enough, and what is still in the buffer must not be written at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED_PIPE
    return 0


if __name__ == "__main__":
    sys.exit(main())
