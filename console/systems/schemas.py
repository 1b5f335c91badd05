"""Request and response schemas of systems of record and their webhooks."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Self
from uuid import UUID

from pydantic import Field

from console.edge.schemas import Answer, Ask, Body, Name, TextOrNull
from console.systems.forms import PatternField, SettingsField

if TYPE_CHECKING:
    from console.systems.context import SystemStatus
    from ledger import models


class SystemBody(Body):
    name: Annotated[Name, Field(max_length=64), Ask(label="Name, as contracts call it")]
    pattern: Annotated[Name, Field(max_length=32), Ask(field=PatternField())]
    settings: Annotated[dict[str, Any], Ask(field=SettingsField())] = {}


class Pattern(Answer):
    pattern: str
    settings: Annotated[dict[str, Any], Field(description="A JSON Schema; `title` and `description` are for people.")]
    credential: Annotated[Mapping[str, Any] | None, Field(description="An example of the credential file.")]
    description: Annotated[
        Mapping[str, Any] | None, Field(description="The description by which it is read; null where code reads it.")
    ]
    contract: Annotated[
        Mapping[str, Any] | None, Field(description="An example of a contract; null where code reads the pattern.")
    ]


Secret = Annotated[
    str,
    Field(max_length=128, description="`whsec_` and 24 to 64 bytes in Base64; stored as a file and never shown."),
]


class HookBody(Body):
    secret: Secret


class HookSecretBody(Body):
    secret: Secret
    keep_old: Annotated[bool, Field(description="Whether the previous secret stays valid as well.")] = True


class SystemHealth(Answer):
    circuit: str = Field(validation_alias="standing")
    since: datetime | None
    probe_at: datetime | None
    failures: int
    reads: int
    unanswered: int
    latency_ms: int | None
    last_read_at: datetime | None
    last_success_at: datetime | None
    last_failure: TextOrNull
    waiting: int
    due: int
    oldest_at: datetime | None
    limits: dict[str, int]
    not_releasing: str | None = Field(validation_alias="stop")
    stopped_because: TextOrNull


class SystemChange(Answer):
    pattern: str
    settings: dict[str, Any]


class System(Answer):
    name: str
    pattern: str
    settings: dict[str, Any]
    waits: SystemChange | None = Field(description="The change that awaits a second person.")

    @classmethod
    def of(cls, row: models.System | SystemStatus, /, **more: Any) -> Self:
        waits = {part: row.proposal[part] for part in ("pattern", "settings")} if row.proposal else None
        return super().of(row, waits=waits, **more)


class SystemSeen(System):
    system_id: UUID = Field(validation_alias="id")
    tried: bool | None = Field(
        description="Whether a dry run here found a known object and missed another, until which the readings of a"
        " described system settle nothing; null for any other system."
    )
    health: SystemHealth


def hook_path(tenant_id: UUID, hook_id: UUID) -> str:
    """The path to which a provider sends its webhooks; the same as the route of `receive`."""
    return f"/api/v1/hooks/{tenant_id}/{hook_id}"


class Hook(Answer):
    hook_id: UUID = Field(validation_alias="id")
    path: str
    created_at: datetime
    revoked_at: datetime | None
    secrets: int
    last_taken_at: datetime | None


class HookRevoked(Answer):
    hook_id: UUID
    revoked: bool


class Releasing(Answer):
    name: str
    stopped: bool


class Taken(Answer):
    taken: bool
