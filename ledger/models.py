"""The tables of the record. Columns and constraints only.

`Event` and `Entry` are partitioned by subject id (so by time) and are made by `ledger/sql/events.sql`; the application
role can read them and can write them only through the function `ledger_append` (`ledger/sql/append.sql`).
"""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Func, Q

from ledger.db import Row
from ledger.record.rules.lifecycle import BLOCKS_REPEAT, OPEN, State, phases

_IS_OPEN = Q(contradicted=True) | Q(phase__in=phases(OPEN))
_ENDED_OTHERWISE = sorted(map(str, frozenset(State) - OPEN - {State.RECONCILED_SUCCESS}))


class Tenant(models.Model):
    """An organisation with a record of its own. The table is outside row-level security because it is the directory."""

    id = models.UUIDField(primary_key=True)
    slug = models.SlugField(max_length=63, unique=True)
    name = models.CharField(max_length=200)
    origin = models.CharField(max_length=255, unique=True)
    created_at = models.DateTimeField()
    # The epoch under which this database was last accepted; none before the log is opened.
    epoch = models.IntegerField(null=True)
    # When it was last declared that the database went back; what was open then is read before it is granted.
    restored_at = models.DateTimeField(null=True)
    # How far a move from or to another installation is (ledger.catalogue.rules.moving), and what is known of it.
    moving = models.CharField(max_length=8, default="", db_default="")
    move = models.JSONField(null=True)

    class Meta:
        indexes = [models.Index(fields=["id"], condition=~Q(moving=""), name="tenant_being_moved")]

    def __str__(self) -> str:
        return self.slug


class Subject(models.Model):
    """The head of one subject's events: the row that is locked, and the event that the next one continues."""

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    kind = models.CharField(max_length=20)
    state = models.CharField(max_length=32)
    seq = models.IntegerField()
    head = models.BinaryField()
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.kind} {self.id}"


class Event(models.Model):
    """One immutable event."""

    pk = models.CompositePrimaryKey("tenant_id", "subject_id", "seq")
    tenant_id = models.UUIDField()
    subject_id = models.UUIDField()
    seq = models.IntegerField()
    prev_seq = models.IntegerField(null=True)
    id = models.UUIDField()
    subject_kind = models.CharField(max_length=20)
    kind = models.CharField(max_length=64)
    from_state = models.CharField(max_length=32)
    state = models.CharField(max_length=32)
    prev = models.BinaryField(null=True)
    envelope = models.BinaryField()
    entry_hash = models.BinaryField()
    actor_kind = models.CharField(max_length=20)
    actor_id = models.UUIDField()
    at = models.DateTimeField()
    recorded_at = models.DateTimeField()

    class Meta:
        managed = False
        db_table = "ledger_event"

    def __str__(self) -> str:
        return f"{self.kind} {self.subject_id}/{self.seq}"


class Entry(models.Model):
    """The separately stored content that an event's envelope commits to: the entry (actions only) and the event's
    detail.
    """

    pk = models.CompositePrimaryKey("tenant_id", "subject_id", "seq")
    tenant_id = models.UUIDField()
    subject_id = models.UUIDField()
    seq = models.IntegerField()
    entry_salt = models.BinaryField(null=True)
    entry = models.BinaryField(null=True)
    detail_salt = models.BinaryField(null=True)
    detail = models.BinaryField(null=True)

    class Meta:
        managed = False
        db_table = "ledger_entry"

    def __str__(self) -> str:
        return f"{self.subject_id}/{self.seq}"


class Action(models.Model):
    """The present view of an action, for search and paging. Every changing column can be rebuilt from its events."""

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    state = models.CharField(max_length=32)
    seq = models.IntegerField()
    tool = models.CharField(max_length=128)
    tool_version = models.CharField(max_length=64)
    contract_digest = models.CharField(max_length=64)
    side_effect_class = models.CharField(max_length=32)
    reversibility = models.CharField(max_length=16)
    mutating = models.BooleanField()
    agent = models.CharField(max_length=128)
    agent_actor = models.UUIDField()
    session_id = models.UUIDField()
    run_id = models.CharField(max_length=128)
    call_id = models.CharField(max_length=128)
    target = models.CharField(max_length=512)
    operation_kind = models.CharField(max_length=64)
    operation_key = models.CharField(max_length=64)
    payload_hash = models.CharField(max_length=64)
    payload_pointer = models.UUIDField(null=True)
    approval_id = models.UUIDField(null=True)
    trace_id = models.CharField(max_length=64)
    supersedes = models.UUIDField(null=True)
    ordered_by = models.UUIDField(null=True)
    parent_id = models.UUIDField(null=True)
    relation = models.CharField(max_length=12, default="")
    unwinds = models.BooleanField(default=False)
    discrepancy = models.CharField(max_length=32, default="")
    recovery_row = models.CharField(max_length=8, default="")
    recovery_decision = models.CharField(max_length=48, default="")
    attempt_count = models.IntegerField(default=0)
    contradicted = models.BooleanField(default=False)
    reversed = models.BooleanField(default=False)
    settled = models.BooleanField(default=False)
    # Whether its agent knows how it ended (`lifecycle.is_agent_notice`); the database says so itself.
    noticed = models.BooleanField(db_default=False)
    # The kind of the event by which it came to stand as it does (`lifecycle.changes_outcome`), by the database.
    reached_by = models.CharField(max_length=64, db_default="")
    # What the two are found by: they change seldom, and a row of which no index changes stays in its place.
    phase = models.GeneratedField(
        expression=Func(F("state"), function="ledger_phase"),
        output_field=models.CharField(max_length=32),
        db_persist=True,
    )
    set_apart = models.GeneratedField(
        expression=Func(F("reached_by"), function="ledger_set_apart"),
        output_field=models.CharField(max_length=64, null=True),
        db_persist=True,
    )
    horizon_at = models.DateTimeField(null=True)
    blocks_until = models.DateTimeField(null=True)
    proposed_at = models.DateTimeField()
    changed_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["tenant_id", "operation_key"],
                condition=Q(mutating=True, phase__in=phases(BLOCKS_REPEAT)),
                name="action_one_open_mutation",
            ),
            models.UniqueConstraint(
                fields=["tenant_id", "ordered_by"],
                condition=Q(ordered_by__isnull=False),
                name="action_one_child_per_order",
            ),
        ]
        indexes = [
            models.Index(fields=["tenant_id", "phase", "id"], name="action_by_phase"),
            models.Index(
                fields=["tenant_id", "set_apart", "id"], condition=Q(set_apart__isnull=False), name="action_set_apart"
            ),
            models.Index(
                fields=["tenant_id", "id"], condition=Q(contradicted=True) | Q(reversed=True), name="action_turned"
            ),
            models.Index(fields=["tenant_id", "tool", "id"], name="action_by_tool"),
            models.Index(fields=["tenant_id", "agent", "id"], name="action_by_agent"),
            models.Index(
                fields=["tenant_id", "agent", "tool"],
                condition=Q(phase="RECONCILED_SUCCESS"),
                name="action_demonstrated",
            ),
            models.Index(fields=["tenant_id", "session_id", "id"], name="action_by_session"),
            models.Index(fields=["tenant_id", "run_id", "id"], name="action_by_run"),
            models.Index(
                fields=["tenant_id", "parent_id", "id"], condition=Q(parent_id__isnull=False), name="action_by_parent"
            ),
            models.Index(
                fields=["tenant_id", "supersedes", "id"],
                condition=Q(supersedes__isnull=False),
                name="action_by_superseded",
            ),
            models.Index(fields=["tenant_id", "side_effect_class", "id"], name="action_by_class"),
            models.Index(fields=["tenant_id", "discrepancy", "id"], name="action_by_discrepancy"),
            models.Index(fields=["tenant_id", "operation_key", "id"], name="action_by_operation"),
            models.Index(fields=["tenant_id", "target", "id"], name="action_by_target"),
            # What the gate asks before each call; none of them grows with what a session or a run has behind it.
            models.Index(fields=["tenant_id", "run_id", "target", "id"], condition=_IS_OPEN, name="action_open_in_run"),
            models.Index(
                fields=["tenant_id", "session_id", "contradicted", "phase"],
                condition=_IS_OPEN,
                name="action_open_in_session",
            ),
            models.Index(
                fields=["tenant_id", "run_id", "id"],
                condition=Q(relation="", mutating=True, noticed=False)
                & (Q(phase__in=_ENDED_OTHERWISE) | Q(phase="RECONCILED_SUCCESS", reversed=True)),
                name="action_failed_in_run",
            ),
            models.Index(
                fields=["tenant_id", "run_id", "contract_digest"],
                condition=Q(phase="RECONCILED_SUCCESS"),
                name="action_succeeded_in_run",
            ),
            models.Index(
                fields=["tenant_id", "operation_key", "blocks_until"],
                condition=Q(mutating=True, phase__in=["FAILED", "RECONCILED_SUCCESS"], blocks_until__isnull=False),
                name="action_blocked_for_a_time",
            ),
            models.Index(
                fields=["tenant_id", "operation_key", "id"],
                condition=Q(mutating=True, contradicted=True),
                name="action_contradicted",
            ),
            # What the surveys ask: the actions of all tenants that have not come to their end.
            models.Index(
                fields=["phase", "tenant_id", "id"], condition=Q(phase__in=phases(OPEN)), name="action_under_way"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.tool} {self.id}"


class Idempotency(Row):
    """The key of one logical mutation and its bindings; its status is in the action's entry (R-EX-05)."""

    pk = models.CompositePrimaryKey("tenant_id", "key_hash")
    tenant_id = models.UUIDField()
    key_hash = models.CharField(max_length=64)
    key = models.CharField(max_length=64)
    request_hash = models.CharField(max_length=64)
    action_id = models.UUIDField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant_id", "action_id"], name="idempotency_one_key_per_action"),
        ]

    def __str__(self) -> str:
        return self.key_hash


class Evidence(Row):
    """A sealed blob under a random pointer; the envelope that names it holds a salted commitment to its bytes."""

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    subject_id = models.UUIDField()
    purpose = models.CharField(max_length=20)
    media_type = models.CharField(max_length=100)
    source = models.CharField(max_length=200)
    observed_at = models.DateTimeField()
    length = models.IntegerField()
    salt = models.BinaryField(null=True)
    sealed = models.BinaryField(null=True)
    commitment = models.CharField(max_length=64)

    class Meta:
        indexes = [models.Index(fields=["tenant_id", "subject_id", "id"], name="evidence_by_subject")]

    def __str__(self) -> str:
        return f"{self.purpose} {self.id}"


class SubjectKey(Row):
    """The id of the key that seals one subject's evidence; the key itself is in the key database."""

    pk = models.CompositePrimaryKey("tenant_id", "subject_id")
    tenant_id = models.UUIDField()
    subject_id = models.UUIDField()
    key_id = models.UUIDField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant_id", "key_id"], name="key_of_one_subject")]

    def __str__(self) -> str:
        return str(self.subject_id)


class ContractVersion(models.Model):
    """One registered version of a tool's contract, as canonical bytes."""

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    name = models.CharField(max_length=128)
    version = models.CharField(max_length=64)
    digest = models.CharField(max_length=64)
    document = models.BinaryField()
    lint = models.JSONField(default=list)
    # In what it is weaker than the version in force when it was sent, which one that was, and who sent it. Whether it
    # may be used is the state of its subject: PENDING until a second person confirms it.
    weakens = models.JSONField(default=list, db_default=[])
    compared_with = models.CharField(max_length=64, default="", db_default="")
    sent_by = models.UUIDField(null=True)
    # The release that brought it, where it changed what is verified; null where it came by registration.
    release_id = models.UUIDField(null=True)
    registered_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant_id", "name", "version"], name="contract_version_is_unique"),
        ]
        indexes = [models.Index(fields=["tenant_id", "digest"], name="contract_by_digest")]

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


class PolicyVersion(models.Model):
    """One version of a policy (approval, verification, recovery, autonomy), as canonical bytes."""

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    kind = models.CharField(max_length=16)
    version = models.CharField(max_length=64)
    digest = models.CharField(max_length=64)
    document = models.BinaryField()
    active = models.BooleanField()
    # The release that brought it; none where it came with the installation.
    release_id = models.UUIDField(null=True)
    # While it is tried on some actions beside the version in force: on which (`CanaryScope`); null else.
    canary = models.JSONField(null=True)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant_id", "kind", "version"], name="policy_version_is_unique"),
            models.UniqueConstraint(
                fields=["tenant_id", "kind"], condition=Q(canary__isnull=False), name="policy_one_canary"
            ),
            models.UniqueConstraint(fields=["tenant_id", "kind"], condition=Q(active=True), name="policy_one_active"),
        ]

    def __str__(self) -> str:
        return f"{self.kind}:{self.version}"


class Release(models.Model):
    """A draft of a policy or of a tool's contract on its way into force; the draft never changes, and nothing of a
    release goes away.

    `tool` is the tool of a contract, and empty for a policy. `basis` is the digest of the version in force that its
    gates last compared it with.
    """

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    kind = models.CharField(max_length=16)
    tool = models.CharField(max_length=128, default="", db_default="")
    version = models.CharField(max_length=64)
    digest = models.CharField(max_length=64)
    document = models.BinaryField()
    basis = models.CharField(max_length=64)
    state = models.CharField(max_length=16)
    reason = models.CharField(max_length=1000)
    canary = models.JSONField(null=True)
    author = models.UUIDField()
    first_by = models.UUIDField(null=True)
    promoted_by = models.UUIDField(null=True)
    created_at = models.DateTimeField()
    changed_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["tenant_id", "kind", "id"], name="release_by_kind")]

    def __str__(self) -> str:
        return f"{self.state} {self.kind}:{self.version}"


class ReleaseGate(models.Model):
    """One result of one gate of a release; the newest counts. `pointer` leads to the evidence of the run."""

    pk = models.CompositePrimaryKey("tenant_id", "release_id", "seq", "gate")
    tenant_id = models.UUIDField()
    release_id = models.UUIDField()
    seq = models.IntegerField()
    gate = models.CharField(max_length=16)
    passed = models.BooleanField()
    summary = models.CharField(max_length=1000)
    pointer = models.UUIDField()
    by = models.UUIDField()
    at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.gate} {'passed' if self.passed else 'failed'}"


class System(models.Model):
    """A registered authoritative system; its credential is a file or an environment variable, never a column."""

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    name = models.CharField(max_length=64)
    pattern = models.CharField(max_length=32)
    settings = models.JSONField(default=dict)
    # Another pattern or address that waits for a second person, with who asked for it; null where nothing waits.
    proposal = models.JSONField(null=True)
    # The digest of the description with which a dry run has found a known object here and missed another.
    tried = models.CharField(max_length=64, default="")
    registered_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant_id", "name"], name="system_name_is_unique")]

    def __str__(self) -> str:
        return self.name


class Freeze(models.Model):
    """A stop on an agent, a target, a tool, a tenant or everything; in force until lifted."""

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    scope = models.CharField(max_length=8)
    value = models.CharField(max_length=512)
    reason = models.CharField(max_length=1000)
    placed_at = models.DateTimeField()
    lifted_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(scope__in=["agent", "tool", "target", "tenant", "all"]), name="freeze_scope_is_known"
            ),
            models.UniqueConstraint(
                fields=["tenant_id", "scope", "value"], condition=Q(lifted_at__isnull=True), name="freeze_one_in_force"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.scope} {self.value}"


class RecoveryOrder(models.Model):
    """A recovery action that was ordered and has not ended. Ids only, outside row-level security: it is a queue.

    Until it is `proposed`, `approvals` has to look at it; from then on `reviews`, which carries its end over.
    """

    pk = models.CompositePrimaryKey("tenant_id", "event_id")
    tenant_id = models.UUIDField()
    event_id = models.UUIDField()
    action_id = models.UUIDField()
    placed_at = models.DateTimeField()
    due_at = models.DateTimeField()
    proposed = models.BooleanField(default=False)

    class Meta:
        db_table = "ledger_order"
        indexes = [models.Index(fields=["proposed", "due_at"], name="order_by_time")]

    def __str__(self) -> str:
        return str(self.event_id)


class RunRollback(models.Model):
    """A run that is being rolled back: nothing new starts in it, and its steps are reversed, the last one first."""

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    run_id = models.CharField(max_length=128)
    state = models.CharField(max_length=16)
    reason = models.CharField(max_length=1000)
    opened_at = models.DateTimeField()
    changed_at = models.DateTimeField()

    class Meta:
        db_table = "ledger_unwinding"
        constraints = [models.UniqueConstraint(fields=["tenant_id", "run_id"], name="unwinding_once_per_run")]
        indexes = [models.Index(fields=["tenant_id", "state", "id"], name="unwinding_by_state")]

    def __str__(self) -> str:
        return f"{self.state} {self.run_id}"


class QueuedEvent(models.Model):
    """An event that has no leaf yet. Ids only, outside row-level security: it is the sequencer's queue.

    `position` is drawn from one sequence of the database, and says which of a tenant's events comes first.
    """

    pk = models.CompositePrimaryKey("tenant_id", "position")
    tenant_id = models.UUIDField()
    position = models.BigIntegerField()
    subject_id = models.UUIDField()
    seq = models.IntegerField()
    at = models.DateTimeField()

    class Meta:
        db_table = "ledger_pending"

    def __str__(self) -> str:
        return f"{self.subject_id}/{self.seq}"


class Log(models.Model):
    """One Merkle log of a tenant: the first one, or one opened after a restore; `id` is its subject."""

    pk = models.CompositePrimaryKey("tenant_id", "number")
    tenant_id = models.UUIDField()
    number = models.IntegerField()
    id = models.UUIDField()
    origin = models.CharField(max_length=255)
    opened_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant_id", "origin"], name="log_origin_is_unique")]

    def __str__(self) -> str:
        return self.origin


class Leaf(models.Model):
    """The event at an index of a log; its hash is the event's hash."""

    pk = models.CompositePrimaryKey("tenant_id", "log", "index")
    tenant_id = models.UUIDField()
    log = models.IntegerField()
    index = models.BigIntegerField()
    subject_id = models.UUIDField()
    seq = models.IntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant_id", "subject_id", "seq"], name="leaf_one_per_event"),
        ]

    def __str__(self) -> str:
        return f"{self.log}/{self.index}"


class Tile(models.Model):
    """Up to 256 hashes of one level of a log's tree; it only ever grows."""

    pk = models.CompositePrimaryKey("tenant_id", "log", "level", "index")
    tenant_id = models.UUIDField()
    log = models.IntegerField()
    level = models.SmallIntegerField()
    index = models.BigIntegerField()
    hashes = models.BinaryField()

    def __str__(self) -> str:
        return f"{self.log}/{self.level}/{self.index}"


class LogTip(models.Model):
    """The head of a log, and the newest checkpoint that was signed over it."""

    pk = models.CompositePrimaryKey("tenant_id", "log")
    tenant_id = models.UUIDField()
    log = models.IntegerField()
    size = models.BigIntegerField()
    root = models.BinaryField()
    integrated_at = models.DateTimeField()
    signed_size = models.BigIntegerField()
    signed_at = models.DateTimeField(null=True)
    note = models.BinaryField(null=True)
    # The size of the newest checkpoint that is kept for good.
    kept_size = models.BigIntegerField(null=True)
    # Why the sequencer has stopped this log (the code of the refusal); empty while it goes on.
    stopped = models.CharField(max_length=40, blank=True, default="")

    class Meta:
        db_table = "ledger_tip"
        constraints = [
            models.CheckConstraint(condition=Q(signed_size__lte=models.F("size")), name="tip_signed_is_integrated"),
        ]

    def __str__(self) -> str:
        return f"{self.log}: {self.size}"


class Checkpoint(models.Model):
    """A signed checkpoint that is kept permanently; `before` is the size of the previous kept one, or 0."""

    pk = models.CompositePrimaryKey("tenant_id", "log", "size")
    tenant_id = models.UUIDField()
    log = models.IntegerField()
    size = models.BigIntegerField()
    note = models.BinaryField()
    signed_at = models.DateTimeField()
    before = models.BigIntegerField(null=True)

    def __str__(self) -> str:
        return f"{self.log}: {self.size}"


class Anchor(models.Model):
    """Outside evidence for a checkpoint: a witness's cosignature or a time stamp."""

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    log = models.IntegerField()
    size = models.BigIntegerField()
    kind = models.CharField(max_length=8)
    name = models.CharField(max_length=255)
    evidence = models.BinaryField()
    at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(kind__in=["witness", "tsa"]), name="anchor_kind_is_known"),
            models.UniqueConstraint(fields=["tenant_id", "log", "size", "kind", "name"], name="anchor_once"),
        ]
        indexes = [models.Index(fields=["kind", "at"], name="anchor_by_time")]

    def __str__(self) -> str:
        return f"{self.kind} {self.name} {self.log}: {self.size}"


class Erasure(models.Model):
    """A request to erase what some subjects hold, and how far it has come; its events say who decided it."""

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    state = models.CharField(max_length=16)
    legal_basis = models.CharField(max_length=300)
    reason = models.CharField(max_length=4000)
    subjects = models.IntegerField()
    erased = models.IntegerField(default=0)
    retention_id = models.UUIDField(null=True)
    requested_by = models.UUIDField()
    requested_at = models.DateTimeField()
    confirmed_by = models.UUIDField(null=True)
    confirmed_at = models.DateTimeField(null=True)
    begun_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [models.Index(fields=["tenant_id", "state", "id"], name="erasure_by_state")]

    def __str__(self) -> str:
        return f"{self.state} {self.id}"


class ErasedSubject(models.Model):
    """A subject whose content was erased, up to which event, and the key that is still to be destroyed.

    Written by `ledger_erase` alone; `pruned_by` is the retention policy under which its envelopes went too.
    """

    pk = models.CompositePrimaryKey("tenant_id", "subject_id")
    tenant_id = models.UUIDField()
    subject_id = models.UUIDField()
    kind = models.CharField(max_length=20)
    erasure_id = models.UUIDField()
    seq = models.IntegerField()
    at = models.DateTimeField()
    key_id = models.UUIDField(null=True)
    pruned_by = models.UUIDField(null=True)

    class Meta:
        db_table = "ledger_erased"
        indexes = [models.Index(fields=["tenant_id", "erasure_id", "subject_id"], name="erased_by_request")]

    def __str__(self) -> str:
        return str(self.subject_id)


class LegalHold(models.Model):
    """A legal hold on an action, a target, an agent, a recording or everything: it is not erased until it is lifted."""

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    scope = models.CharField(max_length=16)
    value = models.CharField(max_length=512)
    reason = models.CharField(max_length=4000)
    placed_by = models.UUIDField()
    placed_at = models.DateTimeField()
    lifted_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "ledger_hold"
        constraints = [
            models.CheckConstraint(
                condition=Q(scope__in=["action", "target", "agent", "recording", "all"]), name="hold_scope_is_known"
            ),
            models.UniqueConstraint(
                fields=["tenant_id", "scope", "value"], condition=Q(lifted_at__isnull=True), name="hold_one_in_force"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.scope} {self.value}"


class Retention(models.Model):
    """A tenant's retention periods: a policy that two people put in force."""

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    state = models.CharField(max_length=16)
    payload_days = models.IntegerField()
    envelope_days = models.IntegerField()
    floor_days = models.IntegerField()
    standing = models.BooleanField()
    proposed_by = models.UUIDField()
    proposed_at = models.DateTimeField()
    confirmed_by = models.UUIDField(null=True)
    confirmed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant_id"], condition=Q(state="ACTIVE"), name="retention_one_in_force"),
            models.UniqueConstraint(fields=["tenant_id"], condition=Q(state="PROPOSED"), name="retention_one_proposed"),
        ]

    def __str__(self) -> str:
        return f"{self.state} {self.id}"


class AnchorSchedule(models.Model):
    """The next time at which external attesters of a kind are asked to attest a log, and their last faults."""

    pk = models.CompositePrimaryKey("tenant_id", "log", "kind")
    tenant_id = models.UUIDField()
    log = models.IntegerField()
    kind = models.CharField(max_length=8)
    due_at = models.DateTimeField()
    faults = models.JSONField(default=dict)

    class Meta:
        db_table = "ledger_anchoring"

    def __str__(self) -> str:
        return f"{self.kind} of {self.log}"


class IntegrityCheck(models.Model):
    """One check of the whole record and its logs, in steps, with its position and what it has read so far."""

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    state = models.CharField(max_length=12)
    phase = models.CharField(max_length=8)
    place = models.UUIDField()
    log = models.IntegerField(default=1)
    block = models.BigIntegerField(default=0)
    carried = models.JSONField(default=dict)
    expected = models.BigIntegerField()
    subjects = models.BigIntegerField(default=0)
    events = models.BigIntegerField(default=0)
    evidence = models.BigIntegerField(default=0)
    erased = models.BigIntegerField(default=0)
    leaves = models.BigIntegerField(default=0)
    finding = models.CharField(max_length=1000, default="")
    findings = models.JSONField(default=dict, db_default={})
    started_by = models.UUIDField()
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["tenant_id"], condition=Q(state__in=["RUNNING", "PAUSED"]), name="integrity_check_one_at_a_time"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.state} {self.id}"


class Alarm(models.Model):
    """A condition of the record that must not occur; it stays open until a person has acknowledged it."""

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    kind = models.CharField(max_length=32)
    detail = models.CharField(max_length=1000)
    raised_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["tenant_id", "kind"], condition=Q(closed_at__isnull=True), name="alarm_one_open_of_a_kind"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.raised_at}"


class SignedEpoch(models.Model):
    """The epoch of the installation, signed with the log's key for this database as it runs now (`ledger.log.epochs`).

    The only row.
    """

    one = models.BooleanField(primary_key=True, default=True)
    number = models.IntegerField()
    signatures = ArrayField(models.BinaryField())

    class Meta:
        db_table = "ledger_epoch"
        constraints = [models.CheckConstraint(condition=Q(one=True), name="epoch_is_one")]

    def __str__(self) -> str:
        return str(self.number)


class ProcessLease(models.Model):
    """Work that one process of the installation does at a time: its holder, and the time until which it holds unless
    renewed.

    By the clock of the database, so that a process that was killed holds nothing for longer than its lease. Across
    tenants, and no part of the record.
    """

    name = models.CharField(primary_key=True, max_length=32)
    holder = models.UUIDField()
    renewed_at = models.DateTimeField()
    expires_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.name


class WrongClock(models.Model):
    """A host of workers whose clock was wrong at its last check; by the clock of the database."""

    host = models.CharField(primary_key=True, max_length=255)
    ahead_s = models.FloatField()
    seen_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.host


class TaskRun(models.Model):
    """The last time that a host's workers ended a task, and how long it took; by the clock of the database."""

    pk = models.CompositePrimaryKey("task", "host")
    task = models.CharField(max_length=64)
    host = models.CharField(max_length=255)
    ended_at = models.DateTimeField()
    took_s = models.FloatField()

    def __str__(self) -> str:
        return f"{self.task} on {self.host}"


class Maintenance(models.Model):
    """A time in which no execution starts in any tenant; in force until it has ended."""

    id = models.UUIDField(primary_key=True)
    reason = models.CharField(max_length=1000)
    begun_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["ended_at"], nulls_distinct=False, name="maintenance_one_in_force")
        ]

    def __str__(self) -> str:
        return self.reason


class Export(models.Model):
    """A bundle that somebody asked for: what of the log, how far it is, and where the result is.

    `log`, `start` and `end` are fixed when the work begins (before, the log is 0); everything before `done` stands in
    pieces on disk.
    """

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    state = models.CharField(max_length=16)
    wanted = models.JSONField()
    event_id = models.UUIDField()
    requested_by = models.UUIDField()
    requester_kind = models.CharField(max_length=20)
    requested_at = models.DateTimeField()
    log = models.IntegerField(default=0)
    start = models.BigIntegerField(default=0)
    end = models.BigIntegerField(default=0)
    done = models.BigIntegerField(default=0)
    chunks = models.IntegerField(default=0)
    withheld = models.BigIntegerField(default=0)
    size = models.BigIntegerField(null=True)
    sha256 = models.CharField(max_length=64, default="")
    reason = models.CharField(max_length=1000, default="")
    finished_at = models.DateTimeField(null=True)
    expires_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [models.Index(fields=["tenant_id", "state", "id"], name="export_by_state")]

    def __str__(self) -> str:
        return f"{self.state} {self.id}"
