// The list of conversations, search, and the menu of each conversation.
// @ts-check
import { attempt, byId, get, notice, post, state, trusted, word } from "./page.js";

const list = byId("list");
const hits = byId("hits");
const search = byId("search");

let wanted = 0;
let rendered = "";
export const refresh = () => attempt(async () => {
  const number = ++wanted;
  const path = `/sidebar?which=${list.dataset.which}&current=${encodeURIComponent(state.conversation)}`;
  const html = await (await get(path)).text();
  // Ignore outdated responses. Leave an unchanged list alone: replacing it during a click would lose the target.
  if (number !== wanted || html === rendered) return;
  rendered = html;
  list.innerHTML = trusted(html);
  const title = list.querySelector(".current a")?.textContent;
  if (title) { byId("title").textContent = title; document.title = `${title} · multi·llm·chat`; }
});

/** @param {HTMLElement} button */
export const more = (button) => attempt(async () => {
  const path = `/sidebar?which=${list.dataset.which}&after=${button.dataset.after}&current=${encodeURIComponent(state.conversation)}`;
  button.outerHTML = trusted(await (await get(path)).text());
});

/** @param {HTMLElement} button */
export function toggleArchived(button) {
  const archived = list.dataset.which !== "archived";
  list.dataset.which = archived ? "archived" : "open";
  button.setAttribute("aria-pressed", String(archived));
  void refresh();
}

let asked = 0;
search.addEventListener("input", () => attempt(async () => {
  const number = ++asked;
  const words = search.value.trim();
  hits.hidden = !words;
  list.hidden = !!words;
  if (!words) return;
  const html = await (await get(`/find?words=${encodeURIComponent(words)}`)).text();
  if (number === asked) hits.innerHTML = trusted(html); // ignore outdated responses
}));
search.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
  if (event.key === "Escape") { search.value = ""; search.dispatchEvent(new Event("input")); event.stopPropagation(); }
  if (event.key === "ArrowDown") hits.querySelector("a")?.focus();
  if (event.key === "Enter") hits.querySelector("a")?.click();
});
hits.addEventListener("click", (/** @type {any} */ event) => {
  const link = event.target.closest("a");
  if (link && new URL(link.href).pathname === location.pathname) { event.preventDefault(); show(link.dataset.turn); }
});

/** Scroll a message into view. @param {string} turn */
export function show(turn) {
  const button = document.querySelector(`[data-turn="${CSS.escape(turn)}"]`);
  const place = button?.closest("article") ?? byId(turn);
  if (!place) return;
  place.scrollIntoView({ block: "center" });
  place.classList.add("flash");
  setTimeout(() => place.classList.remove("flash"), 1500);
}

// The menu of a conversation.

const popup = byId("popup");
/** @type {HTMLElement | null} */
let opener = null;
export function closePopup() {
  if (popup.hidden) return false;
  popup.hidden = true;
  opener?.focus();
  return true;
}

/** @param {HTMLElement} button */
export function openMenu(button) {
  const entry = /** @type {HTMLElement} */ (button.closest(".entry"));
  const id = entry.dataset.id ?? "";
  const path = entry.dataset.path ?? "";
  const back = list.dataset.which === "archived";
  /** @type {[string, () => void][]} */
  const items = [
    [word("rename"), () => rename(entry, path)],
    [word(back ? "unarchive" : "archive"), () => void attempt(async () => { await post(`${path}/archive`, { decision: back ? "back" : "" }); await refresh(); })],
    [`${word("export")} (Markdown)`, () => location.assign(`${path}/export?form=markdown`)],
    [`${word("export")} (JSON)`, () => location.assign(`${path}/export?form=json`)],
    [word("delete"), () => void remove(id, path)],
  ];
  popup.replaceChildren(...items.map(([text, act]) => {
    const item = document.createElement("button");
    item.type = "button";
    item.setAttribute("role", "menuitem");
    item.textContent = text;
    item.onclick = () => { popup.hidden = true; act(); };
    return item;
  }));
  opener = button;
  popup.hidden = false;
  const place = button.getBoundingClientRect();
  popup.style.left = `${Math.min(place.left, innerWidth - popup.offsetWidth - 8)}px`;
  popup.style.top = `${Math.min(place.bottom, innerHeight - popup.offsetHeight - 8)}px`;
  popup.firstElementChild.focus();
}
popup.addEventListener("keydown", (/** @type {any} */ event) => {
  const step = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[/** @type {string} */ (event.key)];
  if (step) { event.preventDefault(); event.target[step]?.focus(); }
});
document.addEventListener("pointerdown", (/** @type {any} */ event) => { if (!popup.contains(event.target)) popup.hidden = true; });

/** @param {HTMLElement} entry @param {string} path */
function rename(entry, path) {
  const link = /** @type {HTMLElement} */ (entry.querySelector("a"));
  const field = document.createElement("input");
  field.value = link.textContent ?? "";
  field.setAttribute("aria-label", word("rename"));
  link.hidden = true;
  entry.prepend(field);
  field.focus();
  field.select();
  const end = () => { field.onblur = null; field.remove(); link.hidden = false; };
  field.onblur = end;
  field.onkeydown = (event) => {
    if (event.key === "Escape") { event.stopPropagation(); end(); }
    if (event.key === "Enter" && !event.isComposing) void attempt(async () => { const text = field.value; end(); await post(`${path}/rename`, { text }); await refresh(); });
  };
}

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
