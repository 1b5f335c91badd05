"""A server that answers as a system documents its answers, by one of the files in `tests/support/outside/described`.

object, key              one object as documented, and where a tool writes its key
one, list                the documented answers around OBJECT, OBJECTS, MORE (whether there are more), LAST, CURSOR
                         (of the next page) and NEXT (its address)
paths, known_target      where they are, and the target that exists
absent, too_many         the documented answers for what is not there, and to a request too many
signed, token            the headers that a request must bear, and how an access token is given
states, wrong            what an object in each kind of state, and with a wrong value, has otherwise
credential, settings, arguments, by_id, by_match         a system and its lookups
"""

from __future__ import annotations

import copy
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

FOLDER = Path(__file__).with_name("described")
Reply = tuple[int, str, dict[str, str]]
SYSTEMS = sorted(file.stem for file in FOLDER.glob("*.json"))


class FakeSystem:
    """One documented system with its objects."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.data: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
        self.objects: list[dict[str, Any]] = []
        self.asked: list[tuple[str, str]] = []
        self.failure: tuple[int, str] | None = None
        self.fail_from = 0
        self.url = ""
        self.not_listed = False

    def add(self, key: str, *, number: int = 0, **changes: Any) -> dict[str, Any]:
        """Add the documented object with this key, an id of its own and other values at JSON Pointers."""
        made = copy.deepcopy(self.data["object"])
        place(made, self.data["key"], key)
        for at, value in changes.items():
            place(made, at, value)
        if number:
            at = self.data.get("id", "/id")
            own = value_at(made, at)
            place(made, at, own + number if isinstance(own, int) else f"{own[:-4]}{number:04d}")
        self.objects.append(made)
        return made

    def id_of(self, thing: dict[str, Any]) -> str:
        return str(value_at(thing, self.data.get("id", "/id")))

    def fail(self, status: int, body: Any, *, after: int = 0) -> None:
        """Answer so from the request after the first `after` ones."""
        self.failure = status, body if isinstance(body, str) else json.dumps(body)
        self.fail_from = len(self.asked) + after

    def answer(self, method: str, target: str, headers: Any, body: bytes) -> Reply:
        """Status, body and headers of the answer to a request."""
        url = urlsplit(target)
        self.asked.append((method, target))
        given = self.data.get("token")
        if given and url.path == given["path"]:
            return self._token(method, headers, body)
        if self.failure is not None and len(self.asked) > self.fail_from:
            return *self.failure, {}
        if method != "GET":
            return 405, "{}", {}
        if any(headers.get(name) != value for name, value in self.data["signed"].items()):
            return 401, '{"error": "not signed"}', {}
        own = {name: str(value) for name, value in self.data.get("headers", {}).items()}
        found = self._found(url.path, dict(parse_qsl(url.query)), own)
        absent = self.data["absent"]
        return found or (absent["status"], json.dumps(absent["body"]) if absent["body"] else "", own)

    def _token(self, method: str, headers: Any, body: bytes) -> Reply:
        given = self.data["token"]
        form = {name: values[0] for name, values in parse_qs(body.decode()).items()}
        signed = headers.get("Authorization", "") == given.get("authorization", "")
        if method == "POST" and form == given["form"] and signed:
            return 200, json.dumps(given["answer"]), {}
        return 401, '{"error": "invalid_client"}', {}

    def _found(self, path: str, query: dict[str, str], own: dict[str, str]) -> Reply | None:
        """The answer at a path where something is."""
        paths = self.data["paths"]
        named = _id_in(paths["one"], path)
        for thing in self.objects if named else ():
            if named in (self.id_of(thing), *(str(value_at(thing, at)) for at in self.data.get("named_by", ()))):
                return 200, json.dumps(fill(self.data["one"], {"OBJECT": thing})), own
        if "target" in paths and _id_in(paths["target"], path) == self.data["known_target"]:
            return 200, json.dumps(self.data["target"]), own
        listed = urlsplit(paths["list"])
        is_asked = path == listed.path and dict(parse_qsl(listed.query)).items() <= query.items()
        return self._list(path, query, own) if is_asked else None

    def _start(self, paging: dict[str, Any], given: str | None, size: int) -> int:
        if not given:
            return 0
        if paging["by"] == "page":
            return (int(given) - 1) * size
        if paging["by"] == "last_id":
            return next(place for place, each in enumerate(self.objects) if self.id_of(each) == given) + 1
        return int(given.removeprefix("after-"))

    def _list(self, path: str, query: dict[str, str], own: dict[str, str]) -> Reply:
        paging = self.data["paging"]
        size, name = paging.get("size", len(self.objects) or 1), paging.get("parameter", "page_token")
        given = query.get(name)
        start = self._start(paging, given, size)
        page, more = self.objects[start : start + size], start + size < len(self.objects)
        if self.not_listed:
            page, more = [], False
        listed: list[Any] = page
        if "listed_as" in self.data:
            listed = [fill(self.data["listed_as"], {"ID": self.id_of(each)}) for each in page]
        if not page and "empty_list" in self.data:
            return 200, json.dumps(self.data["empty_list"]), own
        cursor = f"after-{start + size}" if more else None
        following = f"{path}?{urlencode(query | {name: cursor or ''})}" if more else None
        if paging.get("absolute") and following:
            following = f"{self.url}{following}"
        body = fill(
            self.data["list"],
            {
                "OBJECTS": listed,
                "MORE": more,
                "LAST": not more,
                "CURSOR": cursor,
                "NEXT": following,
            },
        )
        if not more:
            for at in paging.get("only_if_more", ()):
                body.pop(at, None)
        link = {"Link": f'<{self.url}{following}>; rel="next"'} if paging["by"] == "link" and following else {}
        return 200, json.dumps(body), own | link


def _id_in(template: str, path: str) -> str:
    found = re.fullmatch(re.escape(template).replace(r"\{id\}", "([^/?]+)"), path)
    return found[1] if found else ""


def value_at(document: Any, pointer: str) -> Any:
    for step in pointer.split("/")[1:]:
        document = document[int(step)] if isinstance(document, list) else document[step]
    return document


def place(document: Any, pointer: str, value: Any) -> None:
    holder, _, name = pointer.rpartition("/")
    found = value_at(document, holder)
    found[int(name) if isinstance(found, list) else name] = value


def fill(template: Any, values: dict[str, Any]) -> Any:
    """The template with its words in capitals replaced; the member "" is the whole."""
    if isinstance(template, dict):
        return (
            fill(template[""], values)
            if "" in template
            else {name: fill(each, values) for name, each in template.items()}
        )
    if isinstance(template, list):
        return [fill(each, values) for each in template]
    return values.get(template, template) if isinstance(template, str) else template


@contextmanager
def served(name: str) -> Iterator[FakeSystem]:
    """The system, answering at an address of its own."""
    fake = FakeSystem(name)

    class Answers(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _reply(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, text, headers = fake.answer(self.command, self.path, self.headers, body)
            content = text.encode()
            # Without a Date: the clock of a test may be ahead of ours, and an old answer settles nothing.
            self.send_response_only(status)
            for header, value in {
                "Content-Type": "application/json",
                "Content-Length": str(len(content)),
                **headers,
            }.items():
                self.send_header(header, value)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_DELETE = _reply

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        server.daemon_threads = True
        fake.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield fake
        server.shutdown()
