"""Repositories behind git's own HTTP backend, and a clone to work in."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
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


@contextmanager
def served(root: Path) -> Iterator[GitServer]:
    """Serve the repositories under a folder by `git http-backend`, on a port of its own."""
    backend = Path(git(root, "--exec-path")) / "git-http-backend"

    class Handler(BaseHTTPRequestHandler):
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
            told = {
                "GIT_PROJECT_ROOT": str(root),
                "GIT_HTTP_EXPORT_ALL": "1",
                "REQUEST_METHOD": self.command,
                "PATH_INFO": asked.path,
                "QUERY_STRING": asked.query,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "CONTENT_LENGTH": str(len(body)),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            }
            ran = subprocess.run([backend], env=os.environ | QUIET | told, input=body, capture_output=True, timeout=60)
            head, _, content = ran.stdout.partition(b"\r\n\r\n")
            headers = BytesParser().parsebytes(head + b"\r\n\r\n")
            self.send_response(int(headers.get("Status", "200").split()[0]))
            for name, value in headers.items():
                if name != "Status":
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            return None

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield GitServer(f"http://127.0.0.1:{server.server_port}", root)
        finally:
            server.shutdown()
            thread.join()
