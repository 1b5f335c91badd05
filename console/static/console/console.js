/* Counterfoil's script, but for proofs (proof.js). Pages work without it, except for keys, copying, live rows and the inspector. */
"use strict";

const root = document.documentElement;
root.classList.add("js");

const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const announce = (words) => {
  const announcer = document.getElementById("announcer");
  if (announcer) announcer.textContent = words;
};

/* Times ------------------------------------------------------------------ */

// The page's clock is the server's: what is shown as "8 s ago" must not depend on this computer's clock.
const servedAt = Date.parse(document.querySelector("[data-served-at]")?.dataset.servedAt ?? "");
const skew = Number.isNaN(servedAt) ? 0 : servedAt - Date.now();
const now = () => Date.now() + skew;

function span(seconds) {
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  const minutes = Math.floor((seconds % 3600) / 60);
  if (seconds < 36000) return `${Math.floor(seconds / 3600)} h${minutes ? ` ${minutes} min` : ""}`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function tick() {
  for (const time of all("time[data-ago]")) {
    const passed = (now() - Date.parse(time.dateTime)) / 1000;
    if ("for" in time.dataset) write(time, span(Math.max(0, passed)));
    else write(time, Math.abs(passed) < 1 ? "just now" : passed < 0 ? `in ${span(-passed)}` : `${span(passed)} ago`);
  }
  for (const time of all("time[data-until]")) {
    const until = Date.parse(time.dateTime);
    const left = (until - now()) / 1000;
    const shell = time.parentElement;
    const minute = left >= 60 && left < 600 ? `${Math.floor(left / 60)} min ${String(Math.floor(left % 60)).padStart(2, "0")} s` : span(left);
    write(time, left <= 0 ? "Expired" : `${minute} left`);
    shell.toggleAttribute("data-over", left <= 0);
    shell.toggleAttribute("data-near", left > 0 && left < 600);
    const since = Date.parse(time.dataset.since ?? "");
    const ring = shell.querySelector(".left");
    if (ring && since) ring.setAttribute("stroke-dasharray", `${Math.max(0, Math.min(100, Math.round((100 * left * 1000) / (until - since))))} 100`);
  }
}

/* Copying ---------------------------------------------------------------- */

document.addEventListener("click", async (event) => {
  const button = event.target.closest?.("[data-copy]");
  if (!button) return;
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
    announce("Copied");
    button.setAttribute("data-copied", "");
    setTimeout(() => button.removeAttribute("data-copied"), 1200);
  } catch {
    const range = document.createRange();
    const code = button.previousElementSibling;
    if (code.matches("code")) write(code, button.dataset.copy);
    range.selectNodeContents(code);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    announce("Could not copy. The whole value is selected.");
  }
});

/* Menus and the keyboard map ---------------------------------------------- */

document.addEventListener("click", (event) => {
  if (event.target.closest?.("[data-open-map]")) openMap();
  for (const menu of all("details.menu[open]")) if (!menu.contains(event.target)) menu.open = false;
});

const keysOn = root.dataset.keys !== "off";

function openMap() {
  const map = document.getElementById("keyboard-map");
  if (map && !map.open) map.showModal();
}

/* Palette ---------------------------------------------------------------- */

function openPalette() {
  const palette = document.getElementById("palette");
  if (!palette || palette.open) return palette?.close();
  palette.showModal();
  const field = palette.querySelector("input");
  field.select();
  field.dispatchEvent(new CustomEvent("counterfoil:opened"));
}

// Arrows go through what was found. Enter in the field opens the first of it, once it is what was found for this text.
document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "k") {
    event.preventDefault();
    return openPalette();
  }
  const palette = event.target.closest?.("#palette");
  if (!palette || !["ArrowDown", "ArrowUp", "Enter"].includes(event.key)) return;
  const stops = [palette.querySelector("input"), ...all("a.open", palette)];
  const here = stops.indexOf(document.activeElement);
  if (event.key === "Enter") {
    const known = palette.querySelector("[data-found]")?.dataset.found === stops[0].value.trim();
    if (here || !known || stops.length < 2) return;
    event.preventDefault();
    return stops[1].click();
  }
  event.preventDefault();
  stops[Math.max(0, Math.min(stops.length - 1, here + (event.key === "ArrowDown" ? 1 : -1)))].focus();
});

document.addEventListener("click", (event) => {
  if (event.target.id === "palette") event.target.close();
});

/* The bar of a decision ------------------------------------------------------ */

// Pressed before it is filled in, a button leads to the field that it needs, as its key does.
document.addEventListener("click", (event) => {
  const button = event.target.closest?.(".bar [data-needs]");
  const field = button && document.querySelector(button.dataset.needs);
  if (!field?.checkVisibility() || field.value) return;
  event.preventDefault();
  leadTo(field, button);
});

/* Keys ------------------------------------------------------------------- */

let going = 0;

function step(by) {
  const list = besideList();
  const links = all("[data-item] :is(a.open, a:not(.over))", list ?? document).filter((link, at, found) => {
    return link.checkVisibility() && found.findIndex((other) => other.closest("[data-item]") === link.closest("[data-item]")) === at;
  });
  if (!links.length) return;
  const focused = links.findIndex((link) => link.closest("[data-item]").contains(document.activeElement));
  const here = focused < 0 && list ? links.findIndex(isCurrent) : focused;
  const next = links[Math.max(0, Math.min(links.length - 1, here + by))] ?? links[0];
  next.focus();
  next.scrollIntoView({ block: "nearest" });
  if (list) showSoon(next);
}

function press(key) {
  const item = document.activeElement?.closest?.("[data-item]");
  const control = item?.querySelector(`[data-key="${key}"]`) ?? document.querySelector(`#main [data-key="${key}"]`);
  if (!control) return item?.querySelector("a.open")?.click();
  if (!control.dataset.keyFocus) return control.click();
  // A key alone never decides: it leads to the first field to fill in, and the button must still be pressed.
  const fields = control.dataset.keyFocus.split(",").map((each) => document.querySelector(each));
  leadTo(fields.find((each) => each?.checkVisibility()), control);
}

function leadTo(field, control) {
  field.scrollIntoView({ block: "center" });
  field.focus();
  const named = field.labels[0]?.textContent.trim() ?? "the field";
  announce(`${control.textContent.trim()}: fill in “${named}”, then press the button`);
}

const keys = {
  j: () => step(1),
  k: () => step(-1),
  x: () => document.activeElement?.closest?.("[data-item]")?.querySelector("input[type=checkbox]")?.click(),
  a: () => press("a"),
  r: () => press("r"),
  c: () => press("c"),
  "/": () => document.querySelector("[data-search]")?.select(),
  "?": openMap,
  g: () => { going = Date.now(); },
};

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    for (const menu of all("details.menu[open]")) menu.open = false;
    return closeInspector();
  }
  const typing = event.target.closest?.("input, textarea, select, [contenteditable], dialog");
  if (!keysOn || typing || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (Date.now() - going < 1500 && event.key !== "g") {
    going = 0;
    const place = document.querySelector(`[data-go="${CSS.escape(event.key)}"]`);
    if (place) { event.preventDefault(); place.click(); }
    return;
  }
  // Enter where nothing is chosen goes on after a decision.
  const next = event.key === "Enter" && [document.body, document.getElementById("item"), document.getElementById("main")].includes(event.target) && document.querySelector("[data-next]");
  if (next) return next.click();
  if (Object.hasOwn(keys, event.key)) {
    event.preventDefault();
    keys[event.key]();
  }
});

/* Picked rows -------------------------------------------------------------- */

// What is ticked outlives paging: it is kept for this list in this window until it is used or let go.
const pickedKey = `picked:${location.pathname}`;
const picked = () => new Set(JSON.parse(sessionStorage.getItem(pickedKey) ?? "[]"));
const keepPicked = (ids) => sessionStorage.setItem(pickedKey, JSON.stringify([...ids]));

function showPicked() {
  const bar = document.querySelector("[data-picked]");
  if (!bar) return;
  const ids = picked();
  for (const box of all("[data-pick]")) box.checked = ids.has(box.value);
  write(bar.querySelector("[data-picked-count]"), ids.size ? `${ids.size} selected` : "None selected");
  bar.querySelector("[data-picked-none]").hidden = !ids.size;
  bar.toggleAttribute("data-idle", !ids.size && !bar.querySelector("[name=scope][value=all]")?.checked);
  const boxes = all("[data-pick]");
  for (const whole of all("[data-pick-all]")) {
    whole.checked = boxes.length > 0 && boxes.every((box) => box.checked);
    whole.indeterminate = !whole.checked && boxes.some((box) => box.checked);
  }
}

document.addEventListener("change", (event) => {
  if (event.target.matches("[data-picked] [name=scope]")) return showPicked();
  if (!event.target.matches("[data-pick-all]")) return;
  const ids = picked();
  for (const box of all("[data-pick]")) ids[event.target.checked ? "add" : "delete"](box.value);
  keepPicked(ids);
  showPicked();
});

document.addEventListener("change", (event) => {
  if (!event.target.matches("[data-pick]")) return;
  const ids = picked();
  ids[event.target.checked ? "add" : "delete"](event.target.value);
  keepPicked(ids);
  showPicked();
});

document.addEventListener("click", (event) => {
  if (!event.target.closest?.("[data-picked-none]")) return;
  keepPicked([]);
  showPicked();
});

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.matches("[data-picked]")) return;
  const here = new Set(all("[data-pick]").map((box) => box.value));
  for (const id of picked()) {
    if (here.has(id)) continue;
    const more = document.createElement("input");
    more.type = "hidden";
    more.name = form.dataset.picked || "case";
    more.value = id;
    form.append(more);
  }
  keepPicked([]);
});

/* Refusals --------------------------------------------------------------- */

// A refused form stands at the address that it was sent to: reading that again would send it again.
if (document.body.dataset.page && document.body.dataset.page !== decodeURI(location.pathname)) {
  const list = document.getElementById("beside");
  history.replaceState(history.state, "", document.body.dataset.page + (list ? list.dataset.query : "") + location.hash);
}

// What was refused stands where the reader looks: the reason takes the focus, and the page moves to it.
function showRefusal(within = document) {
  const reason = within.querySelector("[data-refused]") ?? within.querySelector(":is(.errorlist, .errors, .error):not([hidden])");
  if (!reason) return;
  reason.tabIndex = -1;
  reason.focus({ preventScroll: true });
  reason.scrollIntoView({ block: "start" });
}

// A field may stand in a folded part, or under another id: the name finds it.
document.addEventListener("click", (event) => {
  const link = event.target.closest?.("[data-refused] a[data-field]");
  if (!link) return;
  const name = CSS.escape(link.dataset.field);
  const fields = all(`#main :is(input:not([type=hidden]), textarea, select)[name="${name}"]`);
  const field = fields.find((each) => each.id === link.hash.slice(1)) ?? fields.find((each) => each.closest("details[open]")) ?? fields[0];
  if (!field) return;
  event.preventDefault();
  for (let part = field.closest("details"); part; part = part.parentElement.closest("details")) part.open = true;
  field.focus();
  field.scrollIntoView({ block: "center" });
});

// A line of a text that is being written: it is selected, and the text moves to it.
document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[data-line]");
  const text = link && document.querySelector(link.hash);
  if (!text) return;
  event.preventDefault();
  const lines = text.value.split("\n");
  const before = lines.slice(0, link.dataset.line - 1).reduce((sum, line) => sum + line.length + 1, 0);
  text.focus();
  text.setSelectionRange(before, before + (lines[link.dataset.line - 1] ?? "").length);
  text.scrollTop = (text.scrollHeight / lines.length) * Math.max(0, link.dataset.line - 4);
});

/* What was typed --------------------------------------------------------- */

// A form that is sent after the session has ended is not read. What was typed in it stays in this window, and is put back
// once the same person is on its page again.
const UNSENT = "unsent";
const UNSENT_FOR_MS = 3600_000;
const typed = (form) => [...form.elements].filter((field) => field.matches("textarea, select, input[type=text]:not([readonly], [autocomplete=one-time-code])"));
const nameOf = (field) => field.id || field.name;
// A field of the name "action" hides that of its form.
const pathOf = (form) => new URL(form.getAttribute("action") ?? "", location).pathname;
const formKey = (form) => JSON.stringify([pathOf(form), ...typed(form).map(nameOf)]);
const posting = () => all("#main form").filter((form) => form.method === "post");

document.addEventListener("formdata", (event) => {
  const form = event.target;
  if (!document.body.dataset.stream || form.method !== "post" || !form.closest("#main")) return;
  const fields = typed(form).map((field) => [nameOf(field), field.value]);
  const kept = { person: document.body.dataset.person, at: Date.now(), path: pathOf(form), key: formKey(form), fields };
  sessionStorage.setItem(UNSENT, JSON.stringify(kept));
});

function putBack() {
  const kept = JSON.parse(sessionStorage.getItem(UNSENT) ?? "null");
  const unread = document.querySelector("[data-unsent]");
  if (kept && unread && new URL(unread.dataset.unsent, location).pathname === kept.path) {
    return sessionStorage.setItem(UNSENT, JSON.stringify({ ...kept, isUnsent: true }));
  }
  // Between signing in and the page there are others, without a frame.
  if (!kept || !document.body.dataset.stream) return;
  const isOver = !kept.isUnsent || kept.person !== document.body.dataset.person || Date.now() - kept.at > UNSENT_FOR_MS;
  const form = isOver ? null : posting().find((each) => formKey(each) === kept.key);
  if (isOver || form) sessionStorage.removeItem(UNSENT);
  if (!form) return;
  const before = new Map(kept.fields);
  for (const field of typed(form)) if (!field.value || field.matches("select")) field.value = before.get(nameOf(field));
  for (let part = form.closest("details"); part; part = part.parentElement.closest("details")) part.open = true;
  const notice = document.createElement("p");
  notice.className = "notice";
  notice.dataset.kind = "caution";
  notice.setAttribute("role", "alert");
  notice.textContent = "Nothing was recorded: this was sent after your session had ended. What you typed is back in the form.";
  form.prepend(notice);
  notice.tabIndex = -1;
  notice.focus({ preventScroll: true });
  notice.scrollIntoView({ block: "center" });
}

/* Inspector -------------------------------------------------------------- */

let opener = null;

// What a page asks for by itself is no activity of the person, whose session may end meanwhile.
const AUTOMATIC = { "X-Automatic": "yes" };

// The part of a page that is its own, without the frame; nothing where it has none.
async function readPart(address, { signal, automatic } = {}) {
  const headers = { "HX-Request": "true", ...(automatic ? AUTOMATIC : {}) };
  const answer = await fetch(address, { headers, signal });
  return answer.ok && !answer.redirected ? document.createRange().createContextualFragment(await answer.text()) : null;
}

async function inspect(link) {
  const panel = document.getElementById("inspector");
  const shown = await readPart(link.href);
  if (!shown) return location.assign(link.href);
  const head = document.createElement("div");
  head.className = "inspector-head";
  const title = document.createElement("h2");
  title.tabIndex = -1;
  title.textContent = shown.querySelector("[data-inspector-title]")?.dataset.inspectorTitle ?? link.textContent.trim();
  const whole = document.createElement("a");
  whole.className = "button small";
  whole.href = link.href;
  whole.textContent = "Open as a page";
  const close = document.createElement("button");
  close.type = "button";
  close.className = "button small";
  close.textContent = "Close";
  close.addEventListener("click", closeInspector);
  head.append(title, whole, close);
  panel.replaceChildren(head, shown);
  panel.hidden = false;
  opener = link;
  tick();
  title.focus();
}

function closeInspector() {
  const panel = document.getElementById("inspector");
  if (!panel || panel.hidden) return;
  panel.hidden = true;
  panel.replaceChildren();
  opener?.focus();
}

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[data-inspect]");
  if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  inspect(link).catch(() => location.assign(link.href));
});

/* Split view ------------------------------------------------------------- */

// Where there is room, an item opens beside the list that names it, and the address says both; elsewhere it is a page.
const wide = matchMedia("(min-width: 64rem)");
const besideList = () => (wide.matches ? document.getElementById("beside") : null);
const itemOf = (row) => row.dataset.id ?? row.dataset.part;
const currentItem = () => new URLSearchParams(location.search).get("item");

function besideAddress(link) {
  const address = new URL(link.href);
  const here = new URLSearchParams(location.search);
  address.searchParams.set("beside", link.closest("[data-beside]").dataset.beside);
  address.searchParams.set("item", itemOf(link.closest("[data-item]")));
  for (const id of here.getAll("decided")) address.searchParams.append("decided", id);
  return address;
}

const isCurrent = (link) => link.hasAttribute("aria-current");

function markCurrent() {
  for (const row of all("#beside [data-item]")) {
    const link = row.querySelector("a.open");
    if (itemOf(row) === currentItem()) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
}

let showing = null;
let resting = null;

// Somebody who walks down the list opens what they stop at, not all that they pass.
function showSoon(link) {
  clearTimeout(resting);
  resting = setTimeout(() => { if (link.isConnected && !isCurrent(link)) openBeside(link); }, 150);
}

function openBeside(link) {
  const address = besideAddress(link);
  if (!besideList()) return location.assign(address);
  if (isCurrent(link)) return document.getElementById("item").focus();
  showItem(address, true).catch((fault) => { if (fault.name !== "AbortError") location.assign(address); });
}

async function showItem(address, isNew) {
  showing?.abort();
  showing = new AbortController();
  const shown = await readPart(address, { signal: showing.signal });
  const pane = document.getElementById("item");
  if (!shown || !pane) return location.assign(address);
  if (isNew) history.pushState(null, "", address);
  const title = shown.querySelector("h1")?.textContent.trim() ?? "";
  tint(pane.querySelector("h1"), shown.querySelector("h1"));
  pane.replaceChildren(shown);
  document.title = `${title} · Counterfoil`;
  document.body.dataset.page = decodeURI(location.pathname);
  markCurrent();
  window.htmx?.process(pane);
  serve(pane);
  tick();
  document.dispatchEvent(new CustomEvent("counterfoil:replaced"));
  const anchor = location.hash && document.getElementById(location.hash.slice(1));
  (anchor || pane).scrollIntoView({ block: "start" });
  announce(`${title}, shown beside the list`);
}

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("[data-beside] [data-item] a.open");
  if (!link || !wide.matches || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  openBeside(link);
});

addEventListener("popstate", () => {
  if (!document.getElementById("item")) return;
  markCurrent();
  if (document.body.dataset.page !== decodeURI(location.pathname)) showItem(location.href, false).catch(() => location.reload());
});

// Whatever is sent from beside a list says so, and what stands behind its item: the answer leads on in the list.
document.addEventListener("formdata", (event) => {
  const list = besideList();
  const rows = list && event.target.closest("#item") ? all("[data-item]", list).map(itemOf) : [];
  const here = rows.indexOf(currentItem());
  if (here < 0 || event.target.method !== "post") return;
  event.formData.set("beside", list.dataset.beside);
  event.formData.set("item", rows[here]);
  event.formData.set("behind", [...rows.slice(here + 1), ...rows.slice(0, here)].join(" "));
  for (const id of new URLSearchParams(location.search).getAll("decided")) event.formData.append("decided", id);
});

// The reader goes on in the item; the keys of the list work from there too.
function enterItem() {
  if (!besideList() || location.hash || document.activeElement !== document.body) return;
  document.getElementById("item").focus({ preventScroll: true });
  document.querySelector("#beside [aria-current]")?.scrollIntoView({ block: "nearest" });
}

/* Live rows -------------------------------------------------------------- */

// An event is only a hint. The list is read again, and what is already on the page is replaced where it stands;
// what is new is announced above the list, and what has gone stays, dimmed, until the reader asks.
let due = 0;
let waiting = null;
const unread = new Set();

const busy = (part) => part.matches(":hover") || part.contains(document.activeElement);

function concerns(region, hint) {
  const ids = (region.dataset.liveId ?? "").split(" ").filter(Boolean);
  return region.dataset.live.split(" ").includes(hint.kind) && (!ids.length || ids.includes(hint.id));
}

function heard(hint) {
  const concerned = all("[data-live]").filter((region) => concerns(region, hint));
  if (!concerned.length) return;
  for (const region of concerned) unread.add(region);
  clearTimeout(waiting);
  waiting = setTimeout(() => { for (const region of unread) reread(region).catch(() => {}); }, Math.max(150, due - Date.now()));
}

const rereadAll = () => Promise.all(all("[data-live]").map(reread));

async function reread(region) {
  due = Date.now() + 1500;
  unread.delete(region);
  // While a passkey asks, the page stays what is being signed.
  if (!region.isConnected || document.hidden || document.querySelector("[data-signing]")) return;
  const fresh = await readPart(region.dataset.liveFrom, { automatic: true });
  if (!fresh) return;
  const parts = new Map(all("[data-part]", fresh).map((part) => [part.dataset.part, part]));
  for (const part of all("[data-part]", region)) {
    const other = parts.get(part.dataset.part);
    parts.delete(part.dataset.part);
    if (!other) part.toggleAttribute("data-gone", true);
    else replace(part, other);
  }
  arrive(region, [...parts.values()].filter((part) => part.matches("[data-item]")).length);
  tick();
}

// No news: times, which tick by themselves; the form token, which changes with every answer; and what the reader
// entered and why it was refused, which only the answer to a form has.
const NO_NEWS = "time, .countdown, input[name=csrfmiddlewaretoken], input:not([type=hidden]), textarea, .errorlist, [data-refused]";
function text(part) {
  const copy = part.cloneNode(true);
  for (const item of all(NO_NEWS, copy)) item.remove();
  return copy.innerHTML.replace(/\s+/g, " ");
}

// What each part was when it was served: what the reader and this script do to it since is not news either.
const served = new WeakMap();
const serve = (within) => {
  for (const part of all("[data-part]", within)) served.set(part, text(part));
  if (within.matches?.("[data-part]")) served.set(within, text(within));
};

function replace(part, other) {
  const fresh = text(other);
  if (served.get(part) === fresh) return;
  if (part.querySelector("form textarea, form input:not([type=hidden])")) return warn(part);
  if (busy(part)) {
    part.addEventListener("pointerleave", () => setTimeout(rereadAll, 50), { once: true });
    return;
  }
  const open = new Set(all("details[open] > summary", part).map((summary) => summary.textContent.trim()));
  tint(part.querySelector("h1, h2, a.open"), other.querySelector("h1, h2, a.open"));
  part.replaceWith(other);
  served.set(other, fresh);
  for (const summary of all("details > summary", other)) if (open.has(summary.textContent.trim())) summary.parentElement.open = true;
  window.htmx?.process(other);
  document.dispatchEvent(new CustomEvent("counterfoil:replaced"));
}

// A title that changes without the reader's doing is tinted for a moment.
function tint(before, after) {
  if (before && after && before.textContent.trim() !== after.textContent.trim()) after.classList.add("changed");
}

function warn(part) {
  // Said once: the vote's own check may have seen the change before this reading did.
  if (part.querySelector("[data-changed], [data-signing-state][data-kind=stale]:not([hidden])")) return;
  const notice = document.createElement("p");
  notice.className = "notice";
  notice.dataset.kind = "stale";
  notice.dataset.changed = "";
  notice.setAttribute("role", "alert");
  const words = document.createElement("strong");
  words.textContent = "This changed while you were reading. ";
  const again = document.createElement("a");
  again.href = location.pathname + location.search;
  again.textContent = "Read it again before you decide";
  const line = document.createElement("span");
  line.append(words, again);
  notice.append(line);
  (part.querySelector(".panel-body") ?? part).prepend(notice);
  if (part.matches(".decide")) for (const button of all("form button", part)) button.disabled = true;
}

function arrive(region, count) {
  let button = region.querySelector(".arrivals");
  if (!count) return button?.remove();
  if (!button) {
    button = document.createElement("button");
    button.type = "button";
    button.className = "button small primary arrivals";
    button.addEventListener("click", () => location.reload());
    region.querySelector(".cards, .panel, .rows")?.before(button);
  }
  write(button, `${count} new`);
  announce(`${count} new above the list`);
}

function listen() {
  const address = document.body.dataset.stream;
  if (!address || !document.querySelector("[data-live]")) return;
  const state = document.querySelector("[data-live-state]");
  const source = new EventSource(address);
  let broken = false;
  source.addEventListener("changed", (event) => heard(JSON.parse(event.data)));
  source.onopen = () => {
    if (state) state.hidden = true;
    if (broken) rereadAll().catch(() => {});
    broken = false;
  };
  source.onerror = () => {
    if (broken || !state) return;
    broken = true;
    state.hidden = false;
    state.textContent = `Not live since ${new Date(now()).toLocaleTimeString([], { hour12: false, hour: "2-digit", minute: "2-digit" })}`;
  };
  addEventListener("pagehide", () => source.close());
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) rereadAll().catch(() => {});
});
document.addEventListener("htmx:afterSettle", (event) => {
  showRefusal(event.target);
  const words = event.target.querySelector("[data-announce]");
  if (words) announce(words.textContent.trim());
  showPicked();
  // Only what came: what a script has done to the other parts since they were served is not how they were served.
  serve(event.target);
  tick();
});
// An address that is shared names only the filters that are set.
document.addEventListener("htmx:configRequest", (event) => {
  if (/^(every|load)\b/.test(event.target.getAttribute?.("hx-trigger") ?? "")) Object.assign(event.detail.headers, AUTOMATIC);
  if (event.detail.verb !== "get") return;
  for (const [name, value] of [...event.detail.formData]) if (value === "") event.detail.formData.delete(name);
});

document.addEventListener("counterfoil:replaced", showPicked);
document.addEventListener("counterfoil:replaced", markCurrent);
// The filter menu is part of the answer to each choice made in it, and stays open for the next.
let filterMenuOpen = false;
document.addEventListener("htmx:beforeSwap", (event) => {
  filterMenuOpen = Boolean(event.target.querySelector(".filter-menu[open]"));
});
document.addEventListener("htmx:afterSwap", () => {
  const menu = document.querySelector(".filter-menu");
  if (menu && filterMenuOpen) menu.open = true;
  filterMenuOpen = false;
});
// Nobody looks at a page that is in the background.
document.addEventListener("htmx:beforeRequest", (event) => {
  if (document.hidden && event.target.matches?.("[data-presence]")) event.preventDefault();
});

putBack();
showRefusal();
enterItem();
showPicked();
serve(document);
tick();
setInterval(() => { if (!document.hidden) tick(); }, 1000);
listen();
