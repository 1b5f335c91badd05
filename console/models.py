"""People, their memberships, and the keys of machines: the directory, outside row-level security.

The directory holds ids, hashes and names of people; nothing about actions. What belongs to one tenant (who opened
which page) stands behind row-level security like everything else. `actor_id` is the pseudonym that the record knows a
person or a key by, so that the record itself names nobody.
"""

from __future__ import annotations

import uuid

from django.contrib.auth.models import AbstractUser
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q


class User(AbstractUser):
    """A person who can sign in; their rights are per tenant."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    single_keys = models.BooleanField(default=True)
    theme = models.CharField(max_length=8, default="auto")
    # The time zone in which times are shown, beside UTC; empty is UTC alone.
    zone = models.CharField(max_length=64, default="", db_default="")
    # Whether Home leaves out the way to a first tool.
    hides_guide = models.BooleanField(default=False, db_default=False)


class Membership(models.Model):
    """A person's roles and groups in one tenant.

    `person_id` is the human behind the account: accounts of one human have the same. Until `joined_at` somebody is only
    invited. `given_by` is who gave the role of a reviewer last, and `proposal` what waits for a second administrator.
    """

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="memberships")
    actor_id = models.UUIDField()
    is_reviewer = models.BooleanField(default=False)
    is_operator = models.BooleanField(default=False)
    is_compliance = models.BooleanField(default=False)
    is_administrator = models.BooleanField(default=False)
    groups = models.JSONField(default=list)
    person_id = models.UUIDField()
    given_by = models.UUIDField(null=True)
    joined_at = models.DateTimeField(null=True)
    invite_hash = models.CharField(max_length=64, default="")
    invite_until = models.DateTimeField(null=True)
    proposal = models.JSONField(null=True)
    removed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant_id", "user"], name="membership_one_per_tenant"),
            models.UniqueConstraint(fields=["tenant_id", "actor_id"], name="membership_one_per_actor"),
        ]

    def __str__(self) -> str:
        return f"{self.user} in {self.tenant_id}"


class ApiKey(models.Model):
    """A machine's key: only its hash and its rights are stored."""

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    kind = models.CharField(max_length=8)
    name = models.CharField(max_length=100)
    hash = models.CharField(max_length=64)
    actor_id = models.UUIDField()
    scopes = models.JSONField(default=list)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(kind__in=["agent", "exec", "oper", "audit"]),
                name="api_key_kind_is_known",
            ),
            models.UniqueConstraint(fields=["tenant_id", "hash"], name="api_key_one_per_hash"),
            models.UniqueConstraint(fields=["tenant_id", "actor_id"], name="api_key_one_per_actor"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class AnsweredWrite(models.Model):
    """The first answer to a write that carried an `Idempotency-Key`, stored in the write's own transaction."""

    pk = models.CompositePrimaryKey("tenant_id", "caller", "key_hash")
    tenant_id = models.UUIDField()
    caller = models.UUIDField()
    key_hash = models.CharField(max_length=64)
    request_hash = models.CharField(max_length=64)
    status = models.SmallIntegerField(default=0)
    body = models.BinaryField(default=b"")
    at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["at"], name="answered_write_by_age")]

    def __str__(self) -> str:
        return self.key_hash


class SpentProof(models.Model):
    """A used proof of possession; its id is refused as long as it could be fresh."""

    pk = models.CompositePrimaryKey("tenant_id", "jti")
    tenant_id = models.UUIDField()
    jti = models.CharField(max_length=128)
    at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["at"], name="spent_proof_by_age")]

    def __str__(self) -> str:
        return self.jti


class PageView(models.Model):
    """A person opened a page about something; recorded once in a quarter of an hour, and never changed."""

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    actor_id = models.UUIDField()
    kind = models.CharField(max_length=12)
    thing_id = models.UUIDField()
    about_id = models.UUIDField(null=True)
    slot = models.DateTimeField()
    at = models.DateTimeField()

    class Meta:
        db_table = "console_sighting"
        constraints = [
            models.UniqueConstraint(
                fields=["tenant_id", "actor_id", "thing_id", "slot"], name="sighting_once_in_a_while"
            ),
        ]
        indexes = [
            models.Index(fields=["tenant_id", "actor_id", "id"], name="sighting_by_person"),
            models.Index(fields=["tenant_id", "thing_id", "id"], name="sighting_by_thing"),
            models.Index(fields=["tenant_id", "about_id", "id"], name="sighting_by_about"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.thing_id}"


class SavedView(models.Model):
    """The filters of a list under a name: a person's own, or everybody's in the tenant."""

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    page = models.CharField(max_length=16)
    name = models.CharField(max_length=60)
    query = models.CharField(max_length=1000)
    owner = models.UUIDField()
    shared = models.BooleanField(default=False)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant_id", "page", "owner", "name"], name="saved_view_name_is_unique")
        ]

    def __str__(self) -> str:
        return f"{self.page} {self.name}"


class Notice(models.Model):
    """A notice to people outside the console, by one channel; it is sent until it has arrived.

    `topic` is alarm or approval; `lines` are what a message about approvals tells, each by its event, with ids only. A
    message to one person has their `actor_id`, one to a shared channel has none. `posted` is where it stands in a room
    that lets us change it, and `waiting` how many of its things still waited when it was written there.
    """

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    topic = models.CharField(max_length=8, default="alarm")
    channel = models.CharField(max_length=8)
    kind = models.CharField(max_length=32)
    about_id = models.UUIDField()
    actor_id = models.UUIDField(null=True)
    risk = models.CharField(max_length=6, default="")
    lines = models.JSONField(default=list)
    raised_at = models.DateTimeField()
    due_at = models.DateTimeField()
    attempts = models.IntegerField(default=0)
    sent_at = models.DateTimeField(null=True)
    given_up_at = models.DateTimeField(null=True)
    fault = models.CharField(max_length=200, default="")
    posted = models.CharField(max_length=64, default="", db_default="")
    waiting = models.IntegerField(default=0, db_default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant_id", "about_id", "channel"], name="notice_once_by_each_channel"),
        ]
        indexes = [
            models.Index(
                fields=["tenant_id", "due_at"],
                condition=Q(sent_at__isnull=True, given_up_at__isnull=True),
                name="notice_due",
            ),
            models.Index(fields=["tenant_id", "id"], condition=Q(given_up_at__isnull=False), name="notice_undelivered"),
            models.Index(fields=["tenant_id", "actor_id", "channel", "raised_at"], name="notice_lately"),
            models.Index(fields=["tenant_id", "id"], condition=~Q(posted=""), name="notice_posted"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} by {self.channel}"


class Message(models.Model):
    """A message to one person in the console: reason, object, and whether it was seen."""

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    actor_id = models.UUIDField()
    kind = models.CharField(max_length=32)
    risk = models.CharField(max_length=6)
    about_kind = models.CharField(max_length=20)
    about_id = models.UUIDField()
    source_id = models.UUIDField()
    raised_at = models.DateTimeField()
    read_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant_id", "source_id", "actor_id"], name="message_once_to_each"),
        ]
        indexes = [
            models.Index(fields=["tenant_id", "actor_id", "id"], name="message_by_person"),
            models.Index(
                fields=["tenant_id", "actor_id", "id"], condition=Q(read_at__isnull=True), name="message_unread"
            ),
            models.Index(fields=["tenant_id", "about_id", "actor_id"], name="message_by_subject"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.about_id}"


class NoticeSettings(models.Model):
    """A tenant's notices by channel; addresses and secrets are the installation's, never here."""

    tenant_id = models.UUIDField(primary_key=True)
    document = models.JSONField()
    changed_at = models.DateTimeField()

    def __str__(self) -> str:
        return str(self.tenant_id)


class NoticeWish(models.Model):
    """A person's preferences for their own mail."""

    pk = models.CompositePrimaryKey("tenant_id", "actor_id")
    tenant_id = models.UUIDField()
    actor_id = models.UUIDField()
    email = models.JSONField(default=dict)
    digest_min = models.IntegerField(null=True)
    quiet_from = models.TimeField(null=True)
    quiet_until = models.TimeField(null=True)
    zone = models.CharField(max_length=64, default="UTC")
    urgent_passes = models.BooleanField(default=True)
    changed_at = models.DateTimeField()

    def __str__(self) -> str:
        return str(self.actor_id)


class PushDevice(models.Model):
    """A browser that one person wants woken when something waits for them.

    Whoever has its address can wake it, and nothing else; it is not shown again. `reached_by` is the notice that
    reached it last.
    """

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    actor_id = models.UUIDField()
    address = models.CharField(max_length=1000)
    name = models.CharField(max_length=60)
    added_at = models.DateTimeField()
    reached_at = models.DateTimeField(null=True)
    reached_by = models.UUIDField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant_id", "address"], name="push_device_once"),
        ]
        indexes = [models.Index(fields=["tenant_id", "actor_id"], name="push_device_by_person")]

    def __str__(self) -> str:
        return self.name


class NoticeCursor(models.Model):
    """Up to where the record has been read for notices; `recent` are the events that were read close before that, and
    `seen` how many events had their place in the tenant's logs when all of them were read.
    """

    tenant_id = models.UUIDField(primary_key=True)
    read_to = models.DateTimeField()
    recent = models.JSONField(default=list)
    seen = models.BigIntegerField(null=True)

    def __str__(self) -> str:
        return str(self.tenant_id)


class TraceCursor(models.Model):
    """The leaf of its logs, and the report, up to which the spans of a tenant were exported to the collector."""

    tenant_id = models.UUIDField(primary_key=True)
    log = models.IntegerField()
    index = models.BigIntegerField()
    reports_to = models.DateTimeField()

    def __str__(self) -> str:
        return str(self.tenant_id)


class EventDestination(models.Model):
    """A named destination of a tenant's events; its address is in a file of the installation.

    `log` and `index` are the last leaf that it took. `lease` is the worker's that sends now. Neither, nor what came of
    the attempts, is part of the record.
    """

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    name = models.CharField(max_length=64)
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    log = models.IntegerField()
    index = models.BigIntegerField()
    sent = models.BigIntegerField(default=0)
    refused = models.BigIntegerField(default=0)
    sent_at = models.DateTimeField(null=True)
    failures = models.IntegerField(default=0)
    fault = models.CharField(max_length=200, default="")
    retry_at = models.DateTimeField(null=True)
    lease = models.UUIDField(null=True)
    leased_until = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["tenant_id", "name"], condition=Q(ended_at__isnull=True), name="event_destination_once_by_name"
            )
        ]

    def __str__(self) -> str:
        return self.name


class Recording(models.Model):
    """A file of conversations recorded elsewhere, with the audit's findings; no part of it is this console's own.

    Its row, its conversations and their messages come with one event of the record, in one transaction. Nothing here
    is an action, a session or evidence, and no figure of an agent counts it. `named` is in whose name the console's
    owner said that it was imported, `unread` what of the file could not be read.
    """

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    file_name = models.CharField(max_length=300)
    digest = models.CharField(max_length=64)
    size = models.BigIntegerField()
    trust = models.CharField(max_length=8)
    version = models.IntegerField()
    contracts = models.CharField(max_length=64)
    conversations = models.IntegerField()
    messages = models.IntegerField()
    calls = models.IntegerField()
    with_findings = models.IntegerField()
    false_claims = models.IntegerField()
    faults = models.IntegerField()
    totals = models.JSONField()
    unread = models.JSONField()
    named = models.UUIDField(null=True)
    at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["tenant_id", "digest"], condition=~Q(digest=""), name="recording_once_by_its_digest"
            )
        ]

    def __str__(self) -> str:
        return str(self.id)


class RecordedConversation(models.Model):
    """One conversation of a recording: its findings and their severity."""

    pk = models.CompositePrimaryKey("tenant_id", "recording_id", "number")
    tenant_id = models.UUIDField()
    recording_id = models.UUIDField()
    number = models.IntegerField()
    label = models.CharField(max_length=300)
    path = models.CharField(max_length=300)
    format = models.CharField(max_length=32)
    messages = models.IntegerField()
    calls = models.IntegerField()
    false_claims = models.IntegerField()
    severity = models.IntegerField()
    tools_known = models.BooleanField()
    kinds = models.JSONField()
    codes = models.JSONField()
    findings = models.JSONField()
    unread = models.JSONField()

    class Meta:
        indexes = [
            models.Index(fields=["tenant_id", "recording_id", "-severity", "number"], name="recorded_by_severity")
        ]

    def __str__(self) -> str:
        return f"{self.recording_id} {self.number}"


class RecordedMessage(models.Model):
    """One message of a recorded conversation, with its calls, answers and claims.

    `number` is its place in the file, `length` that of its text there; `text` and `corrected` are cut (see
    `counterfoil_transcripts.commands.recording_rows`).
    """

    pk = models.CompositePrimaryKey("tenant_id", "recording_id", "conversation", "number")
    tenant_id = models.UUIDField()
    recording_id = models.UUIDField()
    conversation = models.IntegerField()
    number = models.IntegerField()
    role = models.CharField(max_length=16)
    text = models.CharField(max_length=10_000)
    length = models.IntegerField()
    calls = models.JSONField()
    answers = models.JSONField()
    claims = models.JSONField()
    corrected = models.CharField(max_length=10_000)

    def __str__(self) -> str:
        return f"{self.recording_id} {self.conversation} {self.number}"


class RecordedWord(models.Model):
    """A word of a recording with the conversations that contain it, for searching
    (`console.recordings.search_words`).

    A word has as many rows as its recording has portions; once the recording is erased they are empty.
    """

    pk = models.CompositePrimaryKey("tenant_id", "recording_id", "number")
    tenant_id = models.UUIDField()
    recording_id = models.UUIDField()
    number = models.IntegerField()
    word = models.TextField(db_collation="C")
    conversations = ArrayField(models.IntegerField())

    class Meta:
        indexes = [models.Index(fields=["tenant_id", "word", "recording_id"], name="recorded_words")]

    def __str__(self) -> str:
        return f"{self.recording_id} {self.number}"


class MetricDimensions(models.Model):
    """The dimensions by which figures can be filtered and grouped (`console.metrics.queries.DIMENSIONS`)."""

    tool = models.CharField(max_length=200)
    agent = models.CharField(max_length=128)
    side_effect_class = models.CharField(max_length=32)
    version = models.CharField(max_length=64)

    class Meta:
        abstract = True


class ActionCounts(models.Model):
    """The counts of actions (`console.metrics.rules.facts.OF_ACTIONS`)."""

    actions = models.IntegerField(default=0)
    executed = models.IntegerField(default=0)
    verified_success = models.IntegerField(default=0)
    unchanged = models.IntegerField(default=0)
    ended_failed = models.IntegerField(default=0)
    ended_reversed = models.IntegerField(default=0)
    ended_by_word = models.IntegerField(default=0)
    unsettled = models.IntegerField(default=0)
    verification_failed = models.IntegerField(default=0)
    read_back = models.IntegerField(default=0)
    mismatched = models.IntegerField(default=0)
    stale_reads = models.IntegerField(default=0)
    stale_state = models.IntegerField(default=0)
    partial = models.IntegerField(default=0)
    pending = models.IntegerField(default=0)
    pending_over_sla = models.IntegerField(default=0)
    unknown = models.IntegerField(default=0)
    duplicated = models.IntegerField(default=0)
    repeats = models.IntegerField(default=0)
    repeats_absorbed = models.IntegerField(default=0)
    compensations = models.IntegerField(default=0)
    compensated = models.IntegerField(default=0)
    compensations_failed = models.IntegerField(default=0)
    false_success = models.IntegerField(default=0)
    reviewed = models.IntegerField(default=0)
    complete_records = models.IntegerField(default=0)
    readings = models.IntegerField(default=0)
    never_ran = models.IntegerField(default=0)
    answered = models.IntegerField(default=0)

    class Meta:
        abstract = True


class MetricAction(ActionCounts, MetricDimensions):
    """The contribution of one action to the metrics, as of its event `seq`; it can be recomputed from its events at any
    time.

    `hour` is the one it counts in: of its first start, or of its proposal while it was never started. `call_failed` is
    1 if its call counts among those whose tool failed, in the hour of the call.
    """

    pk = models.CompositePrimaryKey("tenant_id", "action_id")
    tenant_id = models.UUIDField()
    action_id = models.UUIDField()
    seq = models.IntegerField()
    hour = models.DateTimeField()
    verification_ms = models.BigIntegerField(null=True)
    reconcile_ms = models.BigIntegerField(null=True)
    call_failed = models.IntegerField(default=0, db_default=0)

    class Meta:
        indexes = [models.Index(fields=["tenant_id", "hour", "action_id"], name="metric_action_by_hour")]

    def __str__(self) -> str:
        return str(self.action_id)


class MetricRollUp(ActionCounts, MetricDimensions):
    """The counts of one hour, or of one day (`span` 24), by tool, agent, class and version of the verification policy.

    An empty tool stands for tools that do not exist, an empty version for calls, which are judged by none.
    """

    pk = models.CompositePrimaryKey("tenant_id", "span", "start", "tool", "agent", "side_effect_class", "version")
    tenant_id = models.UUIDField()
    span = models.SmallIntegerField()
    start = models.DateTimeField()
    calls = models.IntegerField(default=0)
    calls_accepted = models.IntegerField(default=0)
    calls_undisclosed = models.IntegerField(default=0)
    calls_valid = models.IntegerField(default=0)
    calls_failed = models.IntegerField(default=0)
    calls_arguments = models.IntegerField(default=0)
    calls_phantom = models.IntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.start} {self.tool}"


class MetricDelay(MetricDimensions):
    """The number and sum of an hour's or a day's delays with one rounded length (`console.metrics.rules.delays`)."""

    pk = models.CompositePrimaryKey(
        "tenant_id", "span", "start", "kind", "tool", "agent", "side_effect_class", "version", "rounded_ms"
    )
    tenant_id = models.UUIDField()
    span = models.SmallIntegerField()
    start = models.DateTimeField()
    kind = models.CharField(max_length=12)
    rounded_ms = models.BigIntegerField()
    count = models.IntegerField()
    total_ms = models.BigIntegerField()

    def __str__(self) -> str:
        return f"{self.kind} {self.rounded_ms}"


class SearchTerm(models.Model):
    """A term by which an action is found: the hash of its payload, or the keyed hash of an amount or a code
    (`console.search.rules`). Emptied once the action is erased.
    """

    pk = models.CompositePrimaryKey("tenant_id", "action_id", "number")
    tenant_id = models.UUIDField()
    action_id = models.UUIDField()
    number = models.SmallIntegerField()
    term = models.CharField(max_length=72, db_collation="C")

    class Meta:
        indexes = [models.Index(fields=["tenant_id", "term", "action_id"], name="search_term_by_word")]

    def __str__(self) -> str:
        return f"{self.term} {self.action_id}"


class SearchCursor(models.Model):
    """Up to where the record has been read for search terms, by the time of recording, and the name of the key under
    which the terms are (`KeyLine.name`); empty where it has not been noted. `seen` is how many events had their place
    in the tenant's logs when all of them were read.
    """

    tenant_id = models.UUIDField(primary_key=True)
    read_to = models.DateTimeField()
    key_name = models.CharField(max_length=16, default="", db_default="")
    seen = models.BigIntegerField(null=True)

    def __str__(self) -> str:
        return str(self.tenant_id)


class MetricCursor(models.Model):
    """Up to where the record has been counted: by the time of recording, and by the console's clock.

    `counted_to` is until when everything that was on record was counted at the last look, and `seen` how many events
    had their place in the tenant's logs then.
    `recent_calls` are the counts of the calls of the last minute before `looked_at`, which are counted again: (hour,
    dimensions, counts by name).
    """

    tenant_id = models.UUIDField(primary_key=True)
    read_to = models.DateTimeField()
    looked_at = models.DateTimeField()
    counted_to = models.DateTimeField(null=True)
    recent_calls = models.JSONField(default=list)
    seen = models.BigIntegerField(null=True)

    def __str__(self) -> str:
        return str(self.tenant_id)


class AlertRule(models.Model):
    """A watched share, and when people are notified of it (`console.metrics.rules.alerts`).

    `past_since` is since when the figure has been past the threshold that it waits for. It is no part of the record.
    """

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    metric = models.CharField(max_length=4)
    tool = models.CharField(max_length=200)
    agent = models.CharField(max_length=128)
    side_effect_class = models.CharField(max_length=32)
    window_h = models.IntegerField()
    raise_at = models.IntegerField()
    clear_at = models.IntegerField()
    least_cases = models.IntegerField()
    hold_min = models.IntegerField()
    past_since = models.DateTimeField(null=True)
    made_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(raise_at__gte=0, raise_at__lte=10_000, clear_at__gte=0, clear_at__lte=10_000)
                & ~Q(raise_at=F("clear_at")),
                name="alert_rule_has_two_thresholds",
            ),
            models.CheckConstraint(
                condition=Q(window_h__gte=1, least_cases__gte=1, hold_min__gte=0), name="alert_rule_looks_at_something"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.metric} {self.id}"


class Alert(models.Model):
    """An alert on a figure, and its end; a regression has no rule but names the compared versions.

    `about` is "verification", or "contract" and its name; `version` is the one in force, `previous` the one before.
    """

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    rule_id = models.UUIDField(null=True)
    about = models.CharField(max_length=160)
    version = models.CharField(max_length=64)
    previous = models.CharField(max_length=64)
    said = models.CharField(max_length=1000)
    raised_at = models.DateTimeField()
    cleared_said = models.CharField(max_length=1000, default="")
    cleared_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(rule_id__isnull=False, about="") | (Q(rule_id__isnull=True) & ~Q(about="")),
                name="alert_is_of_a_rule_or_a_regression",
            ),
            models.UniqueConstraint(
                fields=["tenant_id", "rule_id"],
                condition=Q(cleared_at__isnull=True, rule_id__isnull=False),
                name="alert_one_open_per_rule",
            ),
            models.UniqueConstraint(
                fields=["tenant_id", "about"],
                condition=Q(cleared_at__isnull=True, rule_id__isnull=True),
                name="alert_one_open_per_regression",
            ),
        ]

    def __str__(self) -> str:
        return self.said


class Price(models.Model):
    """The amount that one unit of something costs, who pays it, and from when on; it never applies to an earlier time.

    `about` is a system or a model, `agent` an agent; empty is any.
    """

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    kind = models.CharField(max_length=16)
    about = models.CharField(max_length=128)
    agent = models.CharField(max_length=128)
    amount = models.DecimalField(max_digits=20, decimal_places=8)
    currency = models.CharField(max_length=3)
    payer = models.CharField(max_length=100)
    set_at = models.DateTimeField()
    valid_from = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(valid_from__gte=F("set_at")), name="price_is_not_of_the_past"),
            models.CheckConstraint(condition=Q(amount__gte=0), name="price_is_not_negative"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.about}"


class CostBudget(models.Model):
    """The limit of a tenant's priced costs in one currency in a calendar month.

    `told_month` and `told` are the month, and the level in it, of which people were notified last; `said` is what they
    read.
    """

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    amount = models.DecimalField(max_digits=20, decimal_places=8)
    currency = models.CharField(max_length=3)
    share = models.SmallIntegerField()
    set_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    told_month = models.CharField(max_length=7, default="")
    told = models.CharField(max_length=6, default="")
    said = models.CharField(max_length=300, default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["tenant_id", "currency"], condition=Q(ended_at__isnull=True), name="cost_budget_one_a_currency"
            ),
            models.CheckConstraint(
                condition=Q(amount__gt=0, share__gte=1, share__lte=100), name="cost_budget_is_an_amount"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.amount} {self.currency}"
