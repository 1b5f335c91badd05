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
from kombu.transport.redis import Channel

from console.telemetry.logging_lines import logged_with

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")

# When the broker goes away, kombu would put unacknowledged messages back over the connection that is gone, and the
# worker would die of that. They are hints: the next tick finds the rows. For the same reason a message is acknowledged
# when its task begins, not when it ends.
Channel.do_restore = False


class WorkerTask(Task[..., Any]):
    """A task whose log lines name it and its run, and whose worker keeps its connections for the next."""

    abstract = True

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
_ONLY_TICKS = "COUNTERFOIL_ONLY_TICKS" in os.environ
app = Celery("counterfoil", task_cls=WorkerTask, fixups=[] if _ONLY_TICKS else None)
# For every thread of the web process too, not only for the one that imports this.
app.set_default()
app.conf.update(
    # Celery would close every connection around each task; ours are closed when they are old or broken (WorkerTask).
    CELERY_DB_REUSE_MAX=sys.maxsize,
    broker_url=settings.REDIS_URL,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    # A hint that cannot be sent now is dropped, not waited for: the next tick finds the row.
    task_publish_retry=False,
    broker_transport_options={
        # Nor is a connection for it: kombu would try again for six seconds, and a request would take as long.
        "max_retries": 0,
        # The message of a worker that died before it began comes back after the visibility timeout, looked for
        # every 5 s; without the throttle kombu would look only each tenth time.
        "visibility_timeout": 120,
        "unacked_restore_interval": 5,
        "unacked_restore_throttle": 1,
        "socket_timeout": 10,
        "socket_connect_timeout": 5,
        "health_check_interval": 15,
    },
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


app.steps["worker"].add(SharedPages)
