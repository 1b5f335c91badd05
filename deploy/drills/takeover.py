"""Kill the host of the broker that all connections lead to, while work goes on: is anything lost, and how late is it?

    python -m deploy.drills.takeover sentinel [--rounds 3] [--watched 45] [--per-s 2]
    python -m deploy.drills.takeover rabbitmq

`sentinel`: a master, two replicas and three Sentinels of Redis, for the hints and the counters; the master and one
Sentinel are killed. `rabbitmq`: a cluster of three nodes with quorum queues; the node that leads the queue `due` is
killed. Each comes back before the next round. Nothing may be lost, no proposal refused, and no reading be late by
more than thirty seconds.
"""

from __future__ import annotations

import argparse
import time
from contextlib import suppress

import psycopg

from console.local import servers
from console.local.processes import wait_until
from deploy.drills.broker_servers import RabbitCluster, WatchedRedis
from deploy.drills.drill import Drill, Options
from deploy.drills.installation import Broker, DrillFailed, Installation, Shape
from deploy.drills.traffic import Figure, Traffic

LATEST_S = 30.0
_LATE = (
    "SELECT coalesce(max(extract(epoch FROM clock_timestamp() - due_at)), 0)::float8 FROM reviews_schedule"
    " WHERE due_at <= clock_timestamp() AND (claimed_until IS NULL OR claimed_until <= clock_timestamp())"
)
"""The seconds for which the reading that has waited longest has been due and in nobody's hands."""


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("broker", choices=[Broker.SENTINEL.value, Broker.RABBITMQ.value])
    parser.add_argument(
        "--watched", type=float, default=45.0, help="seconds after the fault for which readings are timed"
    )


def _lose_host(place: Installation, traffic: Traffic, options: Options, number: int) -> str:
    hosts = place.hosts
    assert hosts is not None
    before = _latest(place, 10.0)
    began, accepted = time.time(), traffic.accepted()
    lost = _kill_leader(hosts)
    late = _latest(place, options.watched)
    traffic.measure(Figure(asked="a reading after it was due", value=late, most=LATEST_S))
    traffic.measure_refusals(began)
    meanwhile = traffic.accepted() - accepted
    _bring_back(hosts, lost)
    return f"readings late by {before:.1f} s at most before and {late:.1f} s after, {meanwhile} proposals meanwhile"


def _kill_leader(hosts: WatchedRedis | RabbitCluster) -> list[int]:
    if isinstance(hosts, RabbitCluster):
        lost = [hosts.leader("due")]
    else:
        lost = [hosts.master(), next(port for port in hosts.sentinel_ports if port in hosts.running)]
    for port in lost:
        hosts.kill(port)
    return lost


def _bring_back(hosts: WatchedRedis | RabbitCluster, lost: list[int]) -> None:
    for port in lost:
        hosts.start(port)
    if isinstance(hosts, RabbitCluster):
        hosts.wait(lost[0])
    elif not wait_until(hosts.is_complete, within_s=60, every_s=0.5):
        raise DrillFailed("The Sentinels do not see all servers again.")


def _latest(place: Installation, for_s: float) -> float:
    """The lateness of the latest reading in this time, looked at five times a second."""
    late, until = 0.0, time.monotonic() + for_s
    with psycopg.connect(place.record.primary.url(servers.SUPERUSER, "counterfoil"), autocommit=True) as connection:
        while time.monotonic() < until:
            with suppress(psycopg.OperationalError):
                [(found,)] = connection.execute(_LATE).fetchall()
                late = max(late, float(found))
            time.sleep(0.2)
    return late


DRILL = Drill(
    name="takeover",
    about="Kill the leading host of the broker while work goes on.",
    rounds=3,
    one_round=_lose_host,
    shape=lambda options: Shape(broker=Broker(options.broker)),
    add_options=_add_options,
)

if __name__ == "__main__":
    DRILL.main()
