// Devices that are woken when something waits: switching this one on, and telling it apart in the list.
// A browser keeps one subscription for each worker and scope; the scope names the tenant, so that each has its own.
"use strict";

(() => {
  const able = "serviceWorker" in navigator && "PushManager" in window && "Notification" in window;
  const bytes = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));
  const digest = async (text) => {
    const found = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
    return [...new Uint8Array(found)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  };
  const formOf = () => document.querySelector("form[data-push-worker]");

  const words = (fault) => {
    if (fault.name === "NotAllowedError") return "This browser does not let the console notify you. Its settings for this site can change that.";
    if (fault.name === "AbortError") return "This browser could not reach its push service. Nothing was switched on.";
    return fault.message || "This device could not be switched on.";
  };

  const running = (registration) =>
    new Promise((done) => {
      if (registration.active) return done();
      const worker = registration.installing || registration.waiting;
      worker.addEventListener("statechange", () => worker.state === "activated" && done());
    });

  const subscription = async (form) => {
    if (!able) throw new Error("This browser takes no push messages here. On an iPhone, install the console first; elsewhere the address must be https.");
    if ((await Notification.requestPermission()) !== "granted") throw new DOMException("", "NotAllowedError");
    const registration = await navigator.serviceWorker.register(form.dataset.pushWorker, { scope: form.dataset.pushScope });
    await running(registration);
    const wanted = { userVisibleOnly: true, applicationServerKey: bytes(form.dataset.pushKey) };
    const known = await registration.pushManager.getSubscription();
    // One for another key, or of another person, is useless here.
    if (known) await known.unsubscribe();
    return registration.pushManager.subscribe(wanted);
  };

  document.addEventListener("submit", async (event) => {
    const form = event.target;
    if (!form.dataset.pushWorker || form.elements.address.value) return;
    event.preventDefault();
    const [fault, button] = [form.querySelector("[data-push-fault]"), form.querySelector("button")];
    fault.hidden = true;
    button.disabled = true;
    try {
      form.elements.address.value = (await subscription(form)).endpoint;
      form.submit();
    } catch (error) {
      fault.textContent = words(error);
      fault.hidden = false;
      button.disabled = false;
    }
  });

  // Which of the devices this one is. What the console does not know any more is ended here too.
  const look = async () => {
    const form = formOf();
    if (!form || !able) return;
    const registration = await navigator.serviceWorker.getRegistration(form.dataset.pushScope);
    const known = await registration?.pushManager.getSubscription();
    if (!known) return;
    const row = document.querySelector(`[data-push-device="${await digest(known.endpoint)}"]`);
    if (row) {
      row.hidden = false;
      form.hidden = true;
    } else {
      await known.unsubscribe();
    }
  };
  document.addEventListener("DOMContentLoaded", look);
  document.addEventListener("htmx:afterSettle", look);
})();
