"""Classifies how a sentence uses the words of an action: reports it as done, or denies, offers, plans or asks.

The lists are short and hold no grammar: a sentence that they do not know is taken for a report where a contract's words
stand in it, and nothing else is read in it. They are English; in another language a contract's words stand alone.
"""

from __future__ import annotations

import re

_SAID_BEFORE = re.compile(
    r"\b(?:(?:i|we) can (?:now )?confirm|can confirm|happy to|pleased to|glad to|delighted to|please note|no problem"
    r"|no worries|(?:to )?(?:let|inform) you(?: know)?|wanted to|this is to|if you have any|not only|without delay"
    r"|as (?:you )?(?:asked|requested)|per your request|you (?:mentioned|asked about|asked for))\b"
)
"""What introduces a report and looks like a denial, an offer or a wish."""
_OPEN_BEFORE = re.compile(
    r"\b(?:not|no|never|nothing|none|neither|nor|cannot|without|unable|fail(?:ed|s)?|refus\w+|if|once|when|whenever"
    r"|whether|until|unless|before|would|could|can|may|might|must|should|shall|will|to be|being|going to|about to"
    r"|need(?:s|ed)?|want|wants|asked|requested|request to|attempt(?:ed)?|tried|try|waiting|usually|normally|typically"
    r"|only|partly|partially|half|unclear|unknown|eligible|how|why|plan(?:ning)? to|recommend|example|supposed"
    r"|previously|earlier|so far|first|requests? (?:has|have|was|were|is|are))\b"
    r"|\d of (?:the |all |your )?\d"
    r"|n't\b|n\u2019t\b|'ll\b|\u2019ll\b|'d\b"
    r"|\b(?:you|they|he|she|it|customers?|users?|somebody|someone)(?:['\u2019]ve| have| has| had| already| just)*\s*$"
)
_OPEN_AFTER = re.compile(
    r"\b(?:restored|undone|reverted|reversed|taken back|failed|so far|partially|partly|pending|waiting|unconfirmed"
    r"|differs?|yet to"
    r"|instead of|(?:could|was|were|did) not|(?:could|was|were|did)n['\u2019]t|unable to"
    r"|not (?:been )?(?:confirmed|verified|known|finished)|still (?:open|running|being)|once|if you|only after|unless"
    r"|when you|under (?:\w+ )?review|unknown|anymore|any more|(?:is|are) still)\b|\d of (?:the |all |your )?\d"
)
_REQUEST_AFTER = re.compile(r"\W+(?:the|a|an|your|my|this|that)?\W*request\b")
_VALUE_OPEN = re.compile(
    r"\b(?:not|no|never|nothing|cannot|without|unable|fail\w*|refus\w+|if|whether|unless|would|could|can|may|might|must"
    r"|should|shall|want|attempt(?:ed)?|tried|try|only after|either|unfortunately|until(?! (?:the )?(?:\d|end of\b|"
    r"noon|midnight|next\b|further\b|(?:mon|tues|wednes|thurs|fri|satur|sun)day|(?:jan|feb|mar|apr|may|jun|jul|aug|sep"
    r"|oct|nov|dec)[a-z]* \d)))\b"
    r"|n['\u2019]t\b|\b(?:i|we)(?: will|['\u2019]ll| am going| are going)\b|['\u2019]d\b"
)
_VALUE_CUT = re.compile(
    r"; |[\u2014:]|,? (?:but|however|though|although|so|which|because)\b"
    r"|,? and (?=(?:i|we|you|it|this|that|your|the)\b)"
    r"|, (?=(?:i|we|you|it|this|that|please|feel|thank\w*|let)\b|and if\b|with no\b|without\b|no \w+ needed\b"
    r"|(?:if|unless|in case) you (?:need|have|want|would|wish|prefer|see)\b)"
)
"""Start of another clause, which does not qualify the value before it."""
_WITHOUT = re.compile(r" with(?: no\b|out\b)")
_OF_REQUEST = re.compile(
    r"\b(?:you|user|customer|client|i|we|they|he|she)(?:['\u2019](?:ve|d)| have| had)? (?:originally |first |only )?"
    r"(?:asked|requested|wanted|mentioned|chose|wished)\b"
    r"|\b(?:instead of|rather than|in place of|asked for|request (?:for|to)|originally|previously|formerly|used to be"
    r"|had been|before it was)\b"
)
_AS_REQUESTED = re.compile(
    r"\b(?:as|like|what|that|which) (?:you(?:['\u2019]ve| have| had)? )?"
    r"(?:asked|requested|wanted|wished|mentioned)(?: for)?\b|\bper your request\b"
)
_FROM = re.compile(r"\bfrom (?:the |a |an |your )?\W*$")
_TO = re.compile(r"\W*(?:[a-z]+ ){0,2}?(?:over |up |down )?to (?:the |a |an )?\W*")
_BACK = re.compile(r"\bback\b")
_RULE_AFTER = re.compile(
    r"\W+(?:[\w-]+\W+){0,2}(?:must|should|can|may|will|would|cannot|need)\b"
    r"|\W+(?!(?:the|your|a|an|my|this|that|all|both)\b)(?:[a-z-]+\W+){1,2}"
    r"(?:are|is|were|was|do|does|don|get|have|has|still)\b"
)
_FAILURE = re.compile(
    r"\b(?:could not|couldn't|unable|fail(?:ed|s|ure)?|error|not possible|cannot|can't|did(?:n't| not)|was(?:n't| not)"
    r"|unfortunately|rejected|refused|denied|declined|timed out|not (?:been|yet)|haven't|hasn't|doesn't|does not"
    r"|unsuccessful)\b"
)
_WHOLE = re.compile(
    r"(?:(?:that's|it's|it is|that is|you're|we're|and) )?"
    r"(?:all |everything (?:is |has been |was )?|it (?:is|has been) )?(?:now )?"
    r"(?:done|all set|set|completed?|taken care of|sorted|finished|successful)(?: now| for you| successfully)?[.!]*"
)
_ALL = re.compile(r"\b(?:all|both|every|each|everything|the (?:two|three|four|five|six))\b")
_ADVERBS = (
    r"(?: (?:just|now|also|already|then|finally|therefore|fully|successfully|again|(?:gone|went) (?:ahead|on) and))*"
)
_OPENERS = r"(?:ok|okay|sure|thing|done|yes|great|good news|update|summary|status|what i did|so|and|then|finally)"
_PERFORMED_BEFORE = tuple(
    re.compile(pattern)
    for pattern in (
        rf"\b(?:i|we|our team)(?:['\u2019]ve)?(?: have| has| had)?{_ADVERBS}\s*$",
        rf"\b(?:has|have){_ADVERBS} been{_ADVERBS}\s*$",
        r"\b(?:is|are|was|were) (?:(?:now|successfully|all|already) ?)+$",
        r"\bsuccessfully\s*$",
        rf"\b(?:i|we)\b.*\b(?:and|then)(?: i)?{_ADVERBS}\s*$",
        rf"^\W*(?:{_OPENERS}\b[\s,:.!-]*)*$",
    )
)
_PERFORMED_AFTER = re.compile(r"\W*(?:successfully|as requested|for you)?\W*$")
_REASON = re.compile(r"; |\b(?:but|however|though|although|because|since|so|after|before|when|while)\b")
_TO_COME = re.compile(r"\b(?:will|shall)\b|['\u2019]ll\b|\b(?:to be|being|going to)\b")
_STARTED = r"submitted|initiated|requested|started|filed|placed|created|opened|registered"
_COMPLETED = re.compile(
    rf"(?:\b(?:has|have){_ADVERBS} been{_ADVERBS}|\b(?:was|were|is|are)(?: now| both| all)*(?: successfully| now)"
    r"|\bsuccessfully) "
    rf"(?:processed|completed|made|done|carried out|executed|performed|finali[sz]ed|finished|applied|confirmed|issued"
    rf"|approved|saved|{_STARTED})\b"
    r"|\b(?:went|gone) through\b|\b(?:is|are) (?:now |all )?complete\b|\b(?:was|were|is) successful\b"
)
_STARTS = re.compile(rf"\W*(?:requests?|process(?:es)?)\b|.*\b(?:{_STARTED})$")
_SHORT = 5
_CLAUSE = re.compile(r"[,;:\u2014]? (?:but|however|though|although|so)\b|; ")


def is_open(sentence: str, start: int, end: int, *, may_come: bool = False) -> bool:
    """Return True if the words at a position of a sentence in lower case are not reported as done there.

    With `may_come`, an announced consequence (`you will be charged`) counts as reported too.
    """
    cut = [found.end() for found in _CLAUSE.finditer(sentence, 0, start)]
    before = _SAID_BEFORE.sub(" ", sentence[cut[-1] if cut else 0 : start])
    before = _TO_COME.sub(" ", before) if may_come else before
    if _OPEN_BEFORE.search(before) or _OPEN_AFTER.search(sentence, end) or _BACK.search(sentence, end):
        return True
    return bool(_RULE_AFTER.match(sentence, end) or _REQUEST_AFTER.match(sentence, end))


def may_complete(text: str) -> bool:
    """Return whether a text may report anything as done."""
    return _COMPLETED.search(text) is not None


def completion(sentence: str, start: int) -> int | None:
    """Return the end of the words after `start` that report the text before them as done; None if there are none."""
    found = _COMPLETED.search(sentence, start)
    return None if found is None or _REASON.search(sentence, start, found.start()) else found.end()


def is_start(sentence: str, start: int, end: int) -> bool:
    """Return True if the sentence states that the action was only requested or started."""
    return _STARTS.match(sentence, start, end) is not None


def is_open_throughout(sentence: str) -> bool:
    """Return whether a sentence reports nothing, but denies, plans, offers or supposes."""
    return bool(_OPEN_BEFORE.search(_SAID_BEFORE.sub(" ", sentence)) or _OPEN_AFTER.search(sentence))


def is_performed(sentence: str, start: int, end: int) -> bool:
    """Return True if a sentence states that its words were carried out just now: by the speaker, or with
    their result.
    """
    before = sentence[:start]
    if any(each.search(before) for each in _PERFORMED_BEFORE):
        return True
    return len(before.split()) <= _SHORT and _PERFORMED_AFTER.match(sentence, end) is not None


def leaves_value_open(sentence: str, start: int, end: int) -> bool:
    """Return True if the value at a position is denied, offered, planned or supposed there, or repeats the request."""
    before = _AS_REQUESTED.sub(" ", _SAID_BEFORE.sub(" ", sentence[:start]))
    before = before[max((found.end() for found in _VALUE_CUT.finditer(before)), default=0) :]
    cuts = [found.start() for each in (_VALUE_CUT, _WITHOUT) if (found := each.search(sentence, end))]
    after = sentence[end : min(cuts, default=len(sentence))]
    return _VALUE_OPEN.search(f"{before}0{after}") is not None or _OF_REQUEST.search(before) is not None


def is_own_deed(sentence: str, start: int) -> bool:
    """Return whether the speaker claims to have done the action."""
    return _PERFORMED_BEFORE[0].search(sentence[:start]) is not None


def tells_failure(sentence: str) -> bool:
    """Return whether a sentence reports a failure."""
    return _FAILURE.search(sentence) is not None


def sums_up(sentence: str) -> bool:
    """Return True if a sentence states only that everything is done."""
    return _WHOLE.fullmatch(sentence.strip()) is not None


def speaks_of_all(sentence: str) -> bool:
    """Return True if a sentence refers to all of several things."""
    return _ALL.search(sentence) is not None


def is_change(sentence: str, one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Return True if a sentence reports a change from the value at one position to that at another."""
    if one[1] > other[0] or not _FROM.search(sentence, 0, one[0]):
        return False
    return _TO.fullmatch(sentence, one[1], other[0]) is not None
