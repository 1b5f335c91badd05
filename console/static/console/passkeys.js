// Passkeys: a form with data-passkey="create" or "get" asks the browser for a credential before it is sent.
// The options come from a JSON block in the form (id passkey-options), or from the address in data-options-at.
"use strict";

(() => {
  const bytes = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));
  const text = (buffer) =>
    btoa(String.fromCharCode(...new Uint8Array(buffer))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
  const known = (list) => (list || []).map((each) => ({ ...each, id: bytes(each.id) }));

  const asked = (options) => {
    const held = { ...options.publicKey, challenge: bytes(options.publicKey.challenge) };
    if (held.user) held.user = { ...held.user, id: bytes(held.user.id) };
    if (held.excludeCredentials) held.excludeCredentials = known(held.excludeCredentials);
    if (held.allowCredentials) held.allowCredentials = known(held.allowCredentials);
    return { publicKey: held };
  };

  const answered = (credential) => {
    const said = credential.response;
    const response = { clientDataJSON: text(said.clientDataJSON) };
    if (said.attestationObject) {
      response.attestationObject = text(said.attestationObject);
      response.transports = said.getTransports ? said.getTransports() : [];
    } else {
      response.authenticatorData = text(said.authenticatorData);
      response.signature = text(said.signature);
      response.userHandle = said.userHandle ? text(said.userHandle) : null;
    }
    return {
      id: credential.id,
      rawId: text(credential.rawId),
      type: credential.type,
      authenticatorAttachment: credential.authenticatorAttachment || null,
      clientExtensionResults: credential.getClientExtensionResults(),
      response,
    };
  };

  const optionsOf = async (form) => {
    const block = form.querySelector('script[type="application/json"]');
    if (block) return JSON.parse(block.textContent);
    const answer = await fetch(form.dataset.optionsAt, { headers: { Accept: "application/json" } });
    if (!answer.ok) throw new Error("The console did not answer. Try again.");
    return (await answer.json()).request_options;
  };

  const words = (fault) => {
    if (fault.name === "NotAllowedError") return "The passkey was not used: it was cancelled, or took too long.";
    if (fault.name === "InvalidStateError") return "This passkey is already enrolled.";
    if (fault.name === "SecurityError") return "Passkeys work only at this console's own address.";
    return fault.message || "The passkey could not be used.";
  };

  document.addEventListener("submit", async (event) => {
    const form = event.target;
    const kind = form.dataset.passkey;
    if (!kind || form.dataset.answered) return;
    event.preventDefault();
    const fault = form.querySelector("[data-passkey-fault]");
    const button = form.querySelector("button");
    fault.hidden = true;
    button.disabled = true;
    try {
      if (!window.PublicKeyCredential) throw new Error("This browser has no passkeys, or the address is not secure.");
      const credential = await navigator.credentials[kind](asked(await optionsOf(form)));
      form.elements.credential.value = JSON.stringify(answered(credential));
      form.dataset.answered = "yes";
      form.submit();
    } catch (error) {
      fault.textContent = words(error);
      fault.hidden = false;
      button.disabled = false;
    }
  });
})();
