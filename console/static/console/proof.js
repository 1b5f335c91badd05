/* Checks in the reader's own browser that an event is in the log: its hash, its path to the signed root, the signature
   over that root, and that the log continues what this browser saw of it before. Nothing here trusts a number that is not
   under the signature. */
"use strict";

const hex = (bytes) => [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
const unhex = (text) => Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
const unbase64 = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
const utf8 = (text) => new TextEncoder().encode(text);

async function sha256(...parts) {
  const whole = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return new Uint8Array(await crypto.subtle.digest("SHA-256", whole));
}

const leafHash = (data) => sha256(Uint8Array.of(0), data);
const nodeHash = (left, right) => sha256(Uint8Array.of(1), left, right);

class DoesNotHold extends Error {}

function demand(holds, words) {
  if (!holds) throw new DoesNotHold(words);
}

// RFC 9162, section 2.1.3.2. Sizes are BigInt: a log may outgrow 2^53.
async function rootFrom(leaf, index, size, hashes) {
  demand(index >= 0n && index < size, "The index is outside the log.");
  let here = index;
  let last = size - 1n;
  let reached = leaf;
  for (const each of hashes) {
    demand(last !== 0n, "The path is longer than the tree is high.");
    if (here & 1n || here === last) {
      reached = await nodeHash(each, reached);
      while (!(here & 1n) && here !== 0n) [here, last] = [here >> 1n, last >> 1n];
    } else {
      reached = await nodeHash(reached, each);
    }
    [here, last] = [here >> 1n, last >> 1n];
  }
  demand(last === 0n, "The path is shorter than the tree is high.");
  return reached;
}

// RFC 9162, section 2.1.4.2: both roots from one path.
async function rootsFrom(oldRoot, oldSize, newSize, hashes) {
  const path = [...hashes];
  if ((oldSize & (oldSize - 1n)) === 0n) path.unshift(oldRoot);
  demand(path.length > 0, "The path is empty.");
  let here = oldSize - 1n;
  let last = newSize - 1n;
  while (here & 1n) [here, last] = [here >> 1n, last >> 1n];
  let older = path[0];
  let newer = path[0];
  for (const each of path.slice(1)) {
    demand(last !== 0n, "The path is longer than the tree is high.");
    if (here & 1n || here === last) {
      [older, newer] = [await nodeHash(each, older), await nodeHash(each, newer)];
      while (!(here & 1n) && here !== 0n) [here, last] = [here >> 1n, last >> 1n];
    } else {
      newer = await nodeHash(newer, each);
    }
    [here, last] = [here >> 1n, last >> 1n];
  }
  demand(last === 0n, "The path is shorter than the tree is high.");
  return [older, newer];
}

// A signed note: a text, an empty line, and lines "— name base64(key id ‖ signature)".
function readCheckpoint(note) {
  const end = note.lastIndexOf("\n\n");
  demand(end > 0 && note.endsWith("\n"), "The checkpoint is no signed note.");
  const text = note.slice(0, end + 1);
  const [origin, size, root, ...rest] = text.split("\n");
  demand(rest.length === 1 && /^(0|[1-9][0-9]*)$/.test(size), "The checkpoint does not have three lines.");
  const signatures = note.slice(end + 2, -1).split("\n").map((line) => {
    const [dash, name, value] = line.split(" ");
    demand(dash === "—" && value !== undefined, "A signature line cannot be read.");
    const bytes = unbase64(value);
    return { name, id: hex(bytes.slice(0, 4)), signature: bytes.slice(4) };
  });
  return { text, origin, size: BigInt(size), root: unbase64(root), signatures };
}

async function readKey(vkey) {
  const parts = vkey.split("+");
  const [name, id] = parts;
  const material = unbase64(parts.slice(2).join("+"));
  const own = hex(await sha256(utf8(`${name}\n`), material)).slice(0, 8);
  demand(material[0] === 1 && material.length === 33 && own === id, "The verifier key is not what its id says.");
  return { vkey, name, id, raw: material.slice(1) };
}

async function checkSignature(checkpoint, keys) {
  const known = await Promise.all(keys.map(readKey));
  for (const key of known) {
    const made = checkpoint.signatures.find((each) => each.name === key.name && each.id === key.id);
    if (!made) continue;
    let imported;
    try {
      imported = await crypto.subtle.importKey("raw", key.raw, { name: "Ed25519" }, false, ["verify"]);
    } catch {
      return null;
    }
    const good = await crypto.subtle.verify({ name: "Ed25519" }, imported, made.signature, utf8(checkpoint.text));
    demand(good, "The signature over the checkpoint is not good.");
    return key.vkey;
  }
  throw new DoesNotHold("No key of the log has signed this checkpoint.");
}

// What this browser saw of a log before; another key or a smaller log than then is a break, not a surprise.
function remembered(origin) {
  try {
    return JSON.parse(localStorage.getItem(`log:${origin}`) ?? "null");
  } catch {
    return null;
  }
}

async function checkMemory(told, checkpoint, key, panel) {
  const before = remembered(checkpoint.origin);
  let words = "This browser has not seen this log before; from now on it remembers this head.";
  if (before) {
    demand(!key || told.keys.includes(before.key), "The log has another key than this browser saw before.");
    const size = BigInt(before.size);
    demand(checkpoint.size >= size, `The log has ${checkpoint.size} entries, and had ${size} when this browser saw it before.`);
    if (checkpoint.size === size) {
      demand(before.root === hex(checkpoint.root), "The log has another root at the same size than this browser saw before.");
    } else {
      const answer = await fetch(panel.dataset.growth.replace("/0/0", `/${size}/${checkpoint.size}`));
      demand(answer.ok, "The log does not prove that it continues what this browser saw before.");
      const path = (await answer.json()).hashes.map(unhex);
      const [older, newer] = await rootsFrom(unhex(before.root), size, checkpoint.size, path);
      demand(hex(older) === before.root && hex(newer) === hex(checkpoint.root), "The log does not continue what this browser saw before.");
    }
    words = `The log continues the ${size} entries that this browser saw before.`;
  }
  if (key) localStorage.setItem(`log:${checkpoint.origin}`, JSON.stringify({ key, size: String(checkpoint.size), root: hex(checkpoint.root) }));
  return words;
}

function tell(list, holds, words) {
  const line = document.createElement("li");
  line.className = "outcome wrap";
  line.dataset.outcome = holds === null ? "undecidable" : String(holds);
  const icon = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  icon.setAttribute("class", "icon");
  icon.setAttribute("aria-hidden", "true");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  const sprite = document.querySelector("svg.icon use").getAttribute("href").split("#")[0];
  use.setAttribute("href", `${sprite}#${holds === null ? "question" : holds ? "tick" : "cross"}`);
  icon.append(use);
  const text = document.createElement("span");
  text.textContent = words;
  line.append(icon, text);
  list.append(line);
}

async function check(panel, list) {
  const answer = await fetch(panel.dataset.proof);
  const told = await answer.json();
  if (!answer.ok) return tell(list, null, told.detail);
  const leaf = await leafHash(utf8(told.envelope));
  demand(hex(leaf) === panel.dataset.hash, `The envelope hashes to ${hex(leaf)}, and this page shows ${panel.dataset.hash}.`);
  tell(list, true, "The envelope hashes to the entry hash on this page.");
  const checkpoint = readCheckpoint(told.checkpoint);
  demand(checkpoint.origin === panel.dataset.origin, "The checkpoint is of another log.");
  const root = await rootFrom(leaf, BigInt(told.index), checkpoint.size, told.hashes.map(unhex));
  demand(hex(root) === hex(checkpoint.root), "The path does not lead to the root of the checkpoint.");
  tell(list, true, `${told.hashes.length} hashes lead from entry ${told.index} to the root over ${checkpoint.size} entries.`);
  const key = await checkSignature(checkpoint, told.keys);
  tell(list, key ? true : null, key ? "The log's key has signed that root." : "This browser cannot check Ed25519 signatures. Take the checkpoint and the key to a verifier that can.");
  tell(list, true, await checkMemory(told, checkpoint, key, panel));
  return key !== null;
}

async function run(panel) {
  const list = panel.querySelector("[data-proof-steps]");
  list.replaceChildren();
  panel.querySelector("[data-proof-broken]").hidden = true;
  panel.removeAttribute("data-outcome");
  if (!globalThis.crypto?.subtle) return tell(list, null, "This browser cannot hash here: it needs a secure address (https, or localhost).");
  try {
    const whole = await check(panel, list);
    if (whole !== undefined) panel.dataset.outcome = whole ? "holds" : "partly";
  } catch (fault) {
    const broken = fault instanceof DoesNotHold;
    tell(list, broken ? false : null, broken ? fault.message : "The proof could not be read.");
    panel.dataset.outcome = broken ? "broken" : "unread";
    panel.querySelector("[data-proof-broken]").hidden = false;
  }
}

document.addEventListener("click", (event) => {
  const button = event.target.closest?.("[data-proof-check]");
  if (button) run(button.closest("[data-proof]"));
});
const runAll = () => {
  for (const panel of document.querySelectorAll("[data-proof-now]:not([data-outcome])")) run(panel);
};
document.addEventListener("counterfoil:replaced", runAll);
runAll();
