"""Consequences: what a message says its reader will, can or need not do, which tells the end of no action.

1. "It is cancelled and you won't get an invoice" denies the invoice, not the cancellation; "you should see it soon"
   follows from something done, and does not say that it is open.
2. A clause of the reader ends with the sentence, at a mark, and before a word that begins another clause; "once it is
   approved" behind it still counts. One that says "yet" or "still" is about the action.
"""

from __future__ import annotations

import re

_ENDS = r"(?:and|but|once|until|till|unless|when|as|because|since|while|if|before|after|though)\b"
_CLAUSE = re.compile(
    r"\b(?:you|u)(?:'ll| (?:will|won't|shall|should|shouldn't|can|can't|cannot|need|needn't|don't|do not|must|mustn't"
    r"|no longer|never have to|only have to|only need to|have to))\b"
    rf"(?:(?! {_ENDS})[^,;:.!?\u2014()])*"
)
_ABOUT_IT = re.compile(r"\b(?:yet|still)\b")


def without_consequences(text: str) -> str:
    """The text with the reader's clauses blanked out, each place kept."""
    if "you" not in text and " u " not in text:
        return text
    return _CLAUSE.sub(lambda found: found[0] if _ABOUT_IT.search(found[0]) else " " * len(found[0]), text)
