// Helpers of all modules: elements, icons, requests, notices.
// @ts-check

/** @param {string} id @returns {any} */
export const byId = (id) => document.getElementById(id);
export const state = {
  conversation: document.body.dataset.conversation ?? "",
  path: document.body.dataset.path ?? "",
  position: document.body.dataset.position ?? "",
  busy: document.body.dataset.busy === "true",
  /** Whether there are later messages that the page does not show. */
  later: document.body.dataset.later === "true",
};

/** @param {string} name */
const meta = (name) => document.querySelector(`meta[name="${name}"]`)?.getAttribute("content") ?? "";
const WORDS = JSON.parse(meta("words") || "{}");

/** The text for a key, in the reader's language. @param {string} key @returns {string} */
export const word = (key) => WORDS[key] ?? key;

// The only way to insert HTML: it comes from our own server, which has escaped or sanitized all of it.
const policy = /** @type {any} */ (window).trustedTypes?.createPolicy("multi-llm-chat", { createHTML: (/** @type {string} */ html) => html });
/** @param {string} html @returns {any} */
export const trusted = (html) => (policy ? policy.createHTML(html) : html);

const SVG = document.querySelector("svg")?.namespaceURI ?? "";
/** An icon or a sign of the page's set. @param {string} name @param {number} [size] @param {string} [kind] */
export function icon(name, size = 16, kind = "icon") {
  const picture = document.createElementNS(SVG, "svg");
  picture.setAttribute("class", `icon i${size}`);
  picture.setAttribute("viewBox", "0 0 20 20");
  picture.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `#${kind}-${name}`);
  picture.append(use);
  return picture;
}

/** An element with a class and children. @param {string} name @param {string} [css] @param {(Node | string)[]} children @returns {any} */
export function element(name, css = "", ...children) {
  const made = document.createElement(name);
  if (css) made.className = css;
  made.append(...children);
  return made;
}
/** A button. @param {string} text @param {() => void} act @param {string} [css] */
export function button(text, act, css = "") {
  const made = element("button", css, text);
  made.type = "button";
  made.onclick = act;
  return made;
}

/** Say that the scripts of the page run: what the user did before is repeated (early.js). */
export function ready() {
  document.body.dataset.ready = "true";
  document.dispatchEvent(new Event("ready"));
}

/** Complete code: copy buttons in the reader's language, and a place in the order of the keyboard. @param {ParentNode} root */
export function label(root) {
  for (const each of root.querySelectorAll('[data-action="copy-code"]:empty')) each.textContent = word("copy_code");
  // Code that is wider than its place is scrolled by keyboard too.
  for (const each of /** @type {NodeListOf<HTMLElement>} */ (root.querySelectorAll(".code pre"))) each.tabIndex = 0;
}

/** @param {Response} response */
async function checked(response) {
  if (response.ok) return response;
  if (response.status === 401) location.assign("/login");
  let text = `${response.status}`;
  try { text = (await response.json()).error ?? text; } catch { /* the body is no JSON: show the status */ }
  throw Object.assign(new Error(text), { status: response.status });
}

/** @param {string} path */
export const get = async (path) => checked(await fetch(path, { headers: { accept: "application/json" } }));

/** @param {string} path @param {any} body */
export async function post(path, body) {
  const plain = !(body instanceof FormData || body instanceof Blob);
  const headers = { "x-form-token": meta("form-token"), ...(plain && { "content-type": "application/json" }) };
  return checked(await fetch(path, { method: "POST", headers, body: plain ? JSON.stringify(body) : body }));
}

/** Run an action of this conversation. @param {string} action @param {object} [body] */
export const postAction = (action, body = {}) => post(`${state.path}/${action}`, body);

/** Run work, and show its error as a notice. @param {() => Promise<any>} work */
export async function attempt(work) {
  try { return await work(); } catch (error) { notice(error instanceof Error ? error.message : String(error)); return undefined; }
}

/** @type {number | undefined} */
let hiding;
/** Show a notice in the header's band, one at a time. @param {string} text @param {string} [action] @param {() => void} [act] */
export function notice(text, action, act) {
  const place = byId("notices");
  if (!place) return;
  clearTimeout(hiding);
  const box = element("div", "toast", element("span", "", text));
  const hide = () => {
    if (!action || !box.contains(document.activeElement)) box.remove();
    else hiding = setTimeout(hide, 2000);
  };
  if (action && act) box.append(button(action, () => { box.remove(); act(); }));
  const close = button("", () => box.remove(), "close");
  close.append(icon("close", 14));
  close.setAttribute("aria-label", word("close"));
  box.append(close);
  place.replaceChildren(box);
  hiding = setTimeout(hide, action ? 7000 : Math.max(4000, text.length * 60));
}

/** Announce a text to screen readers. @param {string} text */
export const announce = (text) => { byId("spoken").textContent = text; };

/** Copy a text, or one that is still on its way. @param {string | Promise<string>} text @param {string} [done] */
export const copy = (text, done = word("copied")) => attempt(async () => {
  // A promise in the clipboard item keeps the permission that the click gave.
  const blob = Promise.resolve(text).then((value) => new Blob([value], { type: "text/plain" }));
  try {
    if (typeof text === "string" || !window.ClipboardItem) throw new TypeError();
    await navigator.clipboard.write([new ClipboardItem({ "text/plain": blob })]);
  } catch { await navigator.clipboard.writeText(await text); }
  notice(done);
});
