"""Rules as data: a TOML file lists the requests of an API that read, those that change something, and their fields.

1. The first rule that fits method and path decides, and `when` that needs the body, what is in it. A request that no
   rule fits is refused.
2. A changing request is proposed with the path's variables, decoded once, and the listed fields of its body. A field
   that is not listed refuses it, unless the rule says that the rest is `hashed`: covered by the body's digest and not
   shown.
3. Its contract is made from the rule. Without a `verification` nothing can read it back, and people always decide.
4. An answer counts as done, accepted or not done only with a status that the rule lists; every other one is unknown.
5. A rule with the effect `graphql` opens a GraphQL endpoint: queries pass, and a mutation is judged by the rule that
   names its one root field (`counterfoil.gateway.graphql_requests`). Its answer counts as done only where the field has
   a value and nothing in the answer says otherwise.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from email.message import Message
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import parse_qsl, unquote

from python_multipart.multipart import MultipartParser

from counterfoil.canonical import NotCanonical, digest, encode_canonical
from counterfoil.gateway.graphql_requests import Judged, NotJudged, judge_query_string, judge_request
from counterfoil.gateway.held import HeldRequest
from counterfoil.gateway.reader import Head, Intent, Keeps, KeptBody, Passes, StoredContent, WaitEnd, WordedAnswer
from counterfoil.gateway.settings import HostSettings
from counterfoil.gateway.strict_json import UnreadableBody, read_json, read_json_object
from counterfoil.gating.settings import BadSettings, read_document
from counterfoil.work import Failure, Result, succeeded

_MOST_JSON: Final = 64 << 20
_MOST_DOCUMENT: Final = 1 << 20
_MOST_FIELD: Final = 64 << 10
_MOST_PARTS: Final = 500
_MOST_RAW: Final = 64 << 10
_NAME: Final = re.compile(r"[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*")
_VARIABLE: Final = re.compile(r"\{(\+?)([a-z_]+)\}")
_WORDS: Final = {
    WaitEnd.WAITS: (409, "waits for approval, send it again later: {}"),
    WaitEnd.REFUSED: (403, "{}"),
    WaitEnd.UNKNOWN: (409, "outcome unknown, the host is read back: {}"),
}
_BODY_TYPES: Final = {
    "json": "application/json",
    "json_text": "application/json",
    "form": "application/x-www-form-urlencoded",
    "multipart": "multipart/form-data",
}
_UNFORMED: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})|[^!-:<-~]")


if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks


@dataclass(frozen=True)
class Rule:
    """One rule; `fields` are JSON pointers into the body, with `?` at the end where one may be missing.

    mutation: the root field that the rule names, whose argument `input` takes the body's place. failure: the field of
    its answer that lists what went wrong. refusals: the types of errors after which nothing was done. never: for the
    effect `graphql`, fields that no document may have.

    A part `*` of a pointer stands for every name of an object: at the end it gives the names, before that what each of
    them has there. `when` says which pointers must be there (true) or must not (false). A body `json_text` is a text
    alone, at `/text`; of a body `form` each field is a text. `match` has for a variable, a field or a query the
    expression that its whole value fits. `version` is the contract's: a rule that changes after it was registered needs
    another one. `accepted` are statuses after which the host has only taken the change on, `receipt` points into its
    answer at what names the thing made.
    """

    name: str = ""
    description: str = ""
    method: tuple[str, ...] = ()
    path: str = ""
    effect: str = ""
    body: str = "none"
    fields: Mapping[str, str] = field(default_factory=dict)
    when: Mapping[str, bool] = field(default_factory=dict)
    unlisted: str = "refuse"
    query: tuple[str, ...] = ()
    target: str = ""
    side_effect_class: str = "MEDIUM_RISK_WRITE"
    reversibility: str = "IRREVERSIBLE"
    idempotency_header: str = ""
    done: tuple[int, ...] = ()
    accepted: tuple[int, ...] = ()
    receipt: str = ""
    not_done: tuple[int, ...] = ()
    mutation: str = ""
    failure: str = ""
    refusals: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    verification: Mapping[str, Any] = field(default_factory=dict)
    match: Mapping[str, str] = field(default_factory=dict)
    version: str = "1.0.0"

    @property
    def pattern(self) -> re.Pattern[str]:
        """The path as an expression over the raw path, a segment for each variable."""
        parts = _VARIABLE.split(self.path)
        made = [re.escape(parts[0])]
        for rest, name, text in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
            made.append(f"(?P<{name}>{'.*' if rest else '[^/]+'}){re.escape(text)}")
        return re.compile("".join(made))

    @property
    def variables(self) -> list[str]:
        """The names of the path's variables."""
        return [name for _, name in _VARIABLE.findall(self.path)]


class RulesReader:
    """Reads the requests to one host by the rules of a file."""

    streams = False
    answers_upgrades = False

    def __init__(self, name: str, host: HostSettings) -> None:
        self._host = host
        self._rules = load_rules(host.rules, where=f"hosts.{name}.rules")
        self._patterns = [(rule.pattern, rule) for rule in self._rules if not rule.mutation]
        self._mutations = {rule.mutation: rule for rule in self._rules if rule.mutation}
        self.tools: Mapping[str, Mapping[str, Any]] = {
            rule.name: contract_of(rule) for rule in self._rules if rule.effect == "change"
        }

    def _find(self, head: Head) -> Iterator[tuple[Rule, dict[str, str]]]:
        """The rules that fit method and path, in order."""
        for pattern, rule in self._patterns:
            match = pattern.fullmatch(f"/{head.path}") if head.method in rule.method else None
            if match is not None:
                yield rule, match.groupdict()

    def admit(self, head: Head) -> Passes | Keeps | WordedAnswer:
        rule, _ = next(self._find(head), (None, {}))
        if rule is None or rule.effect == "refuse":
            why = f"by the rule {rule.name}" if rule else "because no rule names it"
            return _answer(403, f"{head.method} of this address is refused {why}")
        if rule.effect == "read":
            return Passes()
        if rule.effect == "graphql":
            return self._admit_graphql(rule, head)
        if head.header("content-encoding") not in ("", "identity"):
            return _answer(415, "a compressed body is not read here")
        kind = head.header("content-type").partition(";")[0].strip().lower()
        if rule.body in _BODY_TYPES and kind != _BODY_TYPES[rule.body]:
            return _answer(415, f"this request has a body of the type {_BODY_TYPES[rule.body]}")
        return Keeps(min(self._host.most_bytes, _MOST_JSON) if rule.body == "json" else self._host.most_bytes)

    def _admit_graphql(self, rule: Rule, head: Head) -> Passes | Keeps | WordedAnswer:
        if head.method == "GET":
            try:
                judged = judge_query_string(head.query)
                _refuse_never(rule, judged)
            except NotJudged as fault:
                return _answer(403, f"refused: {fault}", graphql=True)
            if judged.mutation is not None:
                return _answer(403, "refused: a mutation is sent by POST", graphql=True)
            return Passes()
        if head.query:
            # Some servers would read a document there, too.
            return _answer(403, "refused: a request by POST has its document in its body alone", graphql=True)
        kind = head.header("content-type").partition(";")[0].strip().lower()
        if kind != _BODY_TYPES["json"] or head.header("content-encoding") not in ("", "identity"):
            return _answer(415, "refused: a GraphQL request is uncompressed JSON here", graphql=True)
        return Keeps(min(self._host.most_bytes, _MOST_DOCUMENT))

    def _read_graphql(self, rule: Rule, head: Head, body: KeptBody) -> Intent | Passes | WordedAnswer:
        """A query passes; a mutation is proposed by the rule of its one root field (rule 5)."""
        try:
            judged = judge_request(read_json(body.file, body.size))
            _refuse_never(rule, judged)
            mutation = judged.mutation
            if mutation is None:
                return Passes()
            found = self._mutations.get(mutation.field)
            if found is None or found.effect == "refuse":
                why = f"by the rule {found.name}" if found else "because no rule names it"
                return _answer(403, f"the mutation {mutation.field} is refused {why}", graphql=True)
            if found.failure and found.failure not in mutation.selects:
                raise NotJudged(f"select {found.failure} of {mutation.field}, in which the host says what went wrong")
            given = _pick_fields(found, mutation.input)
            _check_values(found, given)
        except (UnreadableBody, NotJudged) as fault:
            return _answer(422, f"refused: {fault}", graphql=True)
        intent = self._propose(found, head, body, {}, given)
        if isinstance(intent, Intent):
            return replace(intent, shape={**intent.shape, "graphql": True, "answer": mutation.answer})
        return intent

    def read(self, head: Head, body: KeptBody) -> Intent | Passes | WordedAnswer:
        first, _ = next(self._find(head))
        if first.effect == "graphql":
            return self._read_graphql(first, head, body)
        try:
            document = _read_document(first, head, body)
            fitting = (each for each in self._find(head) if _is_for(each[0], document))
            rule, variables = next(fitting, (None, {}))
            if rule is None:
                raise UnreadableBody("no rule for this address fits what it holds")
            given = _pick_fields(rule, document) | _read_query(rule, head)
            variables = _read_variables(rule, variables)
            _check_values(rule, variables | given)
        except UnreadableBody as refusal:
            return _answer(422, f"refused: {refusal}")
        return self._propose(rule, head, body, variables, given)

    def _propose(
        self, rule: Rule, head: Head, body: KeptBody, variables: Mapping[str, str], given: Mapping[str, Any]
    ) -> Intent | WordedAnswer:
        place = {"method": head.method, "path": f"/{head.path}", "query": head.query}
        arguments = {
            "host": self._host.url,
            **variables,
            **given,
            "request": {**place, "sha256": body.sha256, "size": body.size},
        }
        try:
            encode_canonical(arguments)
        except NotCanonical as fault:
            return _answer(422, f"refused: {fault}", graphql=bool(rule.mutation))
        # Parts of a form are put between random marks, so that the body differs each time it is sent.
        same = given if rule.body == "multipart" else body.sha256
        key = digest({"host": self._host.url, **place, "rule": rule.name, "body": same})
        headers = [rule.idempotency_header] if rule.idempotency_header else []
        return Intent(rule.name, arguments, key, {"idempotency_headers": headers})

    def stale(self, held: HeldRequest) -> str:
        return ""

    def progress(self, text: str) -> bytes:
        return b""

    def opening(self) -> WordedAnswer:
        raise AssertionError("an answer of this reader begins when it is whole")

    def ended(self, shape: Mapping[str, Any], ending: WaitEnd, text: str) -> WordedAnswer:
        status, words = _WORDS[ending]
        return _answer(status, words.format(text), graphql=bool(shape.get("graphql")))

    def not_kept(self, head: Head, text: str) -> WordedAnswer:
        return _answer(413, text, graphql=any(rule.effect == "graphql" for rule, _ in self._find(head)))

    def judge(self, held: HeldRequest, status: int, content_type: str, body: bytes) -> Result:
        rule = next(each for each in self._rules if each.name == held.tool)
        raw = {"status": status, "type": content_type, "body": body[:_MOST_RAW].decode("utf-8", "replace")}
        if status in rule.done and rule.mutation:
            return _judge_mutation(rule, str(held.shape["answer"]), body, raw)
        if status in rule.done:
            return Result("success", evidence=_read_receipt(rule, status, body), raw=raw)
        if status in rule.accepted:
            return Result("accepted", evidence=f"HTTP {status}", raw=raw)
        if status in rule.not_done:
            return Result("failed", error=Failure(f"HTTP_{status}", f"The host answered with {status}."), raw=raw)
        text = f"The host answered with {status}, which the rule says nothing about."
        return Result("timeout", error=Failure("UNKNOWN_STATUS", text, "unknown"), raw=raw)

    def relay(self, held: HeldRequest, status: int, content_type: str, body: bytes) -> WordedAnswer:
        return WordedAnswer(status, body, content_type)


def _refuse_never(rule: Rule, judged: Judged) -> None:
    if found := sorted(judged.fields & set(rule.never)):
        raise NotJudged(f"the field {found[0]} is refused by the rule {rule.name}")


def _read_receipt(rule: Rule, status: int, body: bytes) -> str | None:
    """The name that the host's answer gives what was made; without a pointer to it, the status."""
    if not rule.receipt:
        return f"HTTP {status}"
    try:
        named = _value_at(json.loads(body), rule.receipt)
    except ValueError:
        return None
    return str(named) if isinstance(named, str | int) else None


def _judge_mutation(rule: Rule, answer: str, body: bytes, raw: Mapping[str, Any]) -> Result:
    """Judge a mutation's answer (rule 5): GraphQL's own status says nothing of it."""
    try:
        document = json.loads(body)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        return _unknown("The host's answer is no GraphQL answer.", raw)
    errors = document.get("errors") or []
    data = document.get("data")
    payload = data.get(answer) if isinstance(data, dict) else None
    if errors:
        text = "; ".join(str(each.get("message", "")) for each in errors if isinstance(each, dict))[:400]
        types = {each.get("type") if isinstance(each, dict) else None for each in errors}
        # Without `data` it was refused before it ran (section 7.1.2 of the specification).
        if "data" not in document or (payload is None and types <= set(rule.refusals)):
            return Result("failed", error=Failure("GRAPHQL_ERRORS", f"The host refused it: {text}"), raw=dict(raw))
        return _unknown(f"The host reports errors, and not whether it was done: {text}", raw)
    if not isinstance(payload, dict):
        return _unknown(f"The host's answer has no value of {rule.mutation}.", raw)
    if not rule.failure:
        return succeeded(f"{rule.mutation} answered", raw=dict(raw))
    wrong = payload.get(rule.failure)
    if not isinstance(wrong, list):
        return _unknown(f"The host's answer does not say what went wrong ({rule.failure}).", raw)
    if wrong:
        return Result("failed", error=Failure("REFUSED", f"The host refused it: {wrong}"[:500]), raw=dict(raw))
    return succeeded(f"{rule.mutation} answered without {rule.failure}", raw=dict(raw))


def _unknown(text: str, raw: Mapping[str, Any]) -> Result:
    return Result("timeout", error=Failure("UNKNOWN_ANSWER", text, "unknown"), raw=dict(raw))


def _answer(status: int, text: str, *, graphql: bool = False) -> WordedAnswer:
    """Put the text where clients look for it: in a JSON document, and in the reason phrase, where twine looks."""
    plain = " ".join(f"Counterfoil: {text}".split())
    told: dict[str, Any] = {"message": plain, "status": status}
    told |= {"errors": [{"message": plain}]} if graphql else {"error": plain}
    body = json.dumps(told).encode()
    reason = "".join(one for one in plain if " " <= one <= "~")[:400]
    return WordedAnswer(status, body, "application/json", reason=reason)


# The body


def _read_document(rule: Rule, head: Head, body: KeptBody) -> dict[str, Any]:
    if rule.body == "none":
        if body.size:
            raise UnreadableBody("this request has no body by its rule")
        return {}
    if rule.body == "json_text":
        return {"text": _read_text(body)}
    if rule.body == "form":
        return _read_fields(body)
    return read_json_object(body.file, body.size) if rule.body == "json" else _read_form(head, body.file)


def _read_fields(body: KeptBody) -> dict[str, Any]:
    """The fields of a form in one line, each once; anything that servers read in two ways is refused."""
    content = body.file.read_bytes() if body.size <= _MOST_DOCUMENT else b""
    if len(content) != body.size:
        raise UnreadableBody("it is too large")
    if _UNFORMED.search(content):
        raise UnreadableBody("it is no form: a character is not encoded")
    try:
        pairs = parse_qsl(
            content.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(content),
            errors="strict",
            max_num_fields=_MOST_PARTS,
        )
    except ValueError as fault:
        raise UnreadableBody("it is no form in UTF-8") from fault
    found = dict(pairs)
    if len(found) < len(pairs):
        raise UnreadableBody("it has a name twice")
    return found


def _read_text(body: KeptBody) -> str:
    try:
        text = json.loads(body.file.read_bytes()) if body.size <= _MOST_FIELD else None
    except (ValueError, RecursionError):
        text = None
    if not isinstance(text, str):
        raise UnreadableBody("it is not a text in JSON")
    return text


def _is_for(rule: Rule, document: Mapping[str, Any]) -> bool:
    return all((_value_at(document, pointer) is not None) is there for pointer, there in rule.when.items())


def _pick_fields(rule: Rule, document: Mapping[str, Any]) -> dict[str, Any]:
    listed, found = set[str](), dict[str, Any]()
    for name, pointer in rule.fields.items():
        where = pointer.removesuffix("?")
        listed.add(where)
        value = _value_at(document, where)
        if value is None and document.get(where[1:], "") is None:
            raise UnreadableBody(f"the field {where} is null")
        if value is not None:
            found[name] = value
        elif not pointer.endswith("?"):
            raise UnreadableBody(f"the field {where} is missing")
    if rule.unlisted == "refuse":
        unlisted = sorted(f"/{name}" for name in document if f"/{name}" not in listed)
        if unlisted:
            raise UnreadableBody(f"its rule does not list {', '.join(unlisted)[:200]}")
    return found


def _read_variables(rule: Rule, raw: Mapping[str, str]) -> dict[str, str]:
    """The values of the path's variables, each decoded once (RFC 6570): the console encodes what its targets need.

    In a variable that takes the rest a slash that is written as %2F stays so, since a plain one is another address.
    `counterfoil.gateway.plain` has refused what would be encoded twice.
    """
    rests = {name for rest, name in _VARIABLE.findall(rule.path) if rest}
    found = dict[str, str]()
    for name, value in raw.items():
        slash = "%2F" if name in rests else "/"
        try:
            parts = [unquote(part, errors="strict") for part in re.split("%2f", value, flags=re.I)]
        except UnicodeDecodeError as fault:
            raise UnreadableBody(f"{name} is no text in UTF-8") from fault
        found |= {name: slash.join(parts)} if value else {}
    return found


def _check_values(rule: Rule, values: Mapping[str, Any]) -> None:
    for name, pattern in rule.match.items():
        value = values.get(name)
        if value is not None and (isinstance(value, list | dict) or not re.fullmatch(pattern, str(value))):
            raise UnreadableBody(f"{name} is not as its rule has it: {pattern}")


def _value_at(document: Any, pointer: str) -> Any:
    """Return the value that a pointer leads to; None if it leads to nothing."""
    if not pointer or not isinstance(document, dict):
        return None if pointer else document
    part, _, rest = pointer[1:].partition("/")
    rest = f"/{rest}" if rest else ""
    if part != "*":
        return _value_at(document.get(part), rest)
    if not rest:
        return sorted(document)
    return {name: value for name in document if (value := _value_at(document[name], rest)) is not None} or None


def _read_query(rule: Rule, head: Head) -> dict[str, Any]:
    found = dict[str, Any]()
    for part in head.query.split("&") if head.query else []:
        name, _, value = part.partition("=")
        if name not in rule.query or name in found:
            raise UnreadableBody(f"its rule does not list the query {name[:100]} once")
        found[name] = value
    return found


class _Form:
    """The parts of a form, read as a stream: texts are kept, of a file only its name, digest and size."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}
        self._header = [b"", b""]
        self._headers: Message = Message()
        self._text = bytearray()
        self._digest = hashlib.sha256()
        self._size = 0
        self._parts = 0
        self.ended = False

    def callbacks(self) -> dict[str, Any]:
        return {
            "on_part_begin": self._begin,
            "on_header_field": lambda data, start, end: self._add_to_header(0, data[start:end]),
            "on_header_value": lambda data, start, end: self._add_to_header(1, data[start:end]),
            "on_header_end": self._end_header,
            "on_part_data": lambda data, start, end: self._add(data[start:end]),
            "on_part_end": self._end,
            "on_end": self._end_form,
        }

    def _begin(self) -> None:
        self._parts += 1
        if self._parts > _MOST_PARTS:
            raise UnreadableBody("it has too many parts")
        self._headers, self._text, self._digest, self._size = Message(), bytearray(), hashlib.sha256(), 0

    def _add_to_header(self, place: int, data: bytes) -> None:
        self._header[place] += data
        if len(self._header[place]) > 4_096:
            raise UnreadableBody("a part's head is too large")

    def _end_header(self) -> None:
        name, value = (each.decode("utf-8", "replace") for each in self._header)
        if name in self._headers:
            raise UnreadableBody("a part's head has a name twice")
        self._headers[name] = value
        self._header = [b"", b""]

    def _add(self, data: bytes) -> None:
        self._size += len(data)
        self._digest.update(data)
        if self._headers.get_filename() is None:
            self._text += data
            if len(self._text) > (16 * _MOST_FIELD):
                raise UnreadableBody("a text is too large")

    def _end(self) -> None:
        name = self._headers.get_param("name", header="content-disposition")
        if not isinstance(name, str) or not name:
            raise UnreadableBody("a part has no name")
        filename = self._headers.get_filename()
        if filename is not None:
            value: Any = {"filename": filename, "sha256": self._digest.hexdigest(), "size": self._size}
        else:
            value = self._text.decode("utf-8", "replace")
        if name in self.found and not isinstance(self.found[name], str):
            raise UnreadableBody(f"the file {name[:100]} is there twice")
        self.found[name] = f"{self.found[name]}\n{value}" if isinstance(self.found.get(name), str) else value

    def _end_form(self) -> None:
        self.ended = True


def _read_form(head: Head, file: StoredContent) -> dict[str, Any]:
    about = Message()
    about["content-type"] = head.header("content-type")
    boundary = about.get_param("boundary")
    form = _Form()
    if not isinstance(boundary, str):
        raise UnreadableBody("its parts have no boundary")
    try:
        parser = MultipartParser(boundary.encode("ascii"), cast("MultipartCallbacks", form.callbacks()))
        for piece in _read_pieces(file):
            parser.write(piece)
        parser.finalize()
    except (ValueError, UnicodeError) as fault:
        raise UnreadableBody("it is no form") from fault
    if not form.ended:
        raise UnreadableBody("it ends early")
    return form.found


def _read_pieces(file: StoredContent) -> Iterator[bytes]:
    with file.open("rb") as stored:
        while piece := stored.read(1 << 16):
            yield piece


# The rules


def load_rules(named: str, *, where: str) -> list[Rule]:
    """Load the rules of a file, or a shipped set by its name. Raises `BadSettings`."""
    shipped = Path(str(files("counterfoil.gateway"))) / "rulesets" / f"{named}.toml"
    document = read_document(shipped if re.fullmatch(r"[a-z-]+", named) else Path(named).expanduser())
    given = document.pop("rule", [])
    if document or not isinstance(given, list) or not given:
        raise BadSettings(f"{where}: a file of rules is a list of [[rule]].")
    rules = [_load_rule(each, f"{where}[{number}]") for number, each in enumerate(given)]
    if len({rule.name for rule in rules}) < len(rules):
        raise BadSettings(f"{where}: two rules have one name.")
    mutations = [rule.mutation for rule in rules if rule.mutation]
    if len(set(mutations)) < len(mutations):
        raise BadSettings(f"{where}: two rules have one mutation.")
    if mutations and not any(rule.effect == "graphql" for rule in rules):
        raise BadSettings(f'{where}: a mutation needs a rule with the effect "graphql", which has its path.')
    for rule in rules:
        if rule.when and rule.body not in ("json", "form", "multipart"):
            raise BadSettings(f"{where}: `when` needs a body of fields.")
        same = [each for each in rules if each.path == rule.path and set(each.method) & set(rule.method)]
        if any((each.effect, each.body) != (rule.effect, rule.body) for each in same if rule.when or each.when):
            raise BadSettings(f"{where}: rules of one address that `when` tells apart have one effect and one body.")
    return rules


def _load_rule(given: Any, where: str) -> Rule:
    known = {each.name for each in fields(Rule)}
    told = {("side_effect_class" if name == "class" else name): value for name, value in dict(given).items()}
    if unknown := sorted(told.keys() - known):
        raise BadSettings(f"{where}: unknown name {', '.join(unknown)}.")
    for name in ("method", "query", "done", "accepted", "not_done", "refusals", "never"):
        if isinstance(told.get(name), list):
            told[name] = tuple(told[name])
    rule = Rule(**told)
    if not _NAME.fullmatch(rule.name) or bool(rule.mutation) == bool(rule.path.startswith("/") and rule.method):
        raise BadSettings(
            f"{where}: a rule has a name like api.verb, and methods with a path from the root or a mutation."
        )
    if rule.effect == "graphql" and not set(rule.method) <= {"GET", "POST"}:
        raise BadSettings(f"{where}: GraphQL is asked by GET and POST.")
    if rule.effect not in ("read", "change", "refuse", "graphql") or rule.unlisted not in ("refuse", "hashed"):
        raise BadSettings(f"{where}: effect is read, change, refuse or graphql; unlisted is refuse or hashed.")
    if rule.effect == "read" and (rule.mutation or not set(rule.method) <= {"GET", "HEAD"}):
        raise BadSettings(f"{where}: only GET and HEAD can be read.")
    if rule.body not in ("none", *_BODY_TYPES):
        raise BadSettings(f"{where}: body is none, json, json_text, form or multipart.")
    if rule.effect == "change":
        _check_change(rule, where)
    return rule


def _check_change(rule: Rule, where: str) -> None:
    if not (rule.done or rule.accepted) or not rule.not_done or not rule.description or not rule.target:
        raise BadSettings(f"{where}: a changing rule has a description, a target, done or accepted, and not_done.")
    if rule.mutation and (rule.accepted or rule.receipt):
        raise BadSettings(f"{where}: accepted and receipt are of an answer over REST.")
    names = [*rule.variables, *rule.fields, *rule.query, "host", "request"]
    if len(set(names)) < len(names):
        raise BadSettings(f"{where}: an argument has two sources.")
    if unknown := sorted(rule.match.keys() - set(names)):
        raise BadSettings(f"{where}: match names {unknown[0]}, which is no argument.")
    try:
        for pattern in rule.match.values():
            re.compile(pattern)
    except re.error as fault:
        raise BadSettings(f"{where}: match has no expression: {fault}.") from fault
    if rule.unlisted == "refuse" and any(pointer.count("/") > 1 for pointer in rule.fields.values()):
        raise BadSettings(f'{where}: a field inside another one needs unlisted = "hashed".')


def contract_of(rule: Rule) -> dict[str, Any]:
    """The contract of a changing rule (rule 3); a person registers it."""
    names = [*rule.variables, *rule.fields, *rule.query]
    optional = {name for name, pointer in rule.fields.items() if pointer.endswith("?")} | set(rule.query)
    in_target = set(re.findall(r"\{([a-z0-9_]+)\}", rule.target))
    text = {"type": "string", "minLength": 1, "maxLength": 2_000}
    anything = {"type": ["string", "integer", "boolean", "array", "object"]}
    kinds = {name: text if name in rule.variables or name in in_target else anything for name in names}
    request = {
        "type": "object",
        "required": ["method", "path", "query", "sha256", "size"],
        "additionalProperties": False,
        "properties": {
            "method": {"type": "string", "maxLength": 10},
            "path": {"type": "string", "maxLength": 4_000},
            "query": {"type": "string", "maxLength": 4_000},
            "sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
            "size": {"type": "integer", "minimum": 0},
        },
    }
    schema = {
        "type": "object",
        "required": ["host", *(name for name in names if name not in optional), "request"],
        "additionalProperties": False,
        "properties": {"host": {"type": "string", "maxLength": 500}, **kinds, "request": request},
    }
    effects = rule.verification.get("lookup", {}).get("effects", {})
    read_back: dict[str, Any] = (
        {"required_effects": list(effects), "verification": dict(rule.verification)}
        if rule.verification
        else {"unverifiable_acknowledged": True}
    )
    return {
        "name": rule.name,
        "version": rule.version,
        "schema_version": "1",
        "wrapper_version": "1",
        "description": rule.description,
        "arguments_schema": schema,
        "result_schema": {},
        "side_effect_class": rule.side_effect_class if rule.verification else "HIGH_RISK_EXTERNAL",
        "reversibility": rule.reversibility,
        "transaction_boundary": "EXTERNAL",
        "externally_visible": True,
        "target_resource": rule.target,
        "operation_kind": rule.name.partition(".")[2],
        "recovery": {"idempotent": bool(rule.idempotency_header)},
        **read_back,
    }
