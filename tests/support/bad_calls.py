"""Calls that are wrong: labelled ones, whose mistake is known, and arbitrary ones, of which only the rest is known.

Everything comes from one seeded generator, so that a finding can be made again.
"""

from __future__ import annotations

import json
import random
import string
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

Call = dict[str, Any]

JUNK: dict[str, Any] = {
    "role": "administrator",
    "approved": True,
    "status": "RECONCILED_SUCCESS",
    "token": "root",
    "grant": "eyJhbGciOiJub25lIn0..",
    "action_id": "00000000-0000-7000-8000-000000000000",
    "intended_outcome": None,
    "__proto__": {"accepted": True},
}
TEXTS = (
    "",
    "\x00",
    "'; DROP TABLE approvals_call; --",
    "<script>",
    "{{7*7}}",
    "../../etc",
    "\u202eevil",
    "\uff41",
    "x" * 5000,
)


@dataclass(frozen=True)
class Sent:
    """One call as it is sent, and the codes that may answer it; none where only a refusal is sure."""

    raw: Any
    codes: frozenset[str] = frozenset()
    kind: str = "arbitrary"


@dataclass
class Malice:
    """A generator for one tool, `delete_document`, of a session that is disclosed nothing else that it tries."""

    pin: str
    undisclosed: str
    chance: random.Random = field(default_factory=lambda: random.Random(6))

    def batch(self, count: int) -> list[Sent]:
        """So many calls, four in five of them labelled."""
        kinds = list(_LABELLED)
        return [
            self.arbitrary() if self.chance.random() < 0.2 else self.labelled(self.chance.choice(kinds))
            for _ in range(count)
        ]

    def labelled(self, kind: str) -> Sent:
        code, change = _LABELLED[kind]
        call = self.good()
        raw = change(self, call)
        return Sent(self._with_junk(call if raw is None else raw), frozenset({code}), kind)

    def good(self) -> Call:
        """A call with nothing wrong in it."""
        arguments = {"path": f"old/{self.word()}.md", "reason": f"It is {self.word()}."}
        return {"call_id": self.word(16), "tool": "delete_document", "arguments": arguments, "pin_hash": self.pin}

    def arbitrary(self) -> Sent:
        call = self.good()
        where = self.chance.choice(["arguments", "argument", "call", "field", "text"])
        if where == "call":
            return Sent(self.value())
        if where == "field":
            names = (
                "depends_on",
                "acknowledges",
                "based_on",
                "evidence",
                "intended_outcome",
                "goal",
                "supersedes",
                "tool",
                "call_id",
            )
            call[self.chance.choice(names)] = self.value()
            call["arguments"] = {}
        elif where == "argument":
            call["arguments"]["path"] = self.value()
            call["arguments"].pop("reason")
        else:
            call["arguments"] = self.value() if where == "arguments" else self.noise()
        return Sent(call)

    # Pieces

    def word(self, length: int = 8) -> str:
        return "".join(self.chance.choices(string.ascii_lowercase + string.digits, k=length))

    def noise(self) -> str:
        """Text that begins like JSON now and then."""
        text = json.dumps(self.value())
        at = self.chance.randrange(len(text) + 1)
        return text[:at] + self.chance.choice(["", "}", "]", '"', ",", "\\u12", "NaN", "1e999"])

    def value(self, depth: int = 3) -> Any:
        """Any value that the body of a request may hold."""
        kind = self.chance.randrange(8 if depth else 6)
        if kind < 2:
            return self.chance.choice(TEXTS)
        if kind == 2:
            return self.chance.randint(-(2**53) + 1, 2**53 - 1)
        if kind == 3:
            return self.chance.choice([True, False, None])
        if kind < 6:
            return self.word(self.chance.randrange(1, 40))
        if kind == 6:
            return [self.value(depth - 1) for _ in range(self.chance.randrange(4))]
        return {self.word(4): self.value(depth - 1) for _ in range(self.chance.randrange(4))}

    def _with_junk(self, raw: Any) -> Any:
        if not isinstance(raw, dict) or self.chance.random() < 0.7:
            return raw
        name = self.chance.choice([one for one in JUNK if one not in raw])
        return raw | {name: JUNK[name]}


# One change for each kind of mistake. Each gets the generator and a good call, and spoils it or gives another.


def _phantom(malice: Malice, call: Call) -> None:
    call["tool"] = malice.chance.choice([f"zz_{malice.word()}", "delete_documents", "deletedocument", "os.system", ""])


def _undisclosed(malice: Malice, call: Call) -> None:
    call["tool"] = malice.undisclosed


def _missing(malice: Malice, call: Call) -> None:
    del call["arguments"][malice.chance.choice(["path", "reason"])]


def _renamed(malice: Malice, call: Call) -> None:
    call["arguments"][malice.chance.choice(["pth", "file", "filename"])] = call["arguments"].pop("path")


def _extra(malice: Malice, call: Call) -> None:
    call["arguments"][f"zz_{malice.word()}"] = malice.value()


def _typed(malice: Malice, call: Call) -> None:
    name = malice.chance.choice(["path", "reason"])
    call["arguments"][name] = malice.chance.choice([7, True, None, ["a"], {"a": 1}])


def _wrapped(malice: Malice, call: Call) -> None:
    inner = call["arguments"]
    given = inner if malice.chance.random() < 0.5 else json.dumps(inner)
    call["arguments"] = {malice.chance.choice(["args", "arguments", "input", "parameters"]): given}


def _whole(malice: Malice, call: Call) -> None:
    call["arguments"] = {"name": call["tool"], "arguments": call["arguments"]}


def _invented(malice: Malice, call: Call) -> None:
    name, value = malice.chance.choice(
        [("path", "../etc/passwd"), ("path", "A B.md"), ("path", ""), ("reason", "no"), ("reason", "x" * 301)]
    )
    call["arguments"][name] = value


def _truncated(malice: Malice, call: Call) -> None:
    text = json.dumps(call["arguments"])
    call["arguments"] = text[: malice.chance.randrange(len(text))]


def _no_object(malice: Malice, call: Call) -> None:
    call["arguments"] = malice.chance.choice(["[]", "7", "null", '"text"', "[" * 3000, [], 7, None, True, ["path"]])


def _not_canonical(malice: Malice, call: Call) -> None:
    more = malice.chance.choice(['"a": 1.5', '"path": "b.md"', '"a": 9007199254740993', '"a": NaN', '"a": "\\ud800"'])
    call["arguments"] = f"{json.dumps(call['arguments'])[:-1]}, {more}}}"


def _drifted(malice: Malice, call: Call) -> None:
    call.pop("pin_hash")
    call |= malice.chance.choice([{"goal": malice.word()}, {"pin_hash": "f" * 64}, {"goal": "\x00"}, {}])


def _elsewhere(malice: Malice, call: Call) -> None:
    call["target_resource"] = malice.chance.choice(["document/other.md", "", "document/", malice.word()])


def _hoped(malice: Malice, call: Call) -> None:
    text = malice.chance.choice(["sa.", "nothing == 1", "1 +", "sa.exists && (", "x" * 2001, "exec('x')"])
    call["intended_outcome"] = {"expected_predicates": [text]}


def _shapeless(malice: Malice, call: Call) -> Any:
    return malice.chance.choice(
        [
            call | {"call_id": 7},
            call | {"call_id": "x" * 129},
            call | {"tool": ["delete_document"]},
            call | {"depends_on": "all"},
            call | {"acknowledges": [1]},
            call | {"based_on": [{"resource": "a"}]},
            call | {"intended_outcome": []},
            call | {"evidence": [{"statement": "They wrote.", "approved": True}]},
            {"arguments": {}},
            [],
            "delete it",
            7,
        ]
    )


def _prophetic(malice: Malice, call: Call) -> None:
    moment = datetime.now(UTC) + timedelta(days=malice.chance.randrange(1, 400))
    call["based_on"] = [{"resource": f"document/{malice.word()}", "read_at": moment.isoformat()}]


def _dangling(malice: Malice, call: Call) -> None:
    call["depends_on"] = [malice.chance.choice(["", "all", "00000000-0000-7000-8000-000000000000", malice.word()])]


_LABELLED: dict[str, tuple[str, Callable[[Malice, Call], Any]]] = {
    "phantom": ("PHANTOM_TOOL", _phantom),
    "undisclosed": ("UNDISCLOSED_TOOL", _undisclosed),
    "missing": ("SCHEMA_DRIFT", _missing),
    "renamed": ("SCHEMA_DRIFT", _renamed),
    "extra": ("SCHEMA_DRIFT", _extra),
    "typed": ("TYPE_COERCION", _typed),
    "wrapped": ("TYPE_COERCION", _wrapped),
    "whole": ("TYPE_COERCION", _whole),
    "invented": ("ARGUMENT_HALLUCINATION", _invented),
    "truncated": ("UNPARSEABLE_ARGUMENTS", _truncated),
    "no object": ("UNPARSEABLE_ARGUMENTS", _no_object),
    "not canonical": ("UNPARSEABLE_ARGUMENTS", _not_canonical),
    "drifted": ("ASK_DRIFT", _drifted),
    "elsewhere": ("ARGUMENT_HALLUCINATION", _elsewhere),
    "hoped": ("ARGUMENT_HALLUCINATION", _hoped),
    "shapeless": ("UNPARSEABLE_ARGUMENTS", _shapeless),
    "prophetic": ("STALE_STATE_READ", _prophetic),
    "dangling": ("UNRESOLVED_DEPENDENCY", _dangling),
}
KINDS = tuple(_LABELLED)
