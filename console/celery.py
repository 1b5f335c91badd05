"""The worker: messages are hints, PostgreSQL holds what is due.

A message may be lost or repeated; every task re-reads its row, and the sweeper sends again what is due.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from functools import partial
from itertools import count
from typing import Any

from celery import Celery, Task, bootsteps
from celery.beat import BeatLazyFunc
from celery.exceptions import SoftTimeLimitExceeded
from django.conf import settings
from kombu import Connection, Exchange, Queue
from kombu.exceptions import OperationalError
from kombu.transport.redis import Channel

from console.brokers.addresses import Address, read_address
from console.brokers.counters import LEFT_ALONE_S
from console.telemetry.logging_lines import logged_with

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")

# When the broker goes away, kombu would put unacknowledged messages back over the connection that is gone, and the
# worker would die of that. They are hints: the next tick finds the rows. For the same reason a message is acknowledged
# when its task begins, not when it ends.
Channel.do_restore = False

DUE = (
    "console.tasks.read_before",
    "reviews.tasks.take_readings",
    "reviews.tasks.verify_due",
)
"""Tasks of the queue `due`: the readings that are due now. `tick` has whatever is in neither list."""
BULK = (
    "console.tasks.check_integrity",
    "console.tasks.retain",
    "console.tasks.search_for_person",
    "console.tasks.tidy",
    "console.tasks.work_batches",
    "console.tasks.work_exports",
)
"""Tasks of the queue `bulk`: those that may take long and that nobody's reading or deadline may wait for."""
SENDING_S = 2.0
"""Seconds that sending a message may wait for the broker."""


def _queues(broker: Address) -> list[Queue]:
    """In RabbitMQ each queue is replicated, so that a lost node loses none, and forgets what nobody takes."""
    arguments = {"x-queue-type": "quorum", "x-message-ttl": 600_000} if broker.is_rabbitmq else None
    return [Queue(name, routing_key=name, queue_arguments=arguments) for name in ("due", "tick", "bulk")]


def _transport_options(broker: Address) -> dict[str, Any]:
    # A hint is no reason to wait for a connection: kombu would try again for six seconds, and a request would take as
    # long. Of several hosts each is tried once.
    options: dict[str, Any] = {"max_retries": broker.kombu_retries, "interval_start": 0}
    if broker.is_rabbitmq:
        return options | {"read_timeout": 10, "write_timeout": 10}
    return options | {
        # The message of a worker that died before it began comes back after the visibility timeout, looked for
        # every 5 s; without the throttle kombu would look only each tenth time.
        "visibility_timeout": 120,
        "unacked_restore_interval": 5,
        "unacked_restore_throttle": 1,
        "socket_timeout": 10,
        "socket_connect_timeout": 5,
        "health_check_interval": 15,
        **broker.kombu_sentinel,
    }


class App(Celery):
    """Celery, with little patience where a request waits for its hint; nobody waits for beat."""

    def connection_for_write(self, url: str | None = None, **options: Any) -> Connection:
        if _ONLY_TICKS:
            return super().connection_for_write(url, **options)
        waits = ("read", "write") if _broker.is_rabbitmq else ("socket", "socket_connect")
        patience = {f"{each}_timeout": SENDING_S for each in waits}
        return super().connection_for_write(
            url,
            connect_timeout=SENDING_S,
            transport_options=patience | options.pop("transport_options", {}),
            **options,
        )


class WorkerTask(Task[..., Any]):
    """A task whose log lines name it and its run, and whose worker keeps its connections for the next."""

    abstract = True
    _left_alone_until = 0.0

    def apply_async(self, *args: Any, **options: Any) -> Any:
        """Send a message; `OperationalError` if the broker does not take it.

        For a while after it took none it is left alone, and then one sender tries: a broker that is silent would hold
        each of them, and with them all threads of a web process.
        """
        now = time.monotonic()
        if now < WorkerTask._left_alone_until:
            raise OperationalError("The broker took no message a moment ago.")
        if WorkerTask._left_alone_until:
            WorkerTask._left_alone_until = now + LEFT_ALONE_S
        try:
            sent = super().apply_async(*args, **options)
        except (OSError, OperationalError):
            WorkerTask._left_alone_until = time.monotonic() + LEFT_ALONE_S
            raise
        WorkerTask._left_alone_until = 0.0
        return sent

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with logged_with(task=str(self.name), task_id=str(self.request.id or "")):
            if self.request.called_directly or self.request.is_eager:
                return super().__call__(*args, **kwargs)
            return self._keeping_connections(*args, **kwargs)

    def _keeping_connections(self, *args: Any, **kwargs: Any) -> Any:
        """Run with the connections of the last task, as a web process does between requests.

        A task that was cut short leaves none: the statement that it waited for may still run, and a lock of its
        session would stay.
        """
        from django.db import close_old_connections, connections

        from console.telemetry import health

        close_old_connections()
        began = time.monotonic()
        try:
            answer = super().__call__(*args, **kwargs)
        except BaseException:
            connections.close_all()
            raise
        health.note_task_runs({str(self.name): time.monotonic() - began})
        close_old_connections()
        return answer


# Beat sends ticks by the names of tasks: it needs neither what they do nor any app.
_broker = read_address("BROKER_URL", settings.BROKER_URL)
_ONLY_TICKS = "COUNTERFOIL_ONLY_TICKS" in os.environ
app = App("counterfoil", task_cls=WorkerTask, fixups=[] if _ONLY_TICKS else None)
# For every thread of the web process too, not only for the one that imports this.
app.set_default()
app.conf.update(
    # Celery would close every connection around each task; ours are closed when they are old or broken (WorkerTask).
    CELERY_DB_REUSE_MAX=sys.maxsize,
    # Celery's command line would take BROKER_URL as it is, for the first of these.
    broker_url=_broker.kombu_url,
    broker_read_url=_broker.kombu_url,
    broker_write_url=_broker.kombu_url,
    broker_use_ssl=_broker.kombu_tls,
    broker_transport_options=_transport_options(_broker),
    # A host of RabbitMQ that falls silent is noticed after two of these.
    broker_heartbeat=10,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    # A hint that cannot be sent now is dropped, not waited for: the next tick finds the row.
    task_publish_retry=False,
    task_queues=_queues(_broker),
    task_default_queue="tick",
    task_default_exchange="counterfoil",
    task_routes={name: {"queue": queue} for queue, names in (("due", DUE), ("bulk", BULK)) for name in names},
    # A worker that is told of a queue that is not among these does not start.
    task_create_missing_queues=False,
    accept_content=["json"],
    task_serializer="json",
    result_serializer="json",
    task_ignore_result=True,
    task_soft_time_limit=60,
    task_time_limit=90,
    # Who runs into the soft limit is a line of the worker and no fault with a traceback: the next tick goes on.
    task_annotations={"*": {"throws": (SoftTimeLimitExceeded,)}},
    worker_prefetch_multiplier=1,
    worker_max_tasks_per_child=2000,
    worker_hijack_root_logger=False,
    worker_send_task_events=False,
    task_track_started=False,
    enable_utc=True,
    timezone="UTC",
    # Ticks are cheap, may overlap and may be missed; an unstarted one is stale after its period. Whatever is quick and
    # mostly finds nothing shares one message a second (`console.tasks.tick`).
    beat_schedule={
        # The worker that stays for what becomes due hands over by itself; this begins it, and more where much is due.
        "verify-due": {
            "task": "reviews.tasks.verify_due",
            "schedule": 3.0,
            "kwargs": {"stay_s": 2.0},
            "options": {"expires": 5},
        },
        "tick": {
            "task": "console.tasks.tick",
            "schedule": 1.0,
            "kwargs": {"number": BeatLazyFunc(partial(next, count()))},
            "options": {"expires": 5},
        },
        "probe-idle": {"task": "reviews.tasks.probe_idle", "schedule": 5.0, "options": {"expires": 5}},
        "watch-agents": {"task": "approvals.tasks.watch_agents", "schedule": 15.0, "options": {"expires": 15}},
        "anchor": {"task": "ledger.tasks.anchor", "schedule": 10.0, "options": {"expires": 10}},
        "tell-alarms": {"task": "console.tasks.tell_alarms", "schedule": 5.0, "options": {"expires": 10}},
        "tell-people": {"task": "console.tasks.tell_people", "schedule": 3.0, "options": {"expires": 10}},
        "send-handoffs": {"task": "console.tasks.send_handoffs", "schedule": 60.0, "options": {"expires": 60}},
        "count-metrics": {"task": "console.tasks.count_metrics", "schedule": 10.0, "options": {"expires": 10}},
        "update-search": {"task": "console.tasks.update_search", "schedule": 10.0, "options": {"expires": 10}},
        "watch-alerts": {"task": "console.tasks.watch_alerts", "schedule": 15.0, "options": {"expires": 15}},
        "watch-budgets": {"task": "console.tasks.watch_budgets", "schedule": 300.0, "options": {"expires": 60}},
        "watch-regressions": {
            "task": "console.tasks.watch_regressions",
            "schedule": 300.0,
            "options": {"expires": 60},
        },
        **(
            {"export-traces": {"task": "console.tasks.export_traces", "schedule": 5.0, "options": {"expires": 5}}}
            if settings.COUNTERFOIL_OTLP_ENDPOINT
            else {}
        ),
        **(
            {"export-events": {"task": "console.tasks.export_events", "schedule": 5.0, "options": {"expires": 5}}}
            if settings.COUNTERFOIL_EVENT_DESTINATIONS
            else {}
        ),
        "tidy": {"task": "console.tasks.tidy", "schedule": 3600.0, "options": {"expires": 600}},
        "retain": {"task": "console.tasks.retain", "schedule": 3600.0, "options": {"expires": 600}},
        "end-expired-proposals": {
            "task": "console.tasks.end_expired_proposals",
            "schedule": 3600.0,
            "options": {"expires": 600},
        },
        "watch-changes": {
            "task": "reviews.tasks.watch_changes",
            "schedule": 15.0,
            "options": {"expires": 30},
        },
        "watch-canaries": {"task": "reviews.tasks.watch_canaries", "schedule": 10.0, "options": {"expires": 10}},
    },
)
if not _ONLY_TICKS:
    app.autodiscover_tasks()


class SharedPages(bootsteps.Step):
    """Freeze loaded objects before a worker forks, so that the collector does not copy shared pages."""

    def include_if(self, parent: Any) -> bool:
        gc.collect()
        gc.freeze()
        return False


class NothingForLater(bootsteps.Step):
    """Leave out the 28 queues by which Celery delays messages in RabbitMQ: nothing is sent to be carried out later."""

    def include_if(self, parent: Any) -> bool:
        from celery.worker.consumer import Consumer

        steps = Consumer.Blueprint.default_steps
        Consumer.Blueprint.default_steps = {step for step in steps if not str(step).endswith(":DelayedDelivery")}
        return False


# To be removed with 0.2: the version before, which may send until every process is upgraded, knows one queue.
OLD_QUEUE = "celery"


class OldQueue(bootsteps.Step):
    """Have a worker that takes `tick` take what the version before sends, too; it had no RabbitMQ."""

    def include_if(self, parent: Any) -> bool:
        queues = parent.app.amqp.queues
        if not _broker.is_rabbitmq and "tick" in queues.consume_from:
            queues.select_add(Queue(OLD_QUEUE, Exchange(OLD_QUEUE), routing_key=OLD_QUEUE))
        return False


for step in (NothingForLater, OldQueue, SharedPages):
    app.steps["worker"].add(step)
