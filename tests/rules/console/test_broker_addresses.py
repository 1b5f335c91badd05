"""The addresses of the broker and of the counters: what each may look like, and one sentence for what it may not."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from console.brokers.addresses import WrongServerAddress, read_address


@pytest.mark.parametrize(
    ("text", "kombu"),
    [
        ("redis://:p%40@one:7000/3", "redis://:p%40@one:7000/3"),
        ("unix://:p%40@/run/valkey.sock?db=2", "redis+socket://:p%40@/run/valkey.sock?virtual_host=2"),
        (
            "sentinel://user:word@one,two:7001/1?master=m&sentinel_password=s",
            "sentinel://user:word@one:26379/1;sentinel://user:word@two:7001/1",
        ),
        ("amqp://user:word@one,two:7001/a%2Fb", "amqp://user:word@one:5672/a%2Fb;amqp://user:word@two:7001/a%2Fb"),
        ("amqps://user:word@one/", "amqps://user:word@one:5671"),
    ],
)
def test_each_host_becomes_an_address_that_is_complete(text: str, kombu: str):
    assert read_address("BROKER_URL", text).kombu_url.rstrip("/") == kombu


def test_tls_checks_certificate_and_host_unless_told_otherwise(tmp_path: Path):
    authority = tmp_path / "ca.pem"
    authority.touch()
    for scheme, more in (("rediss", ""), ("sentinels", "master=m&")):
        told = read_address("REDIS_URL", f"{scheme}://one/0?{more}ssl_ca_certs={authority}").kombu_tls
        assert told == {"ssl_cert_reqs": "required", "ssl_check_hostname": True, "ssl_ca_certs": str(authority)}
    address = f"amqps://one/?ssl_ca_certs={authority}"
    told = {"cert_reqs": ssl.CERT_REQUIRED, "check_hostname": True, "ca_certs": str(authority)}
    assert read_address("BROKER_URL", address).kombu_tls == told
    assert read_address("BROKER_URL", f"{address}&ssl_check_hostname=false").kombu_tls == told | {
        "check_hostname": False
    }
    assert read_address("BROKER_URL", "amqp://one/").kombu_tls is False


def test_the_sentinels_have_a_login_of_their_own():
    found = read_address("REDIS_URL", "sentinel://:word@one/0?master=m&sentinel_password=other").kombu_sentinel
    assert found["master_name"] == "m"
    assert (found["sentinel_kwargs"]["username"], found["sentinel_kwargs"]["password"]) == (None, "other")


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("REDIS_URL", "http://one", "must look like redis://"),
        ("REDIS_URL", "redis://one:99999/0", "is not a valid URL."),
        ("REDIS_URL", "redis:///0", "names no host."),
        ("REDIS_URL", "redis://one/main", "must end with the number of a database, such as /0."),
        ("REDIS_URL", "redis://one,two/0", "names several hosts: of Redis or Valkey that takes Sentinel"),
        ("REDIS_URL", "sentinel://one,/0?master=m", "has an empty host between its commas."),
        ("REDIS_URL", "sentinel://one/0", "must name the master that the Sentinels watch"),
        ("REDIS_URL", "unix://run/x", "must name the socket's file"),
        (
            "REDIS_URL",
            "redis://one/0?ssl_cert_reqs=none",
            "ssl_cert_reqs, which means nothing for redis:// without TLS.",
        ),
        ("REDIS_URL", "rediss://one/0?ssl_ca_certs=/none", "names a file for ssl_ca_certs that is not there."),
        (
            "REDIS_URL",
            "rediss://one/0?ssl_cert_reqs=no",
            "must have for ssl_cert_reqs one of required, optional, none.",
        ),
        ("REDIS_URL", "amqp://one/", "leads to the counters, which RabbitMQ cannot keep"),
        ("BROKER_URL", "amqp://one/?heartbeat=1", "has the option heartbeat, which means nothing for amqp://."),
        ("BROKER_URL", "kafka://one", "or amqp://user:password@host:port,host:port/vhost."),
    ],
)
def test_a_wrong_address_is_told_in_one_sentence_without_its_password(name: str, text: str, says: str):
    with pytest.raises(WrongServerAddress) as wrong:
        read_address(name, text.replace("://", "://:s3cret@", 1) if text != "unix://run/x" else text)
    assert str(wrong.value).startswith(f"{name} ")
    assert says in str(wrong.value)
    assert "s3cret" not in str(wrong.value)
