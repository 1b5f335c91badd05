"""`python -m tests.guard`: the guard's figures on conversations, made ones and real ones."""

from __future__ import annotations

import sys

from django.conf import settings

from tests.guard import dialogues, mutations, retail
from tests.guard.conversations import messages
from tests.guard.figures import figures_of, table

settings.configure(USE_I18N=False, USE_TZ=True)
sys.stdout.write(f"conversations, nothing configured\n{table(figures_of(messages()))}\n\n")
sys.stdout.write(f"conversations, with sayings\n{table(figures_of(messages(sayings=True)))}\n\n")
if retail.is_there():
    for title, suggested in (("nothing configured", False), ("sayings suggested from the others", True)):
        sys.stdout.write(
            f"real conversations of a shop, {title}\n{retail.report(retail.measured(suggested=suggested))}\n"
        )
        sys.stdout.write(f"the same made false\n{mutations.report(retail.mutants(suggested=suggested))}\n\n")
    sys.stdout.write(f"the labelled messages\n{retail.labelled()}\n\n")
    sys.stdout.write(f"falsified in one value, nothing configured\n{retail.falsified_figures().table()}\n\n")
if dialogues.is_there():
    sys.stdout.write(f"real dialogues with services\n{retail.report(dialogues.measured())}\n")
    sys.stdout.write(f"the same with recaps\n{retail.report(dialogues.measured_recaps())}\n")
    falsified, shown = dialogues.falsified_figures()
    sys.stdout.write(f"recaps falsified in one value\n{falsified.table()}\n\n")
    sys.stdout.write(f"recaps of what is shown otherwise\n{shown.table()}\n\n")
if not retail.is_there():
    sys.stdout.write("The real conversations are not there; COUNTERFOIL_RECORDINGS names their folder.\n")
