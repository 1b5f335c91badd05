"""Choose channel and time of a notification from settings and preferences. Pure.

1. Everybody concerned is notified in the console at once; nothing turns that off.
2. The tenant says for each channel outside and each risk: `now`, `digest` or `off`. A person may ask for less or more
   of their own mail, but what the tenant has turned off stays off.
3. A digest collects what comes until the next full period of `digest_min` minutes.
4. Mail and the waking of a device wait for the end of the person's quiet hours; what is of high risk does not, unless
   they say so.
5. Who has got many single messages within a period gets the rest of it as a digest: a flood is one message (B38).
6. A webhook is read by a machine: it hears of each event at once, or of none.
7. Hand-offs go to the webhook once a day, those that the tenant names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ledger.record.rules.refusals import Refused

RISKS: Final = ("LOW", "NORMAL", "HIGH")
CHANNELS: Final = ("email", "push", "slack", "webhook")
MANNERS: Final = ("now", "digest", "off")
AS_THE_TENANT: Final = ""
PERIODS_MIN: Final = (5, 1440)
BURST: Final = 20
_FIRST: Final = {"LOW": "digest", "NORMAL": "now", "HIGH": "now"}


class BadSettings(Refused):
    """These settings of notifications cannot be kept."""

    code = "BAD_NOTICE_SETTINGS"
    status = 422


@dataclass(frozen=True)
class NotificationSettings:
    """A tenant's settings for notices, channel by channel and risk by risk."""

    email: Mapping[str, str] = field(default_factory=lambda: dict(_FIRST))
    push: Mapping[str, str] = field(default_factory=lambda: dict(_FIRST))
    slack: Mapping[str, str] = field(default_factory=lambda: dict(_FIRST))
    webhook: Mapping[str, str] = field(default_factory=lambda: dict.fromkeys(RISKS, "now"))
    digest_min: int = 30
    handoffs: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """The settings as they are stored and shown."""
        by_risk = {name: dict(getattr(self, name)) for name in CHANNELS}
        return {**by_risk, "digest_min": self.digest_min, "handoffs": list(self.handoffs)}


@dataclass(frozen=True)
class QuietHours:
    """Hours without mail, by the person's own clock; from after until means over midnight."""

    begin: time
    end: time
    zone: str = "UTC"

    def over_at(self, at: datetime) -> datetime:
        """Return the time itself if it is not quiet, otherwise the end of these quiet hours."""
        local = at.astimezone(ZoneInfo(self.zone))
        now = local.time()
        over_midnight = self.begin > self.end
        inside = (now >= self.begin or now < self.end) if over_midnight else self.begin <= now < self.end
        if not inside:
            return at
        day = local.date() + timedelta(days=1 if over_midnight and now >= self.begin else 0)
        return datetime.combine(day, self.end, ZoneInfo(self.zone)).astimezone(UTC)


@dataclass(frozen=True)
class MailPreferences:
    """One person's preferences for their own mail."""

    email: Mapping[str, str] = field(default_factory=lambda: dict.fromkeys(RISKS, AS_THE_TENANT))
    digest_min: int | None = None
    quiet: QuietHours | None = None
    urgent_passes: bool = True


@dataclass(frozen=True)
class DeliveryRoute:
    """An outgoing message: alone or collected with others, and not before `due_at`."""

    manner: str
    due_at: datetime


def parse_settings(document: Mapping[str, Any]) -> NotificationSettings:
    """Parse the settings of a document; omitted ones get defaults, invalid ones are refused."""
    unknown = set(document) - {*CHANNELS, "digest_min", "handoffs"}
    if unknown:
        raise BadSettings(f"There is no channel {sorted(unknown)[0]}.")
    handoffs = document.get("handoffs", ())
    if not isinstance(handoffs, list | tuple) or not all(isinstance(each, str) for each in handoffs):
        raise BadSettings("`handoffs` is a list of their names.")
    chosen = {name: _manners(name, document.get(name, {})) for name in CHANNELS}
    period = _period(document.get("digest_min", NotificationSettings().digest_min))
    return NotificationSettings(**chosen, digest_min=period, handoffs=tuple(dict.fromkeys(handoffs)))


def parse_mail_preferences(
    *,
    email: Mapping[str, str],
    digest_min: int | None,
    quiet_from: time | None,
    quiet_until: time | None,
    zone: str,
    urgent_passes: bool,
) -> MailPreferences:
    """A person's wish, or `BadSettings`."""
    if set(email) - set(RISKS) or not set(email.values()) <= {*MANNERS, AS_THE_TENANT}:
        raise BadSettings("Mail comes as the tenant says, now, in a digest, or not at all.")
    if (quiet_from is None) != (quiet_until is None) or (quiet_from is not None and quiet_from == quiet_until):
        raise BadSettings("Quiet hours have a beginning and another end.")
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise BadSettings("Unknown time zone. Use a name such as Europe/Berlin.") from None
    return MailPreferences(
        email={risk: email.get(risk, AS_THE_TENANT) for risk in RISKS},
        digest_min=None if digest_min is None else _period(digest_min),
        quiet=QuietHours(quiet_from, quiet_until, zone) if quiet_from is not None and quiet_until is not None else None,
        urgent_passes=urgent_passes,
    )


def choose_route(
    channel: str,
    risk: str,
    *,
    settings: NotificationSettings,
    wish: MailPreferences | None = None,
    lately: int = 0,
    at: datetime,
) -> DeliveryRoute | None:
    """Choose the route of a message by a channel (rules 2 to 6); None if it is not sent. `wish` has the person's
    preferences.
    """
    manner: str = getattr(settings, channel)[risk]
    if manner == "off" or channel == "webhook":
        return None if manner == "off" else DeliveryRoute("now", at)
    if wish is not None and channel == "email" and wish.email[risk]:
        manner = wish.email[risk]
    if manner == "off":
        return None
    if lately >= BURST:
        manner = "digest"
    period = wish.digest_min if wish is not None and wish.digest_min is not None else settings.digest_min
    due = at if manner == "now" else period_end(at, period)
    passes = wish is None or wish.quiet is None or (risk == "HIGH" and wish.urgent_passes)
    return DeliveryRoute(manner, due if passes or wish is None or wish.quiet is None else wish.quiet.over_at(due))


def period_end(at: datetime, minutes: int) -> datetime:
    """Return the end of the period that contains a time; periods begin at midnight, UTC."""
    midnight = at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    past = int((at - midnight).total_seconds() // (minutes * 60))
    return midnight + timedelta(minutes=minutes * (past + 1))


def _manners(channel: str, given: Any) -> dict[str, str]:
    before = getattr(NotificationSettings(), channel)
    possible = ("now", "off") if channel == "webhook" else MANNERS
    if not isinstance(given, Mapping) or set(given) - set(RISKS) or not set(given.values()) <= set(possible):
        raise BadSettings(f"For each risk ({', '.join(RISKS)}), {channel} is one of {', '.join(possible)}.")
    return {risk: given.get(risk, before[risk]) for risk in RISKS}


def _period(minutes: Any) -> int:
    least, most = PERIODS_MIN
    if isinstance(minutes, bool) or not isinstance(minutes, int) or not least <= minutes <= most:
        raise BadSettings(f"A digest collects for {least} to {most} minutes.")
    return minutes
