"""`counterfoil demo`: from nothing to a refund that was held, approved, lied about and caught.

It starts what `up` starts, without the example's agent, and does once what an agent and a reviewer do, by the API that
they use. Each sentence is told after the console, or the shop's database, was asked for it: a step that went another
way ends the demo with what the record says instead, and exit code 1.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from typing import Any
from uuid import uuid4

import httpx
import psycopg

from console.local.processes import wait_until
from console.local.startup import Startup
from console.local.up import run_console

CASE = "no_effect"
"""The example's case in which the tool answers success and its write was rolled back."""
WITHIN_S = 120.0


class OtherEnd(Exception):
    """A step went another way; the message is the sentence that a person reads."""


def main(arguments: list[str]) -> int:
    """Lead from nothing to a refund that was held, approved, lied about and caught."""
    parser = argparse.ArgumentParser(prog="counterfoil demo", description=main.__doc__)
    parser.add_argument("--port", type=int, default=8000, help="port of the console (8000)")
    parser.add_argument(
        "--stay",
        action=argparse.BooleanOptionalAction,
        default=sys.stdin.isatty(),
        help="leave the console running at the end, until Ctrl-C (in a terminal: yes)",
    )
    chosen = parser.parse_args(arguments)
    tour = Tour(stay=chosen.stay)
    return run_console(port=chosen.port, example=True, tour=tour) or tour.code


class Tour:
    """The steps, and the exit code: 1 until the last one was taken."""

    def __init__(self, *, stay: bool) -> None:
        self.stay = stay
        self.code = 1
        self.began = time.monotonic()

    def __call__(self, startup: Startup) -> None:
        try:
            with httpx.Client(base_url=startup.local_url, timeout=30) as http:
                Steps(startup, http).take()
        except OtherEnd as end:
            sys.stderr.write(f"counterfoil: {end}\n")
        except (httpx.HTTPError, psycopg.Error) as fault:
            if not startup.supervisor.ending:
                sys.stderr.write(f"counterfoil: The demo could not go on: {fault}\n")
        else:
            self.code = 0
            _tell(*self._way_on(startup))
        finally:
            if self.code or not self.stay:
                startup.supervisor.end()

    def _way_on(self, startup: Startup) -> list[str]:
        folder = startup.installation.var
        stays = ["The console stays up until Ctrl-C: sign in as above and open the addresses."] if self.stay else []
        return [
            f"That took {time.monotonic() - self.began:.0f} s. To go on:",
            *stays,
            f"counterfoil up --folder {folder}    the same console and data, with an agent that works",
            "counterfoil up                 an empty folder `var` of your own; --no-example without the shop",
            f"{startup.url}/t/{startup.tenant}/docs/    the guides, while the console runs",
        ]


class Steps:
    """One refund, as the agent, the reviewer and the operator see it."""

    def __init__(self, startup: Startup, http: httpx.Client) -> None:
        self.startup = startup
        self.http = http
        self.pages = f"{startup.url}/t/{startup.tenant}"
        self.keys = startup.sign_in["keys"]
        self.action_id = self.order_id = ""

    def take(self) -> None:
        self.propose()
        self.approve()
        self.execute()
        self.catch()

    def propose(self) -> None:
        told = subprocess.run(
            [sys.executable, "-m", "example", "scenario", "--case", CASE, "--approved"],
            env=self.startup.shop_environment,
            capture_output=True,
            text=True,
            start_new_session=True,
        )
        if told.returncode != 0:
            raise OtherEnd(f"The agent could not ask: {told.stderr.strip()[-500:]}")
        sent = json.loads(told.stdout)
        if not sent["action_id"]:
            raise OtherEnd(f"The gate refused the agent's call: {sent['code']}.")
        self.action_id, self.order_id = sent["action_id"], sent["arguments"]["order_id"]
        action = self.action()
        self.expect(action["outcome"] == "WAITING_FOR_APPROVAL", action)
        arguments = json.dumps(action["call"]["arguments"])
        _tell(
            f"1. The agent {action['agent']} proposed {action['tool']} {arguments}.",
            f"The record says: {action['axes']['decision']}. {action['user_status']['text']}",
            self.count_refunds(),
            f"{self.pages}/approvals/{action['approval']['approval_id']}",
        )

    def approve(self) -> None:
        """Sign in as the reviewer by the form, as a browser does, and vote on what is shown."""
        reviewer = next(each for each in self.startup.sign_in["people"] if each["role"] == "reviewer")
        password = {"password": reviewer["password"]}
        with httpx.Client(base_url=self.startup.local_url, timeout=30) as http:
            http.get("/sign-in").raise_for_status()
            form = {"username": reviewer["username"], "csrfmiddlewaretoken": http.cookies["csrftoken"]}
            if http.post("/sign-in", data=form | password).status_code != 302:
                raise OtherEnd(f"{reviewer['username']} could not sign in with the password that is kept.")
            path = f"/api/v1/approvals/{self.action()['approval']['approval_id']}"
            shown = http.get(path).raise_for_status().json()
            vote = {name: shown["covers"][name] for name in ("payload_hash", "rendering_digest")}
            vote |= {"verdict": "approve", "without_reading": shown["target_unread"], "reason": "Voted by the demo."}
            headers = {"X-CSRFToken": http.cookies["csrftoken"], "Idempotency-Key": uuid4().hex}
            answer = http.post(f"{path}/votes", json=vote | password, headers=headers)
            if answer.status_code != 201:
                raise OtherEnd(f"The vote was refused: {answer.text}")
            found = http.get(path).raise_for_status().json()
        if found["state"] not in ("APPROVED", "CONSUMED") or len(found["votes"]) != 1:
            raise OtherEnd(f"The request is {found['state']} after the vote.")
        _tell(
            f"2. As {reviewer['username']}, this demo approved it. The vote holds for these bytes only:",
            f"SHA-256 {found['payload_hash']}, confirmation code {found['votes'][0]['confirmation_code']}",
            f"{self.pages}/approvals/{found['approval_id']}",
        )

    def execute(self) -> None:
        detail = self.wait_for_event("observed")
        observation = detail["observation"]
        self.expect(observation["claimed_success"] is True, self.action())
        _tell(
            f"3. The {observation['source']} ran it and reported: {observation['status']}.",
            f"The record says: {detail['reason']}",
            f"{self.pages}/actions/{self.action_id}",
        )

    def catch(self) -> None:
        held = self.wait_for_event("held")
        case_id = self.wait_for_event("case_opened")["case_id"]
        case = self.ask(f"/reviews/{case_id}")
        action = self.action()
        self.expect(action["discrepancy"] == "NO_OP_FAILURE" and case["state"] == "OPEN", action)
        report = self.ask(f"/actions/{self.action_id}/report", key="agent")
        self.expect(report["completed"] is False, action)
        _tell(
            "4. The console read the shop's database itself, and the report was not true.",
            f"The record says: {held['reason']}",
            f"Execution: {action['axes']['execution']}. Effect: {action['axes']['effect']}.",
            self.count_refunds(),
            f"All that the agent may tell its user: {report['text']}",
            f"{self.pages}/cases/{case_id}",
        )

    # Questions

    def ask(self, path: str, *, key: str = "oper") -> Any:
        answer = self.http.get(f"/api/v1{path}", headers={"Authorization": f"Bearer {self.keys[key]}"})
        return answer.raise_for_status().json()

    def action(self) -> Any:
        return self.ask(f"/actions/{self.action_id}")

    def event_detail(self, name: str) -> Any:
        history = self.ask(f"/actions/{self.action_id}/history")["items"]
        return next((each["detail"] for each in history if each["event"] == name), None)

    def wait_for_event(self, name: str) -> Any:
        """Wait until the action's history has an event; an action that has ended gets no further one."""
        wait_until(lambda: self.event_detail(name) or self.action()["way_out"] is None, within_s=WITHIN_S, every_s=0.3)
        detail = self.event_detail(name)
        self.expect(detail is not None, self.action())
        return detail

    def expect(self, is_so: bool, action: Any) -> None:
        if not is_so:
            axes = ", ".join(action["axes"].values())
            raise OtherEnd(f"The action went another way. It is {action['state']} ({axes}); {self.pages}")

    def count_refunds(self) -> str:
        """Ask the shop's own database, as the role that can only read."""
        with psycopg.connect(self.startup.shop_environment["SHOP_READER_URL"]) as connection:
            row = connection.execute(
                "SELECT count(*) FROM shop.refunds WHERE order_id = %s", [self.order_id]
            ).fetchone()
        assert row is not None
        return f"Refunds of order {self.order_id} in the shop's own database: {row[0]}"


def _tell(first: str, *lines: str) -> None:
    sys.stdout.write("\n".join(["", first, *(f"   {each}" for each in lines), ""]))
    sys.stdout.flush()
