// The list of conversations, and the menu of each.
// @ts-check
import { attempt, byId, element, get, notice, post, state, trusted, word } from "./page.js";
import { openMenu } from "./menus.js";

const list = byId("list");

let wanted = 0;
let rendered = "";
export const refresh = () => attempt(async () => {
  const number = ++wanted;
  const path = `/sidebar?which=${list.dataset.which}&current=${encodeURIComponent(state.conversation)}`;
  const html = await (await get(path)).text();
  // Ignore outdated responses. Leave an unchanged list alone: replacing it during a click would lose the target.
  if (number !== wanted || html === rendered || list.querySelector("input")) return;
  rendered = html;
  const top = list.scrollTop;
  list.innerHTML = trusted(html);
  list.scrollTop = top;
  const title = list.querySelector(".current .title")?.textContent;
  if (title) { byId("title").textContent = title; byId("title-menu").hidden = false; byId("title-menu").setAttribute("aria-label", `${byId("title-menu").dataset.label} ${title}`); document.title = `${title} · multi·llm·chat`; }
});

/** @param {HTMLElement} button */
export const more = (button) => attempt(async () => {
  const path = `/sidebar?which=${list.dataset.which}&after=${button.dataset.after}&current=${encodeURIComponent(state.conversation)}`;
  button.outerHTML = trusted(await (await get(path)).text());
});

export function toggleArchived() {
  list.dataset.which = list.dataset.which === "archived" ? "open" : "archived";
  void refresh();
}
export const isArchive = () => list.dataset.which === "archived";

/** The ways to save a conversation. @param {string} path */
export const exports = (path) => [["Markdown", "markdown"], ["JSON", "json"], [word("plain_text"), "text"]].map(([name, form]) => ({
  text: `${word("export")} (${name})`, icon: "download", act: () => location.assign(`${path}/export?form=${form}`),
}));

/** The menu of a conversation. @param {HTMLElement} at @param {string} id @param {string} path @param {() => void} onRename */
function openFor(at, id, path, onRename) {
  const back = isArchive();
  openMenu(at, [
    { text: word("rename"), icon: "edit", key: "F2", act: onRename },
    { text: word("copy_link"), icon: "link", act: () => void attempt(async () => { await navigator.clipboard.writeText(`${location.origin}${path}`); notice(word("copied")); }) },
    ...exports(path).slice(0, 2),
    { text: word(back ? "unarchive" : "archive"), icon: "archive", act: () => void attempt(async () => { await post(`${path}/archive`, { decision: back ? "back" : "" }); await refresh(); }) },
    null,
    { text: word("delete"), icon: "delete", danger: true, key: "Del", act: () => void remove(id, path) },
  ]);
}
/** @param {HTMLElement} button */
export function openEntryMenu(button) {
  const entry = /** @type {HTMLElement} */ (button.closest(".entry"));
  openFor(button, entry.dataset.id ?? "", entry.dataset.path ?? "", () => rename(entry));
}
/** The menu of the conversation that is shown. @param {HTMLElement} button */
export function openChatMenu(button) { openFor(button, state.conversation, state.path, renameTitle); }

list.addEventListener("keydown", (/** @type {any} */ event) => {
  const entry = event.target.closest(".entry");
  if (!entry || event.target.matches("input")) return;
  if (event.key === "F2") { event.preventDefault(); rename(entry); }
  if (event.key === "Delete") { event.preventDefault(); void remove(entry.dataset.id, entry.dataset.path); }
  const step = { ArrowDown: 1, ArrowUp: -1 }[/** @type {string} */ (event.key)];
  if (step) {
    event.preventDefault();
    const all = [...list.querySelectorAll(".entry a")];
    all[all.indexOf(entry.querySelector("a")) + step]?.focus();
  }
});
list.addEventListener("contextmenu", (/** @type {any} */ event) => {
  const more = event.target.closest(".entry")?.querySelector("[data-action]");
  if (more) { event.preventDefault(); openEntryMenu(more); }
});

/** Rename in place. @param {HTMLElement} shown @param {string} value @param {string} path */
function edit(shown, value, path) {
  const field = element("input", "field");
  field.value = value;
  field.setAttribute("aria-label", word("rename"));
  shown.hidden = true;
  shown.before(field);
  field.focus();
  field.select();
  const end = () => { field.onblur = null; field.remove(); shown.hidden = false; };
  field.onblur = end;
  field.onkeydown = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Escape") { event.stopPropagation(); end(); }
    if (event.key === "Enter" && !event.isComposing) void attempt(async () => { const text = field.value; end(); await post(`${path}/rename`, { text }); await refresh(); });
  };
}
/** @param {HTMLElement} entry */
const rename = (entry) => edit(/** @type {HTMLElement} */ (entry.querySelector("a")), entry.querySelector(".title")?.textContent ?? "", entry.dataset.path ?? "");
const renameTitle = () => edit(byId("title"), byId("title").textContent, state.path);

/** @param {string} id @param {string} path */
const remove = (id, path) => attempt(async () => {
  await post(`${path}/delete`, {});
  if (id === state.conversation) {
    sessionStorage.setItem("deleted", path);
    location.assign("/");
    return;
  }
  await refresh();
  undo(path);
});
/** @param {string} path */
const undo = (path) => notice(word("deleted"), word("undo"), () => void attempt(async () => { await post(`${path}/undelete`, {}); await refresh(); }));

// Import.

const file = byId("import-file");
export const pickImport = () => file.click();
file.addEventListener("change", () => attempt(async () => {
  const chosen = file.files[0];
  file.value = "";
  const report = await (await post("/import", new Blob([chosen]))).json();
  notice(`${word("imported")}: ${report.conversations.length}${report.problems.length ? ` · ${report.problems[0]}` : ""}`);
  await refresh();
}));

const deleted = sessionStorage.getItem("deleted");
if (deleted) { sessionStorage.removeItem("deleted"); undo(deleted); }
