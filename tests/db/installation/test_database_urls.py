"""The addresses of databases, with one host or several."""

from __future__ import annotations

import socket
from typing import Any

import psycopg
import pytest
from django.db import connection
from psycopg.conninfo import conninfo_to_dict

from console.local import servers
from tests.conftest import KEYS


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


def patience(line: psycopg.Connection) -> dict[str, int]:
    with socket.fromfd(line.fileno(), socket.AF_INET, socket.SOCK_STREAM) as held:
        return {
            "unacknowledged_ms": held.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT),
            "idle_s": held.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE),
        }


def test_a_connection_to_a_host_that_is_lost_ends_after_seconds(db, monkeypatch: pytest.MonkeyPatch, run):
    """TCP alone would go on for a quarter of an hour."""
    from console import settings

    assert patience(connection.connection) == {"unacknowledged_ms": 10_000, "idle_s": 5}
    monkeypatch.setenv("KEYS_DATABASE_URL", f"{run.postgres.url(servers.APP, KEYS)}?tcp_user_timeout=3000")
    with psycopg.connect(settings._address("KEYS_DATABASE_URL")) as keys:
        assert patience(keys) == {"unacknowledged_ms": 3_000, "idle_s": 5}


def test_the_address_of_the_keys_keeps_its_options_and_asks_for_a_writable_host(monkeypatch: pytest.MonkeyPatch):
    from console import settings

    told = "postgresql://app:p%2Cw@pg1,pg2:5433/keys?options=-c%20work_mem%3D1MB&sslrootcert=/etc/a+b.pem&connect_timeout=3"
    monkeypatch.setenv("KEYS_DATABASE_URL", told)
    found = conninfo_to_dict(settings._address("KEYS_DATABASE_URL"))
    assert found == {
        **conninfo_to_dict(told),
        "target_session_attrs": "read-write",
        "tcp_user_timeout": "10000",
        "keepalives_idle": "5",
        "keepalives_interval": "5",
        "keepalives_count": "2",
    }
