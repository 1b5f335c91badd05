"""The HTTP API, version 1: one document, one set of errors, two ways to be known."""

from __future__ import annotations

from ninja import NinjaAPI

from console.api import actions, executions, operations, people, problems, registry, sessions
from console.api.caller import Key, Session
from console.api.edge import StrictParser

api = NinjaAPI(
    title="Counterfoil",
    version="1",
    description="Agents propose, people approve, executors run what was approved, and reports say what is verified.",
    docs_url="/docs",
    openapi_url="/openapi.json",
    auth=[Key(), Session()],
    parser=StrictParser(),
    urls_namespace="api",
)
problems.install(api)
for router in (registry, sessions, actions, executions, people, operations):
    api.add_router("", router.router)
