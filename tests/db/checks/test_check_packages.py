"""Files of a real package index, published with twine and read back from its pages."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

import httpx
import pytest

from reviews.checks import fetching
from reviews.checks.development.packages import JSON, PackageCheck, _parse_listing
from reviews.checks.interface import CheckFailed, SystemAccess
from tests.support.outside import package_server
from tests.support.outside.package_server import make_sdist

CHECK = PackageCheck()
PUBLISHED = {"project": "sr.project", "filename": "sr.filename", "sha256": "sr.sha256"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with package_server.served(tmp_path_factory.mktemp("index")) as found:
        yield found


def look(server, part=PUBLISHED, *, url=None, settings=None, **asked):
    return CHECK.read(
        system=SystemAccess("packages", "packages", {"url": url or server.simple, **(settings or {})}),
        verification={"lookup": {"effects": {"file": part}}},
        bindings={"sr": {"project": "app", "filename": "app-1.0.tar.gz", "sha256": "0" * 64} | asked},
        at=datetime.now(UTC),
        timeout_s=20,
    ).effects[0]


def test_a_file_is_present_once_published_and_shows_its_digest(server, tmp_path):
    file = make_sdist(tmp_path, "app", "1.0")
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert not look(server, sha256=digest).present
    done = server.publish(file)
    assert done.returncode == 0, done.stdout + done.stderr
    found = look(server, sha256=digest)
    assert (found.present, found.fields["sha256"], found.fields["yanked"]) == (True, digest, False)
    assert look(server, project="App", sha256=digest).present


def test_another_file_of_the_same_name_is_shown_with_its_own_digest(server, tmp_path):
    first, other = tmp_path / "first", tmp_path / "other"
    first.mkdir()
    other.mkdir()
    assert server.publish(make_sdist(first, "twice", "1.0")).returncode == 0
    second = make_sdist(other, "twice", "1.0", "another")
    assert server.publish(second).returncode != 0
    wanted = hashlib.sha256(second.read_bytes()).hexdigest()
    found = look(server, project="twice", filename="twice-1.0.tar.gz", sha256=wanted)
    assert found.present
    assert found.fields["sha256"] != wanted


def test_a_removal_is_absent_while_the_file_is_still_there(server, tmp_path):
    part = {"project": "sr.project", "filename": "sr.filename", "expect": "absent"}
    assert server.publish(make_sdist(tmp_path, "old", "1.0")).returncode == 0
    asked = {"project": "old", "filename": "old-1.0.tar.gz"}
    assert not look(server, part, **asked).present
    (server.files / "old-1.0.tar.gz").unlink()
    assert look(server, part, **asked).present


@pytest.mark.parametrize(
    ("asked", "settings", "says"),
    [
        ({"project": "../app"}, {}, "is no project of a package"),
        ({"filename": "a/b.whl"}, {}, "is no filename of a package"),
        ({"sha256": "main"}, {}, "is no sha256 of a package"),
        ({"project": "other"}, {"projects": ["app"]}, "not among the projects"),
    ],
)
def test_an_impossible_lookup_does_not_count_as_absence(server, asked, settings, says):
    with pytest.raises(CheckFailed, match=says) as failed:
        look(server, settings=settings, **asked)
    assert not failed.value.retryable


def test_an_index_that_does_not_answer_is_an_outage(server):
    with pytest.raises(CheckFailed, match="did not answer") as failed:
        look(server, url="http://127.0.0.1:9/simple")
    assert failed.value.retryable


def answered(kind, content, status=200, framed=True):
    headers = {"content-type": kind} | ({"content-length": str(len(content))} if framed else {})
    return fetching.SiteResponse("http://index/simple/app/", status, httpx.Headers(headers), content)


def test_the_html_and_the_json_form_of_an_index_page_are_read_alike():
    html = f'<a href="../../p/app-1.0%2Bx.tar.gz#sha256={"a" * 64}" data-yanked="bad">x</a><a name="x">y</a>'
    document = '{"files": [{"filename": "app-1.0+x.tar.gz", "hashes": {"sha256": "%s"}, "yanked": "bad"}]}' % ("a" * 64)
    said = {"app-1.0+x.tar.gz": ("a" * 64, True)}
    assert _parse_listing("app", answered("text/html; charset=utf-8", html.encode())) == said
    assert _parse_listing("app", answered(JSON, document.encode())) == said


@pytest.mark.parametrize(
    "answer",
    [
        answered("text/plain", b"hello"),
        answered("text/html", b"<a href='x'>", framed=False),
        answered(JSON, b"{}"),
        answered("text/html", b"", status=301),
    ],
)
def test_an_incomplete_or_foreign_index_page_gives_no_answer(answer):
    with pytest.raises(CheckFailed) as failed:
        _parse_listing("app", answer)
    assert failed.value.retryable


@pytest.mark.parametrize(
    ("part", "says"),
    [
        ({"project": "sr.a", "filename": "sr.b"}, "must have either a sha256"),
        ({"project": "sr.a", "filename": "sr.b", "sha256": "sr.c", "expect": "absent"}, "must have either"),
        ({"filename": "sr.b", "sha256": "sr.c"}, "project"),
        ({"project": "sr.a", "filename": "sr.b", "sha256": "sr.c", "md5": "x"}, "md5"),
    ],
)
def test_an_incomplete_or_overfull_lookup_is_reported(part, says):
    faults = CHECK.validate({"lookup": {"effects": {"file": part}}})
    assert any(says in fault or says.replace("a sha256", "the sha256") in fault for fault in faults), faults


@pytest.mark.parametrize("argument", ["index", "host"])
def test_an_upload_to_another_index_is_not_settled_by_the_same_file_here(server, tmp_path, argument):
    file = make_sdist(tmp_path, f"elsewhere-{argument}", "1.0")
    assert server.publish(file).returncode == 0
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    asked = {"project": f"elsewhere-{argument}", "filename": file.name, "sha256": digest}
    assert look(server, **asked, **{argument: server.simple}).present
    with pytest.raises(CheckFailed, match=r"the request went to upload\.example\.org"):
        look(server, **asked, **{argument: "https://upload.example.org/legacy/"})
    named = {"hosts": ["upload.example.org"]}
    assert look(server, settings=named, **asked, **{argument: "https://upload.example.org/legacy/"}).present
