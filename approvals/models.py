"""Before the effect: agents, sessions, calls, approvals, executors, grants, attempts. Columns and constraints only."""

from __future__ import annotations

from datetime import timedelta

from django.db import models
from django.db.models import F, Q

from ledger.db import Row


class Agent(models.Model):
    """A registered agent; `actor_id` is how the record names it."""

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    agent_id = models.CharField(max_length=128)
    version = models.CharField(max_length=64)
    revoked_at = models.DateTimeField(null=True)
    # What is wrong with its calls now, by flag (`rules.acceptance`): since when, and the numbers that raised it.
    flags = models.JSONField(default=dict)
    # Who answers for it; they do not decide on what it asks for, unless the policy lets them.
    owner = models.UUIDField(null=True)
    # Sessions that were opened before this event of its record have ended: it registered the agent again after a
    # revocation.
    sessions_since = models.IntegerField(default=0, db_default=0)
    # For each tool that a registration took away or narrowed: by which events, and to which versions (null: to none).
    # Sessions from before such an event do not get it back (`rules.registry`).
    withdrawn = models.JSONField(default=dict, db_default={})

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant_id", "agent_id"], name="agent_id_is_unique")]

    def __str__(self) -> str:
        return self.agent_id


class AgentVersion(models.Model):
    """One registration of an agent, sealed by a keyed fingerprint (R-CR-05)."""

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    agent_id = models.CharField(max_length=128)
    version = models.CharField(max_length=64)
    tools = models.JSONField()
    # For some of the tools, the version or range of their contract that the agent is given.
    versions = models.JSONField(default=dict, db_default={})
    output_tags = models.JSONField(default=list)
    model_tier = models.CharField(max_length=64, default="")
    # It also has tools that change something and do not pass the console, as under a hook or beside a gateway.
    acts_elsewhere = models.BooleanField(default=False, db_default=False)
    registered_by = models.CharField(max_length=200)
    registered_at = models.DateTimeField()
    fingerprint = models.CharField(max_length=64)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant_id", "agent_id", "version"], name="agent_version_is_unique")
        ]

    def __str__(self) -> str:
        return f"{self.agent_id} {self.version}"


class Session(models.Model):
    """A session: the contract that was negotiated and the goal that was pinned. Neither changes afterwards."""

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    agent_id = models.CharField(max_length=128)
    agent_version = models.CharField(max_length=64)
    model_tier = models.CharField(max_length=64, default="")
    actor_id = models.UUIDField()
    key_actor = models.UUIDField()
    # On whose behalf the agent says that it acts.
    on_behalf_of = models.UUIDField(null=True)
    fingerprint = models.CharField(max_length=64)
    goal = models.TextField()
    pin_hash = models.CharField(max_length=64)
    pinned_at = models.DateTimeField()
    pin_expires_at = models.DateTimeField()
    contract = models.JSONField()
    run_id = models.CharField(max_length=128)
    # The first of the sessions that this one continues, whose calls keep their ids; none if it continues no other.
    first_id = models.UUIDField(null=True)
    iteration_limit = models.IntegerField(null=True)
    unwinds = models.BooleanField(default=False)
    calls_accepted = models.IntegerField(default=0)
    calls_refused = models.IntegerField(default=0)
    # The newest event of its agent's record when it was opened.
    agent_seq = models.IntegerField(db_default=0)
    # When the agent last used it, by a call or otherwise; a pin that nobody uses expires (`rules.pins`).
    used_at = models.DateTimeField(null=True)
    # Of the refused calls: for tools that it was not shown, and with a restated goal that had drifted.
    undisclosed_attempts = models.IntegerField(db_default=0)
    drifts = models.IntegerField(db_default=0)
    closed_at = models.DateTimeField(null=True)
    # Since when the run takes no more calls, because it reached its limit.
    forced_at = models.DateTimeField(null=True)
    # Digests of the tool names that it called and was never given, and since when there are so many that it is flagged.
    probed = models.JSONField(default=list)
    probing_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["tenant_id", "agent_id", "id"], name="session_by_agent"),
            models.Index(
                fields=["tenant_id", "run_id"], condition=Q(forced_at__isnull=False), name="session_forced_out"
            ),
            models.Index(
                fields=["tenant_id", "first_id"], condition=Q(first_id__isnull=False), name="session_by_first"
            ),
        ]

    def __str__(self) -> str:
        return str(self.id)


class Call(Row):
    """The gate record of one call, accepted or refused. Append-only (R-TG-04, R-TG-11)."""

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    session_id = models.UUIDField()
    agent_id = models.CharField(max_length=128)
    call_id = models.CharField(max_length=128)
    tool = models.CharField(max_length=200)
    accepted = models.BooleanField()
    code = models.CharField(max_length=40)
    category = models.CharField(max_length=40)
    reason = models.TextField()
    request_hash = models.CharField(max_length=64)
    restated_goal = models.TextField(blank=True)
    # How many tools the session was shown, and on which tier its model runs (R-MC-16).
    disclosed = models.IntegerField()
    model_tier = models.CharField(max_length=64, default="")
    # Which of the seven layers refused it, and under which version of the autonomy boundary it was judged.
    layer = models.CharField(max_length=16, default="")
    autonomy_version = models.CharField(max_length=64, default="")
    action_id = models.UUIDField(null=True)
    result = models.JSONField()
    at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["tenant_id", "session_id", "call_id"], condition=~Q(call_id=""), name="call_id_is_unique"
            )
        ]
        indexes = [
            models.Index(fields=["tenant_id", "session_id", "id"], name="call_by_session"),
            models.Index(fields=["tenant_id", "agent_id", "id"], name="call_by_agent"),
            models.Index(fields=["tenant_id", "code", "id"], condition=Q(accepted=False), name="call_refused"),
        ]

    def __str__(self) -> str:
        return f"{self.tool} {self.code}"


class Spending(models.Model):
    """The use of one budget by one agent or session, since the hour or day that it counts from."""

    pk = models.CompositePrimaryKey("tenant_id", "holder", "budget", "unit", "window_from")
    tenant_id = models.UUIDField()
    holder = models.CharField(max_length=140)
    budget = models.CharField(max_length=64)
    unit = models.CharField(max_length=16)
    window_from = models.DateTimeField()
    used = models.BigIntegerField()

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(used__gte=0), name="spending_is_no_income")]

    def __str__(self) -> str:
        return f"{self.budget} {self.holder}"


class Approval(Row):
    """The request to people for one action."""

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    action_id = models.UUIDField()
    state = models.CharField(max_length=16)
    payload_hash = models.CharField(max_length=64)
    rendering_digest = models.CharField(max_length=64)
    contract_digest = models.CharField(max_length=64)
    policy_digest = models.CharField(max_length=64)
    policy_version = models.CharField(max_length=64)
    policy_row = models.CharField(max_length=200)
    step_up = models.CharField(max_length=1)
    requester = models.UUIDField()
    requested_at = models.DateTimeField()
    decide_by = models.DateTimeField()
    release_by = models.DateTimeField(null=True)
    decided_at = models.DateTimeField(null=True)
    # What the policy asked for, frozen at the request: thresholds, independence, step-up (`quorum.ApprovalTerms`).
    terms = models.JSONField(default=dict)
    risk = models.CharField(max_length=8, default="NORMAL")
    baseline_digest = models.CharField(max_length=64, default="")
    baseline_pointer = models.UUIDField(null=True)
    preflight_digest = models.CharField(max_length=64, default="")
    claimed_by = models.UUIDField(null=True)
    claimed_until = models.DateTimeField(null=True)
    assigned_to = models.UUIDField(null=True)
    reminded_at = models.DateTimeField(null=True)
    escalated_at = models.DateTimeField(null=True)
    # Since when its deadlines stand still.
    paused_at = models.DateTimeField(null=True)
    # Who edited the action that this one supersedes.
    editor = models.UUIDField(null=True)
    emergency = models.BooleanField(default=False)
    # Under which standing approval it passed, so that nobody was asked.
    standing_id = models.UUIDField(null=True)
    # Since when there are not enough people who could decide it.
    stranded_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["tenant_id", "action_id"],
                condition=Q(state__in=["PREPARING", "REQUESTED", "APPROVED"]),
                name="approval_one_live_per_action",
            )
        ]
        indexes = [
            models.Index(fields=["tenant_id", "state", "decide_by"], name="approval_inbox"),
            models.Index(
                fields=["tenant_id", "id"], condition=Q(state__in=["REQUESTED", "APPROVED"]), name="approval_live"
            ),
            models.Index(fields=["tenant_id", "action_id", "id"], name="approval_by_action"),
        ]

    def __str__(self) -> str:
        return f"{self.state} {self.id}"


class Vote(Row):
    """One person's signed answer. Append-only."""

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    approval_id = models.UUIDField()
    voter = models.UUIDField()
    verdict = models.CharField(max_length=16)
    evidence_class = models.CharField(max_length=1)
    statement = models.BinaryField()
    statement_hash = models.CharField(max_length=64)
    reason = models.TextField()
    at = models.DateTimeField()
    # The human behind the account, and the groups that the vote counts for.
    person_id = models.UUIDField(null=True)
    groups = models.JSONField(default=list)
    delegated_by = models.UUIDField(null=True)
    credential_id = models.TextField(default="")
    # The raw WebAuthn assertion of a class A vote, as canonical JSON.
    assertion = models.BinaryField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant_id", "approval_id", "voter"], name="vote_once")]

    def __str__(self) -> str:
        return f"{self.verdict} {self.id}"


class Approver(models.Model):
    """A person who may decide: the roster, maintained with the memberships. `person_id` is the human behind the
    account.
    """

    pk = models.CompositePrimaryKey("tenant_id", "actor_id")
    tenant_id = models.UUIDField()
    actor_id = models.UUIDField()
    person_id = models.UUIDField()
    groups = models.JSONField(default=list)
    active = models.BooleanField(default=True)
    since = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [models.Index(fields=["tenant_id", "person_id"], name="approver_by_person")]

    def __str__(self) -> str:
        return str(self.actor_id)


class ApproverKey(models.Model):
    """A passkey that signs votes: enrolled by one person, confirmed by another."""

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    actor_id = models.UUIDField()
    person_id = models.UUIDField()
    credential_id = models.TextField()
    public_key = models.BinaryField()
    aaguid = models.UUIDField()
    name = models.CharField(max_length=100)
    backup_eligible = models.BooleanField()
    sign_count = models.BigIntegerField(default=0)
    state = models.CharField(max_length=10)
    registration = models.BinaryField()
    proposed_by = models.UUIDField()
    confirmed_by = models.UUIDField(null=True)
    created_at = models.DateTimeField()
    decided_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant_id", "credential_id"], name="approver_key_is_unique"),
            models.CheckConstraint(
                condition=Q(state__in=["PENDING", "ACTIVE", "SUSPENDED", "REFUSED", "REMOVED"]),
                name="approver_key_state_is_known",
            ),
            models.CheckConstraint(
                condition=~Q(state="ACTIVE") | (Q(confirmed_by__isnull=False) & ~Q(confirmed_by=F("actor_id"))),
                name="approver_key_takes_two",
            ),
        ]
        indexes = [models.Index(fields=["tenant_id", "actor_id"], name="approver_key_by_actor")]

    def __str__(self) -> str:
        return f"{self.state} {self.name}"


class Challenge(models.Model):
    """A statement that somebody was given to sign; it is answered once, soon, in the session that asked.

    `approval_id` names what it is about: an approval, or the case that it settles.
    """

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    approval_id = models.UUIDField()
    actor_id = models.UUIDField()
    session_hash = models.CharField(max_length=64)
    verdict = models.CharField(max_length=16)
    reason = models.TextField()
    statement = models.BinaryField()
    statement_hash = models.CharField(max_length=64)
    # With what the statement commits to the reason.
    salt = models.BinaryField(default=bytes)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    consumed_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [models.Index(fields=["tenant_id", "approval_id"], name="challenge_by_approval")]

    def __str__(self) -> str:
        return self.statement_hash


class Delegation(models.Model):
    """One person's power to decide, lent to another for a while; it cannot be lent on."""

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    from_actor = models.UUIDField()
    to_actor = models.UUIDField()
    groups = models.JSONField(default=list)
    tools = models.JSONField(default=list)
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    reason = models.CharField(max_length=500)
    created_by = models.UUIDField()
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(starts_at__lt=F("ends_at")), name="delegation_is_bounded"),
            models.CheckConstraint(condition=~Q(from_actor=F("to_actor")), name="delegation_is_to_another"),
        ]
        indexes = [models.Index(fields=["tenant_id", "to_actor", "ends_at"], name="delegation_by_receiver")]

    def __str__(self) -> str:
        return f"{self.from_actor} to {self.to_actor}"


class Absence(models.Model):
    """A period in which a person is away."""

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    actor_id = models.UUIDField()
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(starts_at__lt=F("ends_at")), name="absence_is_bounded")]
        indexes = [models.Index(fields=["tenant_id", "actor_id", "ends_at"], name="absence_by_actor")]

    def __str__(self) -> str:
        return str(self.actor_id)


class Comment(models.Model):
    """One entry of an approval's thread: a comment, a question to the agent, or its answer. Append-only."""

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    approval_id = models.UUIDField()
    author = models.UUIDField()
    author_kind = models.CharField(max_length=8)
    kind = models.CharField(max_length=8)
    text = models.TextField()
    mentions = models.JSONField(default=list)
    answers = models.UUIDField(null=True)
    at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(kind__in=["comment", "question", "answer"]), name="comment_kind_is_known"
            ),
            models.UniqueConstraint(
                fields=["tenant_id", "answers"], condition=Q(answers__isnull=False), name="question_is_answered_once"
            ),
        ]
        indexes = [models.Index(fields=["tenant_id", "approval_id", "id"], name="comment_by_approval")]

    def __str__(self) -> str:
        return f"{self.kind} {self.id}"


class BreakGlassUse(models.Model):
    """One use of break-glass: an approval given by one person alone, and the review that must follow."""

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    action_id = models.UUIDField()
    approval_id = models.UUIDField()
    used_by = models.UUIDField()
    reason = models.TextField()
    used_at = models.DateTimeField()
    review_by = models.DateTimeField()
    reviews = models.JSONField(default=list)
    reviewed_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "approvals_emergency"
        constraints = [models.UniqueConstraint(fields=["tenant_id", "approval_id"], name="emergency_once_per_approval")]
        indexes = [
            models.Index(
                fields=["tenant_id", "review_by"], condition=Q(reviewed_at__isnull=True), name="emergency_unreviewed"
            )
        ]

    def __str__(self) -> str:
        return str(self.id)


class StandingApproval(models.Model):
    """A standing approval: actions of one exact shape pass without a vote each, within a budget, until a date.

    The terms that two persons agreed to never change (`sql/standing.sql`); the database counts how much is used. One
    that `is_time_boxed` is given by one person, for an hour at most.
    """

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    state = models.CharField(max_length=10)
    agent = models.CharField(max_length=128)
    tool = models.CharField(max_length=128)
    target_kind = models.CharField(max_length=512)
    currency = models.CharField(max_length=3, blank=True)
    # Exactly which calls (`standing.rules.shapes.Shape`), and what names it.
    shape = models.JSONField()
    shape_digest = models.CharField(max_length=64)
    max_count = models.IntegerField()
    max_minor = models.BigIntegerField(null=True)
    ends_at = models.DateTimeField()
    # The actions by which it was earned, newest first, and how many people had approved them.
    evidence = models.JSONField()
    approvers = models.IntegerField()
    # The digests of the policies under which people agreed, by kind.
    policies = models.JSONField()
    reason = models.TextField()
    proposed_by = models.UUIDField()
    proposed_person = models.UUIDField()
    proposed_at = models.DateTimeField()
    answered_by = models.UUIDField(null=True)
    answered_person = models.UUIDField(null=True)
    answered_at = models.DateTimeField(null=True)
    used_count = models.IntegerField(default=0)
    used_minor = models.BigIntegerField(default=0)
    paused_at = models.DateTimeField(null=True)
    pause_reason = models.CharField(max_length=12, blank=True)
    pause_action = models.UUIDField(null=True)
    case_id = models.UUIDField(null=True)
    ended_at = models.DateTimeField(null=True)
    ended_because = models.CharField(max_length=8, blank=True)
    is_time_boxed = models.BooleanField(default=False, db_default=False)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=["PROPOSED", "ACTIVE", "PAUSED", "DECLINED", "ENDED"]),
                name="standing_state_is_known",
            ),
            models.CheckConstraint(
                condition=~Q(state="ACTIVE")
                | Q(is_time_boxed=True)
                | (
                    Q(answered_by__isnull=False, answered_person__isnull=False)
                    & ~Q(answered_by=F("proposed_by"))
                    & ~Q(answered_person=F("proposed_person"))
                ),
                name="standing_takes_two_persons",
            ),
            models.CheckConstraint(
                condition=Q(is_time_boxed=False)
                | (
                    Q(state__in=["ACTIVE", "PAUSED", "ENDED"], max_count__gte=1, ends_at__gt=F("proposed_at"))
                    & Q(ends_at__lte=F("proposed_at") + timedelta(hours=1))
                    & Q(answered_by__isnull=True, answered_person__isnull=True, answered_at__isnull=True)
                ),
                name="standing_time_box_is_bounded",
            ),
            models.CheckConstraint(
                condition=Q(used_count__gte=0, used_count__lte=F("max_count"), used_minor__gte=0)
                & (Q(max_minor__isnull=True) | Q(used_minor__lte=F("max_minor"))),
                name="standing_within_budget",
            ),
            models.UniqueConstraint(
                fields=["tenant_id", "agent", "tool", "target_kind", "currency"],
                condition=Q(state__in=["PROPOSED", "ACTIVE", "PAUSED"]),
                name="standing_one_live_per_scope",
            ),
        ]
        indexes = [models.Index(fields=["tenant_id", "state", "id"], name="standing_by_state")]

    def __str__(self) -> str:
        return f"{self.state} {self.agent} {self.tool}"


class StandingPass(models.Model):
    """One action that passed under a standing approval. Append-only; the database checks that there is room for it."""

    pk = models.CompositePrimaryKey("tenant_id", "standing_id", "number")
    tenant_id = models.UUIDField()
    standing_id = models.UUIDField()
    number = models.IntegerField()
    action_id = models.UUIDField()
    approval_id = models.UUIDField()
    minor = models.BigIntegerField(default=0)
    at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant_id", "approval_id"], name="standing_pass_once_per_approval"),
            models.CheckConstraint(condition=Q(minor__gte=0), name="standing_pass_costs"),
        ]
        indexes = [models.Index(fields=["tenant_id", "action_id"], name="standing_pass_by_action")]

    def __str__(self) -> str:
        return f"{self.standing_id} #{self.number}"


class Executor(models.Model):
    """A registered executor and the public key that its grants are bound to."""

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    executor_id = models.CharField(max_length=128)
    key_actor = models.UUIDField()
    public_jwk = models.JSONField()
    thumbprint = models.CharField(max_length=64)
    tools = models.JSONField()
    registered_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant_id", "executor_id"], name="executor_id_is_unique")]

    def __str__(self) -> str:
        return self.executor_id


class StartOverride(models.Model):
    """A person's decision that actions of these tools start until `ends_at`, although the record is older than a head
    seen before.

    `log_id` is the subject of the log that was current then, on which it is recorded.
    """

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    log_id = models.UUIDField()
    tools = models.JSONField()
    reason = models.CharField(max_length=1000)
    placed_by = models.UUIDField()
    placed_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [models.Index(fields=["tenant_id", "ends_at"], name="start_override_by_end")]

    def __str__(self) -> str:
        return f"{', '.join(self.tools)} until {self.ends_at}"


class GrantKeyChange(models.Model):
    """A change of the keys that sign grants: one was introduced and signs from `at` on, or was retired at that time.

    A key that was introduced is in `sealed`, under the data key `key_id`. Append-only, and across tenants.
    """

    number = models.IntegerField(primary_key=True)
    id = models.UUIDField(unique=True)
    kid = models.CharField(max_length=64)
    kind = models.CharField(max_length=10)
    at = models.DateTimeField()
    key_id = models.UUIDField(null=True)
    sealed = models.BinaryField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["kid", "kind"], name="grant_key_changes_once"),
            models.CheckConstraint(
                condition=Q(kind="introduced", key_id__isnull=False, sealed__isnull=False)
                | Q(kind="retired", key_id__isnull=True, sealed__isnull=True),
                name="grant_key_is_sealed",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kid} {self.kind}"


class Grant(Row):
    """One minted grant: the order it reserves, until it is consumed, voided or runs out."""

    pk = models.CompositePrimaryKey("tenant_id", "jti")
    tenant_id = models.UUIDField()
    jti = models.UUIDField()
    action_id = models.UUIDField()
    executor_id = models.CharField(max_length=128)
    token_hash = models.CharField(max_length=64)
    attempt = models.IntegerField()
    minted_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    consumed_at = models.DateTimeField(null=True)
    voided_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(consumed_at__isnull=True) | Q(voided_at__isnull=True), name="grant_ends_one_way"
            )
        ]
        indexes = [models.Index(fields=["tenant_id", "action_id", "attempt"], name="grant_by_action")]

    def __str__(self) -> str:
        return str(self.jti)


class Attempt(Row):
    """One start of an execution: the redemption of one grant, and its lease."""

    pk = models.CompositePrimaryKey("tenant_id", "action_id", "number")
    tenant_id = models.UUIDField()
    action_id = models.UUIDField()
    number = models.IntegerField()
    jti = models.UUIDField()
    executor_id = models.CharField(max_length=128)
    wrapper_version = models.CharField(max_length=64)
    started_at = models.DateTimeField()
    timeout_s = models.IntegerField()
    lease_expires_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant_id", "jti"], name="attempt_one_per_grant"),
            models.CheckConstraint(condition=Q(lease_expires_at__lte=F("ends_at")), name="attempt_lease_is_bounded"),
        ]

    def __str__(self) -> str:
        return f"{self.action_id} #{self.number}"


class Deadline(Row):
    """A check that is due at a certain time: of leases, approvals and stopped agents.

    Ids only, outside row-level security.
    """

    pk = models.CompositePrimaryKey("tenant_id", "subject_id", "what")
    tenant_id = models.UUIDField()
    subject_id = models.UUIDField()
    what = models.CharField(max_length=10)
    due_at = models.DateTimeField()

    class Meta:
        db_table = "approvals_due"
        indexes = [models.Index(fields=["due_at"], name="due_by_time")]

    def __str__(self) -> str:
        return f"{self.what} {self.subject_id}"


class ApprovalDisplay(models.Model):
    """One display of an approval to one person: when it was served, and what the page reported.

    Not part of the record: it says nothing about what was approved, and is kept as long as its own retention says.
    """

    pk = models.CompositePrimaryKey("tenant_id", "approval_id", "actor_id")
    tenant_id = models.UUIDField()
    approval_id = models.UUIDField()
    actor_id = models.UUIDField()
    payload_bytes = models.IntegerField()
    served_at = models.DateTimeField()
    visible_s = models.FloatField(null=True)
    opened = models.JSONField(null=True)
    reported_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "approvals_attention"
        indexes = [models.Index(fields=["tenant_id", "served_at"], name="attention_by_age")]

    def __str__(self) -> str:
        return str(self.approval_id)


class ModelUsage(models.Model):
    """Calls of a model as an agent reported them for its session; nothing checks them. Append-only.

    What was not reported is null. `reference` is the agent's or the provider's own name of them.
    """

    pk = models.CompositePrimaryKey("tenant_id", "id")
    tenant_id = models.UUIDField()
    id = models.UUIDField()
    session_id = models.UUIDField()
    agent_id = models.CharField(max_length=128)
    model = models.CharField(max_length=128)
    calls = models.IntegerField()
    input_tokens = models.BigIntegerField(null=True)
    output_tokens = models.BigIntegerField(null=True)
    reference = models.CharField(max_length=128)
    at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.calls} of {self.model}"
