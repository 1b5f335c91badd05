"""Repositories behind git's own HTTP backend, and a clone to work in."""

from __future__ import annotations

import base64
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

QUIET = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
    "GIT_TERMINAL_PROMPT": "0",
}


def git(folder: Path, *words: str) -> str:
    """One git command; its output."""
    ran = subprocess.run(
        ["git", *words], cwd=folder, env=os.environ | QUIET, capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


@dataclass
class GitServer:
    """Bare repositories under a folder, served to whoever asks."""

    url: str
    root: Path
    credential: str = ""
    """`user:password` that each request must carry, if any."""
    seen: list[str] = field(default_factory=list)
    """The method and path of each request that carried it."""
    before_push: Callable[[], bool] = lambda: True
    """Called for each push; one that is not to be answered breaks the connection off."""
    after_push: Callable[[], bool] = lambda: True
    ahead_s: float = 0.0
    """How far its clock is ahead of this machine's."""

    def repository(self, path: str) -> None:
        """A new bare repository that may be pushed to, and forced."""
        folder = self.root / path
        folder.mkdir(parents=True)
        git(folder, "init", "-q", "--bare", "-b", "main")
        git(folder, "config", "http.receivepack", "true")

    def clone(self, path: str, folder: Path) -> Path:
        """A clone with one commit on main, which is pushed."""
        git(folder.parent, "clone", "-q", f"{self.url}/{path}", str(folder))
        commit(folder, "first")
        git(folder, "push", "-q", "origin", "HEAD:main")
        return folder

    def ref(self, path: str, ref: str) -> str:
        """What a ref names in the repository's own folder."""
        return git(self.root / path, "for-each-ref", "--format=%(objectname)", ref)


def commit(folder: Path, text: str, *words: str) -> str:
    """A commit in a clone; its id."""
    (folder / "notes.md").write_text(text)
    git(folder, "add", "notes.md")
    git(folder, "commit", "-q", "-m", text, *words)
    return git(folder, "rev-parse", "HEAD")


class _Handler(BaseHTTPRequestHandler):
    made: GitServer
    backend: Path
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        self._answer(self._body())

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", "0")))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _answer(self, body: bytes) -> None:
        asked = urlsplit(self.path)
        wanted = f"Basic {base64.b64encode(self.made.credential.encode()).decode()}"
        if self.made.credential and self.headers.get("Authorization") != wanted:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="host"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.made.seen.append(f"{self.command} {asked.path}")
        pushes = self.command == "POST" and asked.path.endswith("/git-receive-pack")
        if pushes and not self.made.before_push():
            self.close_connection = True
            return
        told = {
            "GIT_PROJECT_ROOT": str(self.made.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "REQUEST_METHOD": self.command,
            "PATH_INFO": asked.path,
            "QUERY_STRING": asked.query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
        }
        ran = subprocess.run([self.backend], env=os.environ | QUIET | told, input=body, capture_output=True, timeout=60)
        if pushes and not self.made.after_push():
            self.close_connection = True
            return
        head, _, content = ran.stdout.partition(b"\r\n\r\n")
        headers = BytesParser().parsebytes(head + b"\r\n\r\n")
        self.send_response(int(headers.get("Status", "200").split()[0]))
        for name, value in headers.items():
            if name != "Status":
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def date_time_string(self, timestamp: float | None = None) -> str:
        return super().date_time_string(time.time() + self.made.ahead_s if timestamp is None else timestamp)

    def log_message(self, *_: object) -> None:
        return None


@contextmanager
def served(root: Path, *, credential: str = "") -> Iterator[GitServer]:
    """Serve the repositories under a folder by `git http-backend`, on a port of its own."""
    backend = Path(git(root, "--exec-path")) / "git-http-backend"
    made = GitServer("", root, credential)
    handler = type("Handler", (_Handler,), {"made": made, "backend": backend})

    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            made.url = f"http://127.0.0.1:{server.server_port}"
            yield made
        finally:
            server.shutdown()
            thread.join()
