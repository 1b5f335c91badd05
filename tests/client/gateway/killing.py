"""`counterfoil-gateway`, which ends with SIGKILL once it has written a state: killing.py STATE words…"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from counterfoil.gateway.command import main
from counterfoil.gateway.held import HeldRequest, HeldRequests, HeldState

_write = HeldRequests.write


def _write_and_end(self: HeldRequests, held: HeldRequest, state: HeldState, **changes: Any) -> HeldRequest:
    written = _write(self, held, state, **changes)
    if state == sys.argv[1]:
        os.kill(os.getpid(), signal.SIGKILL)
    return written


if __name__ == "__main__":
    if sys.argv[1]:
        HeldRequests.write = _write_and_end  # type: ignore[method-assign]
    main(sys.argv[2:])
