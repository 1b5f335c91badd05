"""Request and response schemas of notices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self
from uuid import UUID

from django import forms
from pydantic import Field

from console.edge.schemas import Answer, Ask, Body, TextOrNull, Time
from console.handoffs.schemas import HandoffName

if TYPE_CHECKING:
    from console.notifications.inbox import InboxItem
    from console.notifications.routing import MailPreferences

Manner = Literal["now", "digest", "off"]
Machine = Literal["now", "off"]
Period = Annotated[int, Field(ge=5, le=1440, description="Digest interval in minutes.")]

Hour = Annotated[str, Field(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$", description="HH:MM in `zone`.")]


class About(Answer):
    kind: str = Field(validation_alias="about_kind")
    id: UUID = Field(validation_alias="about_id")


class NoticeAnswer(Answer):
    message_id: UUID
    kind: str = Field(description="requested, reminded, escalated, mentioned, approved, …: see docs/approvals.md.")
    text: str
    risk: str
    about: About
    verb: TextOrNull
    side_effect_class: TextOrNull
    decide_by: Time | None
    still_waits: bool
    url: str
    raised_at: Time
    read_at: Time | None

    @classmethod
    def of(cls, item: InboxItem, /, **more: Any) -> Self:
        row, fact = item.row, item.fact
        return super().of(
            row,
            message_id=row.id,
            text=item.title,
            about=row,
            verb=fact.verb,
            side_effect_class=fact.side_effect_class,
            decide_by=fact.decide_by,
            still_waits=fact.still_waits,
            url=fact.href,
            **more,
        )


class Seen(Answer):
    read: int


class Risks(Answer):
    LOW: Manner
    NORMAL: Manner
    HIGH: Manner


class Channels(Answer):
    email: Risks
    push: Risks
    slack: Risks
    webhook: Risks
    digest_min: int
    handoffs: list[str] = Field(description="Hand-offs sent to the webhook once a day.")
    ways_out: list[str] = Field(description="Channels configured for this installation.")


class Wishes(Answer):
    email: dict[str, str] = Field(description="By risk: now, digest, off, or empty for the tenant's default.")
    digest_min: int | None
    quiet_from: str | None
    quiet_until: str | None
    zone: str
    urgent_passes: bool

    @classmethod
    def of(cls, wish: MailPreferences, /, **more: Any) -> Self:
        quiet = wish.quiet
        return super().of(
            wish,
            email=dict(wish.email),
            quiet_from=quiet.begin.isoformat("minutes") if quiet else None,
            quiet_until=quiet.end.isoformat("minutes") if quiet else None,
            zone=quiet.zone if quiet else "UTC",
            **more,
        )


class Undelivered(Answer):
    notice_id: UUID = Field(validation_alias="id")
    topic: str
    channel: str
    kind: str
    to: UUID | None = Field(
        validation_alias="actor_id",
        description="The person's pseudonym; null for a shared channel.",
    )
    attempts: int
    fault: str
    raised_at: Time
    given_up_at: Time


class SentAgain(Answer):
    notice_id: UUID
    due_at: Time


class SeenBody(Body):
    upto: Annotated[
        UUID | None,
        Field(description="The newest message that was seen. Default: all."),
        Ask(field=forms.UUIDField(required=False)),
    ] = None


class ByRisk(Body):
    LOW: Manner = "digest"
    NORMAL: Manner = "now"
    HIGH: Manner = "now"


class ByRiskAtOnce(Body):
    LOW: Machine = "now"
    NORMAL: Machine = "now"
    HIGH: Machine = "now"


class ChannelsBody(Body):
    email: ByRisk = ByRisk()
    push: ByRisk = ByRisk()
    slack: ByRisk = ByRisk()
    webhook: ByRiskAtOnce = ByRiskAtOnce()
    digest_min: Period = 30
    handoffs: Annotated[list[HandoffName], Field(max_length=20)] = []


class WishesBody(Body):
    email: dict[Literal["LOW", "NORMAL", "HIGH"], Literal["", "now", "digest", "off"]] = {}
    digest_min: Period | None = None
    quiet_from: Hour | None = None
    quiet_until: Hour | None = None
    zone: Annotated[str, Field(max_length=64)] = "UTC"
    urgent_passes: bool = True
