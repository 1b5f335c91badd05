"""The form in which a recording's texts are kept, and the words that its report and its pages share."""

from __future__ import annotations

import json
from typing import Final

MOST_NAME: Final = 300
MOST_VALUE: Final = 4_000
"""So many characters are kept of a name, and of a value."""
BY: Final = {"answer": "the answer", "read": "a later read"}
"""By what a difference is shown."""


def storable_text(value: object, most: int) -> str:
    """A value as text of at most this length that PostgreSQL can store.

    A NUL or half a character becomes one other character, so that no place in the text moves.
    """
    shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return shown[:most].replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")
