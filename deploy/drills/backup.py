"""A base backup of a server of a drill, the log that it archives, and its restore to a moment."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from console.local import servers
from console.local.processes import run_as_user, wait_until
from deploy.drills.installation import DrillFailed, Record, kill

ARCHIVED_WITHIN_S = 60.0


@dataclass(frozen=True)
class Backup:
    """The backup of one server of an installation whose shape is `archived`."""

    record: Record
    server: servers.Postgres

    @property
    def copy(self) -> Path:
        return self.server.folder / "backup"

    def take(self) -> None:
        """Take a base backup in place of the last one."""
        shutil.rmtree(self.copy, ignore_errors=True)
        self.record.copy(self.server, self.copy, "-X", "none")

    def moment(self) -> str:
        """The server's time, to which the backup can be restored."""
        return str(self.record.ask(self.server, "SELECT clock_timestamp()::text"))

    def restore(self, moment: str) -> None:
        """Kill the server, and start it from the backup and the archived log up to `moment`."""
        # The last piece of log is archived first: a restore to a moment is done with the server at hand.
        piece = self.record.ask(self.server, "SELECT pg_walfile_name(pg_switch_wal())")
        archived = self.record.archive(self.server) / piece
        if not wait_until(archived.exists, within_s=ARCHIVED_WITHIN_S, every_s=0.2):
            raise DrillFailed(f"{piece} was not archived within {ARCHIVED_WITHIN_S:.0f} s")
        kill(self.record.running.pop(self.server.port))
        shutil.rmtree(self.server.data)
        # Copied as the server's user: every file keeps its owner.
        copied = subprocess.run(
            ["cp", "-a", str(self.copy), str(self.server.data)], cwd="/", **run_as_user(self.server.account)
        )
        if copied.returncode != 0:
            raise DrillFailed("The backup could not be copied back.")
        with (self.server.data / "postgresql.auto.conf").open("a") as settings:
            settings.write(
                f"restore_command = 'cp {self.record.archive(self.server)}/%f \"%p\"'\n"
                f"recovery_target_time = '{moment}'\nrecovery_target_action = 'promote'\n"
            )
        (self.server.data / "recovery.signal").touch()
        self.record.start(self.server)
        if not wait_until(
            lambda: self.record.ask(self.server, "SELECT NOT pg_is_in_recovery()"), within_s=120, every_s=0.2
        ):
            raise DrillFailed("The restored server is still in recovery after two minutes.")
        for name in ("recovery_target_time", "recovery_target_action", "restore_command"):
            self.record.ask(self.server, f"ALTER SYSTEM RESET {name}")
