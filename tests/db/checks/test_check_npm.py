"""An npm registry's answers by themselves; a real registry program and npm's client are in the gateway's tests."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from reviews.checks.development.npm import NpmCheck
from reviews.checks.interface import CheckFailed, Consistency, SystemAccess

CHECK = NpmCheck()
LANTERN = {
    "name": "@team/lantern",
    "modified": "2026-01-01T00:00:00Z",
    "dist-tags": {"latest": "1.1.0"},
    "versions": {"1.0.0": {"dist": {"integrity": "sha512-a"}, "deprecated": "Old."}, "1.1.0": {"dist": {}}},
}


@pytest.fixture(scope="module")
def registry():
    """Answers with the status, document and headers that a test gives it."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            server.asked.append(self.path)
            status, document, headers = server.answer
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(json.dumps(document).encode())

        def log_message(self, *_):
            return None

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.asked = []
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        server.url = f"http://127.0.0.1:{server.server_port}"
        yield server
        server.shutdown()
        thread.join()


def look(registry, reads, *answer, pre=(), host=None, package="@team/lantern", absent=False, **asked):
    registry.answer = (*(answer or (200, LANTERN)), {})[:3]
    part = {"reads": reads, "package": "sr.package", "host": "sr.host"} | ({"expect": "absent"} if absent else {})
    return CHECK.read(
        system=SystemAccess("npm", "npm", {"url": registry.url, "packages": ["@team/lantern"]}, {}),
        verification={"lookup": {"effects": {"it": part}}},
        bindings={
            "sr": {"host": host or registry.url, "package": package} | asked,
            "pre": {"effects": {"it": {"versions": list(pre)}}},
        },
        at=datetime.now(UTC),
        timeout_s=10,
    )


GONE = (404, {"error": "not_found"})


@pytest.mark.parametrize(
    ("reads", "asked", "present"),
    [
        ("versions", {"checksums": {"1.0.0": "sha512-a"}}, True),
        ("versions", {"checksums": {"1.0.0": "sha512-b"}}, False),
        ("versions", {"checksums": {"1.0.0": "sha512-a", "1.1.0": "sha512-b"}}, False),
        ("versions", {"checksums": {"2.0.0": "sha512-a"}}, False),
        ("texts", {"texts": {"1.0.0": "Old.", "1.1.0": ""}}, True),
        ("texts", {"texts": {"1.0.0": ""}}, False),
        ("tag", {"tag": "latest", "version": "1.1.0"}, True),
        ("tag", {"tag": "latest", "version": "1.0.0"}, False),
        ("tag", {"tag": "beta", "absent": True}, True),
        ("tag", {"tag": "latest", "absent": True}, False),
        ("left", {"versions_that_stay": ["1.0.0"], "pre": ["1.0.0", "0.9.0"]}, True),
        ("left", {"versions_that_stay": ["1.0.0"], "pre": ["1.0.0", "1.1.0"]}, False),
        ("left", {"versions_that_stay": ["1.0.0"]}, False),
        ("left", {"versions_that_stay": ["1.0.0", "1.1.0"]}, True),
        ("package", {"absent": True, "pre": ["1.0.0"]}, False),
    ],
)
def test_each_change_is_told_by_the_registrys_own_document(registry, reads, asked, present):
    assert look(registry, reads, **asked).effects[0].present is present
    assert registry.asked[-1] == "/@team%2Flantern"


UNPUBLISHED = {"name": "@team/lantern", "time": {"unpublished": {"time": "2026-01-02T00:00:00Z"}}}


@pytest.mark.parametrize("answer", [GONE, (200, UNPUBLISHED)])
def test_a_package_counts_as_gone_only_if_it_was_seen_before(registry, answer):
    assert look(registry, "package", *answer, absent=True).effects[0].present is None
    assert look(registry, "package", *answer, absent=True, pre=["1.0.0"]).effects[0].present is True
    assert look(registry, "tag", *answer, absent=True, tag="latest").effects[0].present is None
    assert look(registry, "left", *answer, versions_that_stay=[]).effects[0].present is None
    emptied = look(registry, "left", *answer, versions_that_stay=["1.0.0"], pre=["1.0.0", "1.1.0"]).effects[0]
    assert (emptied.present, emptied.fields["differing"]) == (True, 1)


def test_a_tag_that_leads_elsewhere_differs_and_a_caches_answer_is_called_one(registry):
    reading = look(registry, "versions", 200, LANTERN, {"Age": "60"}, checksums={}, tags={"latest": "2.0.0"})
    assert (reading.effects[0].fields["differing"], reading.consistency) == (1, Consistency.CACHE)


@pytest.mark.parametrize(
    ("changes", "answer", "says"),
    [
        ({"host": "https://other.example.org"}, (), "This is the registry"),
        ({"package": "lantern"}, (), "is not among the packages that may be read"),
        ({"package": "../lantern"}, (), "is no name of a package"),
        ({}, (404, {}), "answered 404 and no document"),
        ({}, (200, LANTERN | {"name": "lantern"}), "and no document of @team/lantern"),
        ({}, (200, {"name": "@team/lantern", "versions": {}}), "and no document of @team/lantern"),
        ({}, (500, GONE[1]), "answered 500"),
        ({}, (429, GONE[1]), "answered 429"),
        ({}, (401, GONE[1]), "answered 401"),
    ],
)
def test_what_is_no_answer_about_the_package_tells_nothing(registry, changes, answer, says):
    with pytest.raises(CheckFailed, match=says):
        look(registry, "tag", *answer, tag="latest", version="1.1.0", **changes)
