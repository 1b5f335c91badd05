"""Faults of the network between us and the peers that come from packages."""

from __future__ import annotations

import re

import pytest

from tests.peers.paths.test_path_access import grant, granting
from tests.peers.paths.test_path_browser import submitting
from tests.peers.paths.test_path_calendar import book, booking
from tests.peers.paths.test_path_deployments import rolling_out
from tests.peers.paths.test_path_email import send, sending
from tests.peers.paths.test_path_payments import charge, charging
from tests.peers.paths.test_path_procurement import order, ordering
from tests.peers.paths.test_path_tickets import create, opening
from tests.peers.support.faults import endured
from tests.peers.support.path import Office

pytestmark = pytest.mark.long


def verbs(asked):
    """The HTTP methods of what was asked."""
    return set(re.findall(rb"([A-Z]+) \S+ HTTP/1\.1\r\n", asked))


@pytest.mark.req("R-CP-03", "R-VD-11", "R-VD-16")
def test_a_mail_server_is_read_correctly_over_a_failing_network(office, post):
    for mailbox in ("Reports", "Junk"):
        post.put(mailbox, post.message(key="another"))
    asked = endured(office, sending(post), lambda work: send(post, work), timeout_s=2)
    said = re.findall(rb"(?m)^[A-Z]{4}\d+ (UID \w+|\w+)", asked)
    assert set(said) <= {b"CAPABILITY", b"LOGIN", b"EXAMINE", b"UID SEARCH", b"UID FETCH"}
    assert b"BODY[" not in asked  # which would mark a message as read


@pytest.mark.req("R-CP-04", "R-VD-11", "R-VD-16")
def test_a_calendar_is_read_correctly_over_a_failing_network(office, planner):
    asked = endured(office, booking(planner), lambda work: book(planner, work), timeout_s=2)
    assert verbs(asked) == {b"PROPFIND", b"REPORT"}


@pytest.mark.req("R-CP-05", "R-VD-11", "R-VD-16")
def test_a_payment_processor_is_read_correctly_over_a_failing_network(office, careful):
    asked = endured(office, charging(careful), lambda work: charge(careful, work), timeout_s=2)
    assert verbs(asked) == {b"GET"}  # neither processor knows restricted keys


@pytest.mark.req("R-CP-06", "R-VD-11", "R-VD-16")
def test_a_ticket_tracker_is_read_correctly_over_a_failing_network(office, desk):
    asked = endured(office, opening(desk), lambda work: create(desk, work), timeout_s=4)
    assert verbs(asked) == {b"GET"}


@pytest.mark.req("R-CP-07", "R-VD-11", "R-VD-16")
def test_a_deployment_is_read_correctly_over_a_failing_network(db, secrets_dir, on_v1):
    errand = rolling_out(on_v1, max_error_permille=None)
    asked = endured(Office(secrets_dir, "production"), errand, lambda work: on_v1.deploy("v2"), timeout_s=4)
    assert verbs(asked) == {b"GET", b"POST"}
    # supervisord's password knows no rights.
    assert set(re.findall(rb"<methodName>(.*?)</methodName>", asked)) == {b"supervisor.getAllProcessInfo"}


@pytest.mark.req("R-CP-08", "R-VD-11", "R-VD-16")
def test_a_purchase_register_is_read_correctly_over_a_failing_network(office, shop):
    asked = endured(office, ordering(shop), lambda work: order(shop, work), timeout_s=8)
    methods = {one.rpartition(b".")[2] for one in re.findall(rb'"method": ?"([^"]*)"', asked)}
    assert methods == {b"get_preferences", b"search_read"}


@pytest.mark.req("R-CP-09", "R-VD-11", "R-VD-16")
def test_a_page_is_read_correctly_over_a_failing_network(office, tracker):
    number = tracker.make("issue", title="Refund")
    asked = endured(
        office, submitting(tracker, number), lambda work: tracker.rename(number, "Refund o-17"), timeout_s=4
    )
    assert verbs(asked) == {b"GET"}


@pytest.mark.req("R-CP-10", "R-VD-11", "R-VD-16")
def test_a_vault_is_read_correctly_over_a_failing_network(office, bao):
    bao.user("ann", "old")
    asked = endured(office, granting(bao), lambda work: grant(bao, work), timeout_s=2)
    assert verbs(asked) == {b"GET"}
