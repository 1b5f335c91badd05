"""Described systems: one check reads every system that `reviews/systems` describes as data.

    effects.<name>   id (expression) or match {field: expression}, and optionally
                     of {parameter: expression} (what the description's paths are made of),
                     set {field: expression} (what the action should have changed),
                     amount, currency, customer (expressions), expect "absent", fields {name: JSON Pointer},
                     settle_within_s, tenant_field, target_field

A field is one of the description's, or a JSON Pointer into the object. The system's settings: url, what the description
asks for, other_states; the credential: what its authentication needs.

1. Only GET is sent, and POST for an access token. Values are segments of a path or values of a query; inside a longer
   text of a query a value must be one word.
2. Not there is what the system says in the described words. Any other answer that is no object is no answer.
3. A list is walked to its end; one that is longer than we walk proves nothing. Where the list lags, its objects are
   read by their own GET, and that it has none proves nothing.
4. Until a dry run in this installation found a known object and missed another, with this description and these
   settings, each reading is UNDECLARED: what was written from documentation is not verified.
"""

from __future__ import annotations

import hashlib
import re
import time
from base64 import b64encode
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import urlencode, urljoin, urlsplit

from reviews.checks import fetching, lookups
from reviews.checks.fetching import SiteResponse
from reviews.checks.interface import CheckFailed, Consistency, Reading, SystemAccess
from reviews.checks.limits import bounded_read
from reviews.readback.rules import shapes
from reviews.readback.rules.shapes import Schema
from reviews.systems.rules import answers
from reviews.systems.rules.answers import MISSING, FoundObjects, Thing
from reviews.systems.rules.description import Description
from reviews.systems.rules.paging import Page, UnclearPage, next_page

MAX_PAGES: Final = 20
MAX_READ_BY_ID: Final = 50
SLACK: Final = timedelta(minutes=5)
TOKEN_S: Final = 300
"""Time for which an access token is used whose answer names no lifetime, in seconds."""
UNTRIED: Final = (
    "Its description was written from documentation and is not verified here: until a dry run in this installation has"
    " found a known object and missed another, its readings settle nothing."
)
_COMPARED: Final = ("amount", "currency", "customer")
_POINTER: Final = shapes.name_schema(r"(/[^/]*)+", "a JSON Pointer")
_WORD: Final = re.compile(r"[A-Za-z0-9_.@:+-]{1,200}")
_PLACEHOLDER: Final = re.compile(r"\{([a-z][a-z0-9_]*)\}")

Bindings = Mapping[str, Mapping[str, Any]]


class DescribedCheck(lookups.LookupCheck):
    """The check of one described system."""

    def __init__(self, description: Description) -> None:
        self.description = description
        self.pattern = description.name
        own = {name: shapes.member(shapes.TEXT, label) for name, label in description.settings.items()}
        self.settings = {
            **fetching.SITE,
            **own,
            "other_states": shapes.member(
                shapes.NAMES, "States of your own", "One on each line: an object in such a state counts as there."
            ),
        }
        self.required_settings = tuple(own)
        self.part = _part_schema(description)
        strings = {name: {"type": "string"} for name in (*description.fields, "state_kind")}
        self.fields = strings | ({"amount": {"type": "integer"}} if "amount" in description.fields else {})

    def fields_of(self, part: Mapping[str, Any]) -> dict[str, Any]:
        """The description's fields, and those that the lookup adds."""
        added = part.get("fields")
        own: dict[str, Any] = {name: {} for name in added} if isinstance(added, dict) else {}
        return {**own, **self.fields}

    def fields_beside(self, lookup: Mapping[str, Any]) -> dict[str, Any]:
        """The target, where the description says how it is read."""
        return {"target": {"type": "object"}} if "target" in self.description.gets else {}

    def locate(self, *, kind: str, operation: str, target: str, settings: Mapping[str, Any]) -> dict[str, Any] | None:
        """The object with that id, looked for within the target where one is named, as `repository/desk`.

        A target that cannot be looked into is not passed over, and a membership is located within its target only.
        """
        parameter, _, value = target.partition("/")
        of = {parameter: lookups.literal(value)} if value else {}
        number = lookups.literal(operation)
        given = {"of": of} if of else {}
        is_membership = self.description.document.get("is_membership", False)
        if not operation:
            return None
        if set(self.description.parameters("one")) == of.keys() and not is_membership:
            return {"id": number, **given}
        if "list" in self.description.gets and set(self.description.parameters("list")) == of.keys():
            return {"match": {"id": number}, **given}
        names_itself = value == operation and not self.description.parameters("one") and not is_membership
        return {"id": number} if names_itself else None

    @bounded_read
    def read(
        self,
        *,
        system: SystemAccess,
        verification: Mapping[str, Any],
        bindings: Bindings,
        at: datetime,
        timeout_s: float,
    ) -> Reading:
        """Read the objects of each effect, by id or from the list of their target."""
        parts = {name: _fill_part(part, bindings) for name, part in lookups.lookup_effects(verification).items()}
        until = fetching.deadline_after(timeout_s)
        own = system.settings.get("other_states", ())
        states = {**dict.fromkeys(map(str, own), "other"), **self.description.kind_of_state}
        since = _executed_at(bindings, at=at)
        with _Conversation(self.description, system, until=until) as talk:
            found = {name: talk.look_up(part, since=since) for name, part in parts.items()}
        effects = tuple(
            answers.effect_of(name, parts[name], one, self.description, states) for name, one in found.items()
        )
        before = bindings.get("pre", {}).get("effects", {})
        indicators = {
            indicator
            for effect in effects
            for indicator in answers.indicators_of(
                parts[effect.name],
                found[effect.name],
                effect,
                self.description,
                states,
                before=before.get(effect.name, {}),
                at=at,
            )
        }
        targets = [one.target for one in found.values() if one.target is not None]
        return Reading(
            source=system.name,
            consistency=self._consistency(system, talk.answers, at=at),
            freshness=self._freshness(found, talk.answers),
            observed_at=at,
            pointer="; ".join(map(_describe_part, lookups.lookup_effects(verification).values()))[:300],
            effects=effects,
            target={"exists": all(targets), "count": int(all(targets))} if targets else None,
            indicators=tuple(sorted(indicators)),
            caveat="" if system.tried == self.description.digest else UNTRIED,
            raw={
                name: {"objects": [self._evidence(parts[name], thing) for thing in one.things]}
                for name, one in found.items()
            },
        )

    def _consistency(self, system: SystemAccess, asked: list[SiteResponse], *, at: datetime) -> Consistency:
        documented = Consistency(self.description.document["freshness"]["consistency"])
        found = fetching.effective_consistency(system, *asked, at=at, own=documented)
        return found if system.tried == self.description.digest else Consistency.UNDECLARED

    def _freshness(self, found: Mapping[str, FoundObjects], asked: list[SiteResponse]) -> str:
        name = "version" if "version" in self.description.fields else "time"
        things = [thing for one in found.values() for thing in one.things]
        marks = [answers.text_of(answers.value_at(thing, self.description.fields.get(name, "/-"))) for thing in things]
        header = self.description.document["freshness"].get("header", "")
        named = asked[-1].headers.get(header, "") if header and asked else ""
        said = f"{name} {max(filter(None, marks), default='none')}"
        return f"{said}, {header} {named}"[:200] if named else said[:200]

    def _evidence(self, part: Mapping[str, Any], thing: Thing) -> dict[str, Any]:
        """The fields that the lookup and the description name; the rest of an object is nobody's evidence."""
        named = {*part.get("match", ()), *part.get("set", ())} - self.description.fields.keys()
        pointers = {**self.description.fields, **part.get("fields", {}), **{each: each for each in named}}
        values = {name: answers.value_at(thing, at) for name, at in pointers.items()}
        return {name: lookups.to_json_value(value) for name, value in values.items() if value is not MISSING}


def _part_schema(description: Description) -> Schema:
    field = {
        "type": "string",
        "anyOf": [{"enum": sorted(description.fields)}, {"pattern": _POINTER["pattern"]}],
        "fault": f"is neither a JSON Pointer nor one of {', '.join(sorted(description.fields))}.",
    }
    named = shapes.one_of(sorted(description.fields))
    compared = dict.fromkeys((each for each in _COMPARED if each in description.fields), shapes.EXPRESSION)
    asked = sorted({name for get in description.gets for name in description.parameters(get)})
    own_name = {**shapes.name_schema(r"[a-z][a-z0-9_]{0,39}", "a field's name"), **shapes.free_name(description.fields)}
    optional: dict[str, Schema] = {
        "id": shapes.EXPRESSION,
        "match": shapes.map_schema(field),
        "set": shapes.map_schema(field),
        **compared,
        "expect": shapes.EXPECT,
        "fields": {
            "type": "object",
            "propertyNames": own_name,
            "additionalProperties": _POINTER,
            "fault": "must name fields and their JSON Pointers.",
        },
        "settle_within_s": shapes.number_schema(1),
        **dict.fromkeys(("tenant_field", "target_field"), named),
    }
    if asked:
        optional["of"] = {
            "type": "object",
            "properties": dict.fromkeys(asked, shapes.EXPRESSION),
            "additionalProperties": False,
            "fault": f"must be an object of {', '.join(asked)}.",
        }
    rules = [_needs(description, "id", "one")]
    if "list" in description.gets:
        return shapes.object_schema(
            {}, optional, shapes.either("id", "match"), *rules, _needs(description, "match", "list")
        )
    del optional["match"]
    return shapes.object_schema({"id": optional.pop("id")}, optional, *rules)


def _needs(description: Description, member: str, get: str) -> Schema:
    """The rule that a lookup by this member gives the parameters of that request."""
    wanted = description.parameters(get)
    fault = f"must be an object that gives {', '.join(wanted)}."
    of = {"properties": {"of": {"required": list(wanted), "fault": fault}}, "required": ["of"]} if wanted else {}
    return shapes.rule(fault, if_={"required": [member]}, then=of)


class _Conversation:
    """The requests of one reading to one described system."""

    def __init__(self, description: Description, system: SystemAccess, *, until: float) -> None:
        self.description, self.system = description, system
        self.answers: list[SiteResponse] = []
        address = system.credential.get("url") or system.settings.get("url")
        headers = {"Accept": "application/json", **description.document.get("headers", {})}
        self.token_key, signed = _authentication(description, system, until=until)
        self.site = fetching.open_site(system, address, until=until, headers=headers | signed, secret=bool(signed))

    def __enter__(self) -> _Conversation:
        self.site.__enter__()
        return self

    def __exit__(self, *fault: Any) -> None:
        self.site.__exit__(*fault)

    def look_up(self, part: Mapping[str, Any], *, since: datetime | None) -> FoundObjects:
        """The objects of one effect."""
        given = {**part["of"], **{name: str(self.system.settings.get(name, "")) for name in self.description.settings}}
        found = FoundObjects(target=self._target(given))
        if "id" in part:
            thing = self._one("one", {**given, "id": part["id"]})
            found.things = [] if thing is None else [thing]
            return found
        if since is not None:
            given["since"] = self._format_time(since)
        get = self.description.gets["list"]
        for thing in self._read_list(get, given, found):
            is_match = answers.matches(self.description, thing, part["match"])
            if is_match is None:
                found.whole = False
            elif is_match:
                found.things.append(thing)
        if get.get("lags") and not found.things:
            found.whole = False
        return found

    def _target(self, given: Mapping[str, str]) -> bool | None:
        wanted = self.description.parameters("target")
        if not wanted or not all(given.get(name) for name in wanted):
            return None
        return self._one("target", given) is not None

    def _one(self, name: str, given: Mapping[str, str]) -> Thing | None:
        """Return the object at its own address; None if the system says that there is none."""
        get = self.description.gets[name]
        answer = self._get(_fill_path(get["path"], given), _fill_query(get.get("query", {}), given))
        document = _document(answer)
        if self._is(get["absent"], answer, document):
            return None
        thing = answers.value_at(document, get["at"])
        if answer.status != 200 or not isinstance(thing, dict):
            raise self._wrong_answer(answer)
        own = [self.description.fields["id"]] if name == "one" else []
        named = [answers.text_of(answers.value_at(thing, at)) for at in get.get("named_by", own)]
        if named and given["id"] not in named:
            raise CheckFailed(
                f"{answer.url} answered with another {self.description.document['object']}.", retryable=True
            )
        return thing

    def _read_list(self, get: Mapping[str, Any], given: Mapping[str, str], found: FoundObjects) -> Iterator[Thing]:
        """The objects of a list, read by their own GET where the list shows ids only or lags."""
        items = self._walk(get, given, found)
        if "id_at" not in get and not get.get("lags"):
            yield from items
            return
        id_at = get.get("id_at", self.description.fields["id"])
        for read, item in enumerate(items):
            number = answers.text_of(answers.value_at(item, id_at))
            if number is None or read == MAX_READ_BY_ID:
                found.whole = False
                return
            thing = self._one("one", {**given, "id": number})
            if thing is not None:
                yield thing

    def _walk(self, get: Mapping[str, Any], given: Mapping[str, str], found: FoundObjects) -> Iterator[Thing]:
        """The entries of a list to its end; otherwise `whole` is False."""
        path, query = _fill_path(get["path"], given), _fill_query(get.get("query", {}), given)
        for number in range(MAX_PAGES):
            answer = self._get(path, query)
            document = _document(answer)
            if number == 0 and self._is(get.get("absent"), answer, document):
                # The target is not there, so neither is anything of it.
                found.target = False
                return
            items = _items(get, document)
            if answer.status != 200 or items is None:
                raise self._wrong_answer(answer)
            yield from items
            page = Page(number=number, document=document, items=items, link=answer.headers.get("link", ""))
            try:
                following = next_page(get["paging"], page, get.get("id_at", self.description.fields["id"]))
            except UnclearPage:
                raise self._wrong_answer(answer) from None
            if following is None:
                return
            if following.link:
                path, query = self._local(following.link), {}
            query = {**query, **following.parameters}
        found.whole = False

    def _local(self, link: str) -> str:
        """Return a link of an answer as a path of this system, with its query."""
        base = str(self.site.address).rstrip("/")
        parts = urlsplit(urljoin(f"{base}/", link))
        place = f"{parts.scheme}://{parts.netloc}{parts.path}"
        if not place.startswith(f"{base}/"):
            raise CheckFailed(f"{link!r} leads away from this system.", retryable=False)
        return place.removeprefix(base) + (f"?{parts.query}" if parts.query else "")

    def _get(self, path: str, query: Mapping[str, str]) -> SiteResponse:
        answer = self.site.visit(f"{path}?{urlencode(query)}" if query else path)
        self.answers.append(answer)
        limits = self.description.document["limits"]
        refusal = limits.get("refused_by", {})
        if answer.status == refusal.get("status") and self._is(refusal, answer, _document(answer)):
            raise CheckFailed(f"{answer.url} was asked too often.", retryable=True)
        if answer.status == 401 and self.token_key:
            _TOKENS.pop(self.token_key, None)
        fetching.refuse_outages(answer)
        return answer

    def _is(self, part: Mapping[str, Any] | None, answer: SiteResponse, document: Any) -> bool:
        return answers.answers_as(part, status=answer.status, headers=answer.headers, document=document)

    def _wrong_answer(self, answer: SiteResponse) -> CheckFailed:
        title = self.description.title
        return CheckFailed(f"{answer.url} answered {answer.status}, not as {title} is described.", retryable=True)

    def _format_time(self, moment: datetime) -> str:
        return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def _document(answer: SiteResponse) -> Any:
    """The answer as JSON; None if it is empty."""
    return answer.json() if answer.content.strip() else None


def _items(get: Mapping[str, Any], document: Any) -> list[Any] | None:
    """The entries of a list; None where the answer shows no list."""
    items = answers.value_at(document, get["at"])
    if items is MISSING and "none_beside" in get and answers.value_at(document, get["none_beside"]) is not MISSING:
        return []
    return items if isinstance(items, list) else None


# Authentication

_TOKENS: dict[str, tuple[str, float]] = {}
"""Access tokens by a digest of who asked where, each with the time of the monotonic clock at which it ends."""


def _authentication(description: Description, system: SystemAccess, *, until: float) -> tuple[str, dict[str, str]]:
    """The headers that sign a request, and the key of an access token if there is one."""
    how = description.document["authentication"]
    by = how["by"]
    if by == "bearer":
        return "", {"Authorization": f"Bearer {_secret(system, 'token')}"}
    if by == "api_key":
        return "", {how["header"]: f"{how.get('prefix', '')}{_secret(system, 'key')}"}
    if by == "basic":
        # The HTTP client signs with the user and password of a credential.
        _secret(system, "user")
        return "", {}
    key, token = _access_token(how, system, until=until)
    return key, {"Authorization": f"Bearer {token}"}


def _secret(system: SystemAccess, name: str) -> str:
    found = system.credential.get(name)
    if not isinstance(found, str) or not found:
        raise CheckFailed(f"The credential for the system {system.name} has no `{name}`.", retryable=True)
    return found


def _access_token(how: Mapping[str, Any], system: SystemAccess, *, until: float) -> tuple[str, str]:
    """An access token of the client (RFC 6749, section 4.4), used until it ends."""
    client, secret = _secret(system, "client_id"), _secret(system, "client_secret")
    address = system.credential.get("url") or system.settings.get("url")
    key = hashlib.sha256("\0".join((str(address), how["token_path"], client, secret)).encode()).hexdigest()
    kept = _TOKENS.get(key)
    if kept is not None and kept[1] > time.monotonic():
        return key, kept[0]
    form = {"grant_type": "client_credentials"} | ({"scope": how["scope"]} if "scope" in how else {})
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
    if how["client_in"] == "header":
        headers["Authorization"] = f"Basic {b64encode(f'{client}:{secret}'.encode()).decode()}"
    else:
        form |= {"client_id": client, "client_secret": secret}
    with fetching.open_site(system, address, until=until, secret=True) as site:
        answer = site.ask("POST", how["token_path"], content=urlencode(form).encode(), headers=headers)
    found = answer.document()
    token, lifetime = found.get("access_token"), found.get("expires_in", TOKEN_S)
    if answer.status != 200 or not isinstance(token, str) or not token:
        raise CheckFailed(f"{answer.url} gave no access token: it answered {answer.status}.", retryable=True)
    known_s = int(lifetime) if isinstance(lifetime, int | str) and str(lifetime).isdecimal() else TOKEN_S
    _TOKENS[key] = token, time.monotonic() + max(0, known_s - 60)
    return key, token


# Values


def _fill_part(part: Mapping[str, Any], bindings: Bindings) -> dict[str, Any]:
    """The part with its expressions replaced by their values."""
    found: dict[str, Any] = dict(part)
    for name in ("id", "currency", "customer"):
        if name in part:
            found[name] = str(lookups.fill_template(part[name], bindings))
    if "amount" in part:
        found["amount"] = lookups.fill_template(part["amount"], bindings)
    for name in ("match", "set", "of"):
        filled = {one: lookups.fill_template(text, bindings) for one, text in part.get(name, {}).items()}
        found[name] = {one: answers.text_of(value) or "" for one, value in filled.items()}
    if "" in (found.get("id", "x"), *found["match"].values(), *found["of"].values()):
        raise CheckFailed("The lookup's value is empty, and would find everything.", retryable=False)
    return found


def _fill_path(template: str, given: Mapping[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda name: fetching.path_segment(given.get(name[1], "")), template)


def _fill_query(query: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """The query with its parameters; an entry with {since} is left out where nothing was executed."""
    asked = {name: text for name, text in query.items() if "{since}" not in text or "since" in given}
    return {name: _fill_text(text, given) for name, text in asked.items()}


def _fill_text(template: str, given: Mapping[str, str]) -> str:
    def fill(name: re.Match[str]) -> str:
        value = given.get(name[1], "")
        if value == "" or (name[0] != template and not _WORD.fullmatch(value)):
            raise CheckFailed(f"{name[1]} is {value!r}, which is no word that can stand in a query.", retryable=False)
        return value

    return _PLACEHOLDER.sub(fill, template)


def _executed_at(bindings: Bindings, *, at: datetime) -> datetime | None:
    """The start of the execution, less the difference that clocks may have."""
    try:
        found = datetime.fromisoformat(str(bindings.get("scope", {}).get("executed_at")))
    except ValueError:
        return None
    return None if found.tzinfo is None else min(found, at) - SLACK


def _describe_part(part: Mapping[str, Any]) -> str:
    where = {"id": part["id"]} if "id" in part else part["match"]
    return " and ".join(f"{name} = {text}" for name, text in {**part.get("of", {}), **where}.items())
