"""Every page of signing in and of one's account wears our frame, allauth's own among them.

The addresses come from the URL table, so a new one is walked by itself.
"""

from __future__ import annotations

import json
import re
from typing import Any

from django.test import Client
from fido2.utils import websafe_decode

from tests.support.probes import filled, pages
from tests.support.signing import device
from tests.web.people.test_signing_in import again, sign_in, with_app

# JSON and streams for programs.
FOR_PROGRAMS = {"jwks", "receipt-keys", "livez", "readyz", "statusz", "stream", "session-stream"}
# allauth's own pages, and ours that stand in for one, by their headings.
HEADINGS = {
    "account_login": "Sign in",
    "account_reauthenticate": "Confirm it's you",
    "account_change_password": "Change the password",
    "mfa_authenticate": "Second step",
    "mfa_reauthenticate": "Confirm it's you",
    "mfa_reauthenticate_webauthn": "Confirm it's you",
    "mfa_index": "Security",
    "mfa_activate_totp": "Add an authenticator app",
    "mfa_deactivate_totp": "Remove the authenticator app",
    "mfa_view_recovery_codes": "Recovery codes",
    "mfa_generate_recovery_codes": "New recovery codes",
    "mfa_add_webauthn": "Add a passkey for signing in",
    "mfa_remove_webauthn": "Remove a passkey",
    "socialaccount_login_cancelled": "Not signed in",
    "account_inactive": "Not signed in",
}


def add_passkey(client: Client) -> str:
    """The person adds a passkey on the page for it; the number that the page for removing it has."""
    page = client.get("/account/passkeys/add").content.decode()
    found = re.search(r'<script id="passkey-options"[^>]*>(.*?)</script>', page, re.DOTALL)
    assert found
    challenge = websafe_decode(json.loads(found[1])["publicKey"]["challenge"])
    made = device().registration(challenge)
    credential = json.dumps(made | {"clientExtensionResults": {"credProps": {"rk": True}}})
    answer = client.post("/account/passkeys/add", {"name": "Blue key", "credential": credential})
    assert answer.status_code == 302, answer.content
    removal = re.search(r"/account/passkeys/(\d+)/remove", client.get("/account").content.decode())
    assert removal
    return removal[1]


def addresses(passkey: str) -> dict[str, str]:
    """Every address of no tenant that people open, by its name."""
    parts = {"provider_id": "nobody", "token": "nothing", "member_id": "00000000-0000-0000-0000-000000000000"}
    found = {str(page.name): route for route, page in pages() if not route.startswith("t/<")}
    return {name: filled(found[name], parts | {"pk": passkey}) for name in found.keys() - FOR_PROGRAMS}


def test_every_sign_in_page_has_the_frame_of_the_console(stage: Any):
    username = stage.person("reviewer").user.username
    with_both, _ = with_app(username)
    passkey = add_passkey(with_both)
    with_password, _ = sign_in(stage.person("operator").user.username)
    again(with_password)
    half_way, _ = sign_in(username)
    found = addresses(passkey)
    seen = {("mfa_authenticate", heading_of(half_way.get("/sign-in/second-step")))}
    for client in (with_both, with_password, Client()):
        seen |= {(name, heading_of(client.get(address))) for name, address in found.items()}
    assert HEADINGS.items() - seen == set()
    # A form with nothing in it comes last: some pages take that for a yes.
    for client in (with_both, with_password, half_way, Client()):
        for name in sorted(found):
            heading_of(client.post(found[name]))


def heading_of(answer: Any) -> str:
    """The heading of a page in our frame; what leads on, is JSON or takes no such method has none."""
    if answer.status_code // 100 == 3 or answer.status_code == 405 or "json" in answer["Content-Type"]:
        return ""
    page, where = answer.content.decode(), answer.request["PATH_INFO"]
    if answer.status_code == 404 and "<h1>Page not found</h1>" in page:
        # Whoever is signed in keeps the console's frame there.
        return "Page not found"
    assert re.search(r"<title>[^<]+ · Counterfoil</title>", page), where
    assert len(re.findall(r'<main class="door" id="main"[ >]', page)) == 1, where
    assert page.count('<p class="door-mark">') == 1, where
    assert re.findall(r'rel="stylesheet" href="([^"]+)"', page) == ["/static/console/console.css"], where
    (heading,) = re.findall(r"<h1>(.*?)</h1>", page)
    return str(heading)
