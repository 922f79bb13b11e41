// The tools, and the finder: one field for chats, messages and commands.
// @ts-check
import { attempt, byId, element, get, icon, label, notice, post, trusted, word } from "./page.js";
import { openMenu } from "./menus.js";
import { visit } from "./stream.js";

// Tools.

const tools = byId("tools");
export const openTools = () => { if (!tools.open) tools.showModal(); };
export const refreshTools = () => attempt(async () => {
  const open = [...tools.querySelectorAll("details[open]")].map((/** @type {any} */ each) => each.dataset.server);
  tools.querySelector(".inside").innerHTML = trusted(await (await get("/tools")).text());
  if (open.length) for (const each of tools.querySelectorAll("details[data-server]")) each.open = open.includes(each.dataset.server);
  byId("tool-count").textContent = String(tools.querySelectorAll("[data-action=toggle-tool]:checked").length || "");
});
/** @param {any} box */
export const toggleTool = (box) => attempt(() => post("/tools/toggle", { names: [box.dataset.name], enabled: box.checked }));
/** @param {any} button */
export const restartServer = (button) => attempt(() => post("/tools/restart", { server: button.closest("details").dataset.server }));

document.addEventListener("submit", (/** @type {any} */ event) => {
  if (event.target.dataset.form !== "add-server") return;
  event.preventDefault();
  void attempt(async () => {
    await post("/tools/add", Object.fromEntries(new FormData(event.target)));
    notice(word("saved"));
    await refreshTools();
  });
});

// The finder. Text after ">" are commands only.

const finder = byId("finder");
const field = byId("search");
const hits = byId("hits");
/** @typedef {{ label: string, note: string, icon: string, act: () => void }} Entry */
/** @type {Entry[]} */
let commands = [];
let asked = 0;

/** @param {Entry[]} known @param {string} [begin] */
export function openFinder(known, begin = "") {
  commands = known;
  field.value = begin;
  if (!finder.open) finder.showModal();
  field.focus();
  search();
}
// Filters: who wrote it, when, and whether archived chats count.

/** @param {string} action @returns {any} */
const chip = (action) => finder.querySelector(`[data-action=${action}]`);
const filters = () => `&from=${encodeURIComponent(chip("find-from").dataset.value)}&days=${chip("find-when").dataset.value}${chip("find-archived").getAttribute("aria-pressed") === "true" ? "&archived=1" : ""}`;
/** @param {HTMLElement} at @param {string} value @param {string} text */
function setFilter(at, value, text) {
  at.dataset.value = value;
  at.setAttribute("aria-pressed", String(!!value));
  /** @type {any} */ (at.querySelector("span")).textContent = text;
  field.focus();
  search();
}
/** @param {HTMLElement} at */
export const chooseAuthor = (at) => openMenu(at, [["", word("from_anyone")], ["user", word("you")], ...[...document.querySelectorAll(".people .chip")].map((/** @type {any} */ each) => [each.dataset.name, each.dataset.name])]
  .map(([value, text]) => ({ text, checked: at.dataset.value === value, act: () => setFilter(at, value, value ? `${word("from")} ${text}` : text) })));
/** @param {HTMLElement} at */
export const chooseTime = (at) => openMenu(at, [["", word("any_time")], ["1", word("last_day")], ["7", word("last_week")], ["30", word("last_month")], ["365", word("last_year")]]
  .map(([value, text]) => ({ text, checked: at.dataset.value === value, act: () => setFilter(at, value, text) })));
/** @param {HTMLElement} at */
export function toggleArchived(at) { at.setAttribute("aria-pressed", String(at.getAttribute("aria-pressed") !== "true")); field.focus(); search(); }
/** Search without filters, in archived chats too. */
export function findEverywhere() {
  chip("find-archived").setAttribute("aria-pressed", "true");
  setFilter(chip("find-when"), "", word("any_time"));
  setFilter(chip("find-from"), "", word("from_anyone"));
}

/** @param {Entry} entry */
function row(entry) {
  const made = element("button", "command", icon(entry.icon), element("span", "", entry.label));
  if (entry.note) made.append(element("kbd", "", entry.note));
  made.type = "button";
  made.tabIndex = -1;
  made.setAttribute("role", "option");
  made.setAttribute("aria-selected", "false");
  made.onclick = () => { finder.close(); entry.act(); };
  return made;
}
/** @param {Entry[]} entries @param {string[]} words */
const matching = (entries, words) => entries.filter((entry) => words.every((each) => entry.label.toLowerCase().includes(each)));

/** Show chats and commands at once, and the messages as soon as the server has found them. */
function search() {
  const text = field.value.trim();
  const onlyCommands = text.startsWith(">");
  const words = text.replace(/^>/, "").toLowerCase().split(/\s+/).filter(Boolean);
  const chats = [...document.querySelectorAll(".entry a")].map((/** @type {any} */ link) => ({ label: link.querySelector(".title").textContent, note: "", icon: "memo", act: () => location.assign(link.href) }));
  const shownChats = onlyCommands ? [] : matching(chats, words).slice(0, words.length ? 5 : 8);
  const shownCommands = matching(commands, words).slice(0, onlyCommands || !words.length ? 20 : 4);
  const messages = element("div", "messages-found");
  hits.replaceChildren(
    ...(shownChats.length ? [element("h3", "", word("chats")), ...shownChats.map(row)] : []),
    ...(shownCommands.length ? [element("h3", "", word("commands")), ...shownCommands.map(row)] : []),
    messages,
  );
  for (const each of hits.querySelectorAll("h3")) each.setAttribute("role", "presentation");
  choose(0);
  const number = ++asked;
  if (onlyCommands || !words.length) return;
  void attempt(async () => {
    const html = await (await get(`/find?words=${encodeURIComponent(text)}${filters()}`)).text();
    if (number !== asked) return; // ignore outdated responses
    messages.innerHTML = trusted(html);
    if (!options().some((each) => each.matches("[aria-selected=true]"))) choose(0);
  });
}
/** @returns {HTMLElement[]} */
const options = () => [...hits.querySelectorAll("[role=option]")];
/** @param {number} at */
function choose(at) {
  const all = options();
  all.forEach((each, number) => { each.id = `hit-${number}`; each.setAttribute("aria-selected", String(number === at)); });
  if (all[at]) { field.setAttribute("aria-activedescendant", all[at].id); all[at].scrollIntoView({ block: "nearest" }); }
  else field.removeAttribute("aria-activedescendant");
  preview(all[at]);
}
// What stands around the chosen hit, where there is room for it.
const around = byId("preview");
let previewed = "";
/** @param {HTMLElement | undefined} hit */
function preview(hit) {
  const path = hit instanceof HTMLAnchorElement && around.parentElement.clientWidth >= 700 ? `${new URL(hit.href).pathname}/preview?turn=${encodeURIComponent(hit.dataset.turn ?? "")}` : "";
  if (path === previewed) return;
  previewed = path;
  if (!path) { around.hidden = true; around.replaceChildren(); return; }
  void attempt(async () => {
    const html = await (await get(path)).text();
    if (path !== previewed) return; // another hit was chosen
    around.innerHTML = trusted(html);
    around.hidden = false;
    label(around);
    markWords(around, field.value.toLowerCase().split(/\s+/).filter(Boolean));
    around.querySelector("mark")?.scrollIntoView({ block: "center" });
  });
}
/** Mark the words in a text. @param {HTMLElement} place @param {string[]} words */
function markWords(place, words) {
  const texts = document.createTreeWalker(place, NodeFilter.SHOW_TEXT);
  /** @type {Text[]} */
  const found = [];
  while (texts.nextNode()) if (texts.currentNode.parentElement?.closest(".words")) found.push(/** @type {Text} */ (texts.currentNode));
  for (let text of found) {
    for (;;) {
      const low = text.data.toLowerCase();
      const [at, length] = words.map((each) => [low.indexOf(each), each.length]).filter(([place]) => place >= 0).sort((one, other) => one[0] - other[0])[0] ?? [-1, 0];
      if (at < 0 || low.length !== text.data.length) break;
      const hit = text.splitText(at);
      text = hit.splitText(length);
      hit.replaceWith(element("mark", "", hit.data));
    }
  }
}
field.addEventListener("input", search);
finder.addEventListener("close", () => { hits.replaceChildren(); preview(undefined); });
hits.addEventListener("pointerover", (/** @type {any} */ event) => { const hit = event.target.closest("a"); if (hit) preview(hit); });
field.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
  const all = options();
  const now = all.findIndex((each) => each.getAttribute("aria-selected") === "true");
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step && all.length) { event.preventDefault(); choose((now + step + all.length) % all.length); }
  if (event.key === "Enter" && !event.isComposing) { event.preventDefault(); all[now]?.click(); }
});
for (const place of [hits, around]) place.addEventListener("click", (/** @type {any} */ event) => {
  const link = event.target.closest("a[data-turn]");
  if (!link) return;
  finder.close();
  if (new URL(link.href).pathname === location.pathname) { event.preventDefault(); void visit(link.dataset.turn); }
});
for (const each of /** @type {any} */ (document.querySelectorAll("dialog"))) each.addEventListener("pointerdown", (/** @type {any} */ event) => { if (event.target === each) each.close(); });
