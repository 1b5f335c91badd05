"""A small forge with a GraphQL API, run by graphql-core: it merges, and counts what was merged.

It is no GitLab: it has three fields of GitLab's documented schema.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from graphql import build_schema, graphql_sync

SCHEMA = """
type MergeRequest { iid: String!, state: String! }
type Query { mergeRequest(iid: String!): MergeRequest, ciVariables: [String!] }
input MergeRequestAcceptInput { projectPath: ID!, iid: String!, sha: String!, squash: Boolean }
type MergeRequestAcceptPayload { errors: [String!]!, mergeRequest: MergeRequest }
type Mutation { mergeRequestAccept(input: MergeRequestAcceptInput!): MergeRequestAcceptPayload }
"""


@dataclass
class Forge:
    """`merged` are the numbers of the requests that were merged, in order; `conflict` makes it refuse."""

    url: str = ""
    merged: list[str] = field(default_factory=list)
    conflict: bool = False

    # The resolvers of graphql-core are methods of the root value.
    def mergeRequest(self, _: Any, iid: str) -> dict[str, str]:
        return {"iid": iid, "state": "merged" if iid in self.merged else "opened"}

    def mergeRequestAccept(self, _: Any, input: dict[str, Any]) -> dict[str, Any]:
        if self.conflict:
            return {"errors": ["Branch cannot be merged"], "mergeRequest": None}
        self.merged.append(input["iid"])
        return {"errors": [], "mergeRequest": self.mergeRequest(None, input["iid"])}

    def execute(self, given: dict[str, Any]) -> dict[str, Any]:
        done = graphql_sync(
            build_schema(SCHEMA),
            given["query"],
            root_value=self,
            variable_values=given.get("variables"),
            operation_name=given.get("operationName"),
        )
        return dict(done.formatted)


@contextmanager
def served() -> Iterator[Forge]:
    """A forge on a port of its own, at /graphql."""
    forge = Forge()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(dict(parse_qsl(urlsplit(self.path).query)))

        def do_POST(self) -> None:
            self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _answer(self, given: dict[str, Any]) -> None:
            content = json.dumps(forge.execute(given)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            return None

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        forge.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield forge
        server.shutdown()
        thread.join()
