// Votes: a form with data-vote comes alive once the console confirms that it shows what is on record, and a passkey
// signs exactly that. Codes and passwords work without this script.
"use strict";

(() => {
  const bytes = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));
  const text = (buffer) =>
    btoa(String.fromCharCode(...new Uint8Array(buffer))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
  const forms = () => [...document.querySelectorAll("form[data-vote]")];
  const buttons = (form) => [...form.querySelectorAll("button[name=verdict]")];
  const AGAINST = ["reject", "request_changes"];

  // What is really on the page, read back from it: the same digest as the console's own rendering has.
  function words(element) {
    const copy = element.cloneNode(true);
    for (const glyph of copy.querySelectorAll(".glyph")) glyph.textContent = `⟦${glyph.textContent}⟧`;
    return copy.textContent;
  }

  function rows() {
    return [...document.querySelectorAll("[data-part=payload] table.payload tbody tr")].filter((row) => row.querySelector("th")).map((row) => [
      words(row.querySelector("th .sub")),
      words(row.querySelector("th .label")),
      row.querySelector("td.type").textContent,
      words(row.querySelector("td.shown > .value")),
      [...row.querySelectorAll("td.shown > [data-warning]")].map((note) => note.dataset.warning),
    ]);
  }

  async function digest(form) {
    const shown = new TextEncoder().encode(JSON.stringify([form.dataset.renderer, rows()]));
    const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", shown));
    return [...hash].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  }

  function say(form, sentence) {
    const line = form.querySelector("[data-signing-state]");
    line.textContent = sentence;
    line.hidden = !sentence;
  }

  // Nothing can be sent from this page any more: it leads to a fresh one, and what was typed is kept for that.
  function lead(form, sentence, link) {
    keep(form);
    for (const button of buttons(form)) button.disabled = true;
    form.closest("[data-part]")?.querySelector("[data-changed]")?.remove();
    const line = form.querySelector("[data-signing-state]");
    const again = document.createElement("a");
    again.href = location.pathname + location.search;
    again.textContent = link;
    line.replaceChildren(`${sentence} `, again);
    line.dataset.kind = "stale";
    line.hidden = false;
    form.dataset.confirmed = "no";
  }

  // The page and the record no longer agree.
  const stale = (form) => lead(form, "This changed while you were reading.", "Read it again; your reason is kept.");

  class SignedOut extends Error {}

  // Without a session every address leads to the page for signing in.
  async function fetched(address, options) {
    const answer = await fetch(address, options);
    if (answer.redirected) throw new SignedOut("You are signed out. Nothing was sent.");
    return answer;
  }

  const signedOut = (form) => lead(form, "You are signed out.", "Sign in again; your reason is kept.");

  async function confirmed(form) {
    const held = form.elements;
    const own = crypto.subtle ? await digest(form) : held.rendering_digest.value;
    if (own !== held.rendering_digest.value) return false;
    const answer = await fetched(form.dataset.shownAt, { headers: { Accept: "application/json", "X-Automatic": "yes" } });
    if (!answer.ok) return null;
    const now = await answer.json();
    return now.state === "REQUESTED" && now.rendering_digest === own && now.covers === held.covers.value
      && now.payload_hash === held.payload_hash.value;
  }

  async function check(form) {
    if (form.dataset.confirmed === "no" || form.dataset.signing) return;
    const good = await confirmed(form).catch((fault) => (fault instanceof SignedOut ? fault : null));
    if (form.dataset.signing) return;
    if (good instanceof SignedOut) return signedOut(form);
    if (good === false) return stale(form);
    if (good === null) return say(form, "The console does not answer; nothing can be sent until it does.");
    if (form.dataset.confirmed === "yes") return;
    form.dataset.confirmed = "yes";
    say(form, "");
    for (const button of buttons(form)) button.disabled = false;
  }

  // What was typed outlives a reload of this page in this window.
  const place = (form) => `reason:${form.dataset.vote}:${form.elements.reason.id}`;
  const keep = (form) => sessionStorage.setItem(place(form), form.elements.reason.value);

  function ways(form) {
    const wanted = form.querySelector("[data-ways]:not([hidden])") ? form.elements.way.value : "other";
    for (const part of form.querySelectorAll("[data-way]")) part.hidden = part.dataset.way !== wanted;
    return wanted;
  }

  function begin(form) {
    if (form.dataset.begun) return;
    form.dataset.begun = "yes";
    const reason = form.elements.reason;
    if (!reason.value) reason.value = sessionStorage.getItem(place(form)) ?? "";
    reason.addEventListener("input", () => keep(form));
    const choice = form.querySelector("[data-ways]");
    if (choice && window.PublicKeyCredential) {
      choice.hidden = false;
      choice.addEventListener("change", () => ways(form));
      if (form.querySelector("[data-way=other] .error, [data-way=other] .errorlist")) form.elements.way.value = "other";
    }
    ways(form);
    for (const button of buttons(form)) button.disabled = true;
    check(form);
  }

  async function ask(form, verdict) {
    const body = new FormData(form);
    body.set("verdict", verdict);
    body.delete("password");
    const answer = await fetched(form.dataset.challengeAt, { method: "POST", body, headers: { Accept: "application/json" } });
    const told = await answer.json().catch(() => ({ detail: "The console did not answer. Try again." }));
    if (answer.ok) return told;
    if (answer.status === 409) form.dataset.confirmed = "no";
    throw new Error(told.detail);
  }

  async function signed(challenge, signal) {
    const options = challenge.publicKey;
    const known = options.allowCredentials.map((each) => ({ ...each, id: bytes(each.id) }));
    const publicKey = { ...options, challenge: bytes(options.challenge), allowCredentials: known };
    const credential = await navigator.credentials.get({ publicKey, signal });
    const said = credential.response;
    return {
      id: credential.id,
      rawId: text(credential.rawId),
      type: credential.type,
      response: {
        clientDataJSON: text(said.clientDataJSON),
        authenticatorData: text(said.authenticatorData),
        signature: text(said.signature),
      },
    };
  }

  const reasons = {
    NotAllowedError: "Nothing was signed: the passkey was cancelled, or it took too long.",
    AbortError: "Nothing was signed: you left the page while the passkey was asking.",
    SecurityError: "Passkeys work only at this console's own address.",
  };

  // While the passkey asks, nothing on this page changes or takes the focus; leaving the page ends it.
  async function sign(form, verdict) {
    const leaving = new AbortController();
    const left = () => { if (document.hidden) leaving.abort(); };
    const before = form.elements.reason.value;
    form.dataset.signing = "yes";
    document.addEventListener("visibilitychange", left);
    try {
      say(form, "Asking the console what is to be signed.");
      const challenge = await ask(form, verdict);
      say(form, `Sign with your passkey. Confirmation code ${challenge.confirmation_code}`);
      const assertion = await signed(challenge, leaving.signal);
      if (!form.isConnected || form.elements.reason.value !== before || (await digest(form)) !== form.elements.rendering_digest.value) {
        throw new Error("The page changed while the passkey was asking. Nothing was sent.");
      }
      form.elements.challenge_id.value = challenge.challenge_id;
      form.elements.assertion.value = JSON.stringify(assertion);
      send(form, verdict);
    } catch (fault) {
      delete form.dataset.signing;
      if (fault instanceof SignedOut) return signedOut(form);
      say(form, reasons[fault.name] ?? fault.message);
      if (form.dataset.confirmed === "no") stale(form);
      else if (AGAINST.includes(verdict)) withoutSignature(form, verdict);
    } finally {
      document.removeEventListener("visibilitychange", left);
    }
  }

  function send(form, verdict) {
    const said = document.createElement("input");
    said.type = "hidden";
    said.name = "verdict";
    said.value = verdict;
    form.append(said);
    keep(form);
    form.submit();
  }

  // Saying no is never blocked by a passkey that does not answer.
  function withoutSignature(form, verdict) {
    const line = form.querySelector("[data-signing-state]");
    const button = document.createElement("button");
    button.type = "button";
    button.className = "button small";
    button.textContent = "Refuse without a signature";
    button.addEventListener("click", () => send(form, verdict));
    line.append(" ", button);
  }

  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!form.matches("form[data-vote]")) return;
    if (form.dataset.signing || form.dataset.sent || form.dataset.confirmed !== "yes") return event.preventDefault();
    if (ways(form) !== "passkey") {
      form.dataset.sent = "yes";
      return keep(form);
    }
    event.preventDefault();
    sign(form, event.submitter?.value ?? "");
  });

  // Settlements of cases: the same signing, of a form that the console itself compares with the record.
  const settling = () => [...document.querySelectorAll("form[data-settle]")];

  function beginSettling(form) {
    if (form.dataset.begun) return;
    form.dataset.begun = "yes";
    const choice = form.querySelector("[data-ways]");
    if (choice && window.PublicKeyCredential) {
      choice.hidden = false;
      choice.addEventListener("change", () => ways(form));
    }
    ways(form);
  }

  async function signSettlement(form, submitter) {
    form.dataset.signing = "yes";
    try {
      say(form, "Asking the console what is to be signed.");
      const body = new FormData(form);
      body.delete("password");
      const answer = await fetched(form.dataset.challengeAt, { method: "POST", body, headers: { Accept: "application/json" } });
      // The page is old: sent as it is, it is refused and comes back as the case is now, with all that was typed.
      if (answer.status === 409) return form.requestSubmit(submitter);
      const challenge = await answer.json().catch(() => ({ detail: "The console did not answer. Try again." }));
      if (!answer.ok) throw new Error(challenge.detail);
      say(form, `Sign with your passkey. Confirmation code ${challenge.confirmation_code}`);
      const assertion = await signed(challenge);
      form.elements.challenge_id.value = challenge.challenge_id;
      form.elements.assertion.value = JSON.stringify(assertion);
      form.requestSubmit(submitter);
    } catch (fault) {
      // Sent all the same, it leads to signing in and back, with all that was typed.
      if (fault instanceof SignedOut) return form.requestSubmit(submitter);
      delete form.dataset.signing;
      say(form, reasons[fault.name] ?? fault.message);
    }
  }

  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!form.matches("form[data-settle]") || form.dataset.signing) return;
    if (event.submitter?.value === "decline" || ways(form) !== "passkey") return;
    event.preventDefault();
    signSettlement(form, event.submitter);
  });

  // Taken up again from the browser's history, the page is asked anew what holds.
  addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
  const all = () => {
    for (const form of forms()) { begin(form); check(form); }
    for (const form of settling()) beginSettling(form);
  };
  document.addEventListener("counterfoil:replaced", all);
  document.addEventListener("visibilitychange", () => { if (!document.hidden) all(); });
  setInterval(() => { if (!document.hidden) for (const form of forms()) check(form); }, 10_000);
  if (document.querySelector(".votes li") && !forms().length) {
    for (const name of Object.keys(sessionStorage)) if (name.startsWith("reason:")) sessionStorage.removeItem(name);
  }
  for (const form of forms()) begin(form);
  for (const form of settling()) beginSettling(form);
})();
