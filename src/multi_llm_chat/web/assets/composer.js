// The composer: text, draft, files, and the menus of @ and /.
// @ts-check
import { attempt, byId, get, notice, postAction, post, state, word } from "./page.js";
import { toEnd } from "./stream.js";

/** @type {HTMLTextAreaElement} */
const text = byId("text");
const form = byId("composer");
const menu = byId("menu");
/** @type {File[]} */
let files = [];
const draft = () => `draft:${state.conversation}`;
/** New conversations share one draft: their ids change with each load. */
const draftKey = () => (location.pathname === "/" ? "draft:new" : draft());

function grow() {
  if (CSS.supports("field-sizing", "content")) return;
  text.style.height = "auto";
  text.style.height = `${text.scrollHeight}px`;
}
export function restore() { text.value = localStorage.getItem(draftKey()) ?? ""; grow(); }
/** @param {string} value */
export function write(value) { text.value = value; text.dispatchEvent(new Event("input")); text.focus(); }
/** @param {string} name */
export function mention(name) {
  const gap = text.value && !/\s$/.test(text.value) ? " " : "";
  write(`${text.value}${gap}@${name} `);
}

async function send() {
  const written = text.value;
  if (!written.trim() && !files.length) return;
  const body = new FormData();
  body.append("text", written);
  for (const file of files) body.append("files", file, file.name);
  const sent = files;
  const key = draftKey();
  text.value = "";
  files = [];
  showFiles();
  grow();
  toEnd();
  try {
    const queued = state.busy;
    await post(`${state.path}/messages`, body);
    localStorage.removeItem(key);
    if (location.pathname === "/") history.replaceState(null, "", state.path);
    if (queued) notice(word("queued"));
  } catch (error) {
    text.value = written; // keep the text and the files
    files = sent;
    showFiles();
    notice(error instanceof Error ? error.message : String(error));
  }
}

// Files.

/** @param {Iterable<File>} added */
function attach(added) {
  files.push(...added);
  if (files.length > 10) { files = files.slice(0, 10); notice(word("too_many_files")); }
  showFiles();
}
function showFiles() {
  byId("files").replaceChildren(...files.map((file, at) => {
    const box = document.createElement("span");
    if (file.type.startsWith("image/")) {
      const image = document.createElement("img");
      image.src = URL.createObjectURL(file);
      image.onload = () => URL.revokeObjectURL(image.src);
      image.alt = "";
      box.append(image);
    }
    const remove = document.createElement("button");
    remove.type = "button";
    remove.className = "quiet";
    remove.textContent = "✕";
    remove.setAttribute("aria-label", `${word("remove")} ${file.name}`);
    remove.onclick = () => { files.splice(at, 1); showFiles(); };
    box.append(file.name, remove);
    return box;
  }));
}
export const pick = () => byId("file").click();
byId("file").addEventListener("change", (/** @type {any} */ event) => { attach(event.target.files); event.target.value = ""; });
text.addEventListener("paste", (event) => {
  const pasted = [...(event.clipboardData?.files ?? [])];
  if (pasted.length) { event.preventDefault(); attach(pasted); }
});
for (const kind of ["dragover", "dragleave", "drop"]) {
  document.addEventListener(kind, (/** @type {any} */ event) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    form.classList.toggle("drop", kind === "dragover");
    if (kind === "drop") attach(event.dataTransfer.files);
  });
}

// The menus.

/** @typedef {{ label: string, note?: string, choose: () => void }} Choice */
/** @type {Choice[]} */
let choices = [];
let chosen = 0;
/** @type {any[] | null} */
let prompts = null;

const people = () => [...document.querySelectorAll(".chip")].map((chip) => ({ name: /** @type {HTMLElement} */ (chip).dataset.name ?? "", note: chip.querySelector("small")?.textContent ?? "" }));
const groups = () => byId("groups").content.textContent.split(/\s+/).filter(Boolean);

/** @param {RegExp} typed @param {string} put */
function complete(typed, put) {
  const at = text.selectionStart;
  const before = text.value.slice(0, at).replace(typed, put);
  text.value = before + text.value.slice(at);
  text.selectionStart = text.selectionEnd = before.length;
  text.dispatchEvent(new Event("input"));
  text.focus();
}

/** @type {Record<string, () => void>} */
const COMMANDS = {
  new: () => location.assign("/"),
  retry: () => void attempt(() => postAction("retry")),
  continue: () => void attempt(() => postAction("continue")),
  stop: () => void attempt(() => postAction("stop")),
  export: () => location.assign(`${state.path}/export?form=markdown`),
  settings: () => /** @type {any} */ (document.querySelector('[data-action="settings"]'))?.click(),
  search: () => byId("search").focus(),
};

/** @param {any} prompt */
async function fill(prompt) {
  /** @type {Record<string, string>} */
  const values = {};
  for (const name of prompt.arguments) {
    const value = window.prompt(`${prompt.name}: ${name}`);
    if (value === null) return;
    if (value) values[name] = value;
  }
  await attempt(async () => write((await (await post("/prompts", { server: prompt.server, name: prompt.name, arguments: values })).json()).text));
}

function findChoices() {
  const before = text.value.slice(0, text.selectionStart);
  const name = /(?:^|\s)@([\p{L}\p{N}_.-]*)$/u.exec(before);
  if (name) {
    const all = [{ name: "all", note: word("all_speakers") }, ...people(), ...groups().map((/** @type {string} */ group) => ({ name: group, note: word("group") }))];
    return all.filter((each) => each.name.toLowerCase().startsWith(name[1].toLowerCase()))
      .map((each) => ({ label: `@${each.name}`, note: each.note, choose: () => complete(/@[\p{L}\p{N}_.-]*$/u, `@${each.name} `) }));
  }
  const command = /^\/([\w-]*)$/.exec(before);
  if (!command) return [];
  if (prompts === null) { prompts = []; void attempt(async () => { prompts = await (await get("/prompts")).json(); showMenu(); }); }
  const own = Object.keys(COMMANDS).map((key) => ({ label: `/${key}`, note: word(`command_${key}`), choose: () => { write(""); COMMANDS[key](); } }));
  const theirs = prompts.map((prompt) => ({ label: `/${prompt.name}`, note: prompt.description || prompt.server, choose: () => { write(""); void fill(prompt); } }));
  return [...own, ...theirs].filter((each) => each.label.startsWith(`/${command[1]}`));
}

function showMenu() {
  choices = findChoices();
  chosen = 0;
  drawMenu();
}
function drawMenu() {
  menu.hidden = choices.length === 0;
  menu.replaceChildren(...choices.map((choice, at) => {
    const item = document.createElement("li");
    item.id = `choice-${at}`;
    item.setAttribute("role", "option");
    item.setAttribute("aria-selected", String(at === chosen));
    const note = document.createElement("small");
    note.textContent = choice.note ?? "";
    item.append(choice.label, note);
    item.onmousedown = (event) => { event.preventDefault(); choose(at); };
    return item;
  }));
  if (menu.hidden) text.removeAttribute("aria-activedescendant");
  else { text.setAttribute("aria-activedescendant", `choice-${chosen}`); menu.children[chosen].scrollIntoView({ block: "nearest" }); }
}
/** @param {number} at */
function choose(at) {
  const choice = choices[at];
  choices = [];
  drawMenu();
  choice.choose();
}
export const closeMenu = () => { const open = choices.length > 0; choices = []; drawMenu(); return open; };

text.addEventListener("input", () => {
  if (text.value) localStorage.setItem(draftKey(), text.value);
  else localStorage.removeItem(draftKey());
  grow();
  showMenu();
});
text.addEventListener("blur", () => { choices = []; drawMenu(); });
text.addEventListener("keydown", (event) => {
  if (event.isComposing) return; // the input method needs Enter for itself
  if (choices.length) {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      chosen = (chosen + (event.key === "ArrowDown" ? 1 : choices.length - 1)) % choices.length;
      drawMenu();
      return;
    }
    if (event.key === "Enter" || event.key === "Tab") { event.preventDefault(); choose(chosen); return; }
  }
  if (event.key === "Enter" && !event.shiftKey) { event.preventDefault(); void send(); }
  if (event.key === "ArrowUp" && !text.value) {
    const last = [...document.querySelectorAll('.message [data-action="edit"]')].at(-1);
    if (last) { event.preventDefault(); /** @type {HTMLElement} */ (last).click(); }
  }
});
form.addEventListener("submit", (/** @type {Event} */ event) => { event.preventDefault(); void send(); });
