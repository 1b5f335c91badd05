"""Consequences: what follows for the reader from something done, which tells the end of no action.

1. "It is cancelled and you won't get an invoice" denies the invoice, not the cancellation; "you should see it soon"
   follows from something done, and does not say that it is open.
2. A clause of the reader ends with the sentence, at a mark, and before a word that begins another clause; "once it is
   approved" behind it still counts. One that says "yet" or "still" is about the action.
3. "You can close the ticket", "no further action is needed", "it should reach you by Friday" rest on what was told just
   before. What depends on something, or asks the reader to write or to ask, rests on nothing.
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


_RESTS = re.compile(
    r"(?:(?:so|now|and|then|therefore|thus|that means|this means|which means|as a result|from now on),? )*(?:that )?(?:"
    r"(?:you|u)(?:'ll| (?:will|won't|should|shouldn't|no longer|never have to|can now|can safely"
    r"|(?:don't|do not) (?:need|have) to|need not|needn't"
    r"|can (?:close|stop|start|go|use|archive|delete|ignore|enjoy)))\b"
    r"|no (?:further|more|other|additional) (?:action|steps?|work|changes?)\b|nothing (?:else|more|further|left)\b"
    r"|there(?:'s| is) (?:nothing|no need)\b|(?:it|they|this|that|the money|the amount) (?:should|will|'ll)\b)"
)
_RESTS_ON_NOTHING = re.compile(
    r"\b(?:if|once|until|unless|when|as soon as|after|yet|still|let me know|tell (?:me|us)|reply|write|ask)\b"
    r"|\b(?:contact|call)\b"
    r"|(?:'ll| will) (?:want|need|have to)\b|\beither way\b"
)


def is_consequence(sentence: str) -> bool:
    """Whether a sentence, in lower case, only tells what follows from the one before it (rule 3)."""
    return bool(_RESTS.match(sentence)) and not _RESTS_ON_NOTHING.search(sentence)
