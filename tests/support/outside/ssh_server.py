"""A real SSH server (OpenSSH's sshd) with one key that it takes, and an SSH agent that has it."""

from __future__ import annotations

import getpass
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from console.local.servers import free_port
from tests.peers.support.environment import debian_program, listens, running


@dataclass(frozen=True)
class SshServer:
    """The server; `agent` is the socket of an SSH agent with the key that it takes."""

    user: str
    port: int
    agent: str


@contextmanager
def served(folder: Path) -> Iterator[SshServer]:
    """Serve sign-ins that end with a greeting, as a forge's do; skips where sshd cannot be had or started."""
    program = debian_program("openssh-server", "usr/sbin/sshd")
    for name in ("host", "key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    user, port = getpass.getuser(), free_port()
    settings = {
        **{"Port": port, "ListenAddress": "127.0.0.1", "HostKey": folder / "host", "PidFile": "none"},
        **{"AuthorizedKeysFile": folder / "key.pub", "StrictModes": "no", "UsePAM": "no"},
        **{"PasswordAuthentication": "no", "KbdInteractiveAuthentication": "no", "PermitRootLogin": "yes"},
        "ForceCommand": "echo 'Hi ada! No shell is offered here.'; exit 1",
    }
    (folder / "sshd_config").write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    if os.geteuid() == 0:
        # The empty folder that sshd wants, which the system's own start of it makes.
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    words = [str(program), "-D", "-e", "-f", str(folder / "sshd_config")]
    with running(words, folder / "sshd.log", ready=listens(port)), _agent(folder / "key") as agent:
        yield SshServer(user, port, agent)


@contextmanager
def _agent(key: Path) -> Iterator[str]:
    started = subprocess.run(["ssh-agent", "-s"], capture_output=True, text=True, check=True).stdout
    told = dict(re.findall(r"(SSH_AUTH_SOCK|SSH_AGENT_PID)=([^;]+)", started))
    try:
        subprocess.run(["ssh-add", "-q", str(key)], env=os.environ | told, check=True)
        yield told["SSH_AUTH_SOCK"]
    finally:
        subprocess.run(["ssh-agent", "-k"], env=os.environ | told, check=True, capture_output=True)
