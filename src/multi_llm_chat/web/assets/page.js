// Helpers of all modules: elements, requests, notices.
// @ts-check

/** @param {string} id @returns {any} */
export const byId = (id) => document.getElementById(id);
export const state = {
  conversation: document.body.dataset.conversation ?? "",
  path: document.body.dataset.path ?? "",
  position: document.body.dataset.position ?? "",
  busy: document.body.dataset.busy === "true",
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

/** Label the copy buttons of code in the reader's language. @param {ParentNode} root */
export function label(root) {
  for (const button of root.querySelectorAll('[data-action="copy-code"]:empty')) button.textContent = word("copy_code");
}

/** @param {Response} response */
async function checked(response) {
  if (response.ok) return response;
  if (response.status === 401) location.assign("/login");
  let text = `${response.status}`;
  try { text = (await response.json()).error ?? text; } catch { /* the body is no JSON: show the status */ }
  throw new Error(text);
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

/** Show a notice for some seconds. @param {string} text @param {string} [action] @param {() => void} [act] */
export function notice(text, action, act) {
  const box = document.createElement("div");
  box.append(text);
  if (action && act) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = action;
    button.onclick = () => { box.remove(); act(); };
    box.append(button);
  }
  byId("notices").append(box);
  setTimeout(() => box.remove(), action ? 10000 : 6000);
}

/** Announce a text to screen readers. @param {string} text */
export const announce = (text) => { byId("spoken").textContent = text; };

/** @param {string} text */
export async function copy(text) {
  await attempt(async () => { await navigator.clipboard.writeText(text); notice(word("copied")); });
}
