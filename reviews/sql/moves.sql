-- What is not written while its tenant is being moved (ledger/sql/moves.sql).
SELECT ledger_hold_moving_tables('reviews');
