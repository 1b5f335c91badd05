"""Derives from a tool's name its verb, its object, and the words in which an agent would claim that it was done.

English only; a contract document that names its own phrases needs none of this.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import Any

from ledger.catalogue.rules.effects import Reversibility, SideEffectClass

# fmt: off
READS = frozenset((
    "get", "list", "search", "find", "read", "fetch", "lookup", "look", "query", "check", "describe", "show", "view",
    "count", "calculate", "compute", "think", "verify", "validate", "retrieve", "browse", "inspect", "summarize",
    "compare", "estimate", "quote", "preview", "has", "is", "can", "track", "monitor", "recommend", "analyze", "ask",
    "identify", "explain", "download", "load", "convert", "translate", "parse", "resolve", "explore", "know", "peek",
    "grep", "glob", "ls", "cat", "head", "tail", "stat", "diff", "status", "ping", "whoami",
))
_HIGH = frozenset((
    "send", "email", "mail", "reply", "forward", "message", "notify", "text", "call", "post", "publish", "tweet",
    "pay", "refund", "charge", "transfer", "wire", "purchase", "buy", "order", "book", "invoice", "deploy", "release",
    "share", "invite", "submit", "sign", "withdraw", "deposit", "trade", "sell", "return", "exchange",
))
_CRITICAL = frozenset(("delete", "remove", "drop", "destroy", "purge", "wipe", "terminate", "revoke", "erase", "kill"))
_LOW = frozenset((
    "save", "log", "note", "remember", "draft", "tag", "label", "comment", "bookmark", "open", "move", "rename",
    "copy", "assign", "escalate", "remind", "toggle",
))
_FINANCIAL = frozenset((
    "pay", "payment", "refund", "charge", "transfer", "wire", "purchase", "buy", "invoice", "withdraw", "deposit",
    "trade", "sell", "money", "funds",
))
_SECURITY = frozenset(("password", "role", "permission", "access", "revoke", "grant", "key", "token", "user"))
_MESSAGES = frozenset((
    "send", "email", "mail", "reply", "forward", "message", "notify", "text", "post", "publish", "tweet",
))
_IRREGULAR = {
    "send": "sent", "pay": "paid", "buy": "bought", "make": "made", "write": "written", "set": "set", "put": "put",
    "sell": "sold", "give": "given", "take": "taken", "run": "run", "do": "done", "build": "built", "withdraw":
    "withdrawn", "undo": "undone", "reset": "reset", "text": "texted", "hold": "held", "overwrite": "overwritten",
    "get": "got", "find": "found", "read": "read", "begin": "begun", "let": "let", "cut": "cut", "split": "split",
    "submit": "submitted", "cancel": "cancelled", "transfer": "transferred", "commit": "committed", "add": "added",
    "shut": "shut", "log": "logged", "drop": "dropped", "ship": "shipped", "stop": "stopped", "tag": "tagged",
    "plan": "planned", "refer": "referred", "put_back": "put back", "swap": "swapped", "wrap": "wrapped",
    "unsubscribe": "unsubscribed", "label": "labelled", "modify": "modified", "edit": "edited", "rebook": "rebooked",
}
_ALSO = {
    "update": ("changed", "updated"), "modify": ("changed", "modified", "updated"), "change": ("changed", "updated"),
    "edit": ("changed", "edited", "updated"), "delete": ("deleted", "removed"), "remove": ("removed", "deleted"),
    "send": ("sent", "emailed"), "create": ("created", "made", "set up"), "add": ("added",),
    "cancel": ("cancelled", "canceled"), "book": ("booked", "reserved"), "buy": ("bought", "purchased"),
    "purchase": ("purchased", "bought"), "refund": ("refunded", "issued a refund"), "save": ("saved", "stored"),
    "write": ("written", "wrote", "saved"), "set": ("set", "changed", "updated"), "schedule": ("scheduled", "booked"),
    "reschedule": ("rescheduled", "moved"), "move": ("moved",), "pay": ("paid", "made the payment"),
    "exchange": ("exchanged", "swapped"), "email": ("emailed", "sent"), "place": ("placed", "ordered"),
    "transfer": ("transferred", "moved"), "open": ("opened", "created"), "close": ("closed", "resolved"),
}
_SMALL = frozenset(("a", "an", "the", "to", "of", "for", "by", "in", "on", "with", "and", "or", "from", "into", "new"))
_PEOPLE = frozenset(("human", "humans", "agent", "agents", "person", "operator", "representative", "supervisor"))
_MERE = frozenset(("pending", "delivered", "all", "details", "current", "existing", "id", "ids", "info", "item_id"))
_VERBS = READS | _HIGH | _CRITICAL | _LOW | _IRREGULAR.keys() | _ALSO.keys() | {"issue", "start", "upload"}
# Verbs of functions that only compute, and names of their operands and of what they return.
_COMPUTES = frozenset((
    "add", "subtract", "multiply", "divide", "sum", "average", "mean", "median", "sqrt", "power", "round", "abs", "max",
    "min", "modulo", "mod", "factorial", "evaluate", "solve", "encode", "decode", "hash", "capitalize", "uppercase",
    "lowercase", "reverse", "sort", "echo", "random", "roll", "flip", "concat", "concatenate", "tokenize", "simplify",
))
_OPERANDS = frozenset((
    "a", "b", "c", "x", "y", "z", "n", "m", "num", "number", "numbers", "value", "values", "int", "integer", "integers",
    "float", "left", "right", "first", "second", "base", "exponent", "operand", "operands", "operation", "operator",
    "expression", "string", "strings", "text", "decimals", "two", "list", "array", "vector", "matrix", "dice", "sides",
))
_SAYS_SO = re.compile(
    r"^\s*(computes?|calculates?|evaluates?|converts?|formats?|parses?|counts?)\b|"
    r"^\s*returns? the (current|sum|product|result of|number of|length|average|difference|quotient|remainder)\b|"
    r"\b(does|do|will) not (\w+ ){0,6}change|\bread[- ]only\b|\b(no|without) side[- ]effects?\b|\bpure function\b",
    re.IGNORECASE,
)
_RUNS = frozenset(("run", "execute", "exec", "invoke", "apply", "process", "perform", "call", "sql", "shell", "bash"))
WORDS = frozenset((
    "text", "thought", "thoughts", "expression", "query", "content", "contents", "message", "summary", "description",
    "body", "prompt", "code", "command", "script", "sql", "note", "notes", "question", "reason", "comment", "input",
))
"""Names of arguments that hold words and name no thing."""
# A deletion leaves nothing to compare.
DELETES = frozenset(("delete", "remove", "drop", "destroy", "purge", "wipe", "erase"))
# fmt: on
_PARTS = re.compile(r"[_.\-/:\s]+|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def words_of(name: str) -> list[str]:
    """Return the words of a tool's name, in lower case: `cancelPendingOrder` and `cancel_pending_order` alike."""
    return [word.lower() for word in _PARTS.split(name) if word]


@lru_cache(maxsize=4096)
def verb_of(name: str) -> tuple[str, list[str]]:
    """Return the verb of a name and the words after it; a name such as `browser_close` has its verb at the end."""
    words = words_of(name) or [""]
    place = next((number for number, word in enumerate(words) if word in _VERBS), 0)
    after = words[place + 1 :]
    after = after[: after.index("by")] if "by" in after[1:] else after
    rest = [word for word in (*after, *words[:place]) if word not in _SMALL]
    return words[place], [word for word in rest if word not in _MERE] or rest


def infer_side_effect_class(name: str, description: str, arguments: Collection[str] = ()) -> SideEffectClass:
    """The class that a name, a description and its arguments' names suggest. In doubt a tool changes something."""
    verb, _ = verb_of(name)
    if verb in _CRITICAL:
        return SideEffectClass.CRITICAL_MUTATION
    if verb in READS or _only_computes(name, description, arguments):
        return SideEffectClass.READ_ONLY
    if is_handover(name):
        return SideEffectClass.LOW_RISK_INTERNAL
    if verb in _HIGH or set(words_of(name)) & _FINANCIAL:
        return SideEffectClass.HIGH_RISK_EXTERNAL
    if verb in _LOW:
        return SideEffectClass.LOW_RISK_INTERNAL
    first = description.split(None, 1)[:1]
    if verb not in _ALSO and verb not in _IRREGULAR and first and first[0].lower().rstrip("s") in READS:
        return SideEffectClass.READ_ONLY
    return SideEffectClass.MEDIUM_RISK_WRITE


def _only_computes(name: str, description: str, arguments: Collection[str]) -> bool:
    """Return whether a tool is a pure function of its arguments, by its operands or its description."""
    verb, rest = verb_of(name)
    if verb in _HIGH or set(words_of(name)) & (_FINANCIAL | _CRITICAL | _RUNS):
        return False
    operands = {word.rstrip("0123456789") for one in arguments for word in words_of(one)} - {""}
    if verb in _COMPUTES and operands <= _OPERANDS and set(rest) <= _OPERANDS | {verb}:
        return bool(arguments) or verb in {"roll", "flip", "random"}
    return verb not in _ALSO and verb not in _LOW and _SAYS_SO.search(description) is not None


# fmt: off
_ANYTHING = frozenset((
    "bash", "shell", "terminal", "python", "code", "exec", "execute", "command", "computer", "powershell", "repl",
))
# fmt: on


@lru_cache(maxsize=4096)
def runs_anything(name: str) -> bool:
    """Return True if a tool, by its name, runs anything given: commands, scripts, code."""
    return bool(set(words_of(name)) & _ANYTHING)


def is_handover(name: str) -> bool:
    """Return whether a tool hands the conversation to a person."""
    return bool({"transfer", "escalate", "handoff"} & set(words_of(name))) and bool(_PEOPLE & set(words_of(name)))


def effect_domain(name: str) -> str:
    """The domain that a wrong effect of the tool would harm."""
    words = set(words_of(name))
    if words & _FINANCIAL and not is_handover(name):
        return "FINANCIAL"
    if words & _MESSAGES:
        return "EXTERNAL_COMMUNICATION"
    return "SECURITY" if words & _SECURITY else "OTHER"


def reversibility(name: str, kind: SideEffectClass) -> Reversibility:
    """The reversibility that a tool's name suggests."""
    if kind is SideEffectClass.READ_ONLY or verb_of(name)[0] in {"draft", "label", "tag", "bookmark", "toggle"}:
        return Reversibility.REVERSIBLE
    irreversible = {SideEffectClass.HIGH_RISK_EXTERNAL, SideEffectClass.CRITICAL_MUTATION}
    return Reversibility.IRREVERSIBLE if kind in irreversible else Reversibility.COMPENSABLE


def done_phrases(name: str) -> tuple[str, ...]:
    """The phrases in which an agent would report that the tool succeeded."""
    verb, rest = verb_of(name)
    if is_handover(name):
        return ("transferred", "handed over", "escalated")
    if verb == "issue" and rest and rest[-1] == "refund":
        return ("issued a refund", "issued", "refunded")
    return tuple(dict.fromkeys((*_ALSO.get(verb, ()), participle(verb))))


def object_phrases(name: str) -> tuple[str, ...]:
    """The phrases for the tool's object, from its full name to its last word."""
    verb, rest = verb_of(name)
    if verb in _MESSAGES and not rest:
        return ("email", "message")
    if not rest:
        return (verb,) if verb else ()
    whole = " ".join(rest)
    single = rest[-1].removesuffix("s") if rest[-1].endswith("s") and not rest[-1].endswith("ss") else rest[-1]
    return tuple(dict.fromkeys((whole, rest[-1], single, *rest[:-1])))[:8]


def things_of(name: str) -> frozenset[str]:
    """The words of a tool's name for its object, in the singular."""
    plain = {word.removesuffix("s") if not word.endswith("ss") else word for word in verb_of(name)[1]}
    return frozenset(plain - {one.removesuffix("s") for one in _MERE})


def participle(verb: str) -> str:
    """The past participle of a verb, regular unless it is a listed exception."""
    if verb in _IRREGULAR:
        return _IRREGULAR[verb]
    if verb.endswith("e"):
        return verb + "d"
    if verb.endswith("y") and verb[-2:-1] not in "aeiou":
        return verb[:-1] + "ied"
    return verb + "ed"


MOST = 3_000


def identifiers(value: object, *, limit: int = 40) -> frozenset[str]:
    """The texts and numbers in some arguments that could be identifiers, folded."""
    found = (_fold(one) for one in _scalars(value) if not isinstance(one, bool | float))
    return frozenset(one for one, _ in zip((one for one in found if len(one) >= 2), range(limit), strict=False))


def words_with_digits(text: str, *, limit: int = 400) -> set[str]:
    """Return the words of a text that could be identifiers, folded."""
    found = (one for one in re.split(r"[\s,;:!?()\[\]{}\"'<>`*]+", text[:20_000]) if one)
    named = (_fold(one.rstrip(".")) for one in found if any(character.isdigit() for character in one))
    return {one for one, _ in zip(named, range(limit), strict=False)}


def _fold(value: Any) -> str:
    return " ".join(str(value).split()).casefold().lstrip("#")


def _scalars(value: Any) -> Iterator[Any]:
    stack, seen = [value], 0
    while stack and seen < MOST:
        one = stack.pop()
        seen += 1
        if isinstance(one, dict):
            stack.extend(reversed(list(one.values())))
        elif isinstance(one, list):
            stack.extend(reversed(one))
        elif one is not None:
            yield one
