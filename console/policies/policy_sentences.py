"""A version of a policy in plain sentences, each from the same parsed document that decides.

Whatever a document leaves out is stated with its default value, so that readers need not know the defaults.
Pure: no clock, no database.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from approvals.policy.rules import autonomy, policy
from approvals.policy.rules.autonomy import AutonomyPolicy, Budget, Exclusion, Scope
from approvals.policy.rules.policy import ApprovalPolicy, PolicyRule, Requirements
from approvals.policy.rules.policy_analysis import analyse_rules
from approvals.sessions.rules.pins import duration
from approvals.standing.rules.standing import TimeBoxPolicy
from approvals.voting.rules.break_glass import RELEASE_WITHIN
from approvals.voting.rules.quorum import ONE_REVIEWER, Risk, Threshold
from console.policies.conditions import condition_sentence
from console.web import labels
from ledger.catalogue.rules import policies
from ledger.catalogue.rules.effects import UPPER_CLASSES, SideEffectClass
from ledger.catalogue.rules.money import format_money
from ledger.record.rules.canonical import parse
from ledger.record.rules.record_schemas import BUILT_IN
from reviews.recovery.rules import recovery_table
from reviews.recovery.rules.recovery_table import RecoveryRow

KIND_NAMES: dict[str, str] = {
    "approval": "Approval policy",
    "autonomy": "Autonomy policy",
    "verification": "Verification policy",
    "recovery": "Recovery policy",
}
"""What each kind is called, in the order of the page."""

KIND_QUESTIONS: dict[str, str] = {
    "approval": "which calls need approval, by whom and by when",
    "autonomy": "what an agent may propose, and how much",
    "verification": "how and for how long systems of record are read back",
    "recovery": "what follows each finding, and what needs a person",
}


@dataclass(frozen=True)
class PolicyTopic:
    """One topic of a policy, in sentences; `ordered` if the first match counts."""

    heading: str
    sentences: tuple[str, ...]
    ordered: bool = False


def policy_topics(kind: str, document: bytes) -> tuple[PolicyTopic, ...]:
    """The topics of a stored version, from its bytes."""
    if kind == "approval":
        return _approval_topics(policy.load_stored(document))
    if kind == "autonomy":
        return _autonomy_topics(autonomy.load_stored(document))
    return _verification_topics(parse(document)) if kind == "verification" else _recovery_topics(document)


# Approval


_FINDING_WORDS = {
    "NEVER": " never applies.",
    "UNCLEAR_ONLY": " applies only if its condition cannot be evaluated.",
    "ALWAYS": " always matches.",
}


def finding_sentences(kind: str, document: bytes) -> tuple[str, ...]:
    """The findings on the rules of a version: only approval policies have rules of this kind."""
    found = analyse_rules(policy.load_stored(document)) if kind == "approval" else ()
    return tuple(f"“{each.rule}”{_FINDING_WORDS[each.code]} {each.text}" for each in found)


_ALSO_BARRED = {
    "agent_owner": "the owner of the agent",
    "delegator": "the person for whom the agent acts",
    "editor": "the person who edited the call",
    "policy_author": "the person who drafted or promoted this version",
}
_DAY_NAMES = {
    "mon": "Monday",
    "tue": "Tuesday",
    "wed": "Wednesday",
    "thu": "Thursday",
    "fri": "Friday",
    "sat": "Saturday",
    "sun": "Sunday",
}


def _approval_topics(policy: ApprovalPolicy) -> tuple[PolicyTopic, ...]:
    rules = tuple(map(_rule_sentence, policy.rules))
    return (
        PolicyTopic("Always requires approval", _always_asked(policy)),
        PolicyTopic(
            "Rules, in order",
            rules or ("There are no rules: no other call requires approval.",),
            bool(rules),
        ),
        PolicyTopic("Who decides", _who_decides(policy)),
        PolicyTopic("Vote signatures", _signatures(policy)),
        PolicyTopic("Deadlines", _deadlines(policy)),
        PolicyTopic("When this policy changes", (_on_change(policy),)),
        PolicyTopic("Standing approvals", _standing(policy)),
        PolicyTopic("Break-glass", _break_glass(policy)),
        PolicyTopic("Privacy", _privacy(policy)),
    )


def _always_asked(policy: ApprovalPolicy) -> tuple[str, ...]:
    upper = _or(sorted((_class_name(each) for each in UPPER_CLASSES), reverse=True))
    names = {"side_effect_class": "class", "effect_domain": "domain", "tool": "tool"}
    asked = [
        " and whose ".join(_condition_text(names[name], name, value) for name, value in each.items())
        for each in policy.require
    ]
    return (
        "Approval is required for every critical mutation, and for every change that cannot be undone.",
        f"Approval is required where the contract requires it, and for calls of class {upper} that cannot be"
        " read back.",
        *(f"Approval is required for every call whose {each}." for each in asked),
    )


def _condition_text(word: str, name: str, value: str) -> str:
    return f"{word} is {_class_name(value) if name == 'side_effect_class' else value}"


def _rule_sentence(rule: PolicyRule) -> str:
    begin = f"“{rule.name}”: " + (f"if {condition_sentence(rule.when.text)}, " if rule.when else "for every call, ")
    unclear = " If that cannot be evaluated, approval is required." if rule.when else ""
    if rule.outcome == "refuse":
        said = rule.reason or "The policy does not let this call run, whoever would approve it."
        return f"{begin}the call is refused, whatever the order of the rules; the agent reads “{said}”{unclear}"
    if rule.outcome == "auto":
        return f"{begin}later rules that require approval do not apply.{unclear}"
    wanted = _demands(rule.demands)
    return f"{begin}approval is required{f': {_and(wanted)}' if wanted else ''}.{unclear}"


def _demands(wanted: Requirements) -> list[str]:
    """Return the requirements of a rule beyond the policy itself."""
    said = [
        f"{_count_text(each.count, 'approval')} from the group {each.group}{_denials(each)}"
        for each in wanted.thresholds
    ]
    barred = [words for name, words in _ALSO_BARRED.items() if name in wanted.independence]
    said += [f"{_or(barred)} may not vote"] if barred else []
    said += [f"votes are signed by {_signature(wanted.step_up)}"] if wanted.step_up else []
    said += [f"the deadline is at most {exact_duration(wanted.decide_within_s)}"] if wanted.decide_within_s else []
    if wanted.release_within_s:
        said.append(f"execution must start within {exact_duration(wanted.release_within_s)}")
    said += [_hours(each.document()) for each in wanted.hours]
    said += ["execution waits until the vote is sealed in the log"] if wanted.wait_for_seal else []
    return said + ([f"it counts as {labels.RISKS[wanted.risk].lower()}"] if wanted.risk is not Risk.LOW else [])


def _denials(each: Threshold) -> str:
    return "" if each.deny == 1 else f" ({each.deny} votes against end the request)"


def _who_decides(policy: ApprovalPolicy) -> tuple[str, ...]:
    wanted = policy.demands.thresholds
    silent = not wanted and any(rule.demands.thresholds for rule in policy.rules)
    said = [
        f"{'Unless a rule says otherwise, the' if silent else 'The'} group {each.group} must give"
        f" {_count_text(each.count, 'approval')}; {_count_text(each.deny, 'vote')} against from it"
        f" {'ends' if each.deny == 1 else 'end'} the request."
        for each in wanted or ONE_REVIEWER
    ]
    said += ["All of these groups must approve."] if len(wanted) > 1 else []
    barred = [words for name, words in _ALSO_BARRED.items() if name in policy.demands.independence]
    said.append(f"Nobody may decide on their own request{f', nor may {_or(barred)}' if barred else ''}.")
    if policy.batch.most > 1:
        classes = _or(_class_name(each) for each in SideEffectClass if each in policy.batch.side_effect_classes)
        said.append(
            f"Up to {policy.batch.most} requests of class {classes} may be decided together if they are low risk,"
            " can be undone and need no passkey."
        )
    else:
        said.append("Requests are decided one at a time.")
    if policy.limits.waiting_per_agent:
        said.append(
            f"An agent may have at most {policy.limits.waiting_per_agent} pending requests; further calls are refused."
        )
    if policy.limits.votes_per_minute:
        said.append(f"A person may cast at most {policy.limits.votes_per_minute} votes a minute.")
    if policy.min_dwell_s:
        least = exact_duration(policy.min_dwell_s)
        said.append(
            f"A high-risk request can be approved no earlier than {least} after it was first shown to the voter."
        )
    return tuple(said)


def _signatures(policy: ApprovalPolicy) -> tuple[str, ...]:
    by_risk = [(risk, policy.step_up_by_risk[risk]) for risk in Risk if risk in policy.step_up_by_risk]
    raised = [f"For {labels.RISKS[risk].lower()}: {_signature(level)}, if that is stronger." for risk, level in by_risk]
    return (
        f"A vote to approve is signed by {_signature(policy.demands.step_up or policy.step_up)}.",
        *raised,
        "A vote against needs only the session.",
    )


def _signature(level: str) -> str:
    return f"{labels.SIGNATURES[level]} (class {level}){'' if level == 'A' else ' or stronger'}"


def _deadlines(policy: ApprovalPolicy) -> tuple[str, ...]:
    said = [
        f"A request expires if it is not decided within {exact_duration(policy.decide_within_s)}, unless its contract"
        " sets another deadline.",
        f"An approved action must start within {exact_duration(policy.release_within_s)}.",
        f"The grant for a start is valid for {exact_duration(policy.grant_life_s)},"
        " and never longer than the approval.",
    ]
    said += [f"{_sentence(_hours(each.document()))}." for each in policy.demands.hours]
    if policy.demands.wait_for_seal:
        said.append("Execution waits until the vote is sealed in the log.")
    else:
        said.append("Actions that can be undone start without waiting until the vote is sealed in the log.")
    if policy.remind_before_s:
        said.append(f"Reviewers are reminded {exact_duration(policy.remind_before_s)} before the deadline.")
    if policy.escalate_after_s:
        said.append(f"After {exact_duration(policy.escalate_after_s)} the group {policy.escalate_to} is notified, too.")
    pause = exact_duration(policy.question_pause_s)
    return (*said, f"The deadline is paused while the agent has a question to answer, for at most {pause} in total.")


def _hours(hours: Mapping[str, Any]) -> str:
    days = (
        "every day" if len(hours["days"]) == len(_DAY_NAMES) else f"on {_and(_DAY_NAMES[day] for day in hours['days'])}"
    )
    return f"actions may start only {days} from {hours['from']} to {hours['to']} ({hours['zone']})"


def _on_change(policy: ApprovalPolicy) -> str:
    if policy.on_change == "void":
        return (
            "A new version ends every action that waits for approval or for its start; its agent may propose it again."
        )
    return "A new version voids open approvals, and approval is requested again."


def _standing(policy: ApprovalPolicy) -> tuple[str, ...]:
    rule = policy.standing
    if rule is None:
        return ("They are disabled: each call that requires approval is decided individually.",)
    irreversible = (
        "They may cover actions that cannot be undone."
        if rule.irreversible
        else "They never cover actions that cannot be undone; each of those requires approval."
    )
    named = _or(sorted(f"“{each}”" for each in rule.always_ask))
    return (
        f"Two people may agree to one after {rule.after} verified approvals of one shape in a row; it covers at most"
        f" {_count_text(rule.most_passes, 'action', 'actions')} in {_count_text(rule.most_days, 'day', 'days')}.",
        irreversible,
        *((f"Approval is always required for {named}.",) if named else ()),
        _time_boxes(rule.time_boxes),
    )


def _time_boxes(rule: TimeBoxPolicy | None) -> str:
    if rule is None:
        return "Nobody may let calls through alone for a while: there are no time-boxed passes."
    return (
        "One person whose vote would be enough may let calls of one shape pass without a vote each, for at most"
        f" {_count_text(rule.most_minutes, 'minute', 'minutes')} and {_count_text(rule.most_count, 'call', 'calls')}."
    )


def _break_glass(policy: ApprovalPolicy) -> tuple[str, ...]:
    rule = policy.break_glass
    if not rule.enabled:
        return ("It is disabled: nobody can approve alone in an emergency.",)
    groups = f" of the group {_or(sorted(rule.groups))}" if rule.groups else ""
    return (
        f"In an emergency one operator{groups} may approve alone, signed by {_signature(rule.step_up)}.",
        f"Execution must start within {exact_duration(int(RELEASE_WITHIN.total_seconds()))}, and"
        f" {_count_text(rule.reviewers, 'other person', 'other people')} must review it within"
        f" {exact_duration(rule.review_within_s)}.",
    )


def _privacy(policy: ApprovalPolicy) -> tuple[str, ...]:
    told = (
        "Agents can read the reasons that reviewers give."
        if policy.reasons_to_agents
        else "Agents cannot read the reasons that reviewers give."
    )
    quality = {
        "off": "No figures about reviewers are kept.",
        "team": "Figures about reviewers do not name anyone.",
        "person": "A person's figures are shown to administrators and to that person.",
    }
    return (told, quality[policy.reviewer_quality])


# Autonomy


def _autonomy_topics(known: AutonomyPolicy) -> tuple[PolicyTopic, ...]:
    watch = known.watch
    return (
        PolicyTopic(
            "What an agent may propose",
            (
                "An agent may call only the tools that were disclosed to its session.",
                *map(_outside_sentence, known.outside),
            ),
        ),
        PolicyTopic("Budgets", tuple(map(_budget_sentence, known.budgets)) or ("There are no budgets.",)),
        PolicyTopic(
            "When a session ends",
            (
                f"A session in which the agent did nothing for {duration(known.quiet)} is over, and so is its goal;"
                " what was accepted in it goes on.",
            ),
        ),
        PolicyTopic(
            "When an agent is flagged",
            (
                f"Low acceptance: less than {watch.acceptance_floor_pct} % of at least {watch.least_calls} calls"
                f" accepted within {exact_duration(watch.window_h * 3600)}.",
                f"Probing: one session called {watch.probing_names} or more different tools that were not disclosed to"
                " it.",
            ),
        ),
    )


def _outside_sentence(entry: Exclusion) -> str:
    where = f" if {condition_sentence(entry.when.text)} or if that cannot be evaluated" if entry.when else ""
    said = entry.reason or "The call lies outside the boundary."
    return f"“{entry.name}”: {_scope_text(entry.scope)} are refused{where}; the agent reads “{said}”"


def _scope_text(scope: Scope) -> str:
    parts = [
        f" of {_or(sorted(scope.tools))}" if scope.tools else "",
        f" of class {_or(_class_name(each) for each in SideEffectClass if each in scope.classes)}"
        if scope.classes
        else "",
        f" by {_or(sorted(scope.agents))}" if scope.agents else "",
    ]
    return f"calls{''.join(parts)}" if any(parts) else "all calls"


def _budget_sentence(budget: Budget) -> str:
    each = "per session" if budget.per == "session" else f"per agent and {budget.within} (UTC)"
    most = [_count_text(budget.calls, "call")] if budget.calls is not None else []
    most += [_count_text(budget.readings, "verification read")] if budget.readings is not None else []
    if budget.money is not None:
        sums = _and(format_money(amount, code) for code, amount in sorted(budget.money.most.items()))
        most.append(f"{sums} in {budget.money.amount} (no other currency)")
    return f"“{budget.name}”: {each}, at most {_and(most)}; counts {_scope_text(budget.scope)}."


# Verification


def _verification_topics(document: Mapping[str, Any]) -> tuple[PolicyTopic, ...]:
    numbers = policies.verification_numbers(document)
    given = policies.default_policy("verification") | dict(document)
    wait = (
        f"each wait is about {numbers.backoff} times the previous one"
        if numbers.backoff > 1
        else "the waits stay about the same"
    )
    return (
        PolicyTopic(
            "When the system of record is read",
            (
                f"First {exact_duration(numbers.first_after_s)} after the executor's report; {wait}, and none is"
                f" much longer than {exact_duration(numbers.max_interval_s)}. A contract may set other times.",
                f"If {_count_text(numbers.repeat_limit, 'reading')} could not settle a doubt, a person decides.",
            ),
        ),
        PolicyTopic(
            "Time limit for a verdict, by class",
            tuple(f"{_class_name(kind)}: {exact_duration(numbers.sla_s[kind])}." for kind in SideEffectClass),
        ),
        PolicyTopic(
            "Executors and keys",
            (
                f"An executor that does not respond for {exact_duration(given['lease_s'])} loses its attempt.",
                f"An idempotency record that stays open expires after {exact_duration(given['idempotency_ttl_s'])}.",
            ),
        ),
        PolicyTopic("When irreversible actions on a system are paused", _release_stops(document)),
        PolicyTopic("Read limits", _reading_costs(document)),
        PolicyTopic("Schemas of the record", _record_schemas(document)),
        PolicyTopic("Agent messages", _messages(document)),
    )


def _release_stops(document: Mapping[str, Any]) -> tuple[str, ...]:
    stop = policies.release_stop_rule(document)
    said = ["While its circuit is open."] if stop.open_circuit else []
    said += [f"While {stop.waiting} or more actions wait for a verdict."] if stop.waiting is not None else []
    said += (
        [f"While an action has waited {exact_duration(stop.oldest_s)} for its verdict."]
        if stop.oldest_s is not None
        else []
    )
    return (*said, "While a person has paused them, whatever this policy says.")


def _record_schemas(document: Mapping[str, Any]) -> tuple[str, ...]:
    named = {**BUILT_IN, **document.get("schemas", {})}
    return tuple(
        f"{words} are written under version {named[name]['version']}, SHA-256 {named[name]['digest']}."
        for name, words in (("ledger_entry", "Ledger entries"), ("observation", "Observations"))
    )


def _reading_costs(document: Mapping[str, Any]) -> tuple[str, ...]:
    budget = policies.reading_budget(document)
    said = [
        f"{most} readings {each}; beyond that, readings are spaced out, and none is refused."
        for most, each in ((budget.readings_per_hour, "an hour"), (budget.readings_per_day, "a day"))
        if most is not None
    ]
    return tuple(said) or ("There is no limit.",)


_UNCITED = {
    "pass": "a report without a citation is sent unchanged",
    "mark": "a report without a citation that the record does not support is marked",
    "hold": "a report without a citation that the record does not support is held back",
}


def _messages(document: Mapping[str, Any]) -> tuple[str, ...]:
    agents = sorted(document.get("messages", {}).get("agents", {}))
    return (
        f"{_sentence(_message_rule(document, ''))}.",
        *(f"For {agent}: {_message_rule(document, agent)}." for agent in agents),
    )


def _message_rule(document: Mapping[str, Any], agent: str) -> str:
    rule = policies.message_rule(document, agent)
    guarded = "; a session with changes cannot be closed until the guard has checked what was said about them"
    return _UNCITED[rule.uncited] + (guarded if rule.guarded else "")


# Recovery


_RELATION_NAMES = {"COMPENSATING": "compensation", "FORWARD_RECOVERY": "forward recovery", "ROLLED_BACK": "rollback"}
_INPUT_NAMES = {
    "side_effect_class": "class",
    "reversibility": "reversibility",
    "transaction_boundary": "transaction boundary",
    "read_consistency": "consistency of the reading",
    "idempotency_status": "idempotency record",
    "execution_phase": "execution phase",
    "effect_domain": "domain",
}
_FLAG_NAMES = {
    "within_consistency_window": ("the consistency window is open", "the consistency window is over"),
    "within_sla": ("the verdict is on time", "the verdict is late"),
    "pivot_committed": ("the pivot is committed", "no pivot is committed"),
    "mutating": ("the call changes something", "the call only reads"),
    "externally_visible": ("the effect is visible outside", "the effect is not visible outside"),
    "equivalent_and_allowed": ("the duplicate is equal and allowed", "the duplicate is not equal, or not allowed"),
    "no_op_success_allowed": ("no effect counts as success", "no effect does not count as success"),
    "retry_safe": ("a retry is safe", "a retry is not safe"),
    "effect_committed": ("an effect is committed", "no effect is committed"),
    "compensation_available": ("a compensating tool exists", "no compensating tool exists"),
}


def _recovery_topics(document: bytes) -> tuple[PolicyTopic, ...]:
    known, plain = recovery_table.parse_policy(document), parse(document)
    own = plain.get("table", "built-in") != "built-in"
    automatic = [name for state, name in _RELATION_NAMES.items() if state in known.automatic]
    runs = f"{_sentence(_and(automatic))} may run automatically below class {_class_name('HIGH_RISK_EXTERNAL')}."
    held = f"Recovery by {_or(sorted(known.hold))} needs a person." if known.hold else ""
    table = "custom" if own else "built in"
    return (
        PolicyTopic(
            "Automatic recovery",
            tuple(filter(None, (runs if automatic else "None: every recovery needs a person.", held))),
        ),
        PolicyTopic(
            "Retries",
            (
                f"A change is attempted at most {_times(known.max_attempts)}; a critical mutation is never"
                " retried automatically.",
                f"A read is attempted at most {_times(known.max_read_attempts)}.",
            ),
        ),
        PolicyTopic(
            f"Recovery table ({table}, {_count_text(len(known.rows), 'row')}): the first matching row applies",
            tuple(map(_row_sentence, known.rows)),
            ordered=True,
        ),
    )


def _row_sentence(row: RecoveryRow) -> str:
    found = "anything else" if row.trigger == "*" else labels.sentence_case(row.trigger).lower()
    where = "".join(f", {_input_words(name, value)}" for name, value in row.inputs.items())
    effects = f" ({'; '.join(row.effects)})" if row.effects else ""
    return f"{row.id}: {found}{where}: {labels.sentence_case(row.action).lower()}{effects}."


def _input_words(name: str, value: Any) -> str:
    if name == "any_of":
        return f"either {' or '.join(_and(_input_words(*each) for each in part.items()) for part in value)}"
    if name in _FLAG_NAMES:
        return _FLAG_NAMES[name][0 if value else 1]
    words = [
        "none" if each is None else labels.SIDE_EFFECT_CLASSES.get(each, labels.sentence_case(each)) for each in value
    ]
    return f"{_INPUT_NAMES[name]} is {_or(word.lower() for word in words)}"


# Words


_UNITS = (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1))


def exact_duration(seconds: int) -> str:
    """Return a duration in words, to the second: 5400 is "1 hour 30 minutes"."""
    parts, left = [], seconds
    for word, size in _UNITS:
        count, left = divmod(left, size)
        parts += [_count_text(count, word)] if count else []
    return " ".join(parts) or "0 seconds"


def _count_text(number: int, word: str, several: str = "") -> str:
    return f"{number} {word if number == 1 else several or f'{word}s'}"


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _class_name(code: str) -> str:
    return labels.side_effect_class_label(code)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _and(words: Iterable[str]) -> str:
    return _join_words(list(words), "and")


def _or(words: Iterable[str]) -> str:
    return _join_words(list(words), "or")


def _join_words(words: list[str], last: str) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}" if words else ""
