// The settings: forms that save, keys that are checked, servers, and the list of pages.
// @ts-check
import { attempt, byId, element, get, icon, notice, post, ready, trusted, word } from "./page.js";
import { ask, closeMenu, openMenu, select } from "./menus.js";
import { logout, newLink, setTheme } from "./preferences.js";

// The way back to the chat that the reader left.
const chat = sessionStorage.getItem("chat") ?? "/";
const back = byId("back");
back.href = chat.startsWith("/") && !chat.startsWith("//") ? chat : "/";

/** Load the page again, without leaving it: fields that the reader has opened stay open. */
async function refresh() {
  const html = await (await get(location.pathname + location.search)).text();
  const fresh = new DOMParser().parseFromString(trusted(html), "text/html");
  const open = [...document.querySelectorAll("main details[open]:not(.new) summary")].map((each) => each.textContent);
  byId("page").replaceWith(/** @type {Element} */ (fresh.getElementById("page")));
  document.querySelector(".pages")?.replaceWith(/** @type {Element} */ (fresh.querySelector(".pages")));
  for (const each of document.querySelectorAll("main details")) /** @type {any} */ (each).open = open.includes(each.querySelector("summary")?.textContent ?? "");
  drawChains();
  watch();
}
/** Follow servers that are starting, unless the reader writes something. */
function watch() {
  clearTimeout(watching);
  if (document.querySelector(".dot.starting, .dot.restarting")) watching = setTimeout(() => {
    if (document.querySelector("main :is(textarea, input):focus, #edit-server:not([hidden])")) watch();
    else void attempt(refresh);
  }, 1500);
}
/** @type {number | undefined} */
let watching;

/** What a form holds; fields that occur several times are lists. @param {HTMLFormElement} form */
function valuesOf(form) {
  const data = new FormData(form);
  /** @type {Record<string, any>} */
  const values = Object.fromEntries(data);
  if (form.querySelector("input[name=members]")) values.members = data.getAll("members");
  return values;
}
document.addEventListener("submit", (/** @type {any} */ event) => {
  const form = event.target;
  if (!form.dataset.form) return;
  event.preventDefault();
  const body = valuesOf(form);
  if (event.submitter?.value === "remove") body.remove = true;
  const problem = form.querySelector(".problem[role=alert]");
  if (problem) problem.hidden = true;
  void busy(event.submitter, async () => {
    try {
      const { note } = await (await post(form.dataset.form, body)).json();
      if (form.dataset.next) { sessionStorage.setItem("notice", note || word("saved")); location.assign(form.dataset.next); return; }
      await refresh();
      notice(note || word("saved"));
    } catch (error) {
      if (!problem) throw error;
      problem.textContent = error instanceof Error ? error.message : String(error);
      problem.hidden = false;
      form.querySelector("input:not([type=hidden])")?.focus();
    }
  });
});
/** Run work while a button says that it runs. @param {any} at @param {() => Promise<any>} work */
async function busy(at, work) {
  const children = [...(at?.childNodes ?? [])];
  if (at) { at.disabled = true; if (at.dataset.busy) at.textContent = at.dataset.busy; }
  await attempt(work);
  if (at) { at.disabled = false; if (at.dataset.busy) at.replaceChildren(...children); }
}

// Keys.

/** @param {any} at @param {boolean} show */
function showKey(at, show) {
  const form = at.closest(".provider").querySelector("form.key");
  form.hidden = !show;
  if (show) form.querySelector("input[type=password]").focus();
  else form.closest(".provider").querySelector("[data-action=show-key]").focus();
}
/** Offer the providers that have no key. @param {HTMLElement} at */
const otherProvider = (at) => openMenu(at, [...document.querySelectorAll(".provider[hidden]")].map((/** @type {any} */ row) => ({
  text: row.dataset.provider, icon: "key", act: () => { row.hidden = false; document.querySelector(".providers .nothing")?.remove(); showKey(row.querySelector("[data-action=show-key]"), true); },
})));
/** @param {any} at */
const keyMenu = (at) => openMenu(at, [{ text: word("remove_key"), icon: "delete", danger: true, act: () => void attempt(async () => { await post("/settings/key", { variable: at.dataset.variable }); await refresh(); notice(word("saved")); }) }]);

// The chain of providers of a speaker: tried from left to right.

/** @param {HTMLElement} chain */
function drawChain(chain) {
  const field = /** @type {HTMLInputElement} */ (chain.querySelector("input"));
  const names = field.value.split("→").map((name) => name.trim()).filter(Boolean);
  /** @param {string[]} wanted */
  const set = (wanted) => { field.value = wanted.join(" → "); drawChain(chain); };
  chain.querySelector(".links")?.replaceChildren(...names.flatMap((name, at) => {
    const link = element("button", "field select link", element("span", "", name), icon("choose"));
    link.type = "button";
    link.setAttribute("aria-haspopup", "menu");
    link.onclick = () => openMenu(link, [
      ...known(chain).map((other) => ({ text: other, checked: other === name, act: () => set(names.map((each, place) => (place === at ? other : each))) })),
      ...(names.length > 1 ? [null, { text: word("remove"), icon: "delete", danger: true, act: () => set(names.filter((_, place) => place !== at)) }] : []),
    ]);
    return at ? [icon("right"), link] : [link];
  }));
}
/** @param {HTMLElement} chain */
const known = (chain) => (chain.dataset.names ?? "").split(" ");
const drawChains = () => { for (const chain of document.querySelectorAll(".chain")) drawChain(/** @type {HTMLElement} */ (chain)); };
/** @param {any} at */
function addProvider(at) {
  const chain = at.closest(".chain");
  openMenu(at, known(chain).map((name) => ({ text: name, act: () => { chain.querySelector("input").value += ` → ${name}`; drawChain(chain); } })));
}

// Servers.

/** @param {any} at */
const testServer = (at) => busy(at, async () => {
  const { state, message, tools } = await (await post("/tools/restart", { server: at.dataset.server })).json();
  await refresh();
  notice(state === "ready" ? `${word("server_works")} ${word("tools_found").replace("{count}", tools)}` : message || state);
});
/** @param {any} at */
const serverMenu = (at) => openMenu(at, [{ text: word("remove_server"), icon: "delete", danger: true, act: () => void attempt(async () => {
  if ((await ask(word("remove_server_question").replace("{name}", at.dataset.server), [])) === null) return;
  await post("/tools/remove", { server: at.dataset.server });
  sessionStorage.setItem("notice", word("removed"));
  location.assign("/settings/tools");
}) }]);
function editServer() {
  const form = byId("edit-server");
  form.hidden = !form.hidden;
  if (!form.hidden) form.querySelector("textarea").focus();
}

/** @type {Record<string, (at: any) => any>} */
const ACTIONS = {
  select,
  "show-key": (at) => showKey(at, true),
  "hide-key": (at) => showKey(at, false),
  "check-key": (at) => busy(at, async () => { await post("/settings/check", { provider: at.dataset.provider }); await refresh(); }),
  "key-menu": keyMenu,
  "other-provider": otherProvider,
  "add-provider": addProvider,
  "test-server": testServer,
  "edit-server": editServer,
  "server-menu": serverMenu,
  "toggle-tool": (at) => attempt(() => post("/tools/toggle", { names: [at.dataset.name], enabled: at.checked })),
  import: () => byId("import-file").click(),
  "new-link": newLink,
  logout,
};
document.addEventListener("click", (event) => {
  const at = /** @type {HTMLElement} */ (event.target).closest?.("[data-action]");
  const action = at && ACTIONS[/** @type {HTMLElement} */ (at).dataset.action ?? ""];
  if (action) void action(at);
});
document.addEventListener("change", (/** @type {any} */ event) => attempt(async () => {
  const { preference, rule } = event.target.dataset;
  if (preference === "theme") await setTheme(event.target.value);
  if (preference === "language") { await post("/preferences", { language: event.target.value }); location.reload(); }
  if (rule !== undefined) { await post("/tools/rule", { pattern: rule, approval: event.target.value }); await refresh(); notice(word("saved")); }
  if (event.target.id === "import-file" && event.target.files.length) {
    const report = await (await post("/import", new Blob([event.target.files[0]]))).json();
    event.target.value = "";
    notice(`${word("imported")}: ${report.conversations.length}${report.problems.length ? ` · ${report.problems[0]}` : ""}`);
  }
}));

// Search: pages by their words, tools by name and description.

/** @param {string} text @param {Iterable<any>} rows @param {(row: any) => string} words */
function filter(text, rows, words) {
  const wanted = text.toLowerCase().split(/\s+/).filter(Boolean);
  let count = 0;
  for (const row of rows) { row.hidden = !wanted.every((each) => words(row).toLowerCase().includes(each)); count += row.hidden ? 0 : 1; }
  return count;
}
document.addEventListener("input", (/** @type {any} */ event) => {
  const text = event.target.value ?? "";
  if (event.target.id === "find-setting") byId("no-setting").hidden = filter(text, document.querySelectorAll(".pages li"), (row) => row.firstElementChild.dataset.words) > 0;
  if (event.target.id === "find-tool") filter(text, document.querySelectorAll(".tools-of li"), (row) => row.dataset.words);
});
byId("find-setting").dispatchEvent(new Event("input", { bubbles: true })); // what was written before this script was there
byId("find-setting").addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
  if (event.key === "Enter") { event.preventDefault(); /** @type {HTMLElement | null} */ (document.querySelector(".pages li:not([hidden]) a"))?.click(); }
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || document.querySelector("dialog[open]") || closeMenu()) return;
  const sheet = document.querySelector(".side-sheet header a, .server-page form:not([hidden]) [href]");
  location.assign(/** @type {any} */ (sheet)?.href ?? back.href);
});

const kept = sessionStorage.getItem("notice");
if (kept) { sessionStorage.removeItem("notice"); notice(kept); }
drawChains();
watch();
ready();
