"""A thirteenth check from an installed package, as a user would add one."""

from __future__ import annotations

import importlib
import sys
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from reviews.checks import plugins
from reviews.checks.catalogue import NoCheck, check_for
from reviews.checks.databases import DatabaseCheck
from reviews.checks.interface import CheckFailed, SystemAccess
from reviews.checks.plugins import BrokenCheck

AT = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
GOOD = """
from reviews.checks.interface import Consistency, ReadEffect, Reading


class Lamps:
    pattern = "lamps"

    def typed_fields(self, lookup):
        return {"type": "object", "properties": {"exists": {"type": "boolean"}, "colour": {"type": "string"}}}

    def validate(self, verification):
        return [] if "lamp" in verification.get("lookup", {}) else ["lookup must name a lamp."]

    def read(self, *, system, verification, bindings, at, timeout_s):
        effect = ReadEffect(name="light", present=True, count=1, fields={"colour": "green"})
        return Reading(
            source=system.name, consistency=Consistency.STRONG, freshness="now", observed_at=at,
            pointer="the lamp", effects=(effect,), indicators=INDICATORS,
        )


INDICATORS = ()
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Puts a package into a folder as an installer would: a module, and a dist-info that offers it."""
    monkeypatch.syspath_prepend(tmp_path)
    plugins.load_plugin.cache_clear()

    def installed(source, *, name="lamps", value=None, module="thirteenth", distribution="thirteenth"):
        (tmp_path / f"{module}.py").write_text(source)
        about = tmp_path / f"{distribution}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(f"[counterfoil.checks]\n{name} = {value or f'{module}:Lamps'}\n")
        monkeypatch.delitem(sys.modules, module, raising=False)
        importlib.invalidate_caches()

    yield installed
    plugins.load_plugin.cache_clear()
    sys.modules.pop("thirteenth", None)


def read(check):
    return check.read(
        system=SystemAccess("house", "lamps"), verification={}, bindings={}, at=AT, timeout_s=1
    )  # fmt: skip


def test_an_installed_check_is_found_by_its_pattern(install):
    install(GOOD)
    check = check_for("lamps")
    assert check.pattern == "lamps"
    assert check.typed_fields({})["properties"]["colour"] == {"type": "string"}
    assert check.validate({"lookup": {}}) == ["lookup must name a lamp."]
    assert read(check).effects[0].fields == {"colour": "green"}


class Flags(BaseHTTPRequestHandler):
    """The service that the docs' example reads: one flag."""

    def do_GET(self):
        known = self.path == "/flags/dark"
        self.send_response(200 if known else 404)
        self.end_headers()
        self.wfile.write(b'{"state": "on", "revision": 7}' if known else b"")

    def log_message(self, *_):
        pass


@pytest.fixture
def flags():
    with ThreadingHTTPServer(("127.0.0.1", 0), Flags) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_the_check_in_the_docs_works(install, flags):
    text = (Path(__file__).resolve().parents[3] / "docs" / "checks.md").read_text()
    source = text.partition("```python\n")[2].partition("```")[0]
    install(source, name="feature_flags", value="thirteenth:FeatureFlags")
    lookup = {"effects": {"set": {"flag": "sr.flag"}, "drop": {"flag": "sr.other"}}}
    check = check_for("feature_flags")
    assert check.validate({"lookup": lookup}) == []
    assert check.validate({"lookup": {"effects": {"set": {"flog": "sr.flag"}}}})
    reading = check.read(
        system=SystemAccess("flags", "feature_flags", {"url": flags}),
        verification={"lookup": lookup},
        bindings={"sr": {"flag": "dark", "other": "old"}},
        at=AT,
        timeout_s=5,
    )
    assert [(one.present, one.fields) for one in reading.effects] == [
        (True, {"state": "on", "revision": 7}),
        (False, {}),
    ]
    assert reading.freshness == "revision 7"


def test_an_unknown_pattern_is_refused_with_the_list_of_known_ones():
    plugins.load_plugin.cache_clear()
    with pytest.raises(NoCheck, match="databases"):
        check_for("lamps")


def test_a_plugin_is_imported_only_when_it_is_used(install):
    install("raise RuntimeError('imported')")
    assert isinstance(check_for("databases"), DatabaseCheck)
    with pytest.raises(BrokenCheck, match="cannot be loaded") as broken:
        check_for("lamps")
    assert "imported" in broken.value.detail
    with pytest.raises(NoCheck, match="lamps"):
        check_for("something")


def test_a_plugin_cannot_replace_a_built_in_check(install):
    install(GOOD.replace('"lamps"', '"databases"'), name="databases")
    assert isinstance(check_for("databases"), DatabaseCheck)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("Lamps = 3", "has no typed_fields, validate, read"),
        (GOOD.replace('"lamps"', '"others"'), "another pattern"),
        (GOOD.replace('pattern = "lamps"', "def __init__(self): raise OSError('dark')"), "cannot be made"),
        ("Candles = 3", "cannot be loaded"),
    ],
)
def test_a_broken_plugin_is_reported_in_one_sentence(install, source, said):
    install(source)
    with pytest.raises(BrokenCheck, match=said) as broken:
        check_for("lamps")
    assert "thirteenth:Lamps" in broken.value.detail


def test_a_pattern_claimed_by_two_packages_is_refused(install):
    install(GOOD)
    install(GOOD, module="thirteenth_again", distribution="other")
    with pytest.raises(BrokenCheck, match="Several packages"):
        check_for("lamps")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (GOOD.replace("effect = ReadEffect", "1 / 0; effect = ReadEffect"), "ZeroDivisionError"),
        (GOOD.replace("return Reading(", "return dict("), "no reading"),
        (GOOD.replace("INDICATORS = ()", "INDICATORS = ('burnt_out',)"), "burnt_out"),
    ],
)
def test_an_error_inside_a_plugin_gives_no_answer(install, source, said):
    install(source)
    with pytest.raises(CheckFailed, match=said) as failed:
        read(check_for("lamps"))
    assert failed.value.retryable


def test_an_error_of_a_plugin_at_registration_is_reported_in_one_sentence(install):
    install(GOOD.replace("return [] if", 'raise ValueError("no") if'))
    with pytest.raises(BrokenCheck, match="could not judge"):
        check_for("lamps").validate({"lookup": {"lamp": "x"}})
