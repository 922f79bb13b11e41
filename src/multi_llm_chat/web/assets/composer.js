// The composer: addressees, text, draft, files, price, and the menus of @ and /.
// @ts-check
import { attempt, button, byId, element, get, icon, notice, postAction, post, state, trusted, word } from "./page.js";
import { ask, openMenu } from "./menus.js";
import { openPicker } from "./picker.js";
import { openSettings } from "./preferences.js";
import { toEnd } from "./stream.js";

/** @type {HTMLTextAreaElement} */
const text = byId("text");
const form = byId("composer");
const menu = byId("menu");
const people = form.querySelector(".people");
const memo = form.querySelector(".memo");
/** @type {File[]} */
let files = [];
const draft = () => `draft:${state.conversation}`;
/** New conversations share one draft: their ids change with each load. */
const draftKey = () => (location.pathname === "/" ? "draft:new" : draft());

function grow() {
  byId("send").classList.toggle("idle", !text.value.trim() && !files.length);
  if (CSS.supports("field-sizing", "content")) return;
  text.style.height = "auto";
  text.style.height = `${text.scrollHeight}px`;
}
export function restore() { text.value ||= localStorage.getItem(draftKey()) ?? ""; grow(); describeText(); addressMentioned(); }
/** @param {string} value */
export function write(value) { text.value = value; text.dispatchEvent(new Event("input")); text.focus(); }

// Addressees. The chat remembers them on the server; `@name` in the text sets the same chips.

/** @returns {HTMLElement[]} */
const chips = () => [...people.querySelectorAll(".chip")];
/** The speakers that @all addresses: personas and councils answer when they are named. */
export const everyone = () => chips().filter((chip) => chip.dataset.base === chip.dataset.name).map((chip) => chip.dataset.name ?? "");
/** @param {Element} chip */
const isOn = (chip) => chip.getAttribute("aria-pressed") === "true";
const isMemo = () => !memo.hidden && isOn(memo);
/** @returns {string[]} */
export const addressed = () => (isMemo() ? [] : chips().filter(isOn).map((chip) => chip.dataset.name ?? ""));

/** Address exactly these speakers. @param {string[]} names */
export function address(names) {
  if (!names.length) return;
  setMemo(false);
  for (const chip of chips()) chip.setAttribute("aria-pressed", String(names.includes(chip.dataset.name ?? "")));
  describe();
}
/** Switch one addressee on or off; at least one stays on. @param {HTMLElement} chip */
export function toggle(chip) {
  const on = isOn(chip);
  if (on && !isMemo() && addressed().length === 1) { notice(word("one_stays")); return; }
  if (isMemo()) { setMemo(false); for (const each of chips()) each.setAttribute("aria-pressed", "false"); }
  chip.setAttribute("aria-pressed", String(!on || addressed().length === 0));
  describe();
}
/** @param {boolean} on */
function setMemo(on) {
  memo.hidden = !on;
  memo.setAttribute("aria-pressed", String(on));
  people.classList.toggle("off", on);
}
export function toggleMemo() { setMemo(!isMemo()); describe(); text.focus(); }

let described = 0;
/** Say in the field to whom the message goes. */
function describeText() {
  const names = addressed();
  const all = names.length > 1 && names.join() === everyone().join();
  const kind = isMemo() ? "memo" : names.length === 1 ? "one" : all ? "all" : "some";
  text.placeholder = (text.dataset[kind] ?? "").replace("{name}", names[0] ?? "").replace("{count}", String(names.length)).replace("{names}", names.join(", "));
}
/** The same, and what the message costs. */
function describe() {
  describeText();
  const names = addressed();
  const number = ++described;
  void attempt(async () => {
    const query = names.map((name) => `to=${encodeURIComponent(name)}`).join("&");
    const price = names.length ? (await (await get(`${state.path}/estimate?${query}`)).json()).text : "";
    if (number === described) byId("price").textContent = price;
  });
}
export const refreshPrice = describe;

/** @returns {Record<string, string[]>} */
const groups = () => Object.fromEntries(byId("groups").content.textContent.split("\n").filter(Boolean).map((/** @type {string} */ line) => [line.split("=")[0].trim(), line.split("=")[1].split(",")]));
/** Set the chips to the speakers that the text mentions, if it mentions any. */
function addressMentioned() {
  const names = chips().map((chip) => chip.dataset.name ?? "");
  /** @type {Record<string, string[]>} */
  const known = { all: everyone(), ...Object.fromEntries(names.map((name) => [name.toLowerCase(), [name]])), ...groups() };
  const found = [...text.value.matchAll(/(?<![\w@./-])@([\p{L}\p{N}_.:-]+)/gu)].flatMap((match) => known[match[1].toLowerCase().replace(/[.:-]+$/, "")] ?? []);
  if (found.length && found.join() !== addressed().join()) address(found);
  propose(Object.keys(known));
}
/** How many letters differ. @param {string} one @param {string} other */
function distance(one, other) {
  let row = [...Array(other.length + 1).keys()];
  for (let at = 1; at <= one.length; at++) row = row.reduce((/** @type {number[]} */ next, _, to) => [...next, to ? Math.min(next[to - 1] + 1, row[to] + 1, row[to - 1] + Number(one[at - 1] !== other[to - 1])) : at], []);
  return row[other.length];
}
/** Propose the speaker whose name is nearly that of a mention, once the mention is complete. @param {string[]} names */
function propose(names) {
  const line = byId("proposal");
  const unknown = [...text.value.slice(0, 2000).matchAll(/(?<![\w@./-])@([\p{L}\p{N}_.:-]{3,30})(?=\s)/gu)].map((match) => match[1]).find((name) => !names.includes(name.toLowerCase().replace(/[.:-]+$/, "")));
  const nearest = unknown && names.map((name) => ({ name, far: distance(unknown.toLowerCase(), name) })).sort((one, other) => one.far - other.far)[0];
  line.hidden = !nearest || nearest.far > 2;
  if (line.hidden || !nearest) return;
  line.firstElementChild.textContent = word("no_speaker").replace("{name}", unknown);
  line.lastElementChild.textContent = `@${nearest.name}`;
  line.lastElementChild.dataset.instead = unknown;
}
/** Take the proposal. @param {HTMLElement} at */
export function takeProposal(at) { write(text.value.replace(`@${at.dataset.instead}`, at.textContent ?? "")); }
/** More ways to address. @param {HTMLElement} at */
export function openAdd(at) {
  const names = chips().map((chip) => chip.dataset.name ?? "");
  const on = addressed();
  openMenu(at, [
    ...chips().map((chip) => ({ text: chip.dataset.name ?? "", note: chip.dataset.model, sign: Number(chip.dataset.hue), checked: on.includes(chip.dataset.name ?? ""), act: () => toggle(chip) })),
    null,
    ...(names.length > 1 ? [{ text: word("everyone"), icon: "people", key: "@all", act: () => address(everyone()) }] : []),
    ...Object.entries(groups()).map(([name, members]) => ({ text: name, note: members.join(", "), icon: "people", key: `@${name}`, act: () => address(members) })),
    { text: word("memo_only"), note: word("memo_note"), icon: "memo", checked: isMemo(), act: toggleMemo },
    null,
    { text: word("all_models"), icon: "chip", act: () => openPicker(null, at) },
    { text: word("new_speaker"), icon: "plus", act: () => openSettings("models") },
  ]);
}
/** A model was chosen for a speaker in this chat. @param {string} name */
export const chosen = async (name) => { await refreshPeople(); if (!addressed().includes(name)) address([...addressed(), name]); text.focus(); };
/** The speakers have changed. */
export const refreshPeople = () => attempt(async () => {
  const query = addressed().map((name) => `to=${encodeURIComponent(name)}`).join("&");
  const html = await (await get(`${state.path}/people?${query}`)).text();
  const names = addressed(); // others may have been chosen meanwhile
  people.innerHTML = trusted(html);
  const there = names.filter((name) => chips().some((chip) => chip.dataset.name === name));
  if (there.length && there.join() !== addressed().join()) address(there);
  else describe();
});
people.addEventListener("keydown", (/** @type {any} */ event) => {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[/** @type {string} */ (event.key)];
  const all = [...people.querySelectorAll("button")].filter((each) => each.checkVisibility());
  if (step) { event.preventDefault(); all[all.indexOf(event.target) + step]?.focus(); }
  if (event.key === "ArrowDown") { event.preventDefault(); event.target.parentElement.querySelector(".chip-more")?.click(); }
});

async function send() {
  const written = text.value;
  if (!written.trim() && !files.length) return;
  const body = new FormData();
  body.append("text", written);
  if (isMemo()) body.append("memo", "1");
  for (const name of addressed()) body.append("to", name);
  for (const file of files) body.append("files", file, file.name);
  const sent = files;
  const key = draftKey();
  text.value = "";
  files = [];
  showFiles();
  grow();
  toEnd();
  try {
    await post(`${state.path}/messages`, body);
    localStorage.removeItem(key);
    if (isMemo()) toggleMemo();
    if (location.pathname === "/") history.replaceState(null, "", state.path);
  } catch (error) {
    text.value = written; // keep the text and the files
    files = sent;
    showFiles();
    grow();
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
/** @param {number} bytes */
const sizeOf = (bytes) => (bytes < 1000 ? `${bytes} B` : bytes < 1e6 ? `${Math.round(bytes / 1000)} KB` : `${(bytes / 1e6).toFixed(1)} MB`);
function showFiles() {
  byId("files").replaceChildren(...files.map((file, at) => {
    const box = element("span", "attached-file");
    if (file.type.startsWith("image/")) {
      const image = element("img");
      image.src = URL.createObjectURL(file);
      image.onload = () => URL.revokeObjectURL(image.src);
      image.alt = "";
      box.append(image);
    } else box.append(icon("file"));
    const remove = button("", () => { files.splice(at, 1); showFiles(); }, "quiet small");
    remove.append(icon("close", 14));
    remove.setAttribute("aria-label", `${word("remove")} ${file.name}`);
    box.append(element("b", "", file.name), element("small", "", sizeOf(file.size)), remove);
    return box;
  }));
  grow();
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

// The menus of @ and /.

/** @typedef {{ label: string, note?: string, hue?: string, choose: () => void }} Choice */
/** @type {Choice[]} */
let choices = [];
let selected = 0;
/** @type {any[] | null} */
let prompts = null;

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
  memo: toggleMemo,
  export: () => location.assign(`${state.path}/export?form=markdown`),
  settings: () => openSettings(),
  search: () => /** @type {any} */ (document.querySelector('[data-action="search"]'))?.click(),
};

/** @param {any} prompt */
async function fill(prompt) {
  const values = prompt.arguments.length ? await ask(prompt.description || prompt.name, prompt.arguments.map((/** @type {string} */ name) => ({ name, label: name }))) : {};
  if (values === null) return;
  const given = Object.fromEntries(Object.entries(values).filter(([, value]) => value));
  await attempt(async () => write((await (await post("/prompts", { server: prompt.server, name: prompt.name, arguments: given })).json()).text));
}

/** @returns {Choice[]} */
function findChoices() {
  const before = text.value.slice(0, text.selectionStart);
  const name = /(?:^|\s)@([\p{L}\p{N}_.-]*)$/u.exec(before);
  if (name) {
    const all = [
      ...chips().map((chip) => ({ name: chip.dataset.name ?? "", note: chip.dataset.model ?? "", hue: chip.dataset.hue })),
      { name: "all", note: word("everyone"), hue: undefined },
      ...Object.entries(groups()).map(([group, members]) => ({ name: group, note: members.join(", "), hue: undefined })),
    ];
    return all.filter((each) => each.name.toLowerCase().startsWith(name[1].toLowerCase()))
      .map((each) => ({ label: `@${each.name}`, note: each.note, hue: each.hue, choose: () => complete(/@[\p{L}\p{N}_.-]*$/u, `@${each.name} `) }));
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
  selected = 0;
  drawMenu();
}
function drawMenu() {
  menu.hidden = choices.length === 0;
  menu.replaceChildren(...choices.map((choice, at) => {
    const item = element("li");
    item.id = `choice-${at}`;
    item.setAttribute("role", "option");
    item.setAttribute("aria-selected", String(at === selected));
    if (choice.hue !== undefined) item.append(element("span", `sign tiny hue-${choice.hue}`, icon(choice.hue, 14, "sign")));
    item.append(element("b", "", choice.label), element("small", "", choice.note ?? ""));
    item.onmousedown = (/** @type {Event} */ event) => { event.preventDefault(); choose(at); };
    return item;
  }));
  if (menu.hidden) text.removeAttribute("aria-activedescendant");
  else { text.setAttribute("aria-activedescendant", `choice-${selected}`); menu.children[selected].scrollIntoView({ block: "nearest" }); }
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
  addressMentioned();
  showMenu();
});
text.addEventListener("blur", () => { choices = []; drawMenu(); });
text.addEventListener("keydown", (event) => {
  if (event.isComposing) return; // the input method needs Enter for itself
  if (choices.length) {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      selected = (selected + (event.key === "ArrowDown" ? 1 : choices.length - 1)) % choices.length;
      drawMenu();
      return;
    }
    if (event.key === "Enter" || event.key === "Tab") { event.preventDefault(); choose(selected); return; }
  }
  if (event.key === "Enter" && !event.shiftKey) { event.preventDefault(); void send(); }
  if (event.key === "ArrowUp" && !text.value && !event.altKey && !event.ctrlKey && !event.metaKey) {
    const last = [...document.querySelectorAll('.message [data-action="edit"]')].at(-1);
    if (last) { event.preventDefault(); /** @type {HTMLElement} */ (last).click(); }
  }
});
form.addEventListener("submit", (/** @type {Event} */ event) => { event.preventDefault(); void send(); });
form.addEventListener("pointerdown", (/** @type {any} */ event) => { if (event.target === form) { event.preventDefault(); text.focus(); } });
