"""A small forge in the shape of GitHub's API, written for these tests: it answers real gh, and is no GitHub.

Of the API it has what `gh pr merge`, `gh release create`, merges and refs over REST and a reader ask, in the documented
forms. Commits, tags,
merges and comparisons are real: git makes them in bare repositories. gh reaches it as a proxy for its own development
host `github.localhost`, the one that it asks without TLS.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.support.outside.git_server import git

HOST = "github.localhost"


@dataclass
class Forge:
    """Repositories are `<root>/<owner>/<name>.git`; `pulls` by repository and number, `releases` by their id."""

    root: Path
    url: str = ""
    token: str = "reader-token"
    pulls: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)
    releases: dict[int, dict[str, Any]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    changes: list[tuple[str, str, Any, str]] = field(default_factory=list)
    """Method, path, document and credential of each change that came over REST, but for releases."""

    @property
    def environment(self) -> dict[str, str]:
        """What leads gh here, with a token that may write."""
        named = {"GH_HOST": HOST, "GH_TOKEN": "writer-token", "GH_TELEMETRY": "false", "GH_NO_UPDATE_NOTIFIER": "1"}
        return named | {"HTTP_PROXY": self.url, "NO_PROXY": "127.0.0.1"}

    def git(self, repository: str, *words: str) -> str:
        return git(self.root / f"{repository}.git", *words)

    def pull(self, repository: str, number: int, head: str) -> str:
        """Ask for a branch to be merged into main; its commit."""
        self.pulls[repository, number] = {"head": head, "base": "main"}
        return self.git(repository, "rev-parse", f"refs/heads/{head}")


def _commit(forge: Forge, repository: str, name: str) -> str:
    return forge.git(repository, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")


def _pull_document(forge: Forge, repository: str, number: int) -> dict[str, Any]:
    pull = forge.pulls[repository, number]
    merged = pull.get("merged_as")
    return {
        "number": number,
        "html_url": f"http://{HOST}/{repository}/pull/{number}",
        "state": "closed" if merged else "open",
        "merged": merged is not None,
        "merge_commit_sha": merged,
        "head": {"ref": pull["head"], "sha": _commit(forge, repository, f"refs/heads/{pull['head']}")},
        "base": {"ref": pull["base"], "repo": {"full_name": repository}},
    }


def _merged(forge: Forge, repository: str, number: int, method: str) -> str:
    """Merge by git itself; the new commit of the base branch."""
    pull = forge.pulls[repository, number]
    base, head = (f"refs/heads/{pull[name]}" for name in ("base", "head"))
    tree = forge.git(repository, "merge-tree", "--write-tree", base, head)
    parents = ["-p", base, *(["-p", head] if method == "MERGE" else [])]
    made = forge.git(repository, "commit-tree", tree, *parents, "-m", f"Merge #{number}")
    forge.git(repository, "update-ref", base, made)
    pull["merged_as"] = made
    return made


def _compared(forge: Forge, repository: str, base: str, head: str) -> str:
    one, other = _commit(forge, repository, base), _commit(forge, repository, head)
    if one == other:
        return "identical"
    common = forge.git(repository, "merge-base", one, other)
    return {other: "behind", one: "ahead"}.get(common, "diverged")


class _Listener(ThreadingHTTPServer):
    state: Forge


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None: ...

    @property
    def forge(self) -> Forge:
        assert isinstance(self.server, _Listener)
        return self.server.state

    def _answer(self, code: int, document: object) -> None:
        content = b"" if code == 204 else json.dumps(document).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _missing(self) -> None:
        self._answer(404, {"message": "Not Found", "status": "404"})

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _path(self) -> tuple[str, str]:
        """The repository and what of it is asked for."""
        self.forge.asked.append(self.command)
        path = unquote(urlsplit(self.path).path).removeprefix("/api/v3")
        found = re.match(r"/repos/([^/]+/[^/]+)(/.*)?", path)
        return (found[1], found[2] or "") if found else ("", path)

    def do_GET(self) -> None:
        repository, path = self._path()
        if not (self.forge.root / f"{repository}.git").is_dir():
            return self._missing()
        if not path:
            return self._answer(200, {"full_name": repository, "html_url": f"http://{HOST}/{repository}"})
        for pattern, read in _READS:
            if found := re.fullmatch(pattern, path):
                try:
                    return self._answer(200, read(self.forge, repository, *found.groups()))
                except (AssertionError, KeyError, StopIteration):
                    break
        return self._missing()

    do_HEAD = do_GET

    def _change(self) -> None:
        """A merge, or a ref that is made, moved or removed."""
        repository, path = self._path()
        text = self._body()
        body = json.loads(text) if text else None
        self.forge.changes.append((self.command, self.path, body, self.headers.get("Authorization", "")))
        if found := re.fullmatch(r"/pulls/(\d+)/merge", path):
            number = int(found[1])
            if body["sha"] != _pull_document(self.forge, repository, number)["head"]["sha"]:
                return self._answer(409, {"message": "Head branch was modified."})
            made = _merged(self.forge, repository, number, body.get("merge_method", "merge").upper())
            return self._answer(200, {"merged": True, "sha": made})
        ref = body["ref"] if path == "/git/refs" else path.removeprefix("/git/")
        if self.command == "DELETE":
            self.forge.git(repository, "update-ref", "-d", ref)
            return self._answer(204, None)
        self.forge.git(repository, "update-ref", ref, body["sha"])
        return self._answer(201 if self.command == "POST" else 200, _read_ref(self.forge, repository, ref[5:]))

    do_PUT = do_DELETE = _change

    def do_POST(self) -> None:
        if urlsplit(self.path).path.endswith("/git/refs"):
            return self._change()
        repository, path = self._path()
        body = self._body()
        if path == "/graphql":
            return self._answer(200, _graphql(self.forge, json.loads(body)))
        if path == "/releases":
            number = len(self.forge.releases) + 1
            about = {"id": number, "repository": repository, "assets": [], "draft": False, "prerelease": False}
            self.forge.releases[number] = about | json.loads(body)
            return self._answer(201, _release(self.forge.releases[number]))
        release = self.forge.releases[int(path.split("/")[2])]
        name = parse_qs(urlsplit(self.path).query)["name"][0]
        digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
        release["assets"].append({"name": name, "state": "uploaded", "size": len(body), "digest": digest})
        return self._answer(201, release["assets"][-1])

    def do_PATCH(self) -> None:
        if "/git/refs/" in self.path:
            return self._change()
        _, path = self._path()
        release = self.forge.releases[int(path.split("/")[2])]
        release |= json.loads(self._body())
        self._answer(200, _release(release))


def _release(found: dict[str, Any]) -> dict[str, Any]:
    api = f"http://api.{HOST}/repos/{found['repository']}/releases/{found['id']}"
    address = f"http://{HOST}/{found['repository']}/releases/tag/{found['tag_name']}"
    return found | {"url": api, "upload_url": f"{api}/assets{{?name,label}}", "html_url": address}


def _tagged(forge: Forge, repository: str, tag: str) -> dict[str, Any]:
    published = (each for each in forge.releases.values() if not each["draft"] and each["repository"] == repository)
    return _release(next(each for each in published if each["tag_name"] == tag))


def _commit_document(forge: Forge, repository: str, tag: str) -> dict[str, Any]:
    sha = _commit(forge, repository, f"refs/tags/{tag}")
    return {"sha": sha, "html_url": f"http://{HOST}/{repository}/commit/{sha}"}


def _read_ref(forge: Forge, repository: str, ref: str) -> dict[str, Any]:
    sha = forge.git(repository, "rev-parse", "--verify", "--quiet", f"refs/{ref}")
    return {"ref": f"refs/{ref}", "object": {"sha": sha, "type": forge.git(repository, "cat-file", "-t", sha)}}


_READS = (
    (r"/git/ref/(.+)", _read_ref),
    (r"/pulls/(\d+)", lambda forge, repository, number: _pull_document(forge, repository, int(number))),
    (r"/compare/(.+)\.\.\.(.+)", lambda forge, repository, *two: {"status": _compared(forge, repository, *two)}),
    (r"/commits/tags/(.+)", _commit_document),
    (r"/releases/tags/(.+)", _tagged),
)


def _graphql(forge: Forge, asked: dict[str, Any]) -> dict[str, Any]:
    query, given = asked["query"], asked.get("variables", {})
    if "__type" in query:
        return {"data": {}}
    if "node(id: $id)" in query:
        named, _, number = given["id"].rpartition("#")
        if (named, int(number or 0)) not in forge.pulls:
            return {"data": {"node": None}, "errors": [{"type": "NOT_FOUND", "message": "Could not resolve."}]}
        return {"data": {"node": {"number": int(number), "repository": {"nameWithOwner": named}}}}
    if "PullRequestMerge" in query:
        repository, number = given["input"]["pullRequestId"].rsplit("#", 1)
        head = _pull_document(forge, repository, int(number))["head"]["sha"]
        if given["input"].get("expectedHeadOid", head) != head:
            return {"data": {}, "errors": [{"message": "Head branch was modified. Review and try the merge again."}]}
        _merged(forge, repository, int(number), given["input"]["mergeMethod"])
        return {"data": {"mergePullRequest": {"clientMutationId": None}}}
    repository = f"{given['owner']}/{given.get('repo') or given['name']}"
    if "RepositoryFindRef" in query:
        names = forge.git(repository, "for-each-ref", "--format=%(refname)", given["tagName"]).splitlines()
        return {"data": {"repository": {"ref": {"id": names[0]} if names else None}}}
    number = given["pr_number"]
    pull = _pull_document(forge, repository, number)
    return {
        "data": {
            "repository": {
                "pullRequest": {
                    "id": f"{repository}#{number}",
                    "number": number,
                    "state": "MERGED" if pull["merged"] else "OPEN",
                    "title": "A change",
                    "headRefOid": pull["head"]["sha"],
                    "headRefName": pull["head"]["ref"],
                    "baseRefName": pull["base"]["ref"],
                    "mergeStateStatus": "CLEAN",
                    "isCrossRepository": False,
                    "commits": {"nodes": [{"commit": {"oid": pull["head"]["sha"]}}]},
                }
            }
        }
    }


@contextmanager
def served(root: Path) -> Iterator[Forge]:
    """A forge over the bare repositories below a folder, on a port of its own."""
    forge = Forge(root)
    listening = _Listener(("127.0.0.1", 0), _Handler)
    listening.state = forge
    forge.url = f"http://127.0.0.1:{listening.server_address[1]}"
    thread = threading.Thread(target=listening.serve_forever, daemon=True)
    thread.start()
    try:
        yield forge
    finally:
        listening.shutdown()
        listening.server_close()
        thread.join(10)
