"""Buffer audited conversations in unnamed temporary files until the import is complete.

So the database is written to in one short transaction, whatever the size of the recording, and memory holds one
conversation. The files lie in the folder for temporary files and are gone with the process, however it ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import IO, Any

import orjson

from console.transcripts.acts import TrustRequirement
from console.transcripts.audit import ConversationAudit
from console.transcripts.recordings import recording_rows


@dataclass(eq=False)
class RowSpool:
    """The rows of one recording, in their order."""

    _trust: TrustRequirement
    _conversations: IO[bytes]
    _messages: IO[bytes]
    count: int = 0

    def add(self, found: ConversationAudit) -> None:
        """Take in one conversation: all of it or, where it cannot be written, nothing."""
        number = self.count + 1
        # Made before anything is written, so that what fails here leaves no half of it.
        head = orjson.dumps(recording_rows.conversation_row(found, number))
        rows = [orjson.dumps(each) for each in recording_rows.message_rows(found, number, self._trust)]
        self._conversations.write(head + b"\n")
        self._messages.writelines(row + b"\n" for row in rows)
        self.count = number

    def conversations(self) -> Iterator[dict[str, Any]]:
        """The rows of the conversations."""
        return _rows(self._conversations)

    def messages(self) -> Iterator[dict[str, Any]]:
        """The rows of their messages."""
        return _rows(self._messages)


@contextmanager
def open_spool(trust: TrustRequirement) -> Iterator[RowSpool]:
    """A place for the rows of one recording."""
    with TemporaryFile() as conversations, TemporaryFile() as messages:
        yield RowSpool(trust, conversations, messages)


def _rows(file: IO[bytes]) -> Iterator[dict[str, Any]]:
    file.seek(0)
    for line in file:
        yield orjson.loads(line)
