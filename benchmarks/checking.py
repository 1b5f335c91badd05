"""`python -m benchmarks.checking PROCESSES`: the seconds that a check of the logs of a database takes, once started."""

from __future__ import annotations

import sys
import time

import django


def main() -> None:
    django.setup()
    from ledger.management import log_check
    from ledger.record.queries import events

    with log_check.block_runner(int(sys.argv[1])) as walks:
        _warm(int(sys.argv[1]), walks)
        began = time.perf_counter()
        for tenant in events.tenants():
            log_check.check_logs(tenant.id, walks)
        print(time.perf_counter() - began)


def _warm(processes: int, walks: object) -> None:
    """Start the processes, by checking an empty log."""
    from ledger.record.queries import events

    tenant = events.tenants()[0].id
    assert callable(walks)
    list(walks((tenant, 1, range(number, number), ()) for number in range(processes * 4)))


if __name__ == "__main__":
    main()
