-- Functions that other ones have replaced, which take the tenant as their first argument.

DROP FUNCTION IF EXISTS
    ledger_append(bytea, bytea, bytea, bytea, bytea, jsonb), ledger_lock(uuid, text), ledger_enter(uuid, text),
    ledger_person(uuid, uuid), ledger_two_people(uuid, text, text), ledger_retention_in_force(), ledger_on_hold(uuid[]),
    ledger_take_turn(), ledger_erasure_scope(uuid), ledger_begin_erasure(uuid), ledger_erase(uuid, integer),
    ledger_keys_to_destroy(uuid), ledger_keys_destroyed(uuid[]), ledger_erasure_head(uuid),
    ledger_tell_erasure(bytea, bytea, bytea, bytea, bytea, jsonb), ledger_search(text, uuid, integer),
    ledger_search_fault(), ledger_rebuild_search(), ledger_lock_versions(text, text);
