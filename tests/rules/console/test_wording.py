"""Words that the console no longer uses: each stood on a page, and has a plainer one in its place."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
GONE = """
Ask for another one|Who is at it|Nobody has claimed it|Give it to somebody|Edit what was asked for
Put this in its place|See what changes|Leave it as it was|What the agent does not expect
it is told of each of these|May still vote|May not vote on this one|Nobody is left who may approve it
Who edited a request does not decide on it|Stays in the record. Needed unless you approve|Your password, again
Your signature:|a vote that does not approve needs a reason|it signs your vote|What a vote binds to
Asked because|these bytes run, nothing else|its claim; nothing here was checked|What will be checked afterwards
added by the agent|after the executor must have stopped|No one has written here
Nothing that is said here decides anything|Follow the action|Who allowed what|What the executor did
What the system of record says|Lineage and near-duplicates|Part of the same story|The agent owes an answer
riskiest first, then what ends first|Anybody's or nobody's|My vote is missing|What ends first
Download what these filters leave|Approved, not started|Approved and started|Approval ran out|Waits for you
no outcome may be told yet|Verification debt|actions without a verdict|Settled last|Refused at the gate
intake healthy|Done and confirmed|Abandoned, unresolved|Partly committed|This sentence, and no other
The same operation, tried before or again|gravest first|Nobody owns|to all that match|repeat is blocked
Opened because|The row says|So it does|Five accounts of the same action|Look again|Say what is so
Force a strong read|You state it on your evidence|What you saw and where|Send it back|Tick it with a note
every hash was made again for this page|only what each step says may be told|no pivot so far|Take this run back
This run was taken back|Not whole:|What it concerns|Join a case or an action|somebody got where they may not
Why nothing may be released to it|Freeze it</button>|what has started runs to its end
each tells the truth about what was done in it|Wait for a verdict|Readings due|Away since|Stop releasing to
What verification costs|Phantom share|answered for by|declared only|Stop it</h2>|Invents tools|Probes for tools
what makes a model call it wrongly|Nothing is decided, and that you looked|went on in silence|other values shown
not borne out|In whose name|Wait for a place|Held by others|Prove that one continues the other
Prove that the log continues it|Tell compliance before anything else|Who saw what|What was looked at
State after it|Person came in|Tenant founded|Woken before its time|Somebody is there again who may approve
Broke the glass|Passkey put forward|Passkey turned down|Passkey signs again|Ask for this bundle|Fetch it
It is made piece by piece|what is left empty means all of it|Nothing before</dt>|What has run out
invited, not here yet|with a place or an invitation|Invite somebody|Also theirs|Accounts of the same person
More power over approvals for yourself|Make this key|I decide no approvals|I shall be away|I am here.
Nobody decides for me, and I for nobody|Let somebody decide for me|Is it still you|Password now|Come in to
What you are told|What goes out|happened while you were not looking|As the tenant says|Let this go out
a link and no power|There is no such page|It may have moved|Go to the start|Not done</h1>
a figure is about a rule before it is about anybody|too small, or not yours to see|There is no way to look
A reversal failed|again in {pause
"""


def shown_texts():
    """What people may read, by file: templates as they stand, and the texts of the code without its docstrings."""
    for path in sorted((ROOT / "templates").rglob("*.*")):
        yield path, path.read_text()
    for package in ("console", "approvals", "reviews", "ledger"):
        for path in sorted((ROOT / package).rglob("*.py")):
            if "migrations" not in path.parts:
                yield path, "\n".join(_strings(ast.parse(path.read_text())))
    runbooks = ROOT / "reviews" / "cases" / "rules" / "runbooks.json"
    yield runbooks, json.dumps(json.loads(runbooks.read_text()), ensure_ascii=False)


def _strings(tree):
    told = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
            yield node.value


@pytest.mark.whole
def test_no_page_mail_or_message_uses_a_replaced_wording():
    gone = [phrase.strip() for line in GONE.strip().splitlines() for phrase in line.split("|")]
    found = re.compile("|".join(map(re.escape, gone)))
    assert len(gone) > 150
    left = [f"{path.relative_to(ROOT)}: {hit[0]}" for path, text in shown_texts() for hit in found.finditer(text)]
    assert left == []
