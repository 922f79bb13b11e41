// Actions of buttons and keys.
// @ts-check
import { attempt, byId, copy, get, label, postAction, post, state, trusted, word } from "./page.js";
import { earlier, listen, listeners, load, toEnd } from "./stream.js";
import * as composer from "./composer.js";
import * as sidebar from "./sidebar.js";
import * as panels from "./panels.js";

/** The text of an article. @param {HTMLElement} button */
function wordsOf(button) {
  const article = button.closest("article");
  const typed = article?.querySelector("template.typed");
  if (typed) return /** @type {HTMLTemplateElement} */ (typed).content.textContent ?? "";
  return [...(article?.querySelectorAll(".body > .words") ?? [])].map((each) => /** @type {HTMLElement} */ (each).innerText.trim()).join("\n\n");
}

/** Edit a message in place. @param {HTMLElement} button */
function edit(button) {
  const article = /** @type {HTMLElement} */ (button.closest("article"));
  if (article.querySelector("form")) return;
  const form = document.createElement("form");
  const field = document.createElement("textarea");
  field.value = wordsOf(button);
  field.setAttribute("aria-label", word("edit"));
  const send = document.createElement("button");
  send.className = "primary";
  send.textContent = word("send");
  const cancel = document.createElement("button");
  cancel.type = "button";
  cancel.textContent = word("cancel");
  const end = () => { form.remove(); words.hidden = false; };
  cancel.onclick = end;
  field.onkeydown = (event) => {
    if (event.key === "Escape") { event.stopPropagation(); end(); byId("text").focus(); }
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); form.requestSubmit(); }
  };
  form.onsubmit = (event) => { event.preventDefault(); const text = field.value; end(); void attempt(() => postAction("edit", { turn: button.dataset.turn, text })); };
  form.append(field, send, " ", cancel);
  const words = /** @type {HTMLElement} */ (article.querySelector(".words"));
  words.hidden = true;
  words.before(form);
  field.focus();
}

/** @param {string} name */
const toggle = (name) => document.body.classList.toggle(name);
function toggleTools() { toggle(matchMedia("(width <= 1180px)").matches ? "with-tools" : "no-tools"); }
function lastAnswer() {
  const last = /** @type {HTMLElement | undefined} */ ([...document.querySelectorAll(".answer")].at(-1));
  if (!last) return;
  last.tabIndex = -1;
  last.focus();
  last.scrollIntoView({ block: "start" });
}

/** @type {Record<string, (button: any, event: Event) => any>} */
const ACTIONS = {
  copy: (button) => copy(wordsOf(button)),
  "copy-code": (button) => copy(button.closest("figure").querySelector("code").textContent),
  regenerate: (button) => attempt(() => postAction("regenerate", { turn: button.dataset.turn })),
  retry: () => attempt(() => postAction("retry")),
  branch: (button) => attempt(async () => { await postAction("branch", { turn: button.dataset.turn }); byId("text").focus(); }),
  switch: (button) => attempt(() => postAction("switch", { turn: button.dataset.turn })),
  edit,
  stop: (button) => attempt(() => postAction("stop", button.dataset.speaker ? { speaker: button.dataset.speaker } : {})),
  decide: (button) => {
    for (const each of button.parentElement.children) each.disabled = true;
    return attempt(() => postAction("decide", { question: button.dataset.question, decision: button.dataset.decision }));
  },
  mention: (button) => composer.mention(button.dataset.name),
  attach: composer.pick,
  earlier,
  latest: toEnd,
  "entry-menu": sidebar.openMenu,
  "more-conversations": sidebar.more,
  "toggle-archived": sidebar.toggleArchived,
  import: sidebar.pickImport,
  "toggle-sidebar": () => toggle("with-sidebar"),
  "toggle-tools": toggleTools,
  settings: panels.openSettings,
  "close-dialog": (button) => button.closest("dialog").close(),
  "toggle-tool": panels.toggleTool,
  "restart-server": panels.restartServer,
  "new-link": panels.newLink,
  logout: panels.logout,
};
document.addEventListener("click", (event) => {
  const button = /** @type {HTMLElement} */ (event.target).closest?.("[data-action]");
  const action = button && ACTIONS[/** @type {HTMLElement} */ (button).dataset.action ?? ""];
  if (action) void action(button, event);
});

// Forms of tool servers.
document.addEventListener("submit", (/** @type {any} */ event) => {
  const question = event.target.dataset.question;
  if (!question) return;
  event.preventDefault();
  /** @type {Record<string, unknown>} */
  const content = {};
  for (const field of event.target.querySelectorAll("[data-kind]")) {
    if (field.dataset.kind === "boolean") content[field.name] = field.checked;
    else if (field.value !== "") content[field.name] = field.dataset.kind === "number" ? Number(field.value) : field.value;
  }
  void attempt(() => postAction("answer", { question, decision: event.submitter?.value ?? "accept", content }));
});

const COMMANDS = () => [
  { label: word("new_chat"), note: "Alt N", act: () => location.assign("/") },
  { label: word("search"), note: "Ctrl Shift F", act: () => byId("search").focus() },
  { label: word("focus_composer"), note: "Ctrl J", act: () => byId("text").focus() },
  { label: word("last_answer"), note: "Alt ↑", act: lastAnswer },
  { label: word("command_stop"), note: "Esc", act: () => void attempt(() => postAction("stop")) },
  { label: word("command_retry"), note: "", act: () => void attempt(() => postAction("retry")) },
  { label: word("tools"), note: "", act: toggleTools },
  { label: word("settings"), note: "Ctrl ,", act: () => void panels.openSettings() },
  { label: word("import"), note: "", act: sidebar.pickImport },
  { label: `${word("export")} (Markdown)`, note: "", act: () => location.assign(`${state.path}/export?form=markdown`) },
  ...["auto", "light", "dark"].map((theme) => ({ label: `${word("theme")}: ${word(`theme_${theme}`)}`, note: "", act: () => void attempt(async () => { await post("/preferences", { theme }); document.documentElement.dataset.theme = theme; }) })),
];

/** @type {Record<string, () => void>} */
const KEYS = {
  "ctrl+k": () => panels.openPalette(COMMANDS()),
  "ctrl+j": () => byId("text").focus(),
  "ctrl+shift+f": () => byId("search").focus(),
  "ctrl+,": () => void panels.openSettings(),
  "alt+n": () => location.assign("/"),
  "alt+arrowup": lastAnswer,
};
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    if (document.querySelector("dialog[open]") || composer.closeMenu() || sidebar.closePopup()) return;
    if (state.busy) void attempt(() => postAction("stop"));
    return;
  }
  const key = `${event.ctrlKey || event.metaKey ? "ctrl+" : ""}${event.altKey ? "alt+" : ""}${event.shiftKey && event.ctrlKey ? "shift+" : ""}${event.key.toLowerCase()}`;
  const act = KEYS[key];
  if (act) { event.preventDefault(); act(); }
});

// Changes outside the messages.
let planned = 0;
listeners.list = () => { clearTimeout(planned); planned = setTimeout(() => void sidebar.refresh(), 100); };
listeners.tools = () => void panels.refreshTools();
listeners.people = () => void attempt(async () => { /** @type {Element} */ (document.querySelector(".people")).innerHTML = trusted(await (await get("/people")).text()); });
listeners.total = () => void attempt(async () => {
  const view = await fetch(`${state.path}/total`);
  if (view.ok) byId("total").textContent = (await view.json()).total;
});
// A page from the back/forward cache is outdated.
addEventListener("pageshow", (event) => { if (event.persisted) void load(); });

label(document);
composer.restore();
toEnd();
listen();
if (location.hash.length > 1) sidebar.show(decodeURIComponent(location.hash.slice(1)));
document.body.dataset.ready = "true";
