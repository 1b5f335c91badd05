"""git behind the gateway: the same push again, until it is carried out or rejected. It keeps nothing."""

from __future__ import annotations

import subprocess

from tests.waiting.programs.client import Folder, pause, say

folder = Folder()
told = folder.told
while True:
    ran = subprocess.run(told["command"], shell=True, cwd=told["work"], capture_output=True, text=True)
    say(ran.returncode, ran.stderr)
    if ran.returncode == 0:
        folder.heard("APPROVED" if "Done, and confirmed" in ran.stderr else "", ran.stderr, done=True)
        break
    final = next((line for line in ran.stderr.splitlines() if "[remote rejected]" in line), "")
    # A step of another push did not end well: sent again, this one goes on knowing that.
    again = ("waits for approval", "send the same request again", "could not be reached", "try again later")
    if final and not any(each in final for each in again):
        folder.heard("REJECTED" if "rejected by a reviewer" in final else "NONE", final, done=False)
        break
    pause()
