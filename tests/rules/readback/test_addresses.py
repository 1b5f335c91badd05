"""A secret is sent only to the addresses that its own credential names."""

from __future__ import annotations

import pytest

from reviews.readback.rules.addresses import holds_secret, is_loopback, resolve_address

BOOKS = {"url": "postgresql://reader:word@books.example:5432/books"}
BANK = {"url": "https://api.bank.example", "token": "rk_1"}
MAIL = {"host": "mail.example", "port": 993, "user": "ann", "password": "word"}


@pytest.mark.parametrize(
    ("settings", "credential", "said"),
    [
        ({"host": "evil.example"}, BOOKS, "Its settings name evil.example, which its"),
        ({"hostaddr": "10.6.6.6"}, BOOKS, "Its settings name 10.6.6.6, which its"),
        ({"host": "books.example", "port": 6666}, BOOKS, "Its settings name books.example:6666, which its credential"),
        ({"port": 6666}, BOOKS, "Its settings name port 6666, which its"),
        ({"port": "6666"}, BOOKS, "Its settings name port 6666, which its"),
        ({"url": "postgresql://evil.example/books"}, BOOKS, "Its settings name evil.example:5432, which its"),
        (
            {"url": "https://evil.example"},
            BANK,
            "Its settings name evil.example:443, which its credential does not name.",
        ),
        ({"url": "https://api.bank.example:8443"}, BANK, "Its settings name api.bank.example:8443, which its"),
        (
            {"url": "http://api.bank.example"},
            BANK,
            "Its settings name api.bank.example:80, which its credential does not",
        ),
        ({"url": "https://api.bank.example@evil.example"}, BANK, "Its settings name evil.example:443, which its"),
        (
            {"ledger": {"host": "evil.example"}},
            BANK,
            "Its settings name evil.example, which its credential does not name.",
        ),
        ({"regions": {"eu": {"instances": ["https://evil.example"]}}}, BANK, "Its settings name evil.example:443"),
        (
            {"host": "evil.example", "port": 993},
            MAIL,
            "Its settings name evil.example:993, which its credential does not",
        ),
        (
            {"url": "https://evil.example"},
            {"token": "rk_1"},
            "Its credential names no address, so its secret is",
        ),
        ({"host": "evil.example"}, {"user": "a", "password": "b"}, "Its credential names no address, so its secret is"),
        ({"url": "postgresql://books.example/books?host=evil.example"}, BOOKS, "Its settings name evil.example"),
        ({"url": "postgresql://books.example/books?port=6666"}, BOOKS, "Its settings name port 6666"),
        ({"url": "host=evil.example dbname=books"}, BOOKS, "Its settings name host=evil.example dbname=books"),
        ({"host": "evil.example"}, {"url": "host=books.example password=word"}, "Its settings name evil.example"),
    ],
)
def test_settings_cannot_send_a_secret_to_another_address(settings, credential, said):
    assert resolve_address(settings, credential)[1][: len(said)] == said


@pytest.mark.parametrize(
    ("settings", "credential"),
    [
        ({}, BOOKS),
        ({"host": "books.example", "dbname": "books"}, BOOKS),
        ({"host": "BOOKS.example", "port": 5432}, BOOKS),
        ({"url": "https://api.bank.example/v1"}, BANK),
        ({"host": "mail.example"}, MAIL),
        ({"limits": {"readings_per_hour": 5}}, MAIL),
        (
            {"regions": ["https://a.example", "https://b.example:8443"]},
            {"password": "x", "addresses": ["https://a.example", "b.example:8443"]},
        ),
        ({"url": "http://anywhere.example"}, {}),
        ({"root": "/srv/documents"}, {"root": "/srv/documents"}),
        ({"host": "anywhere.example"}, {"url": "postgresql://anywhere.example/books"}),
    ],
)
def test_an_address_named_by_the_credential_is_accepted(settings, credential):
    assert resolve_address(settings, credential)[1] == ""


def test_the_address_of_the_credential_is_the_default():
    assert resolve_address({"consistency": "STRONG"}, BANK)[0]["url"] == BANK["url"]
    assert resolve_address({"host": "mail.example"}, MAIL)[0] == {"host": "mail.example", "port": 993}


def test_secrets_in_an_address_are_recognised():
    assert holds_secret(BOOKS)
    assert holds_secret(BANK)
    assert holds_secret({"url": "postgresql://books.example/books?password=word"})
    assert holds_secret({"url": "host=books.example password=word"})
    assert not holds_secret({})
    assert not holds_secret({"url": "postgresql://books.example/books", "root": "/srv"})


def test_loopback_addresses_are_recognised():
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "127.8.8.8", "::1", "[::1]", "/run/postgresql")))
    assert not any(map(is_loopback, ("localhost.evil.example", "10.0.0.1", "example.com", "", "0.0.0.0")))
