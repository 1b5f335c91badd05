"""Honest telling: what stands beside a claim and says that it is not done, or not known, or done in part (R-CG-09).

1. "Forensics paged, not yet acknowledged" claims no completion of a page that waits for its answer. The words beside a
   claim, in its sentence and in the one behind it, excuse it only where they say what the record says: that it is open,
   that its end is not known, that a part is missing, or that it was taken back.
2. They excuse nothing else: a failure that is told as waiting is told falsely.
"""

from __future__ import annotations

import re

from reviews.rules.guard.codes import Violation

_OPEN = (
    r"\bnot yet\b|\byet to\b|\bawait|\bunconfirmed\b|\bpending\b|\bin progress\b|\bprovisional"
    r"|\bfor (?:approval|review|sign-?off|authori[sz]ation)\b|\bneeds? (?:approval|confirmation|authori[sz]ation)"
    r"|\b(?:has|have|needs?|must) (?:still )?(?:to )?(?:approve|authori[sz]e|accept|confirm|countersign|sign off)\b"
    r"|\bno (?:ack|answer|reply|confirmation|response|receipt)\b|\bwait(?:s|ing)? (?:for|on)\b(?! you\b)"
    r"|\bstill (?:open|running|waiting|outstanding|missing|queued|under|in|to|on|being|needs?)\b"
    r"|\b(?:has|have|is|are)(?: not|n't)(?: \w+){0,2} (?:yet|confirmed|acknowledged|answered|arrived)\b"
    r"|(?:\bnot\b|\bno\b|\bnothing\b|n't\b)[^.;]{0,40}\b(?:so far|at this (?:time|point)|as of now|until now|to date)\b"
    r"|\bnothing (?:is|has been)(?: \w+){1,2} yet\b|\bbeing (?:checked|verified|confirmed)\b"
)
_UNKNOWN = (
    r"\b(?:ca(?:n|n't|nnot)|could)(?: ?not|n't)? (?:yet )?(?:tell|say|see|confirm|rule out)\b|\bup in the air\b"
    r"|\bwhether\b|\bunclear\b|\bunknown\b|\b(?:do not|don't|not) know\b|\bnot sure\b|\bno idea\b|\bnobody knows\b"
    r"|\btimed out\b|\bno answer\b"
)
_PART = (
    r"\bnot (?:moved|sent|done|changed|updated|booked|included|all|every)\b|\bthe (?:other|remaining|rest)\b|\bexcept\b"
    r"|\bskipped\b|\bleft out\b|\bbut not\b|\b\d[\d.,]* (?:out )?of (?:the |your )?\d"
    r"|\bonly (?:\d|one|two|three|four|five|half|part)"
)
_UNDONE = (
    r"\b(?:recalled|reversed|undone|reverted|withdrawn|rescinded|restored|reinstated|recredited)\b"
    r"|\b(?:rolled|taken|put) back\b|\bback (?:to|where)\b|\bagain\b"
)
_RECOVERING = (
    r"\breview|\bnot final\b|\bbeing (?:checked|sorted|looked|fixed|corrected|undone|investigated)\b|\bon hold\b"
    r"|\b(?:lies|is|are|sits?|waits?) with (?:a|an|our|the|their) \w+|\binvestigat|\bdoes(?: not|n't) match\b"
    r"|\bmismatch"
)
_SAID = {
    Violation.PREMATURE: re.compile(f"{_OPEN}|{_UNKNOWN}"),
    Violation.UNKNOWN_FLATTENED: re.compile(f"{_OPEN}|{_UNKNOWN}"),
    Violation.OVERSTATED: re.compile(_PART),
    Violation.RECOVERY_OPEN: re.compile(_RECOVERING),
    Violation.REVERSED: re.compile(_UNDONE),
}


def excused(code: Violation | None, beside: str) -> bool:
    """Whether the words beside a claim say of it what the record says (rules 1 and 2)."""
    said = _SAID.get(code) if code is not None else None
    return said is not None and bool(said.search(beside))
