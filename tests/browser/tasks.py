"""The commonest tasks of five kinds of people, carried out the shortest way from Home, each click and each key counted.

Fields are found by what they send and buttons by where they send it, not by their words, so that the same script counts
in an older console as well. What somebody types into a field counts as one key, and so does a shortcut; choosing from a
list is two clicks. Signing in is not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any
from uuid import UUID

from tests.browser.conftest import acknowledge_unread
from tests.support.scenes import CONTRACTS, PASSWORD, now

EXPORT = 'main a[href*="/audit/exports?action="]'
BATCHED = {
    "version": "2",
    "require": [{"tool": "write_document"}],
    "batch": {"most": 3, "side_effect_classes": ["EPHEMERAL_WRITE"]},
}


WORDS = """control => {
    const label = control.labels && control.labels[0];
    const said = control.getAttribute("aria-label") || control.innerText || control.placeholder;
    const shown = label ? label.innerText : said;
    return shown.trim().split("\\n")[0].trim();
}"""


@dataclass
class Hand:
    """Somebody's hand at a page; what it does is counted."""

    page: Any
    clicks: int = 0
    keys: int = 0
    words: list[str] = field(default_factory=list)
    """The words on what was pressed and filled in, in this order."""
    read: str = ""
    """The text of Home before, and of the last page after."""

    def click(self, selector: str) -> None:
        self.clicks += 1
        control = self.page.locator(selector).first
        self.words.append(control.evaluate(WORDS))
        control.click()

    def type(self, selector: str, text: str) -> None:
        """Into a field, which is clicked unless it has the focus."""
        field = self.page.locator(selector).first
        if field.evaluate("field => field === document.activeElement"):
            self.words.append(field.evaluate(WORDS))
        else:
            self.click(selector)
        self.keys += 1
        field.fill(text)

    def choose(self, selector: str, value: str) -> None:
        self.clicks += 2
        control = self.page.locator(selector).first
        control.select_option(value)
        self.words += [control.evaluate(WORDS), control.evaluate("list => list.selectedOptions[0].text.trim()")]

    def press(self, key: str) -> None:
        self.keys += 1
        self.words.append(key)
        self.page.keyboard.press(key)

    def sees(self, text: str) -> None:
        self.page.get_by_text(text).filter(visible=True).first.wait_for()

    def loses(self, selector: str) -> None:
        self.page.locator(selector).first.wait_for(state="detached")

    def offers(self, selector: str) -> bool:
        return bool(self.page.locator(selector).count())

    def goes_to(self, name: str) -> None:
        """A page of the rail."""
        self.click(f'nav a[href$="/{name}"]')
        self.page.wait_for_url(f"**/{name}")


@dataclass(frozen=True)
class Task:
    name: str
    role: str
    scene: Callable[[Any], Any]
    walk: Callable[[Hand, Any], None]


TASKS: list[Task] = []


def task(name: str, role: str, scene: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def listed(walk: Callable[[Hand, Any], None]) -> Callable[[Hand, Any], None]:
        TASKS.append(Task(name, role, scene, walk))
        return walk

    return listed


# What there is before a task begins, on a stage of `tests/support/scenes.py`


def request_for_approval(stage: Any) -> Any:
    return stage.approval(stage.propose())


def three_notes(stage: Any) -> list[UUID]:
    """Three requests of low risk, which the policy lets somebody decide together."""
    import json

    from approvals.agents.operations import agents
    from approvals.agents.rules.registry import RegistryEntry
    from ledger.catalogue.operations import registration
    from ledger.catalogue.rules import contract as contracts
    from ledger.db import tenancy
    from ledger.record.operations import SYSTEM
    from tests.support.callers import put_in_force

    tenant, at = stage.tenant, now()
    document = json.loads((CONTRACTS / "write_document.json").read_text())
    contract = contracts.validate(document, compile_predicate=lambda text: None)
    entry = RegistryEntry(
        tenant=str(tenant),
        agent_id="support",
        version="2",
        tools=("issue_refund", "write_document"),
        output_tags=(),
        model_tier="",
        registered_by="tests",
        registered_at=at,
    )
    with tenancy(tenant):
        registration.register_system(
            tenant_id=tenant, name="documents", pattern="filesystems", settings={}, actor=SYSTEM, at=at
        )
        registration.register_contract(tenant_id=tenant, contract=contract, actor=SYSTEM, at=at)
        agents.register_agent(tenant_id=tenant, entry=entry, by=SYSTEM, at=at)
        put_in_force(tenant, "approval", "2", BATCHED)
    return [UUID(stage.call("write_document", note(number))["action_id"]) for number in range(3)]


def note(number: int) -> dict[str, str]:
    text = f"Note {number}."
    return {"path": f"notes/n{number}.md", "text": text, "sha256": sha256(text.encode()).hexdigest()}


def case(stage: Any) -> Any:
    return stage.case(count=0)


def done(stage: Any) -> UUID:
    return UUID(str(stage.done()))


def order(stage: Any) -> str:
    from ledger.actions.queries import actions
    from ledger.db import tenancy

    action_id = done(stage)
    with tenancy(stage.tenant):
        return str(actions.action(stage.tenant, action_id).target)


def freeze(stage: Any) -> None:
    from ledger.catalogue.operations import registration
    from ledger.db import tenancy
    from ledger.record.operations import SYSTEM

    with tenancy(stage.tenant):
        registration.place_freeze(
            tenant_id=stage.tenant, scope="tool", value="issue_refund", reason="Two refunds.", actor=SYSTEM, at=now()
        )


def key(stage: Any) -> None:
    from console.accounts import operations as directory
    from ledger.record.operations import SYSTEM

    directory.create_key(tenant_id=stage.tenant, kind="agent", name="night shift", by=SYSTEM, at=datetime.now(UTC))


def sealed_log(stage: Any) -> None:
    from tests.support.seals import seal_up

    seal_up()


def nothing(stage: Any) -> None:
    pass


# Reviewer


@task("Find and read the waiting request", "reviewer", request_for_approval)
def read_request(hand: Hand, approval: Any) -> None:
    hand.click("[data-part=waits] a.open")
    hand.sees("damaged")


@task("Approve a refund", "reviewer", request_for_approval)
def approve(hand: Hand, approval: Any) -> None:
    hand.click("[data-part=waits] a.open")
    acknowledge_unread(hand.page)
    hand.type("#id_password", PASSWORD)
    hand.click("button[name=verdict][value=approve]")
    hand.loses("button[name=verdict]")


@task("Reject a refund with a reason", "reviewer", request_for_approval)
def reject(hand: Hand, approval: Any) -> None:
    hand.click("[data-part=waits] a.open")
    hand.type("#id_reason", "The customer was paid already.")
    hand.type("#id_password", PASSWORD)
    hand.click("button[name=verdict][value=reject]")
    hand.loses("button[name=verdict]")


@task("Change the amount of a request", "reviewer", request_for_approval)
def edit(hand: Hand, approval: Any) -> None:
    hand.click("[data-part=waits] a.open")
    hand.click('a[href$="/edit"]')
    if hand.offers("textarea[name=payload]"):
        whole = hand.page.locator("textarea[name=payload]").input_value()
        hand.type("textarea[name=payload]", whole.replace("12500", "9900"))
        hand.type("#id_reason", "They kept the shade.")
        hand.click("form.stack button.primary")
    else:
        hand.type('input[name$="amount"]', "9900")
        hand.type("#id_reason", "They kept the shade.")
    hand.click("button[name=make]")
    hand.sees("Request replaced")


@task("Ask the agent for more", "reviewer", request_for_approval)
def ask(hand: Hand, approval: Any) -> None:
    hand.click("[data-part=waits] a.open")
    hand.type("#said-text", "Is there a photo of it?")
    hand.click('button[formaction$="/questions"]')
    hand.sees("1 question open")


@task("Approve three similar requests", "reviewer", three_notes)
def approve_three(hand: Hand, actions: Any) -> None:
    if hand.offers("[data-part=waits] li.like"):
        hand.click("[data-part=waits] li.like summary")
        hand.click("[data-part=waits] li.like a.button")
    else:
        hand.goes_to("approvals")
        for number in range(3):
            hand.click(f"article.card:nth-of-type({number + 1}) input[name=item]")
        hand.click("#batch button:not([type=button])")
    hand.type("#id_password", PASSWORD)
    hand.click("button[name=verdict][value=approve]")
    hand.loses("button[name=verdict]")


# Operator


@task("Take a case", "operator", case)
def take_case(hand: Hand, case: Any) -> None:
    open_case(hand)
    hand.click('form[action$="/claim"] button')
    hand.page.locator('form[action$="/release"] button').wait_for()


def open_case(hand: Hand) -> None:
    if hand.offers('[data-part=waits] a.open[href*="/cases/"]'):
        hand.click('[data-part=waits] a.open[href*="/cases/"]')
        return
    hand.goes_to("cases")
    hand.click("a.open")


def take_way(hand: Hand, code: str) -> None:
    """A resolution of a case, with what the console asks for."""
    way = f"details.way:has(input[name=resolution][value={code}])"
    hand.click(f"{way} summary")
    hand.type(f"#reason-{code}", "Finance keeps the difference.")
    hand.type(f"#evidence-{code}", "FIN-204")
    if hand.offers(f"{way} input[name=password]"):
        hand.type(f"{way} input[name=password]", PASSWORD)
    hand.click(f"{way} button.primary")


@task("Have a case verified now", "operator", case)
def verify_now(hand: Hand, case: Any) -> None:
    open_case(hand)
    # What a page offers is looked at once: the case must have taken the place of the list.
    hand.page.locator("[data-part=verify-now], .ways").first.wait_for()
    if hand.offers("[data-part=verify-now]"):
        hand.click("[data-part=verify-now] button")
    else:
        take_way(hand, "VERIFY_AGAIN")
    hand.page.locator("main [role=status]").first.wait_for()


@task("Settle a case: nothing was done", "operator", case)
def settle(hand: Hand, case: Any) -> None:
    open_case(hand)
    take_way(hand, "FAIL")
    hand.loses("details.way:not(.slim)")


@task("Attest what happened for an unknown outcome", "operator", case)
def attest(hand: Hand, case: Any) -> None:
    open_case(hand)
    take_way(hand, "ATTEST_PRESENT")
    hand.loses("details.way:not(.slim)")


@task("Roll back a run", "operator", done)
def roll_back(hand: Hand, action: UUID) -> None:
    hand.click("[data-part=settled] a.open")
    hand.click('main a[href*="/runs/"]')
    form = 'form[action$="/cancel"]'
    if hand.offers(f"details:has({form}):not([open]) summary"):
        hand.click(f"details:has({form}) summary")
    hand.type(f"{form} [name=reason]", "The customer called.")
    hand.click(f"{form} button")
    hand.loses(form)


# Somebody without a role


@task("Find an action by its id", "", done)
def find_action(hand: Hand, action: UUID) -> None:
    search_for(hand, str(action))
    hand.page.wait_for_url(f"**/actions/{action}")


def search_for(hand: Hand, text: str) -> None:
    hand.press("/")
    hand.type("[data-search]", text)
    hand.press("Enter")


# Compliance


@task("See everything done to an order", "compliance", order)
def follow_target(hand: Hand, target: str) -> None:
    order = target.removeprefix("order/")
    if hand.offers("#palette"):
        hand.press("Control+k")
        hand.type("#palette input", order)
        hand.page.locator(f'#palette [data-found="{order}"]').wait_for()
        hand.press("Enter")
    else:
        search_for(hand, order)
    hand.page.wait_for_url("**/target?*")
    hand.page.locator("tr[data-item]").first.wait_for()


@task("Export the bundle of one action", "compliance", done)
def export_bundle(hand: Hand, action: UUID) -> None:
    hand.click("[data-part=settled] a.open")
    if not hand.offers(EXPORT):
        hand.click('main a[href$="/narrative"]')
    hand.click(EXPORT)
    hand.click('form[action$="/exports/start"] button')
    hand.page.locator("[data-part=exports] li").first.wait_for()


@task("Start a check of the record", "compliance", sealed_log)
def check_record(hand: Hand, scene: Any) -> None:
    hand.goes_to("ledger")
    hand.click('form[action$="/ledger/checks"] button')
    hand.page.locator("progress[aria-labelledby=checks-title]").wait_for()


@task("See what one person did", "compliance", request_for_approval)
def audit_person(hand: Hand, approval: Any) -> None:
    hand.goes_to("audit")
    hand.click("td a[href*='who=']")
    hand.page.wait_for_url("**/audit?*who=*")


# Administrator


@task("Freeze a tool", "administrator", nothing)
def freeze_tool(hand: Hand, scene: Any) -> None:
    hand.goes_to("incidents")
    hand.click('main a[href$="/freezes"]')
    form = 'form[action$="/freezes/place"]'
    if hand.offers(f"{form} [name=what]"):
        hand.choose(f"{form} [name=what]", "tool:issue_refund")
    else:
        hand.choose(f"{form} [name=scope]", "tool")
        hand.type(f"{form} [name=value]", "issue_refund")
    hand.type(f"{form} [name=reason]", "Two refunds for one order.")
    hand.click(f"{form} button.against")
    hand.page.locator('form[action$="/lift"]').first.wait_for(state="attached")


@task("Lift a freeze", "administrator", freeze)
def lift_freeze(hand: Hand, scene: Any) -> None:
    form = '[data-part=frozen] form[action$="/lift"]'
    hand.click("[data-part=frozen] details summary")
    hand.type(f"{form} [name=reason]", "The cause is found.")
    hand.click(f"{form} button")
    hand.sees("Lifted.")


@task("Revoke a key", "administrator", key)
def revoke_key(hand: Hand, scene: Any) -> None:
    hand.goes_to("people")
    row = '[data-part=machines] li:has-text("night shift")'
    hand.click(f"{row} summary")
    hand.type(f"{row} [name=reason]", "It was in a mail.")
    hand.click(f"{row} button")
    hand.page.locator(f"{row} .end", has_text="revoked").wait_for()


@task("Add a person as a reviewer", "administrator", nothing)
def add_person(hand: Hand, scene: Any) -> None:
    hand.goes_to("people")
    form = 'form[action$="/people/invite"]'
    hand.click(f"details:has({form}) summary")
    hand.type(f"{form} [name=email]", "mara@example.org")
    hand.type(f"{form} [name=name]", "Mara")
    hand.click(f"{form} input[value=reviewer]")
    if hand.offers(f"{form} [name=password]"):
        hand.type(f"{form} [name=password]", PASSWORD)
    hand.click(f"{form} button")
    hand.sees("send it only to mara@example.org")


@task("See whether a system answers", "administrator", done)
def look_at_system(hand: Hand, scene: Any) -> None:
    hand.goes_to("systems")
    hand.sees("shop")


@task("Draft a release of a policy", "administrator", nothing)
def draft_release(hand: Hand, scene: Any) -> None:
    hand.goes_to("policies/")
    hand.click('a[href$="/releases/draft?kind=verification"]')
    form = 'form[action$="/releases/draft"]'
    document = hand.page.locator(f"{form} [name=document]").input_value()
    hand.type(f"{form} [name=version]", "2")
    hand.type(f"{form} [name=document]", document.replace('"1"', '"2"'))
    hand.type(f"{form} [name=reason]", "Readings settle sooner.")
    hand.click(f"{form} button.primary")
    hand.page.locator("[data-part=gates]").wait_for()


@contextmanager
def _watched(person: Any, name: str) -> Iterator[None]:
    from playwright.sync_api import Error

    try:
        yield
    except Error as fault:
        shown = person.page.locator("main").inner_text()[:600]
        raise AssertionError(f"{name}: {fault}\nat {person.page.url}:\n{shown}") from fault


def carried_out(one: Task, person: Any) -> Hand:
    """The hand that carried out a task; the person is signed in and at Home, and finds what the task is about."""
    scene = one.scene(person.site.stage)
    person.go()
    hand = Hand(person.page, read=person.page.locator("main").inner_text())
    with _watched(person, one.name):
        one.walk(hand, scene)
        hand.read += person.page.locator("main").inner_text()
    return hand
