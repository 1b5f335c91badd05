"""A tenant is moved to another installation, with its rows, its people and its keys, and its log goes on there."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
from django.contrib.auth.hashers import check_password
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import OperationalError
from psycopg import errors, sql
from psycopg.errors import ObjectInUse

from console.accounts import queries as accounts
from console.installation import moving, tenant_copy
from console.local import rights, servers
from console.local.keys import ensure_keys, ensure_log_key
from console.models import User
from counterfoil_tlog import checkpoint, notes
from counterfoil_tlog.merkle import verify_consistency, verify_inclusion
from ledger import keystore
from ledger.catalogue.operations import registration
from ledger.catalogue.rules.moving import FREEZING, FROZEN, MOVED, VERIFIED
from ledger.db import execute, tenancy
from ledger.log.epochs import sign_epoch
from ledger.log.queries import log, proofs
from ledger.log.rules.signing import LogHandedOver
from ledger.log.signer_state import read_keys
from ledger.record.queries import events
from ledger.record.queries.work import Work, survey
from ledger.verification.queries import fences
from tests.conftest import Run, _use, new_database
from tests.db.record.records import executing, fill
from tests.support.callers import key_for, person_for
from tests.support.seals import as_sequencer, seal_up

NAMES = ("KEYS_DATABASE_URL", "KEYS_DATABASE_OWNER_URL", "COUNTERFOIL_SECRETS_DIR", "COUNTERFOIL_LOG_KEY")
THERE = "https://second.example.org"


@dataclass(frozen=True)
class Cell:
    """One installation: its database, its key files, its signer state, the database of its keys."""

    name: str
    database: str
    settings: dict[str, Any]

    @property
    def state(self) -> Path:
        """The path of its signer state."""
        path: Path = self.settings["COUNTERFOIL_SIGNER_STATE"]
        return path

    @property
    def secrets(self) -> Path:
        """The folder of its key files."""
        path: Path = self.settings["COUNTERFOIL_SECRETS_DIR"]
        return path


@dataclass
class Move:
    """Two installations, and what passes between them."""

    settings: Any
    here: Cell
    there: Cell
    folder: Path
    owner_urls: dict[str, str]

    def enter(self, cell: Cell) -> None:
        """Be this installation from now on."""
        for name, value in cell.settings.items():
            setattr(self.settings, name, value)
        keystore.clear_cache()
        _use(cell.database)

    def owner(self, cell: Cell) -> psycopg.Connection:
        """A session of the owner of a cell's tables."""
        return psycopg.connect(self.owner_urls[cell.name], autocommit=True)

    @property
    def offer(self) -> Path:
        return self.folder / "offer.json"

    @property
    def copy(self) -> Path:
        return self.folder / "copy"

    @property
    def statement(self) -> Path:
        return self.folder / "statement.json"

    def make_offer(self) -> None:
        self.enter(self.there)
        call_command("move_tenant", "offer", cell="second", out=self.offer)
        self.enter(self.here)

    def freeze(self, slug: str = "orchid") -> None:
        words = {"to": self.offer, "cell": "first", "reason": "It has grown.", "wait_s": 20.0}
        call_command("move_tenant", "freeze", slug, **words)

    def export(self, slug: str = "orchid") -> None:
        call_command("move_tenant", "export", slug, out=self.copy)

    def take_in(self) -> None:
        self.enter(self.there)
        call_command("move_tenant", "import", str(self.copy))

    def give_keys(self) -> None:
        """Add the key files of the source to those of the destination, as docs/moving-a-tenant.md says."""
        for name in ("kek", "registry_key"):
            own, other = self.there.secrets / name, self.here.secrets / name
            own.write_text(f"{own.read_text().strip()}\n{other.read_text().strip()}\n")
        keystore.clear_cache()

    def verify(self) -> None:
        self.enter(self.there)
        call_command("move_tenant", "verify", str(self.copy))

    def hand_over(self) -> None:
        self.enter(self.here)
        with as_sequencer():
            call_command("log", "hand-over", "orchid", statement=self.statement)

    def take_over(self) -> None:
        self.enter(self.there)
        with as_sequencer():
            call_command("log", "take-over", "orchid", statement=self.statement)

    def whole(self) -> None:
        """All steps, one after another."""
        self.make_offer()
        for step in (self.freeze, self.export, self.take_in, self.give_keys, self.verify, self.hand_over):
            step()
        self.take_over()

    def status(self, cell: Cell) -> str:
        self.enter(cell)
        found = events.tenant("orchid")
        return found.moving if found else "none"


@pytest.fixture
def move(committed_db: Any, run: Run, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Move]:
    """Two installations with a tenant each, of which the first has two."""
    here = Cell(
        "first",
        committed_db.name,
        {
            **{name: getattr(settings, name) for name in NAMES},
            "COUNTERFOIL_LOG_PUBLIC_KEY": settings.COUNTERFOIL_LOG_PUBLIC_KEY,
            "COUNTERFOIL_SIGNER_STATE": tmp_path / "here.sqlite",
            "COUNTERFOIL_PUBLIC_URL": settings.COUNTERFOIL_PUBLIC_URL,
        },
    )
    with new_database(run) as database, _keys_of_their_own(run, f"{database.name}_keys") as urls:
        secrets = tmp_path / "secrets"
        ensure_keys(secrets)
        ensure_log_key(secrets)
        there = Cell(
            "second",
            database.name,
            {
                **dict(zip(NAMES, (*urls, secrets, secrets / "log_key.pem"), strict=True)),
                "COUNTERFOIL_LOG_PUBLIC_KEY": secrets / "log_key.pub",
                "COUNTERFOIL_SIGNER_STATE": tmp_path / "there.sqlite",
                "COUNTERFOIL_PUBLIC_URL": THERE,
            },
        )
        owners = {"first": committed_db.owner_url, "second": database.owner_url}
        made = Move(settings, here, there, tmp_path, owners)
        _sign_epoch(run, there)
        made.enter(there)
        rights.prepare_key_database()
        registration.set_up_tenant(
            tenant_id=UUID(int=7), slug="rose", name="rose", host="console.test", at=datetime.now(UTC)
        )
        made.enter(here)
        # The sequencer works as it always does: also while the queue of a tenant is emptied.
        monkeypatch.setattr(moving, "forget_keys", lambda: seal_up(here.state))
        try:
            yield made
        finally:
            made.enter(here)


@contextmanager
def _keys_of_their_own(run: Run, name: str) -> Iterator[tuple[str, str]]:
    run.postgres.make_database(name)
    try:
        yield run.postgres.url(servers.APP, name), run.postgres.url(servers.OWNER, name)
    finally:
        keystore.clear_cache()
        with psycopg.connect(run.postgres.url(servers.SUPERUSER, "postgres"), autocommit=True) as superuser:
            superuser.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def _sign_epoch(run: Run, cell: Cell) -> None:
    url = run.postgres.url(servers.SUPERUSER, cell.database)
    with psycopg.connect(url, cursor_factory=psycopg.RawCursor) as connection:

        def execute(statement: Any, *values: Any) -> list[tuple[Any, ...]]:
            found = connection.execute(statement, values)
            return found.fetchall() if found.description else []

        sign_epoch(1, read_keys(cell.settings["COUNTERFOIL_LOG_KEY"]), execute)


@pytest.fixture
def orchid(move: Move) -> UUID:
    """The tenant that is moved: actions on their way, a member, a key, and a log of which something was signed."""
    tenant = fill("orchid", actions=3).tenant
    person_for(tenant, "reviewer", name="ada@example.org")
    key_for(tenant, "agent")
    fill("lily")
    seal_up(move.here.state)
    return tenant


def signed(tenant: UUID) -> tuple[notes.Note, checkpoint.CheckpointBody]:
    """The newest signed head of a tenant's log."""
    with tenancy(tenant):
        head = log.current_log(tenant)
    assert head is not None
    assert head.note is not None
    note = notes.parse(head.note)
    return note, checkpoint.parse(note.text)


def write(tenant: UUID) -> None:
    with tenancy(tenant):
        executing(tenant)


def test_a_tenant_goes_on_elsewhere_with_all_it_has_and_its_log_is_the_same(move: Move, orchid: UUID):
    old_note, old = signed(orchid)
    with tenancy(orchid):
        leaf, inclusion = proofs.leaf_at(orchid, 1, 0), proofs.inclusion_proof(orchid, 1, 0, old.size)
    move.make_offer()
    move.freeze()
    move.export()
    move.take_in()
    with pytest.raises(CommandError, match=r"keys do not open: add the source's key"):
        move.verify()
    move.give_keys()
    move.verify()
    move.hand_over()
    assert move.status(move.there) == VERIFIED
    move.take_over()

    assert move.status(move.here) == MOVED
    with pytest.raises(OperationalError) as held:
        write(orchid)
    assert isinstance(held.value.__cause__, ObjectInUse)
    assert move.status(move.there) == ""
    write(orchid)
    seal_up(move.there.state)
    note, new = signed(orchid)
    assert new.origin == old.origin
    assert new.size > old.size
    keys = [read_keys(cell.settings["COUNTERFOIL_LOG_KEY"]).current.public_key() for cell in (move.here, move.there)]
    assert notes.verify_signatures(old_note, [notes.verifier(old.origin, keys[0])])
    assert notes.verify_signatures(note, [notes.verifier(old.origin, keys[1])])
    with tenancy(orchid):
        proof = proofs.consistency_proof(orchid, 1, old.size, new.size)
    verify_consistency(old_size=old.size, new_size=new.size, old_root=old.root, new_root=new.root, proof=proof)
    assert leaf is not None
    verify_inclusion(leaf=leaf.hash, index=0, size=old.size, proof=inclusion, root=old.root)
    check_record("orchid")


def test_people_and_keys_come_along_and_the_other_tenant_notices_nothing(move: Move, orchid: UUID):
    move.whole()
    ada = User.objects.get(username="ada@example.org")
    assert check_password("correct horse battery", ada.password)
    assert [each.tenant_id for each in accounts.memberships(ada)] == [orchid]
    assert [each.kind for each in accounts.api_keys(orchid)] == ["agent"]

    # Where it was, the other tenant has noticed nothing.
    move.enter(move.here)
    lily = events.tenant("lily")
    assert lily is not None
    write(lily.id)
    assert seal_up(move.here.state) > 0
    check_record("lily")


def check_record(slug: str) -> None:
    for options in ({}, {"log": True}):
        call_command("verify_ledger", tenant=slug, verbosity=0, **options)


def test_each_step_may_be_run_again(move: Move, orchid: UUID):
    move.make_offer()
    for step in (move.freeze, move.freeze, move.export, move.export, move.take_in, move.take_in, move.give_keys):
        move.enter(move.here)
        step()
    move.verify()
    move.verify()
    move.hand_over()
    first = move.statement.read_bytes()
    move.hand_over()
    assert move.statement.read_bytes() == first
    move.take_over()
    move.take_over()
    write(orchid)
    seal_up(move.there.state)
    check_record("orchid")


def test_a_freeze_waits_for_whoever_has_begun_to_write_and_refuses_whoever_comes_later(move: Move, orchid: UUID):
    move.make_offer()
    writes = "INSERT INTO console_spentproof (tenant_id, jti, at) VALUES (%s, %s, now())"
    with psycopg.connect(move.owner_urls["first"]) as writer:
        writer.execute(writes, [orchid, "early"])
        with pytest.raises(CommandError, match=r"Somebody still writes"):
            call_command("move_tenant", "freeze", "orchid", to=move.offer, cell="first", reason="It grew.", wait_s=0.2)
        assert move.status(move.here) == FREEZING
        with psycopg.connect(move.owner_urls["first"]) as late, pytest.raises(errors.ObjectInUse):
            late.execute(writes, [orchid, "late"])
        writer.commit()
    move.freeze()
    assert move.status(move.here) == FROZEN
    with pytest.raises(CommandError, match=r"is not frozen"):
        move.export("lily")


def test_everything_about_a_tenant_is_held_while_it_is_frozen(move: Move, orchid: UUID):
    move.make_offer()
    move.freeze()
    assert fences.missing_fences() == []
    with psycopg.connect(move.owner_urls["first"]) as owner:
        owner.execute("SELECT set_config('app.tenant', %s, false)", [str(orchid)])
        for table in tenant_copy.tenant_tables(owner):
            owner.execute("SAVEPOINT before")
            for write_it in (
                "DELETE FROM {} WHERE tenant_id = %s",
                "UPDATE {} SET tenant_id = %s WHERE tenant_id = $1",
            ):
                statement = sql.SQL(write_it.replace("$1", "%s")).format(sql.Identifier(table.name))
                values = [orchid] * write_it.count("%s") if "$1" not in write_it else [orchid, orchid]
                count = owner.execute(
                    sql.SQL("SELECT count(*) FROM {} WHERE tenant_id = %s").format(sql.Identifier(table.name)), [orchid]
                ).fetchall()[0][0]
                if not count and table.name in fences.NOT_ISOLATED:
                    continue
                with pytest.raises(errors.ObjectInUse):
                    owner.execute(statement, values)
                owner.execute("ROLLBACK TO SAVEPOINT before")
    named = survey(list(Work), at=datetime.now(UTC))
    assert not any(orchid in tenants for tenants in named.values())


def test_a_log_that_was_handed_over_is_never_signed_here_again(move: Move, orchid: UUID):
    move.make_offer()
    move.freeze()
    move.export()
    move.hand_over()
    with pytest.raises(CommandError, match=r"is moved, and its move cannot be given up"):
        call_command("move_tenant", "abandon", "orchid")
    # The database goes back to before the move, and forgets it.
    with move.owner(move.here) as owner:
        owner.execute("UPDATE ledger_tenant SET moving = '', move = NULL WHERE slug = 'orchid'")
    write(orchid)
    with pytest.raises(LogHandedOver):
        seal_up(move.here.state)
    with as_sequencer():
        call_command("log", "restored", reason="It went back.")
    assert [each.origin for each in _logs(orchid)] == [events.tenant_by_id(orchid).origin]


def _logs(tenant: UUID) -> list[Any]:
    with tenancy(tenant):
        return log.logs(tenant)


def test_a_move_that_is_given_up_leaves_the_tenant_where_it_was(move: Move, orchid: UUID):
    move.make_offer()
    move.freeze()
    move.export()
    call_command("move_tenant", "abandon", "orchid")
    write(orchid)
    assert seal_up(move.here.state) > 0
    check_record("orchid")
    with pytest.raises(CommandError, match=r"not frozen for a move"):
        move.hand_over()


def test_a_log_is_taken_over_from_the_statement_of_its_own_key_and_no_other(move: Move, orchid: UUID):
    move.make_offer()
    move.freeze()
    move.export()
    move.take_in()
    move.give_keys()
    move.hand_over()
    with pytest.raises(CommandError, match=r"not verified here"):
        move.take_over()
    move.verify()
    document = json.loads(move.statement.read_bytes())
    _, _, size, _, new = document["statement"].splitlines()[:5]
    for forged in (
        document | {"old": new},
        document | {"statement": document["statement"].replace(f"\n{size}\n", f"\n{int(size) + 1}\n")},
        {},
    ):
        move.statement.write_text(json.dumps(forged))
        with pytest.raises(CommandError):
            move.take_over()
    assert move.status(move.there) == VERIFIED
    move.statement.write_text(json.dumps(document))
    move.take_over()


def test_a_copy_that_was_altered_or_does_not_fit_is_not_taken_in(move: Move, orchid: UUID):
    move.make_offer()
    move.freeze()
    move.export()
    file = move.copy / "ledger_event.copy"
    whole = file.read_bytes()
    file.write_bytes(whole[:-2])
    with pytest.raises(CommandError, match=r"not those that the manifest names: ledger_event.copy"):
        move.take_in()
    file.write_bytes(whole)
    with move.owner(move.there) as owner:
        owner.execute("INSERT INTO django_migrations (app, name, applied) VALUES ('ledger', '9999_later', now())")
        with pytest.raises(CommandError, match=r"not of one version; their migrations differ in ledger.9999_later"):
            move.take_in()
        owner.execute("DELETE FROM django_migrations WHERE name = '9999_later'")
        owner.execute("UPDATE ledger_tenant SET slug = 'orchid' WHERE slug = 'rose'")
        with pytest.raises(CommandError, match=r"has a tenant orchid already"):
            move.take_in()
        owner.execute("UPDATE ledger_tenant SET slug = 'rose' WHERE slug = 'orchid'")
    move.take_in()


def test_an_account_that_is_there_already_is_refused_or_used_and_never_overwritten(move: Move, orchid: UUID):
    ada = User.objects.get(username="ada@example.org")
    move.make_offer()
    move.freeze()
    move.export()
    move.enter(move.there)
    other = User.objects.create_user("ada@example.org", password="another one entirely")
    with pytest.raises(CommandError, match=r"other accounts of these names or addresses: ada@example.org"):
        move.take_in()
    assert move.status(move.there) == "none"
    # The same account, which came with another tenant before.
    User.objects.filter(id=other.id).update(username="other@example.org")
    User.objects.create(id=ada.id, username=ada.username, password=ada.password, first_name="Ada B.")
    move.take_in()
    move.give_keys()
    move.verify()
    assert User.objects.get(username="ada@example.org").first_name == "Ada B."


def test_a_row_that_was_changed_after_the_import_is_found(move: Move, orchid: UUID, run: Run):
    move.make_offer()
    move.freeze()
    move.export()
    move.take_in()
    move.give_keys()
    with psycopg.connect(run.postgres.url(servers.SUPERUSER, move.there.database), autocommit=True) as superuser:
        superuser.execute("ALTER TABLE console_apikey DISABLE TRIGGER being_moved")
        superuser.execute("UPDATE console_apikey SET scopes = '[\"agent:other\"]'")
        superuser.execute("ALTER TABLE console_apikey ENABLE ALWAYS TRIGGER being_moved")
    with pytest.raises(CommandError, match=r"console_apikey has 1 rows here, and other bytes"):
        move.verify()


def test_every_table_is_copied_or_named_with_the_reason_why_not(committed_db: Any):
    with psycopg.connect(committed_db.owner_url) as owner:
        copied = {table.name: table for table in tenant_copy.tenant_tables(owner)}
        every = {
            name
            for (name,) in owner.execute(
                "SELECT relname::text FROM pg_class WHERE relnamespace = 'public'::regnamespace"
                " AND relkind IN ('r', 'p') AND NOT relispartition"
            )
        }
        bound = owner.execute(
            "SELECT conrelid::regclass::text, confrelid::regclass::text FROM pg_constraint"
            " WHERE contype = 'f' AND connamespace = 'public'::regnamespace"
        ).fetchall()
    lists = (copied, tenant_copy.LEFT, tenant_copy.PERSONAL, tenant_copy.STAYS, {"console_user", "ledger_tenant"})
    assert every == {name for each in lists for name in each}
    assert sum(map(len, lists)) == len(every)
    # What a row of a tenant leans on comes with it: other rows of the tenant, or the account, which comes too.
    assert {other for table, other in bound if table in copied} <= {*copied, "console_user"}


def test_requests_are_told_to_come_back_and_then_where_to_go(move: Move, orchid: UUID):
    agent, ada = key_for(orchid, "agent"), person_for(orchid, "operator", name="bob@example.org")
    seal_up(move.here.state)
    move.make_offer()
    move.freeze()
    held = agent.post("/sessions", {})
    assert (held.status_code, held.json()["code"], held.headers["Retry-After"]) == (503, "TENANT_MOVING", "5")
    page = ada.client.get("/t/orchid/")
    assert page.status_code == 503
    assert "is being moved to another installation" in page.content.decode()
    assert ada.get("/freezes").status_code == 503
    move.hand_over()
    gone = agent.post("/sessions", {})
    assert (gone.status_code, gone.json()["code"]) == (421, "TENANT_MOVED")
    assert gone.json()["hint"] == f"It is at {THERE}."
    page = ada.client.get("/t/orchid/")
    assert page.status_code == 421
    assert THERE in page.content.decode()


class Killed(BaseException):
    """The process ends here."""


def killed_at(line: int, command: Callable[[], None]) -> bool:
    """Run a command and end it before the line that it reaches as this one; return whether it came that far."""
    watched = {each.__code__ for each in (moving.freeze, moving._begin, moving.abandon, moving._record_abandonment)}
    left = line

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal left
        if frame.f_code not in watched:
            return None
        if event == "line":
            left -= 1
            if left < 0:
                raise Killed
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        command()
    except Killed:
        return True
    finally:
        sys.settrace(before)
    return False


def moves_on_record(tenant: UUID) -> list[str]:
    """The events about moves, in their order."""
    with tenancy(tenant):
        found = execute(
            "SELECT kind FROM ledger_event WHERE tenant_id = $1 AND subject_id = $1 AND kind LIKE 'tenant_move_%'"
            " ORDER BY seq",
            tenant,
        )
    return [kind for (kind,) in found]


def test_a_freeze_and_its_end_that_were_cut_short_at_any_line_are_completed_once(move: Move, orchid: UUID):
    def abandon() -> None:
        call_command("move_tenant", "abandon", "orchid")

    def abandon_again() -> None:
        # Only whoever was cut short after the last write is told that nothing is left to do.
        if moves_on_record(orchid)[-1] == both[1]:
            with pytest.raises(CommandError, match="No move is under way"):
                abandon()
        else:
            abandon()

    move.make_offer()
    both = ["tenant_move_begun", "tenant_move_abandoned"]
    rounds, lines = 0, [0, 0]
    while killed_at(rounds, move.freeze):
        move.freeze()
        rounds += 1
        assert (move.status(move.here), moves_on_record(orchid)) == (FROZEN, [*both * (rounds - 1), both[0]])
        abandon()
    lines[0] = rounds
    abandon()
    rounds += 1
    while True:
        move.freeze()
        rounds += 1
        cut = killed_at(lines[1], abandon)
        if cut:
            abandon_again()
        assert (move.status(move.here), moves_on_record(orchid)) == ("", both * rounds)
        if not cut:
            break
        lines[1] += 1
    assert lines[0] > 20
    assert lines[1] > 8
    write(orchid)


def test_a_freeze_that_was_cut_short_can_be_given_up_and_then_has_its_begin_and_its_end_on_record(
    move: Move, orchid: UUID
):
    move.make_offer()
    expected: list[str] = []
    line = 0
    while killed_at(line, move.freeze):
        line += 1
        if moving._is_begun(events.tenant_by_id(orchid).move):
            call_command("move_tenant", "abandon", "orchid")
            expected += ["tenant_move_begun", "tenant_move_abandoned"]
        assert (move.status(move.here), moves_on_record(orchid)) == ("", expected)
    assert expected


def test_an_end_that_was_cut_short_is_recorded_by_the_next_freeze(move: Move, orchid: UUID):
    move.make_offer()
    line = 0
    move.freeze()
    while killed_at(line, lambda: call_command("move_tenant", "abandon", "orchid")):
        line += 1
        move.freeze()
        recorded = moves_on_record(orchid)
        assert recorded[0::2] == ["tenant_move_begun"] * (len(recorded) // 2 + 1)
        assert recorded[1::2] == ["tenant_move_abandoned"] * (len(recorded) // 2)
    assert len(moves_on_record(orchid)) > 2
