"""Reports: nouns with a word of success behind them, as a protocol has them ("backup ok", "restart nginx ok").

1. The verb is the noun that is a verb as well, in a chunk of a few words without a verb of its own. Where none of the
   words is one, nothing is said of an action.
"""

from __future__ import annotations

from reviews.rules.guard.codes import Kind
from reviews.rules.guard.reading.views import Said, View, acts

_FINE = frozenset({"ok", "okay", "done", "success", "successful", "passed"})
_MOST = 5


def reported(view: View) -> Said | None:
    """… ok (rule 1)."""
    last = len(view.words) - 1
    if not 0 < last < _MOST or view.words[last] not in _FINE or view.agent() >= 0:
        return None
    if any(view.has(name) for name in ("be", "modals", "others", "determiners")):
        return None
    verbs = frozenset(verb for at in range(last) for verb in view.lemmas(at, "base"))
    return Said(Kind.DONE, "done, told in short", verbs, last) if acts(view, verbs) else None
