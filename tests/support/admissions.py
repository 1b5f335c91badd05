"""Who may do what: one row for every page and every operation of the API. A new one without a row fails the build.

Pages go by the name of their address, operations by their id in the OpenAPI document. What a row does not name is
refused. `member` is somebody of the tenant who has no role there; agent, exec, oper and audit are kinds of keys.
"""

from __future__ import annotations

from itertools import chain
from typing import Final

ROLES: Final = ("reviewer", "operator", "compliance", "administrator")
PEOPLE: Final = ("member", *ROLES)
KEYS: Final = ("agent", "exec", "oper", "audit")
_PEOPLE: Final = " ".join(PEOPLE)


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _rows(table: dict[str, str]) -> dict[str, frozenset[str]]:
    rows = [(name, frozenset(who.split())) for who, names in table.items() for name in names.split()]
    assert len(rows) == len(dict(rows)), "a name stands in two rows"
    assert set(chain(*dict(rows).values())) <= {*PEOPLE, *KEYS}
    return dict(rows)


PAGES: Final = _rows(
    {
        _PEOPLE: """
            standing-approvals standing-approval releases release
            executors executor installation claims claim claim-receipt
            glossary help guides guide policies policy policy-touched metrics metric-actions metrics-export costs prices
            search target verifier-policy list-export
            home beside quality approvals approvals-next approvals-looking view-save view-remove
            approval approval-looking approval-shown cases emergencies case actions
            action action-entry action-trace action-replay action-replay-bundle action-effect-receipt
            action-signed-receipts action-narrative action-narrative-pdf
            case-narrative case-narrative-pdf
            evidence session run incidents incident incident-review runbooks agents agent calls hallucinations
            agent-stopped
            recordings recording recorded-conversation contracts contract systems ledger log-growth event-proof event
            me my-absence my-absence-end my-delegation-end notices notice-next notices-read notice-wishes freezes
            notice-device-add notice-device-remove""",
        "reviewer": """
            approvals-batch approval-edit my-key-enrol my-key-stop my-delegation
            standing-approval-propose standing-approval-answer standing-approval-resume approval-time-boxed-pass""",
        "reviewer operator": """
            standing-approval-stop standing-approval-revoke target-read
            approval-claim approval-release approval-assign approval-ask approval-vote approval-challenge
            case-challenge case-confirm""",
        "reviewer operator compliance": "approval-comment case-comment",
        "reviewer operator compliance administrator": "emergency-review incident-comment",
        "operator": """
            batches batch batch-turn case-claim case-assign case-release case-snooze case-wake case-reopen case-step
            case-resolve action-verify action-cancel action-case run-cancel incident-new incident-join incident-close
            incident-reopen
            claim-read incident-step system-stop system-resume start-override start-override-end""",
        "operator administrator": """
            alert-rule-make alert-rule-change alert-rule-end price-set price-end cost-budget-set cost-budget-end
            incident-contain agent-revoke freeze-place freeze-lift contract-answer contract-rollback contract-retire
            contract-new
            system-register
            system-answer release-draft release-gates release-sign release-canary release-promote release-end
            policy-rollback system-connection executor-revoke""",
        "operator compliance administrator": "incident-export",
        "compliance": """
            recording-erase export-start export-bundle hold-place hold-lift person-search-start
            person-search erasure-ask erasure-answer off-boarding-answer
            retention-propose retention-answer""",
        "compliance administrator": """
            audit audit-objects sightings exports event-export event-export-start
            event-export-stop event-export-test holds alarm-acknowledge integrity-check integrity-turn""",
        "reviewer compliance administrator": "people member",
        "reviewer administrator": "approver-key-answer",
        "administrator": """
            member-invite member-invite-again member-change member-answer member-remove member-link member-separate
            key-create key-revoke machine-key delegation-end notice-channels notice-channels-set
            notice-channel-test notice-again""",
    }
)

PUBLIC_PAGES: Final = _names(
    """
    account_login account_inactive mfa_authenticate mfa_login_webauthn openid_connect_login openid_connect_callback
    invitation socialaccount_login_cancelled sign-out jwks receipt-keys livez readyz statusz stream session-stream"""
)
PAGES_ABOUT_ONESELF: Final = _names(
    """
    door preferences account_reauthenticate mfa_reauthenticate mfa_reauthenticate_webauthn again-outside mfa_index
    account_change_password mfa_activate_totp mfa_deactivate_totp mfa_view_recovery_codes mfa_generate_recovery_codes
    mfa_list_webauthn mfa_add_webauthn mfa_remove_webauthn end-sessions invitation-accept"""
)

OPERATIONS: Final = _rows(
    {
        # What anybody may ask; a webhook says by its signature whose it is.
        "": "systems_receive installation_livez installation_readyz installation_statusz installation_jwks",
        # What an agent may: propose, and ask about what it proposed.
        "agent": """
            sessions_open_session sessions_ask_check sessions_withhold sessions_propose sessions_close
            decisions_decide
            sessions_report_model_usage guard_guard
            approvals_assignment_answer_question""",
        "agent oper operator": "actions_cancel claims_verify claims_read_again",
        f"agent oper audit {_PEOPLE}": """
            sessions_get_session sessions_session_reports_get_context sessions_session_reports_get_summary
            guard_guard_log actions_list_actions actions_get_action actions_get_history actions_get_report
            workflows_get_run claims_get_claim""",
        f"agent exec oper audit {_PEOPLE}": "actions_state_machine",
        f"exec oper audit {_PEOPLE}": "ledger_read_standing",
        # What an executor may: run what was approved.
        "exec": """
            execution_ready execution_claim execution_start execution_heartbeat execution_observe
            execution_tell_kept_starts decisions_report_outcome""",
        "exec oper operator": "execution_register_executor",
        # What operators commit.
        "oper operator administrator": """
            agents_register_agent agents_revoke_agent registry_register_contract systems_register_system
            approvals_freeze releases_draft releases_draft_contract
            systems_get_pattern releases_run_gates metrics_alerts_make_rule metrics_alerts_change_rule
            metrics_alerts_end_rule costs_set_price costs_end_price costs_set_budget costs_end_budget""",
        "oper administrator": """
            registry_set_policy systems_create_hook systems_rotate_hook systems_revoke_hook notices_get_channels
            notices_undelivered""",
        "oper operator": """
            systems_stop_releasing systems_resume_releasing actions_verify workflows_cancel_run
            metrics_summary_file_false_success""",
        "oper audit operator administrator": "systems_list_hooks",
        "oper audit": "metrics_metrics",
        f"oper {_PEOPLE}": """
            approvals_list_cases approvals_get_case approvals_list_freezes incidents_list_incidents
            incidents_get_incident""",
        f"oper audit {_PEOPLE}": """
            agents_list_agents agents_get_agent agents_get_revocation registry_list_contracts registry_get_contract
            registry_list_policies systems_list_systems recordings_list_recordings recordings_get_recording
            recordings_list_conversations recordings_get_conversation metrics_summary_get_summary
            metrics_summary_export_summary
            metrics_summary_list_actions_behind handoffs_list_handoffs handoffs_get_handoff handoffs_get_schema
            handoffs_export_table handoffs_export_lines actions_verification_runs_list_runs workflows_decide
            actions_effect_receipts_get_effect_receipt actions_signed_receipts_get_signed_receipts
            actions_verification_runs_replay_runs actions_verification_runs_get_replay_bundle registry_simulate
            workflows_strategies break_glass_list_emergencies actions_get_trace releases_list_releases
            releases_get_release metrics_alerts_list_rules metrics_alerts_list_alerts
            costs_list_costs costs_list_prices costs_list_budgets
            claims_list_claims claims_get_claim_receipt""",
        f"audit {_PEOPLE}": """
            standing_approvals_list_offers standing_approvals_list_standing_approvals
            standing_approvals_get_standing_approval""",
        # People, each for themselves; who may vote is asked of the approval.
        _PEOPLE: """
            inbox_get_inbox
            quality_get_quality quality_report approvals_list_approvals approvals_get_approval
            people_list_delegations people_end_delegation people_list_absences people_go_away people_come_back
            approvals_votes_challenge approvals_votes_vote approvals_assignment_thread
            approvals_batch_votes_vote_on_several notices_list_messages notices_read notices_get_wishes
            notices_set_wishes""",
        "reviewer": """
            people_enrol people_begin_enrolment approvals_edits_preview approvals_edits_edit
            standing_approvals_propose standing_approvals_answer standing_approvals_resume
            standing_approvals_give_time_boxed_pass""",
        "reviewer operator": """
            approvals_assignment_claim approvals_assignment_release approvals_assignment_assign
            approvals_assignment_ask approvals_challenge approvals_confirm standing_approvals_pause
            standing_approvals_end standing_approvals_revoke_time_boxed_pass""",
        "reviewer operator compliance": "approvals_assignment_comment approvals_comment approvals_add_evidence",
        "reviewer operator compliance administrator": "break_glass_review incidents_comment",
        "operator": """
            approvals_claim_case approvals_release_case approvals_resolve actions_open_case cases_assign cases_snooze
            cases_wake
            cases_reopen cases_batches_start cases_batches_get_batch cases_batches_pause cases_batches_resume
            cases_batches_cancel incidents_open_incident incidents_link incidents_close incidents_reopen
            ledger_place_override ledger_end_override""",
        "operator administrator": """
            approvals_lift registry_answer_contract registry_retire_contract systems_answer_system releases_sign
            releases_start_canary releases_end releases_promote releases_roll_back releases_roll_back_contract""",
        "compliance": """
            retention_ask retention_confirm retention_refuse retention_withdraw retention_place_hold
            retention_lift_hold retention_propose_policy retention_confirm_policy retention_withdraw_policy
            retention_confirm_off_boarding retention_refuse_off_boarding""",
        "compliance audit": """
            retention_list_erasures retention_get_erasure retention_list_holds retention_list_policies
            ledger_checkpoint ledger_entries ledger_tile ledger_inclusion ledger_consistency ledger_events
            exports_start exports_list_exports exports_get_export exports_get_bundle""",
        "compliance administrator": "event_export_start event_export_stop event_export_send_test",
        "oper audit compliance administrator": "event_export_list_destinations",
        "reviewer compliance administrator": "people_list_members people_list_keys",
        "reviewer administrator": """
            people_confirm_key people_refuse_key people_suspend_key people_restore_key people_remove_key
            people_delegate""",
        "administrator": """
            people_invite people_invite_again people_change people_answer_proposal people_link people_separate
            people_remove notices_set_channels notices_again""",
    }
)

FRESH_PROOF: Final = _names(
    """
    retention_confirm retention_confirm_policy retention_confirm_off_boarding people_change people_answer_proposal
    standing_approvals_answer standing_approvals_resume standing_approvals_give_time_boxed_pass
    releases_sign releases_promote
    releases_roll_back_contract registry_answer_contract registry_retire_contract systems_answer_system"""
)
"""Writes for which somebody proves once more who they are: nothing is written without it, nor with a wrong one."""

SECOND_PERSON: Final = _names(
    """
    retention_confirm retention_refuse retention_confirm_policy people_answer_proposal
    people_confirm_key people_restore_key people_remove_key
    standing_approvals_answer releases_promote registry_answer_contract systems_answer_system"""
)
"""Writes that are refused to whoever proposed what they are about."""
