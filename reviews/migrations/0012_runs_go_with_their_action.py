from __future__ import annotations

from django.db import migrations

# A run holds codes only, so erasing leaves it as it is, but for what a system said of its own freshness.
BLANK = """
INSERT INTO ledger_blank (relation, subject, columns) VALUES ('reviews_run', 'action_id', '{"freshness": ""}');
"""


class Migration(migrations.Migration):
    dependencies = [("reviews", "0011_what_erasing_blanks")]
    operations = [migrations.RunSQL(BLANK, migrations.RunSQL.noop)]
