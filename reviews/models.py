"""After the attempt: observations, verification, cases, incidents, reports. Columns and constraints only."""

from __future__ import annotations

from django.db import models
from django.db.models import Q


class Observation(models.Model):
    """An answer of a tool or the runtime: evidence, never truth. Append-only (R-OB-03, R-OB-13)."""

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    action_id = models.UUIDField()
    attempt = models.IntegerField()
    status = models.CharField(max_length=16)
    claimed_success = models.BooleanField()
    error_code = models.CharField(max_length=64, blank=True)
    source = models.CharField(max_length=16)
    late = models.BooleanField(default=False)
    pointer = models.UUIDField()
    raw_pointer = models.UUIDField(null=True)
    at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["tenant_id", "action_id", "id"], name="observation_by_action")]

    def __str__(self) -> str:
        return f"{self.status} {self.action_id}"


class Schedule(models.Model):
    """The next reading of an action, or of a claim where it `is_claim` (`action_id` is then the claim's). Ids only,
    outside row-level security; a lost message costs nothing.

    `system_id` is the system that the reading asks: its lane. `claim` is the claim that holds the row until
    `claimed_until`; `asked_at` is when somebody last wanted a reading now, whatever a claim is about to write.
    `unlisted` counts the readings since the last run on record: those that showed nothing new have no event.
    """

    pk = models.CompositePrimaryKey("tenant_id", "action_id")
    tenant_id = models.UUIDField()
    action_id = models.UUIDField()
    system_id = models.UUIDField()
    due_at = models.DateTimeField()
    claimed_until = models.DateTimeField(null=True)
    claim = models.UUIDField(null=True)
    asked_at = models.DateTimeField(null=True)
    priority = models.SmallIntegerField(default=0)
    readings = models.IntegerField(default=0)
    unlisted = models.IntegerField(default=0, db_default=0)
    opened_at = models.DateTimeField()
    recheck = models.SmallIntegerField(null=True)
    is_claim = models.BooleanField(default=False, db_default=False)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(priority__gte=0, priority__lte=5), name="schedule_priority_is_a_class")
        ]
        indexes = [
            models.Index(fields=["due_at"], name="schedule_by_time"),
            # A claim takes the oldest of each class of each lane: one look-up each, however many rows there are.
            models.Index(fields=["tenant_id", "system_id", "priority", "due_at"], name="schedule_by_turn"),
            models.Index(
                fields=["tenant_id", "system_id"], condition=Q(claim__isnull=False), name="schedule_in_flight"
            ),
        ]

    def __str__(self) -> str:
        return str(self.action_id)


class Lane(models.Model):
    """The current read limits of one system. Ids and numbers only, outside row-level security, as the schedule is.

    `system_id` is the tenant's own id for anything that names no registered system. Readings are paid for up to
    `paid_until`; while the circuit is open, nothing is read before `held_until`; `pace_ms` is the recent duration of a
    reading.
    """

    pk = models.CompositePrimaryKey("tenant_id", "system_id")
    tenant_id = models.UUIDField()
    system_id = models.UUIDField()
    concurrency = models.IntegerField()
    reads_per_minute = models.IntegerField()
    paid_until = models.DateTimeField(null=True)
    held_until = models.DateTimeField(null=True)
    pace_ms = models.IntegerField(null=True)
    served_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return str(self.system_id)


class SystemHealth(models.Model):
    """The recent answers of one system, and its circuit; `since` is when that closed or opened.

    `stopped_at` says that a person has stopped releasing to it.
    """

    pk = models.CompositePrimaryKey("tenant_id", "system_id")
    tenant_id = models.UUIDField()
    system_id = models.UUIDField()
    reads = models.BigIntegerField(default=0)
    unanswered = models.BigIntegerField(default=0)
    failures = models.IntegerField(default=0)
    latency_ms = models.IntegerField(null=True)
    last_read_at = models.DateTimeField(null=True)
    last_success_at = models.DateTimeField(null=True)
    last_failure = models.CharField(max_length=300, blank=True, default="")
    since = models.DateTimeField(null=True)
    probe_at = models.DateTimeField(null=True)
    cooldown_s = models.IntegerField(default=0)
    stopped_at = models.DateTimeField(null=True)
    stopped_because = models.CharField(max_length=1000, blank=True, default="")

    class Meta:
        db_table = "reviews_health"

    def __str__(self) -> str:
        return str(self.system_id)


class Webhook(models.Model):
    """An opaque address for one system's webhooks."""

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    system_id = models.UUIDField()
    created_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "reviews_hook"
        indexes = [
            models.Index(fields=["tenant_id", "system_id"], name="hook_by_system"),
        ]

    def __str__(self) -> str:
        return str(self.id)


class WebhookDelivery(models.Model):
    """A webhook that was taken, so that it is taken once; forgotten when no provider repeats it any more."""

    pk = models.CompositePrimaryKey("tenant_id", "hook_id", "webhook_id")
    tenant_id = models.UUIDField()
    hook_id = models.UUIDField()
    webhook_id = models.CharField(max_length=256)
    action_id = models.UUIDField(null=True)
    at = models.DateTimeField()

    class Meta:
        db_table = "reviews_hookdelivery"
        indexes = [models.Index(fields=["tenant_id", "at"], name="hook_delivery_by_time")]

    def __str__(self) -> str:
        return self.webhook_id


class ReadingCount(models.Model):
    """The number of readings per day that one tool's actions cost one system (R-MT-11)."""

    pk = models.CompositePrimaryKey("tenant_id", "day", "system_id", "tool")
    tenant_id = models.UUIDField()
    day = models.DateField()
    system_id = models.UUIDField()
    tool = models.CharField(max_length=128)
    readings = models.BigIntegerField()

    def __str__(self) -> str:
        return f"{self.tool} {self.day}"


class ReadingTotal(models.Model):
    """A tenant's readings in the present hour and day, which count against its budget."""

    tenant_id = models.UUIDField(primary_key=True)
    hour_from = models.DateTimeField(null=True)
    in_hour = models.BigIntegerField(db_default=0)
    day_from = models.DateTimeField(null=True)
    in_day = models.BigIntegerField(db_default=0)

    def __str__(self) -> str:
        return str(self.tenant_id)


class VerificationRun(models.Model):
    """One verification run: codes only; the readings and the results of the predicates are evidence behind
    `pointer`. `asked` has the readings of each system since the run before, also those without an answer or news.
    """

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    action_id = models.UUIDField()
    number = models.IntegerField()
    source = models.CharField(max_length=200)
    consistency = models.CharField(max_length=16)
    freshness = models.CharField(max_length=200)
    result = models.CharField(max_length=24)
    discrepancy = models.CharField(max_length=32, blank=True)
    recovery_row = models.CharField(max_length=8, blank=True)
    recovery_decision = models.CharField(max_length=48, blank=True)
    pointer = models.UUIDField()
    at = models.DateTimeField()
    asked = models.JSONField(default=dict, db_default={})

    class Meta:
        db_table = "reviews_run"
        constraints = [
            models.UniqueConstraint(fields=["tenant_id", "action_id", "number"], name="run_is_numbered"),
        ]

    def __str__(self) -> str:
        return f"{self.result} {self.action_id} #{self.number}"


class Case(models.Model):
    """Something that a person must settle. A case about an effect that nobody gated has no action."""

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    action_id = models.UUIDField(null=True)
    state = models.CharField(max_length=16)
    reason = models.CharField(max_length=48)
    discrepancy = models.CharField(max_length=32, blank=True)
    side_effect_class = models.CharField(max_length=32)
    severity = models.SmallIntegerField()
    tool = models.CharField(max_length=128)
    target = models.CharField(max_length=512)
    claimed_by = models.UUIDField(null=True)
    claimed_at = models.DateTimeField(null=True)
    proposed_resolution = models.CharField(max_length=24, blank=True)
    proposed_reason = models.TextField(blank=True)
    proposed_evidence = models.JSONField(default=list)
    proposed_by = models.UUIDField(null=True)
    # The sealed statement of whoever proposed it.
    proposed_statement = models.UUIDField(null=True)
    snoozed_until = models.DateTimeField(null=True)
    snooze_reason = models.TextField(blank=True)
    resolution = models.CharField(max_length=24, blank=True)
    opened_at = models.DateTimeField()
    resolved_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["tenant_id", "action_id"], condition=~Q(state="RESOLVED"), name="case_one_open_per_action"
            )
        ]
        indexes = [
            models.Index(fields=["tenant_id", "state", "severity", "opened_at"], name="case_queue"),
            models.Index(fields=["tenant_id", "target", "id"], name="case_by_target"),
            models.Index(fields=["tenant_id", "action_id", "id"], name="case_by_action"),
            models.Index(
                "tenant_id",
                models.F("severity").desc(),
                "opened_at",
                "id",
                condition=~Q(state="RESOLVED"),
                name="case_waiting",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.reason} {self.id}"


class UngatedClaim(models.Model):
    """Something that somebody says was done outside of the gate; what was claimed in full is sealed behind `document`.

    `result`, `discrepancy` and `pointer` are those of the newest reading on record, `reached_by` is the kind of event
    that led to the present state. What was claimed never changes.
    """

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    system_id = models.UUIDField()
    system = models.CharField(max_length=128)
    effect = models.CharField(max_length=64)
    operation = models.CharField(max_length=200, blank=True)
    target = models.CharField(max_length=512, blank=True)
    said_by = models.CharField(max_length=200)
    made_by = models.UUIDField()
    document = models.UUIDField()
    made_at = models.DateTimeField()
    state = models.CharField(max_length=12)
    reached_by = models.CharField(max_length=32)
    changed_at = models.DateTimeField()
    result = models.CharField(max_length=24, blank=True)
    discrepancy = models.CharField(max_length=32, blank=True)
    pointer = models.UUIDField(null=True)
    read_at = models.DateTimeField(null=True)
    case_id = models.UUIDField(null=True)

    class Meta:
        db_table = "reviews_claim"
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=["OPEN", "VERIFIED", "DIFFERENT", "ABSENT", "UNKNOWN"]),
                name="claim_state_is_known",
            ),
            models.CheckConstraint(
                condition=Q(state="OPEN") | Q(pointer__isnull=False), name="claim_is_settled_by_a_reading"
            ),
            models.CheckConstraint(
                condition=~Q(state="VERIFIED") | Q(result="SUCCESS"), name="claim_verified_by_success"
            ),
        ]
        indexes = [
            models.Index(fields=["tenant_id", "state", "id"], name="claim_by_state"),
            models.Index(fields=["tenant_id", "id"], condition=Q(state="OPEN"), name="claim_open"),
            models.Index(fields=["tenant_id", "made_by", "id"], name="claim_by_maker"),
            models.Index(fields=["tenant_id", "case_id"], condition=Q(case_id__isnull=False), name="claim_by_case"),
        ]

    def __str__(self) -> str:
        return f"{self.state} {self.id}"


class ChangeLogPosition(models.Model):
    """The position up to which a system's change log has been compared with the record, and its start; marks only."""

    pk = models.CompositePrimaryKey("tenant_id", "system_id")
    tenant_id = models.UUIDField()
    system_id = models.UUIDField()
    begun = models.CharField(max_length=200)
    mark = models.CharField(max_length=200)
    read_at = models.DateTimeField()
    failure = models.CharField(max_length=300, blank=True)

    class Meta:
        db_table = "reviews_watch"

    def __str__(self) -> str:
        return str(self.system_id)


class UngatedEffect(models.Model):
    """A change without authorisation by the console, recorded once. Its content is evidence behind `pointer`.
    Append-only.
    """

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    system_id = models.UUIDField()
    place = models.CharField(max_length=200)
    case_id = models.UUIDField()
    pointer = models.UUIDField()
    at = models.DateTimeField()

    class Meta:
        db_table = "reviews_stray"
        constraints = [
            models.UniqueConstraint(fields=["tenant_id", "system_id", "place"], name="stray_once"),
            models.UniqueConstraint(fields=["tenant_id", "case_id"], name="stray_by_case"),
        ]

    def __str__(self) -> str:
        return self.place


class Comment(models.Model):
    """A line in the thread of a case or an incident. Append-only."""

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    subject_id = models.UUIDField()
    author = models.UUIDField()
    text = models.TextField()
    at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["tenant_id", "subject_id", "id"], name="comment_by_subject")]

    def __str__(self) -> str:
        return self.text[:40]


class Incident(models.Model):
    """An operations or security incident. `about` names a lasting cause, such as a system, that has one at a time."""

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    kind = models.CharField(max_length=12)
    severity = models.SmallIntegerField(default=2)
    title = models.CharField(max_length=300)
    about = models.CharField(max_length=200, blank=True)
    runbook = models.CharField(max_length=48, blank=True)
    action_id = models.UUIDField(null=True)
    state = models.CharField(max_length=16)
    closing_note = models.TextField(blank=True)
    opened_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(kind__in=["operations", "security"]), name="incident_kind_is_known"),
            models.CheckConstraint(
                condition=Q(severity__gte=1, severity__lte=4), name="incident_severity_is_one_of_four"
            ),
            models.UniqueConstraint(
                fields=["tenant_id", "about"],
                condition=Q(state="OPEN") & ~Q(about=""),
                name="incident_one_open_per_cause",
            ),
        ]
        indexes = [
            models.Index(fields=["tenant_id", "action_id"], name="incident_by_action"),
            models.Index(fields=["tenant_id", "severity", "id"], condition=Q(state="OPEN"), name="incident_open"),
        ]

    def __str__(self) -> str:
        return self.title


class IncidentLink(models.Model):
    """An action, a case or a freeze that belongs to an incident. Append-only."""

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    incident_id = models.UUIDField()
    kind = models.CharField(max_length=8)
    subject_id = models.UUIDField()
    at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["tenant_id", "incident_id", "kind", "subject_id"], name="incident_link_once"
            ),
        ]
        indexes = [models.Index(fields=["tenant_id", "subject_id"], name="incident_link_by_subject")]

    def __str__(self) -> str:
        return f"{self.kind} {self.subject_id}"


class Batch(models.Model):
    """One thing that is done to many cases, item by item."""

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    kind = models.CharField(max_length=16)
    wanted = models.JSONField(default=dict)
    state = models.CharField(max_length=12)
    total = models.IntegerField()
    started_by = models.UUIDField()
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [models.Index(fields=["tenant_id", "id"], condition=Q(state="RUNNING"), name="batch_running")]

    def __str__(self) -> str:
        return f"{self.kind} {self.id}"


class BatchItem(models.Model):
    """One case of a batch, and what became of it there."""

    pk = models.CompositePrimaryKey("tenant_id", "batch_id", "number")
    tenant_id = models.UUIDField()
    batch_id = models.UUIDField()
    number = models.IntegerField()
    case_id = models.UUIDField()
    state = models.CharField(max_length=8)
    code = models.CharField(max_length=48, blank=True)
    detail = models.CharField(max_length=500, blank=True)
    at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant_id", "batch_id", "case_id"], name="batch_has_a_case_once")
        ]
        indexes = [
            models.Index(
                fields=["tenant_id", "batch_id", "number"], condition=Q(state="WAITING"), name="batch_item_waiting"
            )
        ]

    def __str__(self) -> str:
        return f"{self.number} {self.state}"


class Report(models.Model):
    """A report on an action: its text, its recipient and the state of the record (R-RI-15). Append-only."""

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    action_id = models.UUIDField()
    event_id = models.UUIDField()
    code = models.CharField(max_length=48)
    text = models.TextField()
    completed = models.BooleanField()
    told_to = models.UUIDField()
    at = models.DateTimeField()

    class Meta:
        constraints = [
            # The same answer on the same state of the record to the same reader is one fact, however often it is asked.
            models.UniqueConstraint(fields=["tenant_id", "event_id", "told_to"], name="report_once_per_state")
        ]
        indexes = [models.Index(fields=["tenant_id", "action_id", "id"], name="report_by_action")]

    def __str__(self) -> str:
        return f"{self.code} {self.action_id}"


class GuardVerdict(models.Model):
    """The guard's verdict on one message, and its grounds (R-CG-19). Append-only; the message is sealed evidence.

    `codes` and `tags` are of its violations; `claims` holds spans, kinds and rules, `records` the state of each action
    that was looked at; no word of the message is in here.
    """

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    session_id = models.UUIDField()
    event_id = models.UUIDField()
    verdict = models.CharField(max_length=8)
    codes = models.JSONField()
    tags = models.JSONField()
    claims = models.JSONField()
    records = models.JSONField()
    message_hash = models.CharField(max_length=64)
    pointer = models.UUIDField()
    at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["tenant_id", "session_id", "id"], name="guard_verdict_by_session")]

    def __str__(self) -> str:
        return f"{self.verdict} {self.session_id}"
