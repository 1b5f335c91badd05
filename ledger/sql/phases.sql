-- What an action is found by. A row of which an indexed column changes is written anew into every index of its table, and
-- an action changes at each step; so its state and the kind of its last event stand in no index. What stands there is
-- made from them and changes seldom: the phase (ledger/record/rules/lifecycle.py), which is the state except where
-- actions only pass through it, and the kind where it sets the action apart (rules/outcomes.py). A test holds both together.
-- They are plpgsql, which keeps what it made of the list: an expression in the table's own definition is read and planned
-- anew for each statement.
CREATE OR REPLACE FUNCTION ledger_phase(state text) RETURNS text LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    RETURN CASE WHEN state = 'PROPOSED' THEN 'VALIDATED'
        WHEN state IN ('EXECUTING', 'ACCEPTED', 'COMMITTED') THEN 'PENDING' ELSE state END;
END $$;

CREATE OR REPLACE FUNCTION ledger_set_apart(reached_by text) RETURNS text LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    RETURN CASE WHEN reached_by IN ('accepted_as_it_is', 'approval_expired', 'approval_voided', 'attested_absent',
        'attested_present', 'cancelled', 'changes_requested', 'compensation_attested', 'failed_by_review',
        'outside_autonomy', 'preflight_refused', 'provider_outage', 'rejected', 'superseded', 'validation_failed')
        THEN reached_by END;
END $$;
REVOKE ALL ON FUNCTION ledger_phase(text), ledger_set_apart(text) FROM PUBLIC;
