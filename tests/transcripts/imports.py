"""Recordings on their way into a console: files to import, and the command that does it."""

from __future__ import annotations

import io
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from django.core.management import CommandError, call_command

from counterfoil_transcripts.commands.audit import Command
from tests.transcripts.recordings import TOOLS, agent, asks, user

ID = "ABC123"
GOOD = [user("Cancel it."), *asks("cancel_reservation", {"status": "ok"}, reservation_id=ID), agent("Anything else?")]
BAD = [
    user("Cancel it and refund me."),
    *asks("cancel_reservation", "Error: the flight has left", reservation_id=ID),
    *asks("issue_refund", {"refund_id": "re_1", "amount": 50}, reservation_id=ID, amount=100),
    *asks("cancel_reservaton", "Error: unknown tool", reservation_id=ID),
    agent("I have cancelled your reservation ABC123. Is there anything else?"),
]


def recording(folder: Path, *conversations: Any, name: str = "recording.jsonl") -> Path:
    """A file with these conversations; each has the tools of `recordings`."""
    lines = [{"id": f"talk-{number}", "messages": each, "tools": TOOLS} for number, each in enumerate(conversations, 1)]
    file = folder / name
    file.write_text("".join(json.dumps(each) + "\n" for each in lines))
    return file


def imported(*arguments: Any, tenant: str = "orchid") -> tuple[int, str, str]:
    """(what it ends with, what it prints, what it says of its troubles)."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    given = [str(each) for each in arguments]
    try:
        call_command(Command(), *given, "--import", "--tenant", tenant, stdout=out, stderr=err)
    except CommandError as problem:
        code = problem.returncode
        err.write(str(problem))
    return code, out.getvalue(), err.getvalue()


def keep(tenant: str, *conversations: Any) -> str:
    """Import a recording, and say under which id it is there."""
    with TemporaryDirectory() as folder:
        code, out, err = imported(recording(Path(folder), *(conversations or (BAD, GOOD))), tenant=tenant)
    assert code == 0, err
    return out.rsplit("/recordings/", 1)[1].strip()
