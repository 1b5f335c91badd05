"""The stored payload, laid out for a person who must decide on it.

Everything comes from the canonical bytes; nothing from the agent's words. What could deceive the eye is
cut into pieces of its own, so that the page can show it:

V1  A character without a shape of its own (control, format, unusual space, filler, variation selector)
    is named by its code point.
V2  A letter that looks like a Latin one but is not, inside a word that mixes scripts or that consists only of
    such letters, is marked. So are compatibility forms (full-width, mathematical letters).
V3  Spaces at the ends of a value are shown.
V4  A value longer than VISIBLE characters is cut, and the page says how long it is.
V5  What cannot be laid out says so; the canonical JSON beside it is always whole.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

VISIBLE: Final = 400
MOST_FIELDS: Final = 200

_SHAPELESS: Final = frozenset("\u00ad\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
# Cyrillic and Greek letters that a reader takes for Latin ones.
_ALIKE: Final = frozenset(
    "\u0410\u0412\u0415\u0405\u0406\u0408\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425\u0430\u0435\u043e"
    "\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u0501\u04bb\u04cf\u051b\u051d"
    "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7"
    "\u03bf\u03bd\u03c1\u03b9\u03ba"
)
_WHOLE: Final = frozenset(
    ["BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX", "VND", "VUV", "XAF", "XOF", "XPF"]
)
_THOUSANDTHS: Final = frozenset(["BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"])
_TOWARDS: Final = {
    **dict.fromkeys(["refund", "pay", "payout", "transfer", "credit"], "to"),
    **dict.fromkeys(["charge", "debit"], "from"),
}


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of characters of one kind: plain, break (of a line), hidden (V1, V3) or alike (V2)."""

    kind: str
    text: str
    meaning: str = ""


@dataclass(frozen=True, slots=True)
class Field:
    """One leaf of the payload."""

    path: str
    type: str
    pieces: tuple[Piece, ...]
    rest: tuple[Piece, ...] = ()
    length: int = 0
    reading: str = ""
    purpose: str = ""
    notes: tuple[str, ...] = ()


def fields(payload: Mapping[str, Any], schema: Mapping[str, Any] | None = None) -> tuple[Field, ...]:
    """The payload's leaves in its own order, the contract's description beside each (V1 to V5)."""
    described = (schema or {}).get("properties", {})
    laid_out: list[Field] = []
    for path, value in _leaves(payload, ""):
        if len(laid_out) == MOST_FIELDS:
            laid_out.append(Field("…", "", (), notes=("More fields follow, in the canonical JSON only.",)))
            break
        top = described.get(path.split(".")[0].split("[")[0], {})
        laid_out.append(_field(path, value, payload, str(top.get("description", ""))))
    return tuple(laid_out)


def title(operation_kind: str, target: str, payload: Mapping[str, Any]) -> str:
    """The action in one line, verb first: 'Refund 240.00 EUR to order O-1042'."""
    verb = operation_kind.replace("_", " ").strip()
    kind, _, name = target.partition("/")
    thing = f"{kind} {name}" if name else kind
    amount = money(payload.get("amount"), payload.get("currency"))
    shown = f"{verb} {amount} {_TOWARDS.get(verb, 'on')} {thing}" if amount else f"{verb} {thing}"
    return "".join(piece.text for piece in pieces(shown[:1].upper() + shown[1:]))


def money(amount: Any, currency: Any) -> str:
    """An amount as a person reads it: text stays, an integer counts minor units. Empty when it is not money."""
    if not isinstance(currency, str) or len(currency) != 3 or not currency.isalpha() or isinstance(amount, bool):
        return ""
    if isinstance(amount, str):
        return f"{amount} {currency}"
    if not isinstance(amount, int):
        return ""
    places = 0 if currency.upper() in _WHOLE else 3 if currency.upper() in _THOUSANDTHS else 2
    sign, digits = ("-" if amount < 0 else ""), str(abs(amount)).zfill(places + 1)
    whole, part = (digits[:-places], digits[-places:]) if places else (digits, "")
    return f"{sign}{int(whole):,}{'.' + part if part else ''} {currency}"


def pieces(text: str) -> tuple[Piece, ...]:
    """Cut a text into what is seen and what hides (V1 to V3)."""
    suspects = _lookalikes(text)
    inner_from = len(text) - len(text.lstrip(" "))
    inner_to = len(text.rstrip(" "))
    cut: list[Piece] = []
    for at, character in enumerate(text):
        piece = _piece(character, alike=at in suspects, at_the_edge=not inner_from <= at < inner_to)
        if cut and piece.kind == "plain" == cut[-1].kind:
            cut[-1] = Piece("plain", cut[-1].text + piece.text)
        else:
            cut.append(piece)
    return tuple(cut)


def _field(path: str, value: Any, payload: Mapping[str, Any], purpose: str) -> Field:
    if not isinstance(value, str):
        reading = money(value, payload.get("currency")) if path == "amount" else ""
        return Field(path, _type(value), (Piece("plain", json.dumps(value)),), reading=reading, purpose=purpose)
    whole = pieces(value)
    shown, rest = _cut(whole, VISIBLE)
    return Field(path, "text", shown, rest, len(value), purpose=purpose, notes=tuple(_notes(value, whole)))


def _cut(whole: tuple[Piece, ...], size: int) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    shown: list[Piece] = []
    for at, piece in enumerate(whole):
        if size <= 0:
            return tuple(shown), whole[at:]
        if piece.kind == "plain" and len(piece.text) > size:
            shown.append(Piece("plain", piece.text[:size]))
            return tuple(shown), (Piece("plain", piece.text[size:]), *whole[at + 1 :])
        shown.append(piece)
        size -= len(piece.text) if piece.kind == "plain" else 1
    return tuple(shown), ()


def _notes(value: str, cut: tuple[Piece, ...]) -> Iterator[str]:
    kinds = {piece.kind for piece in cut}
    if value == "":
        yield "Empty text."
    if "hidden" in kinds:
        yield "Contains characters that are normally invisible."
    if "alike" in kinds:
        yield "Contains letters that look like others."
    if any(unicodedata.bidirectional(character) in {"R", "AL"} for character in value):
        yield "Contains right-to-left text, shown in the order in which it is stored."


def _piece(character: str, *, alike: bool, at_the_edge: bool) -> Piece:
    code = f"U+{ord(character):04X}"
    if character == " ":
        return Piece("hidden", "space", "Space at the end of the value") if at_the_edge else Piece("plain", " ")
    if character == "\n":
        return Piece("break", "\n", f"Line break, {code}")
    meaning = f"{unicodedata.name(character, 'Unnamed character').capitalize()}, {code}"
    category = unicodedata.category(character)
    selector = "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef"
    if category[0] == "C" or category in {"Zl", "Zp", "Zs"} or selector or character in _SHAPELESS:
        return Piece("hidden", code, meaning)
    if alike:
        return Piece("alike", character, meaning)
    return Piece("plain", character)


def _lookalikes(text: str) -> frozenset[int]:
    """Positions of letters that a reader takes for other letters (V2)."""
    if text.isascii():
        return frozenset()
    found: set[int] = set()
    for start, word in _words(text):
        foreign = [at for at, letter in enumerate(word) if not letter.isascii() and letter in _ALIKE]
        if any(letter.isascii() for letter in word) or len(foreign) == len(word):
            found.update(start + at for at in foreign)
        found.update(start + at for at, letter in enumerate(word) if _is_compatibility_form(letter))
    return frozenset(found)


def _is_compatibility_form(letter: str) -> bool:
    return not letter.isascii() and unicodedata.normalize("NFKC", letter).isascii()


def _words(text: str) -> Iterator[tuple[int, str]]:
    start = 0
    for at in range(len(text) + 1):
        if at == len(text) or not text[at].isalnum():
            if at > start:
                yield start, text[start:at]
            start = at + 1


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            shown = "".join(piece.text for piece in pieces(name))
            yield from _leaves(inner, f"{path}.{shown}" if path else shown)
    elif isinstance(value, list) and value:
        for at, inner in enumerate(value):
            yield from _leaves(inner, f"{path}[{at}]")
    else:
        yield path, value


def _type(value: Any) -> str:
    names = {bool: "true or false", int: "whole number", dict: "object", list: "list", type(None): "nothing"}
    return names.get(type(value), type(value).__name__)
