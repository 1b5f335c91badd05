"""A version of a policy in plain sentences, each made from the same reading of the document by which it decides.

What a document leaves out is said with the value that stands in its place, so that nobody has to know what is built in.
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
from approvals.voting.rules.break_glass import RELEASE_WITHIN
from approvals.voting.rules.quorum import ONE_REVIEWER, Risk, Threshold
from console.web import labels
from ledger.catalogue.rules import policies
from ledger.catalogue.rules.effects import UPPER_CLASSES, SideEffectClass
from ledger.catalogue.rules.money import format_money
from ledger.record.rules.canonical import parse
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
    "approval": "who must agree before a call runs, and for how long",
    "autonomy": "what an agent may propose at all, and how much of it",
    "verification": "how the systems of record are read back, and for how long",
    "recovery": "what follows from each finding, and what waits for a person",
}


@dataclass(frozen=True)
class PolicyTopic:
    """One thing that a policy settles, in sentences; `ordered` where the first that fits counts."""

    heading: str
    sentences: tuple[str, ...]
    ordered: bool = False


def policy_topics(kind: str, document: bytes) -> tuple[PolicyTopic, ...]:
    """Everything that the bytes of a stored version say, topic by topic."""
    if kind == "approval":
        return _approval_topics(policy.load_stored(document))
    if kind == "autonomy":
        return _autonomy_topics(autonomy.load_stored(document))
    return _verification_topics(parse(document)) if kind == "verification" else _recovery_topics(document)


# Approval


_FINDING_WORDS = {
    "NEVER": " never counts.",
    "UNCLEAR_ONLY": " counts only where its condition cannot be told.",
    "ALWAYS": " always matches.",
}


def finding_sentences(kind: str, document: bytes) -> tuple[str, ...]:
    """What stands out in the rules of a version: only approval policies have rules of this kind."""
    found = analyse_rules(policy.load_stored(document)) if kind == "approval" else ()
    return tuple(f"“{each.rule}”{_FINDING_WORDS[each.code]} {each.text}" for each in found)


_ALSO_BARRED = {
    "agent_owner": "the owner of the agent",
    "delegator": "the person for whom the agent acts",
    "editor": "who edited the call",
    "policy_author": "who drafted or promoted this version",
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


def _approval_topics(known: ApprovalPolicy) -> tuple[PolicyTopic, ...]:
    rules = tuple(map(_rule_sentence, known.rules))
    return (
        PolicyTopic("Who is always asked about", _always_asked(known)),
        PolicyTopic(
            "Rules, read in their order",
            rules or ("There are none: nobody is asked about any other call.",),
            bool(rules),
        ),
        PolicyTopic("Who decides", _who_decides(known)),
        PolicyTopic("How a vote is signed", _signatures(known)),
        PolicyTopic("How long", _deadlines(known)),
        PolicyTopic("When this policy changes", (_on_change(known),)),
        PolicyTopic("Standing approvals", _standing(known)),
        PolicyTopic("Break-glass", _break_glass(known)),
        PolicyTopic("What is told", _privacy(known)),
    )


def _always_asked(known: ApprovalPolicy) -> tuple[str, ...]:
    upper = _or(sorted((_class_name(each) for each in UPPER_CLASSES), reverse=True))
    names = {"side_effect_class": "class", "effect_domain": "domain", "tool": "tool"}
    asked = [
        " and whose ".join(_named(names[name], name, value) for name, value in each.items()) for each in known.require
    ]
    return (
        "People are asked about every critical mutation, and about whatever changes something and cannot be undone.",
        f"People are asked where the contract asks for it, and about calls of class {upper} that cannot be read back.",
        *(f"People are asked about every call whose {each}." for each in asked),
    )


def _named(word: str, name: str, value: str) -> str:
    return f"{word} is {_class_name(value) if name == 'side_effect_class' else value}"


def _rule_sentence(rule: PolicyRule) -> str:
    begin = f"“{rule.name}”: " + (f"where {rule.when.text}, " if rule.when else "for every call, ")
    unclear = " Where that cannot be told, people are asked." if rule.when else ""
    if rule.outcome == "refuse":
        said = rule.reason or "The policy does not let this call run, whoever would approve it."
        return f"{begin}the call is refused, wherever this rule stands; the agent reads “{said}”{unclear}"
    if rule.outcome == "auto":
        return f"{begin}the rules after this one that ask people do not count.{unclear}"
    wanted = _demands(rule.demands)
    return f"{begin}people are asked{f': {_and(wanted)}' if wanted else ''}.{unclear}"


def _demands(wanted: Requirements) -> list[str]:
    """What a rule asks for beside the policy itself."""
    said = [f"of the group {each.group} {each.count} must agree{_denials(each)}" for each in wanted.thresholds]
    barred = [words for name, words in _ALSO_BARRED.items() if name in wanted.independence]
    said += [f"{_or(barred)} may not vote"] if barred else []
    said += [f"a vote is signed by {_signature(wanted.step_up)}"] if wanted.step_up else []
    said += [f"they have {exact_duration(wanted.decide_within_s)} at most"] if wanted.decide_within_s else []
    if wanted.release_within_s:
        said.append(f"the start must follow within {exact_duration(wanted.release_within_s)}")
    said += [_hours(each.document()) for each in wanted.hours]
    said += ["nothing is released before the vote is sealed in the log"] if wanted.wait_for_seal else []
    return said + ([f"it counts as {labels.RISKS[wanted.risk].lower()}"] if wanted.risk is not Risk.LOW else [])


def _denials(each: Threshold) -> str:
    return "" if each.deny == 1 else f", and {each.deny} votes against end it"


def _who_decides(known: ApprovalPolicy) -> tuple[str, ...]:
    wanted = known.demands.thresholds
    silent = not wanted and any(rule.demands.thresholds for rule in known.rules)
    said = [
        f"{'Where no rule says otherwise, of' if silent else 'Of'} the group {each.group} {each.count} must agree;"
        f" {_count(each.deny, 'vote')} against from it {'ends' if each.deny == 1 else 'end'} the request."
        for each in wanted or ONE_REVIEWER
    ]
    said += ["All of these must agree."] if len(wanted) > 1 else []
    barred = [words for name, words in _ALSO_BARRED.items() if name in known.demands.independence]
    said.append(f"Nobody decides on their own request{f', nor may {_or(barred)}' if barred else ''}.")
    if known.batch.most > 1:
        classes = _or(_class_name(each) for each in SideEffectClass if each in known.batch.side_effect_classes)
        said.append(
            f"Up to {known.batch.most} requests of class {classes} may be decided together, if they are of low risk,"
            " can be undone and need no passkey."
        )
    else:
        said.append("Requests are decided one at a time.")
    if known.limits.waiting_per_agent:
        said.append(f"An agent may have {known.limits.waiting_per_agent} requests waiting; its next call is refused.")
    if known.limits.votes_per_minute:
        said.append(f"A person may give {known.limits.votes_per_minute} votes a minute.")
    if known.min_dwell_s:
        least = exact_duration(known.min_dwell_s)
        said.append(
            f"A request of high risk can be approved {least} after it was first shown to the voter, not sooner."
        )
    return tuple(said)


def _signatures(known: ApprovalPolicy) -> tuple[str, ...]:
    by_risk = [(risk, known.step_up_by_risk[risk]) for risk in Risk if risk in known.step_up_by_risk]
    raised = [
        f"At {labels.RISKS[risk].lower()} by {_signature(level)}, if that is stronger." for risk, level in by_risk
    ]
    return (
        f"A vote for a call is signed by {_signature(known.demands.step_up or known.step_up)}.",
        *raised,
        "A vote against a call needs no more than the session.",
    )


def _signature(level: str) -> str:
    return f"{labels.SIGNATURES[level]} (class {level}){'' if level == 'A' else ' or stronger'}"


def _deadlines(known: ApprovalPolicy) -> tuple[str, ...]:
    said = [
        f"A request lapses if nobody decides within {exact_duration(known.decide_within_s)}, unless its contract says"
        " otherwise.",
        f"What was approved must be started within {exact_duration(known.release_within_s)}.",
        f"The grant for a start lives {exact_duration(known.grant_life_s)}, and never longer than the approval.",
    ]
    said += [f"{_sentence(_hours(each.document()))}." for each in known.demands.hours]
    if known.demands.wait_for_seal:
        said.append("Nothing is released before the vote is sealed in the log.")
    else:
        said.append("What can be undone is released without waiting until the vote is sealed in the log.")
    if known.remind_before_s:
        said.append(f"Reviewers are reminded {exact_duration(known.remind_before_s)} before the end.")
    if known.escalate_after_s:
        said.append(f"After {exact_duration(known.escalate_after_s)} the group {known.escalate_to} is told too.")
    pause = exact_duration(known.question_pause_s)
    return (*said, f"While the agent owes an answer the time stands still, for {pause} in all.")


def _hours(hours: Mapping[str, Any]) -> str:
    days = (
        "every day" if len(hours["days"]) == len(_DAY_NAMES) else f"on {_and(_DAY_NAMES[day] for day in hours['days'])}"
    )
    return f"starts are released {days} from {hours['from']} to {hours['to']} ({hours['zone']}) only"


def _on_change(known: ApprovalPolicy) -> str:
    if known.on_change == "void":
        return (
            "A new version ends every action that waits for approval or for its start; its agent may propose it anew."
        )
    return "A new version sets open approvals aside, and people are asked again."


def _standing(known: ApprovalPolicy) -> tuple[str, ...]:
    rule = known.standing
    if rule is None:
        return ("There are none: where people are asked, they are asked about each call.",)
    irreversible = (
        "They may cover what cannot be undone."
        if rule.irreversible
        else "They never cover what cannot be undone: people are asked about each of those."
    )
    named = _or(sorted(f"“{each}”" for each in rule.always_ask))
    return (
        f"Two persons may agree to one after {rule.after} verified approvals of one shape in a row; it covers at most"
        f" {_count(rule.most_passes, 'action', 'actions')} in {_count(rule.most_days, 'day', 'days')}.",
        irreversible,
        *((f"People are always asked about {named}.",) if named else ()),
    )


def _break_glass(known: ApprovalPolicy) -> tuple[str, ...]:
    rule = known.break_glass
    if not rule.enabled:
        return ("It is switched off: nobody can approve alone in an emergency.",)
    groups = f" of the group {_or(sorted(rule.groups))}" if rule.groups else ""
    return (
        f"In an emergency one operator{groups} may approve alone, signed by {_signature(rule.step_up)}.",
        f"The start must follow within {exact_duration(int(RELEASE_WITHIN.total_seconds()))}, and"
        f" {_count(rule.reviewers, 'other person', 'other people')} must review it within"
        f" {exact_duration(rule.review_within_s)}.",
    )


def _privacy(known: ApprovalPolicy) -> tuple[str, ...]:
    told = (
        "The agent reads the reasons that reviewers give."
        if known.reasons_to_agents
        else "The agent does not read the reasons that reviewers give."
    )
    quality = {
        "off": "No figures about reviewers are kept.",
        "team": "Figures about reviewers name nobody.",
        "person": "A person's figures are shown to administrators and to that person.",
    }
    return (told, quality[known.reviewer_quality])


# Autonomy


def _autonomy_topics(known: AutonomyPolicy) -> tuple[PolicyTopic, ...]:
    watch = known.watch
    return (
        PolicyTopic(
            "What an agent may propose",
            (
                "An agent may call the tools that its session was given, and no others.",
                *map(_outside_sentence, known.outside),
            ),
        ),
        PolicyTopic("Budgets", tuple(map(_budget_sentence, known.budgets)) or ("There are none.",)),
        PolicyTopic(
            "When an agent is flagged",
            (
                f"Few calls accepted: less than {watch.acceptance_floor_pct} % of at least {watch.least_calls} calls"
                f" within {exact_duration(watch.window_h * 3600)}.",
                f"Probing: one session called {watch.probing_names} or more different tools that it was not given.",
            ),
        ),
    )


def _outside_sentence(entry: Exclusion) -> str:
    where = f", where {entry.when.text} or where that cannot be told" if entry.when else ""
    said = entry.reason or "The call lies outside the boundary."
    return f"“{entry.name}”: {_covered(entry.scope)} are refused{where}; the agent reads “{said}”"


def _covered(scope: Scope) -> str:
    parts = [
        f" of {_or(sorted(scope.tools))}" if scope.tools else "",
        f" of class {_or(_class_name(each) for each in SideEffectClass if each in scope.classes)}"
        if scope.classes
        else "",
        f" by {_or(sorted(scope.agents))}" if scope.agents else "",
    ]
    return f"calls{''.join(parts)}" if any(parts) else "all calls"


def _budget_sentence(budget: Budget) -> str:
    each = "in each session" if budget.per == "session" else f"for each agent and {budget.within} (UTC)"
    most = [_count(budget.calls, "call")] if budget.calls is not None else []
    most += [_count(budget.readings, "reading") + " of their verification"] if budget.readings is not None else []
    if budget.money is not None:
        sums = _and(format_money(amount, code) for code, amount in sorted(budget.money.most.items()))
        most.append(f"{sums} in {budget.money.amount} (nothing in another currency)")
    return f"“{budget.name}”: {each}, at most {_and(most)}, counted over {_covered(budget.scope)}."


# Verification


def _verification_topics(document: Mapping[str, Any]) -> tuple[PolicyTopic, ...]:
    numbers = policies.verification_numbers(document)
    given = policies.default_policy("verification") | dict(document)
    wait = (
        f"each wait is about {numbers.backoff} times the one before"
        if numbers.backoff > 1
        else "the waits stay about the same"
    )
    return (
        PolicyTopic(
            "When the system of record is read",
            (
                f"First {exact_duration(numbers.first_after_s)} after the executor has reported; {wait}, and none is"
                f" much longer than {exact_duration(numbers.max_interval_s)}. A contract may say otherwise.",
                f"A doubt that {_count(numbers.repeat_limit, 'reading')} could not settle goes to a person.",
            ),
        ),
        PolicyTopic(
            "How long a verdict may take, by class",
            tuple(f"{_class_name(kind)}: {exact_duration(numbers.sla_s[kind])}." for kind in SideEffectClass),
        ),
        PolicyTopic(
            "Executors and keys",
            (
                f"An executor that is silent for {exact_duration(given['lease_s'])} loses its attempt.",
                f"An idempotency record that stays open expires after {exact_duration(given['idempotency_ttl_s'])}.",
            ),
        ),
        PolicyTopic("When nothing irreversible is released to a system", _release_stops(document)),
        PolicyTopic("What readings may cost", _reading_costs(document)),
        PolicyTopic("What agents may say", _messages(document)),
    )


def _release_stops(document: Mapping[str, Any]) -> tuple[str, ...]:
    stop = policies.release_stop_rule(document)
    said = ["While its circuit is open."] if stop.open_circuit else []
    said += [f"While {stop.waiting} or more actions wait for their verdict."] if stop.waiting is not None else []
    said += [f"While one of them has waited for {exact_duration(stop.oldest_s)}."] if stop.oldest_s is not None else []
    return (*said, "While a person has stopped it, whatever this policy says.")


def _reading_costs(document: Mapping[str, Any]) -> tuple[str, ...]:
    budget = policies.reading_budget(document)
    said = [
        f"{most} readings {each}; beyond that they are stretched, and none is refused."
        for most, each in ((budget.readings_per_hour, "an hour"), (budget.readings_per_day, "a day"))
        if most is not None
    ]
    return tuple(said) or ("There is no limit.",)


_UNCITED = {
    "pass": "a report without a citation goes out as it is",
    "mark": "a report that cites nothing and that the record does not bear out is marked",
    "hold": "a report that cites nothing and that the record does not bear out is held back",
}


def _messages(document: Mapping[str, Any]) -> tuple[str, ...]:
    agents = sorted(document.get("messages", {}).get("agents", {}))
    return (
        f"{_sentence(_message_rule(document, ''))}.",
        *(f"Of {agent}: {_message_rule(document, agent)}." for agent in agents),
    )


def _message_rule(document: Mapping[str, Any], agent: str) -> str:
    rule = policies.message_rule(document, agent)
    guarded = "; a session with changes cannot be closed until the guard has seen what was said of them"
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
    "within_sla": ("the verdict is in time", "the verdict is late"),
    "pivot_committed": ("the pivot is committed", "no pivot is committed"),
    "mutating": ("the call changes something", "the call only reads"),
    "externally_visible": ("the effect is visible outside", "the effect is not visible outside"),
    "equivalent_and_allowed": ("the duplicate is equal and allowed", "the duplicate is not equal, or not allowed"),
    "no_op_success_allowed": ("the contract permits no effect", "the contract does not permit no effect"),
    "retry_safe": ("a retry is safe", "a retry is not safe"),
    "effect_committed": ("an effect is committed", "no effect is committed"),
    "compensation_available": ("a compensating tool is there", "no compensating tool is there"),
}


def _recovery_topics(document: bytes) -> tuple[PolicyTopic, ...]:
    known, plain = recovery_table.parse_policy(document), parse(document)
    own = plain.get("table", "built-in") != "built-in"
    automatic = [name for state, name in _RELATION_NAMES.items() if state in known.automatic]
    runs = f"{_sentence(_and(automatic))} may run without a person, below class {_class_name('HIGH_RISK_EXTERNAL')}."
    held = f"Whatever {_or(sorted(known.hold))} wants waits for a person." if known.hold else ""
    table = "its own" if own else "built in"
    return (
        PolicyTopic(
            "What runs without a person",
            tuple(filter(None, (runs if automatic else "Nothing: every recovery waits for a person.", held))),
        ),
        PolicyTopic(
            "How often the same thing is tried",
            (
                f"A change is tried {_count(known.max_attempts, 'time')} at most, and a critical mutation never again"
                " by itself.",
                f"A read is tried {_count(known.max_read_attempts, 'time')} at most.",
            ),
        ),
        PolicyTopic(
            f"The table ({table}, {_count(len(known.rows), 'row')}): the first row that fits decides",
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
    """A length of time in words, to the second: 5400 is "1 hour 30 minutes"."""
    parts, left = [], seconds
    for word, size in _UNITS:
        count, left = divmod(left, size)
        parts += [_count(count, word)] if count else []
    return " ".join(parts) or "0 seconds"


def _count(number: int, word: str, several: str = "") -> str:
    return f"{number} {word if number == 1 else several or f'{word}s'}"


def _class_name(code: str) -> str:
    return labels.side_effect_class_label(code)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _and(words: Iterable[str]) -> str:
    return _joined(list(words), "and")


def _or(words: Iterable[str]) -> str:
    return _joined(list(words), "or")


def _joined(words: list[str], last: str) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}" if words else ""
