-- The tables and functions of the record's database as a distributed PostgreSQL (Citus 12 or later) would be given them.
--
-- THIS HAS NEVER BEEN RUN ON A CLUSTER. A test compares it with the catalogue of a prepared database: each table with a
-- tenant is distributed by it, each other one is copied or left where it is, as docs/scale.md lists them with reasons.
-- What stands in the way of running the product on it is listed there, too. Take it as the beginning of a trial, on a
-- copy of your data, and never on the database that you rely on.
--
--   psql "$SUPERUSER_URL_OF_THE_COORDINATOR" -v ON_ERROR_STOP=1 --single-transaction -f deploy/citus.sql
--
-- after `CREATE EXTENSION citus`, with the nodes added, the roles of deploy/postgresql.sql on each of them, and
-- `manage.py prepare_database` run on the coordinator. The key database is not distributed: its rows have random ids and no
-- tenant.

-- Triggers of distributed tables are made on each shard only if this is said.
SET citus.enable_unsafe_triggers = on;
-- The tenant of a transaction (SET LOCAL app.tenant) goes along to the nodes: `ALTER DATABASE … SET` this for all sessions.
SET citus.propagate_set_commands = 'local';

-- Copied to each node.
SELECT create_reference_table('approvals_grantkeychange');
SELECT create_reference_table('console_user');
SELECT create_reference_table('ledger_blank');
SELECT create_reference_table('ledger_maintenance');
SELECT create_reference_table('ledger_tenant');

-- Distributed by tenant, all beside the first.
SELECT create_distributed_table('ledger_subject', 'tenant_id', colocate_with := 'none');
SELECT create_distributed_table('approvals_absence', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('approvals_agent', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('approvals_agentversion', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('approvals_approval', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('approvals_approver', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('approvals_approverkey', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('approvals_attempt', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('approvals_attention', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('approvals_call', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('approvals_challenge', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('approvals_comment', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('approvals_delegation', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('approvals_due', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('approvals_emergency', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('approvals_executor', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('approvals_grant', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('approvals_modelusage', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('approvals_session', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('approvals_spending', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('approvals_standingapproval', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('approvals_standingpass', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('approvals_startoverride', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('approvals_vote', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('console_alert', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('console_alertrule', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('console_answeredwrite', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('console_apikey', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('console_costbudget', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('console_eventdestination', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('console_membership', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('console_message', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('console_metricaction', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('console_metriccursor', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('console_metricdelay', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('console_metricrollup', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('console_notice', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('console_noticecursor', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('console_noticesettings', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('console_noticewish', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('console_price', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('console_pushdevice', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('console_recordedconversation', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('console_recordedmessage', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('console_recordedword', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('console_recording', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('console_savedview', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('console_searchcursor', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('console_searchterm', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('console_sighting', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('console_spentproof', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('console_tracecursor', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('ledger_action', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('ledger_actionsearch', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('ledger_alarm', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('ledger_anchor', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('ledger_anchoring', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('ledger_checkpoint', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('ledger_contractversion', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('ledger_entry', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('ledger_erased', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('ledger_erasure', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('ledger_event', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('ledger_evidence', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('ledger_export', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('ledger_freeze', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('ledger_hold', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('ledger_idempotency', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('ledger_integritycheck', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('ledger_leaf', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('ledger_log', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('ledger_order', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('ledger_pending', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('ledger_policyversion', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('ledger_release', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('ledger_releasegate', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('ledger_retention', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('ledger_subjectkey', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('ledger_system', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('ledger_tile', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('ledger_tip', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('ledger_unwinding', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('reviews_batch', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('reviews_batchitem', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('reviews_case', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('reviews_claim', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('reviews_comment', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('reviews_guardverdict', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('reviews_health', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('reviews_hook', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('reviews_hookdelivery', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('reviews_incident', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('reviews_incidentlink', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('reviews_lane', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('reviews_observation', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('reviews_readingcount', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('reviews_readingtotal', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('reviews_report', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('reviews_run', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('reviews_schedule', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('reviews_stray', 'tenant_id', colocate_with := 'ledger_subject');
SELECT create_distributed_table('reviews_watch', 'tenant_id', colocate_with := 'ledger_subject');

-- Functions about one tenant's rows run where the rows are.
SELECT create_distributed_function('approvals_lock_release(uuid,uuid,boolean)', 'p_tenant', colocate_with := 'ledger_subject');
SELECT create_distributed_function('ledger_append(uuid,bytea,bytea,bytea,bytea,bytea,jsonb)', 'p_tenant', colocate_with := 'ledger_subject');
SELECT create_distributed_function('ledger_begin_erasure(uuid,uuid)', 'p_tenant', colocate_with := 'ledger_subject');
SELECT create_distributed_function('ledger_enter(uuid,uuid,text)', 'p_tenant', colocate_with := 'ledger_subject');
SELECT create_distributed_function('ledger_erase(uuid,uuid,integer)', 'p_tenant', colocate_with := 'ledger_subject');
SELECT create_distributed_function('ledger_erasure_head(uuid,uuid)', 'p_tenant', colocate_with := 'ledger_subject');
SELECT create_distributed_function('ledger_erasure_scope(uuid,uuid)', 'p_tenant', colocate_with := 'ledger_subject');
SELECT create_distributed_function('ledger_keys_destroyed(uuid,uuid[])', 'p_tenant', colocate_with := 'ledger_subject');
SELECT create_distributed_function('ledger_keys_to_destroy(uuid,uuid)', 'p_tenant', colocate_with := 'ledger_subject');
SELECT create_distributed_function('ledger_lock(uuid,uuid,text)', 'p_tenant', colocate_with := 'ledger_subject');
SELECT create_distributed_function('ledger_lock_versions(uuid,text,text)', 'p_tenant', colocate_with := 'ledger_subject');
SELECT create_distributed_function('ledger_on_hold(uuid,uuid[])', 'p_tenant', colocate_with := 'ledger_subject');
SELECT create_distributed_function('ledger_own_tenant(uuid)', 'p_tenant', colocate_with := 'ledger_subject');
SELECT create_distributed_function('ledger_pass_gate(uuid)', 'p_tenant', colocate_with := 'ledger_subject');
SELECT create_distributed_function('ledger_person(uuid,uuid,uuid)', 'p_tenant', colocate_with := 'ledger_subject');
SELECT create_distributed_function('ledger_rebuild_search(uuid)', 'p_tenant', colocate_with := 'ledger_subject');
SELECT create_distributed_function('ledger_red_gates(uuid,uuid,text[])', 'p_tenant', colocate_with := 'ledger_subject');
SELECT create_distributed_function('ledger_refuse_tenant(uuid)', 'p_tenant', colocate_with := 'ledger_subject');
SELECT create_distributed_function('ledger_retention_in_force(uuid)', 'p_tenant', colocate_with := 'ledger_subject');
SELECT create_distributed_function('ledger_search(uuid,text,uuid,integer,integer)', 'p_tenant', colocate_with := 'ledger_subject');
SELECT create_distributed_function('ledger_search_fault(uuid)', 'p_tenant', colocate_with := 'ledger_subject');
SELECT create_distributed_function('ledger_take_turn(uuid)', 'p_tenant', colocate_with := 'ledger_subject');
SELECT create_distributed_function('ledger_tell_erasure(uuid,bytea,bytea,bytea,bytea,bytea,jsonb)', 'p_tenant', colocate_with := 'ledger_subject');
SELECT create_distributed_function('ledger_two_people(uuid,uuid,text,text)', 'p_tenant', colocate_with := 'ledger_subject');
