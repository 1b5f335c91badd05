"""What the console keeps of an audited recording, as other tests keep it without an audit."""

from __future__ import annotations

import json
import os
from dataclasses import asdict

from counterfoil_transcripts.acts import TrustRequirement
from counterfoil_transcripts.audit import audit_conversation
from counterfoil_transcripts.commands.importing import audited_file
from counterfoil_transcripts.commands.recording_rows import open_spool
from counterfoil_transcripts.contracts import ContractCatalogue
from counterfoil_transcripts.offers import OfferCache
from counterfoil_transcripts.reading import intake
from counterfoil_transcripts.reports.totals import AuditTotals
from tests.support.outside.recorded import FILE
from tests.transcripts.imports import BAD, GOOD, recording


def test_the_rows_that_other_tests_import_are_those_of_an_audit(tmp_path):
    """Write them anew with WRITE_SNAPSHOTS=1."""
    file, offers, totals = recording(tmp_path, BAD, GOOD), OfferCache(ContractCatalogue()), AuditTotals()
    with open_spool(TrustRequirement.ANSWERS) as spool:
        for each in intake.read_conversations(file):
            found = audit_conversation(each, offers.of(each), trust=TrustRequirement.ANSWERS)
            spool.add(found)
            totals.add(found)
        audited = asdict(audited_file(file, digest="", trust="answers", contracts="", totals=totals, faults=[]))
        del audited["name"], audited["digest"]
        made = {"file": audited, "conversations": [*spool.conversations()], "messages": [*spool.messages()]}
    if os.environ.get("WRITE_SNAPSHOTS"):
        FILE.write_text(json.dumps(made, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
    assert json.loads(FILE.read_text()) == json.loads(json.dumps(made))
