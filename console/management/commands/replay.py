"""`manage.py replay`: judge verification runs again from stored evidence and print what differs.

`--action ID`, or a period with `--since` and `--until` (the actions proposed in it); without either, all there are.
Each run is judged by the policies of its time, or by what `--policy recovery:3` names (also twice, for both kinds) or
`--document recovery:FILE` brings. It reads and changes nothing. Exit 1 where a result differs; runs that cannot be
judged again are counted and named, and are no difference. Exit 2 where it could not run.

`--bundle PATH` replays bundles instead, of this or any other installation, and asks no database: replay bundles (JSON)
and exported bundles (zip), or every one in a folder. A version that `--policy` names must be in the bundle.

`--failures-to FOLDER` writes an evaluation pack instead of replaying (R-HO-11): the replay bundle of each action of the
period whose reading found a difference, named by its pattern or class. `--bundle FOLDER` then replays it anywhere.
"""

from __future__ import annotations

import argparse
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import orjson
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from console.web import replay_sentences
from ledger.catalogue.rules.policies import DecidingPolicy
from ledger.db import tenancy
from ledger.record.queries import events
from ledger.record.rules.canonical import read
from ledger.record.rules.refusals import Refused
from reviews import queries as after
from reviews.replay import queries as replays
from reviews.replay.rules import bundles
from reviews.replay.rules.replay import ActionReplay, StoredPolicy, StoredRun, draft_policy, replay_run
from reviews.reporting.rules.success_patterns import pattern_of_run

if TYPE_CHECKING:
    from ledger.models import Tenant

BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


class Command(BaseCommand):
    help = "Replay verification runs from their stored evidence; exit with 1 if any result differs."
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--tenant", metavar="SLUG", help="one tenant only")
        parser.add_argument("--action", type=UUID, metavar="ID", help="one action only")
        parser.add_argument("--since", type=_moment, metavar="TIME", help="actions proposed at or after this time")
        parser.add_argument("--until", type=_moment, metavar="TIME", help="actions proposed before this time")
        parser.add_argument(
            "--bundle", action="append", default=[], type=Path, metavar="PATH", help="a bundle, or a folder of bundles"
        )
        parser.add_argument(
            "--failures-to", type=Path, metavar="FOLDER", help="write the bundles of failures there, and replay nothing"
        )
        parser.add_argument(
            "--policy", action="append", default=[], metavar="KIND:VERSION", help="replay under this version"
        )
        parser.add_argument(
            "--document", action="append", default=[], metavar="KIND:FILE", help="replay under this draft"
        )

    def handle(self, *args: Any, tenant: str | None = None, verbosity: int = 1, **options: Any) -> None:
        if options["failures_to"] is not None:
            written = Counter(_write_failures(tenant, options))
            parts = "".join(f", {name}: {count}" for name, count in sorted(written.items()))
            self.stdout.write(f"Bundles written: {written.total()}{parts}.")
            return
        try:
            drafts = dict(_draft(each) for each in options["document"])
            seen: Counter[str] = Counter()
            asked = dict(each.partition(":")[::2] for each in options["policy"])
            made = (
                _replay_bundles(options["bundle"], asked, drafts)
                if options["bundle"]
                else _replays(tenant, options, drafts)
            )
            for found in made:
                self._tell(found, seen, verbosity)
        except Refused as refusal:
            detail = [f"{each['path']}: {each['detail']}" for each in refusal.errors]
            raise CommandError(" ".join([refusal.detail, *detail]), returncode=2) from None
        lost = f", not replayable: {seen['lost']}" if seen["lost"] else ""
        summary = f"Actions: {seen['actions']}, runs: {seen['runs']}, different: {seen['changed']}{lost}."
        if seen["changed"]:
            raise CommandError(summary)
        self.stdout.write(summary)

    def _tell(self, found: tuple[ActionReplay, Mapping[str, str]], seen: Counter[str], verbosity: int) -> None:
        replay, instead = found
        seen.update(actions=1, runs=len(replay.runs), changed=len(replay.differing), lost=len(replay.not_replayable))
        for each in replay.runs:
            if verbosity > 1 or not each.same:
                self.stdout.write(f"{replay.action_id}: {replay_sentences.run_sentence(each, instead)}")


def _write_failures(slug: str | None, options: Mapping[str, Any]) -> Iterator[str]:
    """Write the replay bundle of each failure of the period; the pattern or class of each."""
    folder: Path = options["failures_to"]
    since, until = options["since"] or BEGINNING, options["until"] or timezone.now()
    for each in _tenants(slug):
        with tenancy(each.id, reads_only=True):
            for action_id, _, discrepancy, _, _, claimed in after.failures(each.id, since=since, until=until):
                bundle = orjson.dumps(replays.replay_bundle(each.id, action_id), option=orjson.OPT_INDENT_2)
                name = pattern_of_run(discrepancy, claimed=claimed) or discrepancy
                try:
                    folder.mkdir(parents=True, exist_ok=True)
                    (folder / f"{name}-{action_id}.json").write_bytes(bundle)
                except OSError as problem:
                    raise CommandError(f"{folder} cannot be written: {problem.strerror}.", returncode=2) from None
                yield name


def _tenants(slug: str | None) -> list[Tenant]:
    """The tenant of this slug, or all."""
    tenants = [each for each in events.tenants() if slug in (None, each.slug)]
    if slug is not None and not tenants:
        raise CommandError(f"There is no tenant {slug}.", returncode=2)
    return tenants


def _replays(
    slug: str | None, options: Mapping[str, Any], drafts: dict[str, StoredPolicy]
) -> Iterator[tuple[ActionReplay, Mapping[str, str]]]:
    """Replay the selected actions, under the policy versions chosen in place of the original ones."""
    held = False
    for each in _tenants(slug):
        with tenancy(each.id):
            if options["action"] is not None and events.subject_state(each.id, options["action"]) is None:
                continue
            held = True
            under: dict[str, DecidingPolicy] = {**_named_policies(each, options["policy"]), **drafts}
            instead = {kind: policy.version for kind, policy in under.items()}
            if options["action"] is not None:
                yield replays.replay_actions(each.id, [options["action"]], under=under)[0], instead
                continue
            since, until = options["since"] or BEGINNING, options["until"] or timezone.now()
            for replay in replays.replay_period(each.id, since=since, until=until, under=under):
                yield replay, instead
    if not held:
        raise CommandError(f"There is no action {options['action']}.", returncode=2)


def _replay_bundles(
    paths: list[Path], asked: Mapping[str, str], drafts: dict[str, StoredPolicy]
) -> Iterator[tuple[ActionReplay, Mapping[str, str]]]:
    """Replay the actions of these bundles from the bundles alone."""
    for file in (each for path in paths for each in (sorted(path.iterdir()) if path.is_dir() else [path])):
        try:
            runs, documents = _read_bundle(file)
        except (OSError, zipfile.BadZipFile, ValueError, KeyError, TypeError, bundles.BadBundle) as problem:
            raise CommandError(f"{file}: {problem}", returncode=2) from None
        under: dict[str, DecidingPolicy] = {**_policies_in_bundle(file, asked, documents), **drafts}
        instead = {kind: policy.version for kind, policy in under.items()}
        for action_id in dict.fromkeys(run.action_id for run in runs):
            own = sorted((run for run in runs if run.action_id == action_id), key=lambda run: run.number)
            yield ActionReplay(action_id=action_id, runs=tuple(replay_run(run, under=under) for run in own)), instead


def _read_bundle(file: Path) -> tuple[list[StoredRun], bundles.Documents]:
    if not zipfile.is_zipfile(file):
        data = file.read_bytes()
        return bundles.read_bundle(data), bundles.read_documents(orjson.loads(data)["documents"])
    with zipfile.ZipFile(file) as held:
        names = held.namelist()
        documents = bundles.Documents()
        if bundles.MEMBER in names:
            documents = bundles.read_documents(orjson.loads(held.read(bundles.MEMBER)))
        lines = (line for name in names if name.startswith("events/") for line in held.open(name))
        return list(bundles.read_export(lines, documents)), documents


def _policies_in_bundle(
    file: Path, asked: Mapping[str, str], documents: bundles.Documents
) -> dict[str, DecidingPolicy]:
    found: dict[str, DecidingPolicy] = {}
    for kind, version in asked.items():
        held = [each for each in documents.policies.values() if (each.kind, each.version) == (kind, version)]
        if not held:
            raise CommandError(f"{file} does not contain version {version} of the {kind} policy.", returncode=2)
        found[kind] = held[0]
    return found


def _named_policies(tenant: Tenant, named: list[str]) -> dict[str, DecidingPolicy]:
    return replays.named_policies(tenant.id, dict(each.partition(":")[::2] for each in named))


def _draft(named: str) -> tuple[str, StoredPolicy]:
    kind, _, file = named.partition(":")
    try:
        document = read(Path(file).read_bytes())
    except OSError as problem:
        raise CommandError(f"{file} cannot be read: {problem.strerror}.", returncode=2) from None
    if not isinstance(document, dict):
        raise CommandError(f"{file} is not a policy: it is not a JSON object.", returncode=2)
    return kind, draft_policy(kind, document)


def _moment(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise argparse.ArgumentTypeError(f"{text} is not a time with a time zone, such as 2026-11-01T00:00:00Z")
    return found
