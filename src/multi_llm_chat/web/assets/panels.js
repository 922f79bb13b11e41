// The tools, the settings and the palette.
// @ts-check
import { attempt, byId, get, notice, post, trusted, word } from "./page.js";

// Tools.

const tools = byId("tools");
export const refreshTools = () => attempt(async () => {
  const open = [...tools.querySelectorAll("details[open]")].map((/** @type {any} */ each) => each.dataset.server);
  tools.innerHTML = trusted(await (await get("/tools")).text());
  if (open.length) for (const each of tools.querySelectorAll("details[data-server]")) each.open = open.includes(each.dataset.server);
});
/** @param {any} box */
export const toggleTool = (box) => attempt(() => post("/tools/toggle", { names: [box.dataset.name], enabled: box.checked }));
/** @param {any} button */
export const restartServer = (button) => attempt(() => post("/tools/restart", { server: button.closest("details").dataset.server }));

// Settings.

const settings = byId("settings");
const drawSettings = async () => { settings.querySelector(".inside").innerHTML = trusted(await (await get("/settings")).text()); };
export const openSettings = () => attempt(async () => {
  await drawSettings();
  if (!settings.open) settings.showModal();
});
settings.addEventListener("change", (/** @type {any} */ event) => attempt(async () => {
  const name = event.target.dataset.preference;
  if (!name) return;
  await post("/preferences", { [name]: event.target.value });
  if (name === "theme") document.documentElement.dataset.theme = event.target.value;
  else location.reload();
}));

/** @type {Record<string, string>} */
const FORMS = { "add-server": "/tools/add", general: "/settings/general", speaker: "/settings/speaker", key: "/settings/key" };
document.addEventListener("submit", (/** @type {any} */ event) => {
  const kind = event.target.dataset.form;
  if (!kind) return;
  event.preventDefault();
  void attempt(async () => {
    const body = Object.fromEntries(new FormData(event.target));
    if (event.submitter?.value === "remove") body.remove = /** @type {any} */ (true);
    await post(FORMS[kind], body);
    notice(word("saved"));
    if (kind === "add-server") await refreshTools();
    else if (settings.open) await drawSettings();
  });
});

export const newLink = () => attempt(async () => {
  const { link } = await (await post("/link", {})).json();
  await navigator.clipboard.writeText(link).catch(() => undefined);
  notice(`${word("link_copied")} ${link}`);
});
export const logout = () => attempt(async () => { await post("/logout", {}); location.assign("/login"); });

// The palette.

const palette = byId("palette");
const field = palette.querySelector("input");
const choices = byId("choices");
/** @typedef {{ label: string, note: string, act: () => void }} Entry */
/** @type {Entry[]} */
let entries = [];
/** @type {Entry[]} */
let shown = [];
let at = 0;

/** @param {Entry[]} commands */
export function openPalette(commands) {
  const conversations = [...document.querySelectorAll(".entry a")].map((/** @type {any} */ link) => ({ label: link.textContent, note: word("conversation"), act: () => location.assign(link.href) }));
  entries = [...commands, ...conversations];
  field.value = "";
  filter();
  palette.showModal();
}
function filter() {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  shown = entries.filter((entry) => words.every((/** @type {string} */ each) => entry.label.toLowerCase().includes(each))).slice(0, 50);
  at = 0;
  draw();
}
function draw() {
  choices.replaceChildren(...shown.map((entry, number) => {
    const item = document.createElement("li");
    item.id = `palette-${number}`;
    item.setAttribute("role", "option");
    item.setAttribute("aria-selected", String(number === at));
    const note = document.createElement("small");
    note.textContent = entry.note;
    item.append(entry.label, note);
    item.onclick = () => { palette.close(); entry.act(); };
    return item;
  }));
  field.setAttribute("aria-activedescendant", `palette-${at}`);
  choices.children[at]?.scrollIntoView({ block: "nearest" });
}
field.addEventListener("input", filter);
field.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step && shown.length) { event.preventDefault(); at = (at + step + shown.length) % shown.length; draw(); }
  if (event.key === "Enter" && shown[at]) { event.preventDefault(); palette.close(); shown[at].act(); }
});
