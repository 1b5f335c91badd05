"""The addresses of databases, with one host or several."""

from __future__ import annotations

from typing import Any

import pytest


def read(monkeypatch: pytest.MonkeyPatch, url: str) -> dict[str, Any]:
    from console import settings

    monkeypatch.setenv("DATABASE_URL", url)
    return settings._database("DATABASE_URL")


def test_the_writable_one_of_several_hosts_is_used(monkeypatch: pytest.MonkeyPatch):
    found = read(monkeypatch, "postgresql://app:p%2Cw@pg1.example.org:5432,pg2.example.org:5433,[::1]/counterfoil")
    assert (found["HOST"], found["PORT"]) == ("pg1.example.org,pg2.example.org,::1", "5432,5433,")
    assert (found["USER"], found["PASSWORD"], found["NAME"]) == ("app", "p,w", "counterfoil")
    assert found["OPTIONS"]["target_session_attrs"] == "read-write"


def test_an_address_may_require_another_kind_of_host(monkeypatch: pytest.MonkeyPatch):
    found = read(monkeypatch, "postgresql://app@pg1,pg2/counterfoil?target_session_attrs=primary&connect_timeout=3")
    assert found["OPTIONS"]["target_session_attrs"] == "primary"
    assert found["OPTIONS"]["connect_timeout"] == "3"


def test_a_single_host_is_connected_without_target_session_attrs(monkeypatch: pytest.MonkeyPatch):
    found = read(monkeypatch, "postgresql://app@pg1:5432/counterfoil")
    assert (found["HOST"], found["PORT"]) == ("pg1", "5432")
    assert "target_session_attrs" not in found["OPTIONS"]
    in_options = read(monkeypatch, "postgresql://app@/counterfoil?host=pg1,pg2")
    assert (in_options["HOST"], in_options["OPTIONS"]["host"]) == ("", "pg1,pg2")


@pytest.mark.parametrize("url", ["postgresql://app@pg1,,pg2/c", "postgresql://app@pg1:x,pg2/c"])
def test_an_incomplete_database_address_is_refused(monkeypatch: pytest.MonkeyPatch, url: str):
    with pytest.raises(SystemExit):
        read(monkeypatch, url)
