"""Every URL of the product on one screen."""

from __future__ import annotations

from allauth.mfa.base import views as factors
from allauth.mfa.recovery_codes import views as codes
from allauth.mfa.totp import views as apps
from allauth.mfa.webauthn import views as passkeys
from django.urls import URLPattern, URLResolver, include, path

from console.accounts import step_up
from console.actions import replay as replays
from console.actions import views as actions
from console.actions.routes import effect_receipts, signed_receipts
from console.agents import views as agents
from console.api.root import api
from console.approvals.views import approvals, assignment, batch_votes, edits, queue, time_box, voting
from console.audit import views as audit
from console.break_glass import views as break_glass
from console.calls import views as calls
from console.cases.views import batches, cases
from console.claims import views as claims
from console.contracts import views as contracts
from console.costs import views as costs
from console.edge import stream
from console.entrance import views as entrance
from console.event_export import views as event_export
from console.evidence import views as evidence
from console.execution import views as executors
from console.exports import views as exports
from console.freezes import views as freezes
from console.glossary import views as glossary
from console.guides import views as guides
from console.home import views as home
from console.incidents import views as incidents
from console.installation import routes as installation
from console.installation import views as installation_status
from console.ledger import views as ledger
from console.lists import views as lists
from console.me import sign_in_views
from console.me import views as me
from console.metrics import views as metrics
from console.narratives import views as narratives
from console.notifications import views as notices
from console.people import views as people
from console.policies import views as policies
from console.quality import views as quality
from console.recordings import views as recordings
from console.releases import drafts as release_drafts
from console.releases import views as releases
from console.retention import views as retention
from console.runbooks import views as runbooks
from console.runs import views as runs
from console.search import views as search
from console.sessions import session_stream
from console.sessions import views as sessions
from console.standing_approvals import views as standing_approvals
from console.systems import views as systems
from console.targets import views as targets

# Pages of one tenant: /t/<slug>/…
pages: list[URLPattern | URLResolver] = [
    path("", home.page, name="home"),
    path("beside", home.list_beside, name="beside"),
    path("search", search.page, name="search"),
    path("approvals/quality", quality.page, name="quality"),
    path("approvals", queue.inbox, name="approvals"),
    path("approvals/next", queue.next_approval, name="approvals-next"),
    path("approvals/batch", batch_votes.vote_on_several, name="approvals-batch"),
    path("approvals/looking", assignment.list_presence, name="approvals-looking"),
    path("<slug:list_name>.csv", lists.export_list, name="list-export"),
    path("<slug:list_name>/views", lists.save_view, name="view-save"),
    path("<slug:list_name>/views/<uuid:view_id>/remove", lists.remove_view, name="view-remove"),
    path("approvals/<uuid:approval_id>", approvals.approval, name="approval"),
    path("approvals/<uuid:approval_id>/claim", assignment.claim, name="approval-claim"),
    path("approvals/<uuid:approval_id>/release", assignment.release, name="approval-release"),
    path("approvals/<uuid:approval_id>/assign", assignment.assign, name="approval-assign"),
    path("approvals/<uuid:approval_id>/comments", assignment.comment, name="approval-comment"),
    path("approvals/<uuid:approval_id>/questions", assignment.ask_agent, name="approval-ask"),
    path("approvals/<uuid:approval_id>/looking", assignment.report_presence, name="approval-looking"),
    path("approvals/<uuid:approval_id>/vote", voting.vote, name="approval-vote"),
    path("approvals/<uuid:approval_id>/challenge", voting.challenge, name="approval-challenge"),
    path("approvals/<uuid:approval_id>/shown", voting.vote_coverage, name="approval-shown"),
    path("approvals/<uuid:approval_id>/edit", edits.edit, name="approval-edit"),
    path("approvals/<uuid:approval_id>/time-boxed-pass", time_box.give, name="approval-time-boxed-pass"),
    path("cases", cases.list_cases, name="cases"),
    path("standing-approvals", standing_approvals.list_page, name="standing-approvals"),
    path("standing-approvals/propose", standing_approvals.propose, name="standing-approval-propose"),
    path("standing-approvals/<uuid:standing_approval_id>", standing_approvals.page, name="standing-approval"),
    path(
        "standing-approvals/<uuid:standing_approval_id>/answer",
        standing_approvals.answer,
        name="standing-approval-answer",
    ),
    path(
        "standing-approvals/<uuid:standing_approval_id>/resume",
        standing_approvals.resume,
        name="standing-approval-resume",
    ),
    path("standing-approvals/<uuid:standing_approval_id>/stop", standing_approvals.stop, name="standing-approval-stop"),
    path(
        "standing-approvals/<uuid:standing_approval_id>/revoke",
        standing_approvals.revoke,
        name="standing-approval-revoke",
    ),
    path("emergencies", break_glass.page, name="emergencies"),
    path("emergencies/<uuid:emergency_id>/review", break_glass.review, name="emergency-review"),
    path("cases/batches", batches.start_batch, name="batches"),
    path("cases/batches/<uuid:batch_id>", batches.show_batch, name="batch"),
    path("cases/batches/<uuid:batch_id>/turn", batches.change_batch, name="batch-turn"),
    path("cases/<uuid:case_id>", cases.case, name="case"),
    path("cases/<uuid:case_id>/claim", cases.claim, name="case-claim"),
    path("cases/<uuid:case_id>/assign", cases.assign, name="case-assign"),
    path("cases/<uuid:case_id>/release", cases.release, name="case-release"),
    path("cases/<uuid:case_id>/snooze", cases.snooze, name="case-snooze"),
    path("cases/<uuid:case_id>/wake", cases.wake, name="case-wake"),
    path("cases/<uuid:case_id>/reopen", cases.reopen, name="case-reopen"),
    path("cases/<uuid:case_id>/comments", cases.comment, name="case-comment"),
    path("cases/<uuid:case_id>/steps", runbooks.case_step, name="case-step"),
    path("cases/<uuid:case_id>/resolve", cases.resolve, name="case-resolve"),
    path("cases/<uuid:case_id>/challenge", cases.challenge, name="case-challenge"),
    path("cases/<uuid:case_id>/confirm", cases.confirm, name="case-confirm"),
    path("actions", actions.list_actions, name="actions"),
    path("target", targets.page, name="target"),
    path("target/read", targets.read, name="target-read"),
    path("actions/<uuid:action_id>", actions.action, name="action"),
    path("actions/<uuid:action_id>/verify", actions.verify, name="action-verify"),
    path("actions/<uuid:action_id>/cancel", actions.cancel, name="action-cancel"),
    path("actions/<uuid:action_id>/case", actions.open_case, name="action-case"),
    path("actions/<uuid:action_id>/entries/<int:seq>", actions.show_entry, name="action-entry"),
    path("actions/<uuid:action_id>/trace", actions.show_trace, name="action-trace"),
    path("actions/<uuid:action_id>/replay", replays.action_replay, name="action-replay"),
    path("actions/<uuid:action_id>/replay-bundle", replays.download_replay_bundle, name="action-replay-bundle"),
    path(
        "actions/<uuid:action_id>/effect-receipt.json",
        effect_receipts.download_effect_receipt,
        name="action-effect-receipt",
    ),
    path(
        "actions/<uuid:action_id>/signed-receipts.jsonl",
        signed_receipts.download_signed_receipts,
        name="action-signed-receipts",
    ),
    path("actions/<uuid:action_id>/narrative", narratives.action, name="action-narrative"),
    path("actions/<uuid:action_id>/narrative.pdf", narratives.action_pdf, name="action-narrative-pdf"),
    path("cases/<uuid:case_id>/narrative", narratives.case, name="case-narrative"),
    path("cases/<uuid:case_id>/narrative.pdf", narratives.case_pdf, name="case-narrative-pdf"),
    path("evidence/<uuid:pointer>", evidence.evidence, name="evidence"),
    path("sessions/<uuid:session_id>", sessions.session, name="session"),
    path("runs/<path:run_id>/cancel", runs.cancel_run, name="run-cancel"),
    path("runs/<path:run_id>", runs.run, name="run"),
    path("incidents", incidents.list_incidents, name="incidents"),
    path("incidents/new", incidents.new_incident, name="incident-new"),
    path("incidents/<uuid:incident_id>", incidents.incident, name="incident"),
    path("incidents/<uuid:incident_id>/join", incidents.link_subject, name="incident-join"),
    path("incidents/<uuid:incident_id>/contain", incidents.contain, name="incident-contain"),
    path("incidents/<uuid:incident_id>/comments", incidents.comment, name="incident-comment"),
    path("incidents/<uuid:incident_id>/close", incidents.close, name="incident-close"),
    path("incidents/<uuid:incident_id>/reopen", incidents.reopen, name="incident-reopen"),
    path("incidents/<uuid:incident_id>/steps", runbooks.incident_step, name="incident-step"),
    path("incidents/<uuid:incident_id>/post-mortem", incidents.show_postmortem, name="incident-review"),
    path("incidents/<uuid:incident_id>/post-mortem/export", incidents.export_postmortem, name="incident-export"),
    path("claims", claims.list_claims, name="claims"),
    path("claims/<uuid:claim_id>", claims.claim, name="claim"),
    path("claims/<uuid:claim_id>/read", claims.read_again, name="claim-read"),
    path("claims/<uuid:claim_id>/receipt.json", claims.download_receipt, name="claim-receipt"),
    path("glossary", glossary.page, name="glossary"),
    path("help", glossary.help_page, name="help"),
    path("docs/", guides.list_guides, name="guides"),
    path("docs/<slug:guide_name>", guides.guide, name="guide"),
    path("runbooks", runbooks.page, name="runbooks"),
    path("agents", agents.list_agents, name="agents"),
    path("agents/<str:agent_id>", agents.agent, name="agent"),
    path("agents/<str:agent_id>/revoke", agents.revoke, name="agent-revoke"),
    path("agents/<str:agent_id>/stopped", agents.show_stop, name="agent-stopped"),
    path("executors", executors.list_executors, name="executors"),
    path("executors/<str:executor_id>", executors.executor, name="executor"),
    path("executors/<str:executor_id>/revoke", executors.revoke, name="executor-revoke"),
    path("calls", calls.list_calls, name="calls"),
    path("calls/hallucinations", calls.hallucinations, name="hallucinations"),
    path("recordings", recordings.list_recordings, name="recordings"),
    path("recordings/<uuid:recording_id>", recordings.recording_page, name="recording"),
    path("recordings/<uuid:recording_id>/erase", recordings.request_erasure, name="recording-erase"),
    path("recordings/<uuid:recording_id>/<int:number>", recordings.conversation, name="recorded-conversation"),
    path("contracts", contracts.list_contracts, name="contracts"),
    path("contracts/new", contracts.register, name="contract-new"),
    path("contracts/<str:contract_name>/<str:contract_version>", contracts.contract, name="contract"),
    path("contracts/<str:contract_name>/<str:contract_version>/retire", contracts.retire, name="contract-retire"),
    path(
        "contracts/<str:contract_name>/<str:contract_version>/rollback", contracts.roll_back, name="contract-rollback"
    ),
    path(
        "contracts/<str:contract_name>/<str:contract_version>/answer", contracts.decide_version, name="contract-answer"
    ),
    path("policies/", policies.list_policies, name="policies"),
    path("policies/<str:policy_kind>/<str:policy_version>", policies.policy, name="policy"),
    path(
        "policies/<str:policy_kind>/<str:policy_version>/touched", policies.show_touched_actions, name="policy-touched"
    ),
    path("policies/<str:policy_kind>/<str:policy_version>/rollback", policies.roll_back, name="policy-rollback"),
    path("releases", releases.list_releases, name="releases"),
    path("releases/draft", release_drafts.draft, name="release-draft"),
    path("releases/<uuid:release_id>", releases.release, name="release"),
    path("releases/<uuid:release_id>/gates", releases.run_gates, name="release-gates"),
    path("releases/<uuid:release_id>/signatures", releases.sign, name="release-sign"),
    path("releases/<uuid:release_id>/canary", releases.start_canary, name="release-canary"),
    path("releases/<uuid:release_id>/promotion", releases.promote, name="release-promote"),
    path("releases/<uuid:release_id>/end", releases.end, name="release-end"),
    path("metrics/", metrics.page, name="metrics"),
    path("metrics/actions", metrics.list_actions, name="metric-actions"),
    path("metrics/export", metrics.export, name="metrics-export"),
    path("costs", costs.page, name="costs"),
    path("costs/prices", costs.list_prices, name="prices"),
    path("costs/prices/set", costs.set_price, name="price-set"),
    path("costs/prices/<uuid:price_id>/end", costs.end_price, name="price-end"),
    path("costs/budgets/set", costs.set_budget, name="cost-budget-set"),
    path("costs/budgets/<uuid:budget_id>/end", costs.end_budget, name="cost-budget-end"),
    path("metrics/alert-rules", metrics.make_alert_rule, name="alert-rule-make"),
    path("metrics/alert-rules/<uuid:alert_rule_id>/change", metrics.change_alert_rule, name="alert-rule-change"),
    path("metrics/alert-rules/<uuid:alert_rule_id>/end", metrics.end_alert_rule, name="alert-rule-end"),
    path("systems", systems.page, name="systems"),
    path("systems/register", systems.register, name="system-register"),
    path("installation", installation_status.page, name="installation"),
    path("systems/<uuid:system_id>/answer", systems.decide_change, name="system-answer"),
    path("systems/<uuid:system_id>/connection", systems.test_connection, name="system-connection"),
    path("systems/<uuid:system_id>/stop", systems.stop, name="system-stop"),
    path("systems/<uuid:system_id>/resume", systems.resume, name="system-resume"),
    path("audit", audit.search_events, name="audit"),
    path("audit/objects", audit.suggest_objects, name="audit-objects"),
    path("audit/sightings", audit.sightings, name="sightings"),
    path("audit/exports", exports.list_exports, name="exports"),
    path("audit/exports/start", exports.start_export, name="export-start"),
    path("audit/exports/<uuid:export_id>/bundle", exports.download_bundle, name="export-bundle"),
    path("audit/holds", retention.page, name="holds"),
    path("audit/holds/place", retention.place, name="hold-place"),
    path("audit/holds/<uuid:hold_id>/lift", retention.lift, name="hold-lift"),
    path("audit/erasures/search", retention.start_person_search, name="person-search-start"),
    path("audit/erasures/search/<uuid:search_id>", retention.show_person_search, name="person-search"),
    path("audit/erasures/ask", retention.request_erasure, name="erasure-ask"),
    path("audit/erasures/<uuid:erasure_id>/answer", retention.answer_erasure, name="erasure-answer"),
    path(
        "audit/off-boarding/<uuid:off_boarding_id>/answer",
        retention.answer_off_boarding,
        name="off-boarding-answer",
    ),
    path("audit/retention/propose", retention.propose, name="retention-propose"),
    path("audit/retention/<uuid:retention_id>/answer", retention.answer_policy, name="retention-answer"),
    path("ledger", ledger.page, name="ledger"),
    path("ledger/verifier-policy", ledger.download_verifier_policy, name="verifier-policy"),
    path("ledger/alarms/<uuid:alarm_id>/acknowledge", ledger.acknowledge_alarm, name="alarm-acknowledge"),
    path("ledger/overrides", ledger.place_override, name="start-override"),
    path("ledger/overrides/<uuid:override_id>/end", ledger.end_override, name="start-override-end"),
    path("ledger/checks", ledger.start_check, name="integrity-check"),
    path("ledger/checks/<uuid:check_id>/turn", ledger.change_check, name="integrity-turn"),
    path("ledger/<int:number>/growth/<int:old>/<int:new>", ledger.consistency_proof, name="log-growth"),
    path("events/<uuid:subject_id>/<int:seq>/proof", ledger.event_proof, name="event-proof"),
    path("events/<uuid:subject_id>/<int:seq>", audit.event, name="event"),
    path("people", people.page, name="people"),
    path("people/invite", people.invite, name="member-invite"),
    path("people/<uuid:member_id>", people.member, name="member"),
    path("people/<uuid:member_id>/invite-again", people.invite_again, name="member-invite-again"),
    path("people/<uuid:member_id>/change", people.change, name="member-change"),
    path("people/<uuid:member_id>/answer", people.decide_proposal, name="member-answer"),
    path("people/<uuid:member_id>/remove", people.remove, name="member-remove"),
    path("people/<uuid:member_id>/link", people.link, name="member-link"),
    path("people/<uuid:member_id>/separate", people.separate, name="member-separate"),
    path("people/approver-keys/<uuid:approver_key_id>/answer", people.decide_key, name="approver-key-answer"),
    path("people/keys/create", people.create_key, name="key-create"),
    path("people/keys/<uuid:machine_key_id>", people.machine_key, name="machine-key"),
    path("people/keys/<uuid:machine_key_id>/revoke", people.revoke_key, name="key-revoke"),
    path("people/delegations/<uuid:delegation_id>/end", people.end_delegation, name="delegation-end"),
    path("me", me.page, name="me"),
    path("me/keys/enrol", me.enrol, name="my-key-enrol"),
    path("me/keys/<uuid:approver_key_id>/stop", me.stop_key, name="my-key-stop"),
    path("me/absences", me.start_absence, name="my-absence"),
    path("me/absences/<uuid:absence_id>/end", me.end_absence, name="my-absence-end"),
    path("me/delegations", me.delegate, name="my-delegation"),
    path("me/delegations/<uuid:delegation_id>/end", me.end_delegation, name="my-delegation-end"),
    path("notices", notices.page, name="notices"),
    path("notices/next", notices.open_next, name="notice-next"),
    path("notices/read", notices.mark_read, name="notices-read"),
    path("notices/wishes", notices.save_mail_preferences, name="notice-wishes"),
    path("notices/devices", notices.add_device, name="notice-device-add"),
    path("notices/devices/<uuid:device_id>/remove", notices.remove_device, name="notice-device-remove"),
    path("notices/channels", notices.channels, name="notice-channels"),
    path("event-export", event_export.page, name="event-export"),
    path("event-export/<str:destination_name>/start", event_export.start, name="event-export-start"),
    path("event-export/<str:destination_name>/stop", event_export.stop, name="event-export-stop"),
    path("event-export/<str:destination_name>/test", event_export.send_test, name="event-export-test"),
    path("notices/channels/<str:channel>/test", notices.send_test, name="notice-channel-test"),
    path("notices/channels/set", notices.set_channels, name="notice-channels-set"),
    path("notices/undelivered/<uuid:notice_id>/again", notices.retry_notice, name="notice-again"),
    path("freezes", freezes.list_freezes, name="freezes"),
    path("freezes/place", freezes.place, name="freeze-place"),
    path("freezes/<uuid:freeze_id>/lift", freezes.lift, name="freeze-lift"),
]

handler500 = "console.edge.error_pages.server_error"
handler404 = "console.edge.error_pages.not_found"
handler403 = "console.edge.error_pages.access_denied"

urlpatterns: list[URLPattern | URLResolver] = [
    # They are compared in turn, and machines ask most.
    path("api/v1/stream", stream.stream_changes, name="stream"),
    path("api/v1/sessions/<uuid:session_id>/stream", session_stream.stream_session, name="session-stream"),
    path("api/v1/", api.urls),
    path("", entrance.choose_tenant, name="door"),
    # The names are allauth's, which looks its pages up by them.
    path("sign-in", entrance.sign_in, name="account_login"),
    path("sign-in/second-step", factors.authenticate, name="mfa_authenticate"),
    path("sign-in/passkey", passkeys.login_webauthn, name="mfa_login_webauthn"),
    path("sign-in/with/<slug:provider_id>", entrance.start_provider_sign_in, name="openid_connect_login"),
    path("sign-in/with/<slug:provider_id>/callback", entrance.finish_provider_sign_in, name="openid_connect_callback"),
    path("sign-in/cancelled", entrance.sign_in_cancelled, name="socialaccount_login_cancelled"),
    path("sign-in/closed", entrance.account_closed, name="account_inactive"),
    path("sign-in/again", entrance.again, name="account_reauthenticate"),
    path("sign-in/again/code", factors.reauthenticate, name="mfa_reauthenticate"),
    path("sign-in/again/passkey", passkeys.reauthenticate_webauthn, name="mfa_reauthenticate_webauthn"),
    path("sign-in/again/outside", entrance.reauthenticate_with_provider, name="again-outside"),
    path("sign-out", entrance.sign_out, name="sign-out"),
    path("account", sign_in_views.page, name="mfa_index"),
    path("account/password", sign_in_views.password, name="account_change_password"),
    path("account/app", step_up.require_recent_authentication(apps.activate_totp), name="mfa_activate_totp"),
    path("account/app/remove", step_up.require_recent_authentication(apps.deactivate_totp), name="mfa_deactivate_totp"),
    path("account/codes", codes.view_recovery_codes, name="mfa_view_recovery_codes"),
    path(
        "account/codes/new",
        step_up.require_recent_authentication(codes.generate_recovery_codes),
        name="mfa_generate_recovery_codes",
    ),
    path("account/passkeys", sign_in_views.redirect_after_removal, name="mfa_list_webauthn"),
    path(
        "account/passkeys/add",
        step_up.require_recent_authentication(sign_in_views.add_passkey),
        name="mfa_add_webauthn",
    ),
    path(
        "account/passkeys/<int:pk>/remove",
        step_up.require_recent_authentication(passkeys.remove_webauthn),
        name="mfa_remove_webauthn",
    ),
    path("account/sessions/end", sign_in_views.end_sessions, name="end-sessions"),
    path("invitation/<str:token>", entrance.invitation, name="invitation"),
    path("invitations/<uuid:member_id>/accept", entrance.accept_invitation, name="invitation-accept"),
    path("preferences", entrance.save_preferences, name="preferences"),
    path("t/<slug:slug>/", include(pages)),
    path(".well-known/jwks.json", installation.jwks_page, name="jwks"),
    path(".well-known/acta-keys.json", installation.receipt_keys_page, name="receipt-keys"),
    path("livez", installation.livez_page, name="livez"),
    path("readyz", installation.readyz_page, name="readyz"),
    path("statusz", installation.statusz_page, name="statusz"),
]
