"""Surveys: each runs as the role that asks, costs one statement, and shows nobody another tenant's rows."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import errors

from ledger.record.queries.work import Work


@pytest.mark.parametrize("kind", sorted(Work))
def test_each_kind_of_work_has_a_survey(app_connection: psycopg.Connection, kind: str):
    package, name = kind.split(".")
    app_connection.execute(f"SELECT * FROM {package}_survey(%s, now())", [name])


def test_a_survey_leaves_no_rows_open(app_connection: psycopg.Connection):
    with app_connection.transaction():
        app_connection.execute("SELECT set_config('app.survey', 'on', true)")
        assert app_connection.execute("SELECT count(*) FROM ledger_action").fetchone() == (0,)
        app_connection.execute("SELECT * FROM ledger_survey('late_logs', now())")
        [(left,)] = app_connection.execute("SELECT current_setting('app.survey', true)").fetchall()
    assert left == ""


def test_an_unknown_kind_of_work_is_an_error(app_connection: psycopg.Connection):
    with pytest.raises(errors.CaseNotFound):
        app_connection.execute("SELECT * FROM ledger_survey('anything', now())")
