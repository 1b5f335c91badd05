"""A small forge in the shape of GitLab's APIs, written for these tests: it is no GitLab.

Of the REST API it has what the gateway's rules change and a reader asks, with the documented members and words; of the
GraphQL API two mutations of the documented schema, run by graphql-core. Commits, tags, merges and ancestors are real:
git makes them in bare repositories.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, unquote, urlsplit

from graphql import build_schema, graphql_sync

from tests.support.outside.git_server import commit, git

SCHEMA = """
type MergeRequest { iid: String!, state: String! }
type Query { mergeRequest(iid: String!): MergeRequest, ciVariables: [String!] }
input MergeRequestAcceptInput { projectPath: ID!, iid: String!, sha: String!, squash: Boolean, strategy: String }
type MergeRequestAcceptPayload { errors: [String!]!, mergeRequest: MergeRequest }
input CreateBranchInput { projectPath: ID!, name: String!, ref: String! }
type Branch { name: String! }
type CreateBranchPayload { errors: [String!]!, branch: Branch }
type Mutation {
  mergeRequestAccept(input: MergeRequestAcceptInput!): MergeRequestAcceptPayload
  createBranch(input: CreateBranchInput!): CreateBranchPayload
}
"""


@dataclass
class GitLab:
    """Projects are `<root>/<path>.git`; `requests` are the merge requests, `pipelines` the pipelines by number.

    `before` answers a request in the forge's place where it gives a status, a document and headers.
    """

    root: Path
    origin: str = ""
    token: str = "reader-token"
    numbers: dict[int, str] = field(default_factory=lambda: {42: "team/app"})
    requests: dict[int, dict[str, Any]] = field(default_factory=dict)
    pipelines: dict[int, dict[str, Any]] = field(default_factory=dict)
    releases: dict[str, dict[str, Any]] = field(default_factory=dict)
    changes: list[str] = field(default_factory=list)
    before: Any = None

    @property
    def url(self) -> str:
        """The address of the REST API."""
        return f"{self.origin}/api/v4"

    def git(self, project: str, *words: str) -> str:
        return git(self.root / f"{project}.git", *words)

    def project(self, work: Path, path: str = "team/app") -> str:
        """Make a project whose branch `better` is one commit ahead of main; that commit."""
        bare = self.root / f"{path}.git"
        bare.mkdir(parents=True)
        git(bare, "init", "-q", "--bare", "-b", "main")
        git(work, "clone", "-q", str(bare), ".")
        for branch in ("main", "better"):
            commit(work, branch)
            git(work, "push", "-q", "origin", f"HEAD:refs/heads/{branch}")
        return self.git(path, "rev-parse", "better")

    def request(self, number: int, source: str = "better") -> None:
        """Ask for a branch to be merged into main."""
        self.requests[number] = {"source_branch": source, "target_branch": "main", "state": "opened"}

    def finish_checks(self, number: int, *, passed: bool = True) -> None:
        """End the checks for which a merge request waits: it is merged, or waits no longer."""
        self.requests[number]["merge_when_pipeline_succeeds"] = False
        if passed:
            self.merge(number)

    def merge(self, number: int) -> None:
        """Merge as GitLab does by default, with a merge commit."""
        one = self.requests[number]
        base, head = f"refs/heads/{one['target_branch']}", f"refs/heads/{one['source_branch']}"
        one["sha"] = self.git("team/app", "rev-parse", head)
        tree = self.git("team/app", "merge-tree", "--write-tree", base, head)
        made = self.git("team/app", "commit-tree", tree, "-p", base, "-p", head, "-m", f"Merge !{number}")
        self.git("team/app", "update-ref", base, made)
        one |= {"state": "merged", "merge_commit_sha": made}

    # The resolvers of graphql-core are methods of the root value.
    def mergeRequest(self, _: Any, iid: str) -> dict[str, str]:
        return {"iid": iid, "state": self.requests[int(iid)]["state"]}

    def mergeRequestAccept(self, _: Any, input: dict[str, Any]) -> dict[str, Any]:
        number = int(input["iid"])
        if input["sha"] != _request(self, number)["sha"]:
            return {"errors": ["SHA does not match HEAD of source branch"], "mergeRequest": None}
        if input.get("strategy"):
            self.requests[number]["merge_when_pipeline_succeeds"] = True
        else:
            self.merge(number)
        return {"errors": [], "mergeRequest": self.mergeRequest(None, input["iid"])}

    def createBranch(self, _: Any, input: dict[str, Any]) -> dict[str, Any]:
        self.git(input["projectPath"], "update-ref", f"refs/heads/{input['name']}", input["ref"])
        return {"errors": [], "branch": {"name": input["name"]}}

    def execute(self, given: dict[str, Any]) -> dict[str, Any]:
        done = graphql_sync(
            build_schema(SCHEMA),
            given["query"],
            root_value=self,
            variable_values=given.get("variables"),
            operation_name=given.get("operationName"),
        )
        return dict(done.formatted)


def _request(forge: GitLab, number: int) -> dict[str, Any]:
    found = forge.requests[number]
    head = found.get("sha") or forge.git("team/app", "rev-parse", f"refs/heads/{found['source_branch']}")
    about = {"merge_commit_sha": None, "squash_commit_sha": None, "merge_when_pipeline_succeeds": False}
    return about | {"iid": number, "references": {"full": f"team/app!{number}"}} | found | {"sha": head}


def _named(forge: GitLab, project: str, kind: str, name: str) -> dict[str, Any]:
    target = forge.git(project, "rev-parse", "--verify", "--quiet", f"refs/{kind}/{name}")
    return {"name": name, "target": target, "commit": {"id": forge.git(project, "rev-parse", f"{target}^{{commit}}")}}


def _answer_get(forge: GitLab, project: str, place: str, query: dict[str, list[str]]) -> tuple[int, dict[str, Any]]:
    kind, _, name = place.removeprefix("repository/").partition("/")
    words = "Not found"
    try:
        match kind:
            case "":
                return 200, {"path_with_namespace": project}
            case "branches" | "tags":
                words = "Branch Not Found" if kind == "branches" else "Tag Not Found"
                return 200, _named(forge, project, "heads" if kind == "branches" else "tags", unquote(name))
            case "merge_requests":
                return 200, _request(forge, int(name))
            case "pipelines":
                return 200, forge.pipelines[int(name)]
            case "releases":
                return 200, forge.releases[unquote(name)]
            case "merge_base":
                return 200, {"id": forge.git(project, "merge-base", *query["refs[]"])}
    except (AssertionError, KeyError):
        pass
    return 404, {"message": f"404 {words}"}


def _answer_change(
    forge: GitLab, method: str, project: str, place: str, body: dict[str, Any]
) -> tuple[int, dict[str, Any] | None]:
    kind, _, name = place.removeprefix("repository/").partition("/")
    match method, kind:
        case "PUT", "merge_requests":
            number = int(name.removesuffix("/merge"))
            if body["sha"] != _request(forge, number)["sha"]:
                return 409, {"message": "SHA does not match HEAD of source branch"}
            if body.get("auto_merge") or body.get("merge_when_pipeline_succeeds"):
                forge.requests[number]["merge_when_pipeline_succeeds"] = True
            else:
                forge.merge(number)
            return 200, _request(forge, number)
        case "DELETE", "branches" | "tags":
            forge.git(project, "update-ref", "-d", f"refs/{'heads' if kind == 'branches' else 'tags'}/{unquote(name)}")
            return 204, None
        case "POST", "branches":
            forge.git(project, "update-ref", f"refs/heads/{body['branch']}", body["ref"])
            return 201, _named(forge, project, "heads", body["branch"])
        case "POST", "tags":
            told = ["-a", "-m", body["message"]] if body.get("message") else []
            forge.git(project, "-c", "user.name=A", "-c", "user.email=a@b", "tag", *told, body["tag_name"], body["ref"])
            return 201, _named(forge, project, "tags", body["tag_name"])
        case "POST", "releases":
            tag = _named(forge, project, "tags", body["tag_name"])
            forge.releases[body["tag_name"]] = body | {"upcoming_release": False, "commit": tag["commit"]}
            return 201, forge.releases[body["tag_name"]]
        case "POST", "pipeline":
            number = 1000 + len(forge.pipelines)
            made = {"id": number, "ref": body["ref"], "status": "created", "source": "api"}
            made["sha"] = forge.git(project, "rev-parse", body["ref"])
            forge.pipelines[number] = made
            return 201, made
    return 404, {"error": "404 Not Found"}


class _Listener(ThreadingHTTPServer):
    state: GitLab


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None: ...

    def _answer(self, code: int, document: object, headers: dict[str, str] | None = None) -> None:
        content = b"" if document is None else json.dumps(document).encode()
        self.send_response(code)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        if code != 204:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _handle(self) -> None:
        assert isinstance(self.server, _Listener)
        forge = self.server.state
        text = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        address = urlsplit(self.path)
        if (told := forge.before and forge.before(self.command, self.path)) is not None:
            return self._answer(*told)
        if address.path == "/api/graphql":
            given = json.loads(text) if self.command == "POST" else dict(parse_qsl(address.query))
            return self._answer(200, forge.execute(given))
        found = re.match(r"/api/v4/projects/([^/]+)/?(.*)", address.path)
        project = unquote(found[1]) if found else ""
        project = forge.numbers.get(int(project), "") if project.isdecimal() else project
        if not found or not project or not (forge.root / f"{project}.git").is_dir():
            return self._answer(404, {"message": "404 Project Not Found"})
        if self.command == "GET":
            return self._answer(*_answer_get(forge, project, found[2], parse_qs(address.query)))
        forge.changes.append(f"{self.command} {found[2]}")
        return self._answer(*_answer_change(forge, self.command, project, found[2], json.loads(text) if text else {}))

    do_GET = do_PUT = do_POST = do_DELETE = _handle


@contextmanager
def served(root: Path) -> Iterator[GitLab]:
    """A forge over the bare repositories below a folder, on a port of its own."""
    forge = GitLab(root)
    listening = _Listener(("127.0.0.1", 0), _Handler)
    listening.state = forge
    forge.origin = f"http://127.0.0.1:{listening.server_address[1]}"
    thread = threading.Thread(target=listening.serve_forever, daemon=True)
    thread.start()
    try:
        yield forge
    finally:
        listening.shutdown()
        listening.server_close()
        thread.join(10)
