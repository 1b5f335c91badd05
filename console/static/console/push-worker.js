// Runs in the browser while no page is open. A push has no content, so there is nothing to read in it: this sentence is
// all that a locked screen shows. The scope of the worker ends with the tenant's name (push.js).
"use strict";

const inbox = () => `/t/${new URL(self.registration.scope).pathname.split("/").at(-2)}/notices`;

self.addEventListener("push", (event) => {
  // The tag makes the next one take the place of one that still stands there.
  const shown = { body: "Sign in for details.", tag: "waits", icon: "icon-192.png", badge: "icon-192.png" };
  event.waitUntil(self.registration.showNotification("Counterfoil needs your attention", shown));
});

self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  const open = async () => {
    const pages = await self.clients.matchAll({ type: "window", includeUncontrolled: true });
    const there = pages.find((page) => new URL(page.url).pathname === inbox());
    return there ? there.focus() : self.clients.openWindow(inbox());
  };
  event.waitUntil(open());
});
