// Actions of buttons and keys.
// @ts-check
import { attempt, button, byId, copy, element, get, label, notice, post, postAction, ready, state, word } from "./page.js";
import { earlier, follow, later, listen, listeners, load, toEnd, visit } from "./stream.js";
import * as answers from "./answers.js";
import * as artifacts from "./artifacts.js";
import * as composer from "./composer.js";
import * as menus from "./menus.js";
import * as sidebar from "./sidebar.js";
import * as panels from "./panels.js";
import * as picker from "./picker.js";
import { openSettings, setTheme } from "./preferences.js";

/** The Markdown of a message or an answer. @param {HTMLElement} at @returns {string | Promise<string>} */
function sourceOf(at) {
  const typed = at.closest("article, .queued")?.querySelector("template.typed");
  if (typed) return /** @type {HTMLTemplateElement} */ (typed).content.textContent ?? "";
  return get(`${state.path}/source?turn=${encodeURIComponent(at.dataset.turn ?? "")}`).then((found) => found.json()).then((found) => found.text);
}

/** Edit a text in place. @param {HTMLElement} at @param {HTMLElement} shown @param {(text: string) => void} send @param {string} [verb] */
async function editIn(at, shown, send, verb = word("send")) {
  if (shown.parentElement?.querySelector("form.editing")) return;
  const form = element("form", "editing");
  const field = element("textarea", "field");
  field.value = await sourceOf(at);
  field.setAttribute("aria-label", word("edit"));
  const end = () => { form.remove(); shown.hidden = false; };
  field.onkeydown = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Escape") { event.stopPropagation(); end(); byId("text").focus(); }
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); form.requestSubmit(); }
  };
  form.onsubmit = (/** @type {Event} */ event) => { event.preventDefault(); const text = field.value; end(); send(text); };
  const accept = element("button", "primary", verb);
  form.append(field, element("div", "decision", accept, button(word("cancel"), end)));
  shown.hidden = true;
  shown.before(form);
  field.focus();
}
/** @param {HTMLElement} at */
const edit = (at) => editIn(at, /** @type {HTMLElement} */ (at.closest("article")?.querySelector(".words")), (text) => void attempt(() => postAction("edit", { turn: at.dataset.turn, text })));
/** @param {HTMLElement} at */
const queuedId = (at) => /** @type {HTMLElement} */ (at.closest(".queued")).dataset.id;
/** @param {HTMLElement} at */
const editQueued = (at) => editIn(at, /** @type {HTMLElement} */ (at.closest(".queued")?.querySelector(".words")), (text) => void attempt(() => postAction("edit-queued", { question: queuedId(at), text })), word("save"));

/** @param {HTMLElement} at */
const copyLink = (at) => copy(`${location.origin}${state.path}#${encodeURIComponent(at.dataset.turn ?? "")}`, word("link_done"));
/** @param {HTMLElement} at */
const again = (at) => attempt(() => postAction("regenerate", { turn: at.dataset.turn }));
/** @param {HTMLElement} at */
const branch = (at) => attempt(async () => { await postAction("branch", { turn: at.dataset.turn }); byId("text").focus(); });

/** Take a message or an answer off the branch; the branch that was shown stays. @param {HTMLElement} at */
const remove = (at) => attempt(async () => {
  const { before } = await (await postAction("remove", { turn: at.dataset.turn })).json();
  notice(word("deleted"), word("undo"), () => void attempt(() => postAction("switch", { turn: before })));
});
/** Choose another model for a speaker whose answer failed, and ask again. @param {HTMLElement} at */
const otherModel = (at) => picker.openPicker(document.querySelector(`.chip[data-name="${CSS.escape(at.dataset.speaker ?? "")}"]`), at);

/** @param {HTMLElement} at */
const answerMenu = (at) => menus.openMenu(at, [
  { text: word("copy_markdown"), icon: "copy", act: () => void copy(sourceOf(at)) },
  { text: word("answer_again"), icon: "again", act: () => void again(at) },
  { text: word("branch_here"), icon: "branch", act: () => void branch(at) },
  { text: word("link_to_answer"), icon: "link", act: () => void copyLink(at) },
  null,
  { text: word("delete_answer"), icon: "delete", danger: true, act: () => void remove(at) },
]);

/** @param {HTMLElement} at */
const mainMenu = (at) => menus.openMenu(at, [
  { text: word(sidebar.isArchive() ? "open_chats" : "archived"), icon: "archive", act: sidebar.toggleArchived },
  { text: word("import"), icon: "import", act: sidebar.pickImport },
  { text: word("export_all"), icon: "download", act: () => location.assign("/export?form=json") },
  null,
  ...menus.themes((theme) => void setTheme(theme)),
  null,
  { text: word("all_commands"), icon: "command", key: "Ctrl K", act: () => panels.openFinder(COMMANDS(), "> ") },
  { text: word("settings"), icon: "settings", key: "Ctrl ,", act: () => openSettings() },
]);

const isNarrow = () => matchMedia("(width < 900px)").matches;
function toggleSidebar() {
  const open = document.body.classList.toggle(isNarrow() ? "with-sidebar" : "folded");
  byId("curtain").hidden = !(isNarrow() && open);
  if (isNarrow() && open) byId("sidebar").querySelector("a")?.focus();
  if (!isNarrow() && !rail.matches) localStorage.setItem("folded", open ? "1" : "");
}
/** @param {any} at */
function setView(at) {
  document.body.dataset.view = at.dataset.view;
  for (const each of at.parentElement.children) each.setAttribute("aria-pressed", String(each === at));
  void attempt(() => post("/preferences", { view: at.dataset.view }));
}
function lastAnswer() {
  const last = /** @type {HTMLElement | undefined} */ ([...document.querySelectorAll(".answer")].at(-1));
  last?.focus();
  last?.scrollIntoView({ block: "nearest" });
}
/** Try an example. @param {any} at */
function tryIt(at) {
  if ("everyone" in at.dataset) composer.address(composer.everyone());
  composer.write(at.dataset.text);
}

/** @type {Record<string, (at: any, event: Event) => any>} */
const ACTIONS = {
  copy: (at) => copy(sourceOf(at)),
  "copy-code": (at) => copy(at.closest("figure").querySelector("code").textContent),
  link: copyLink,
  regenerate: again,
  retry: () => attempt(() => postAction("retry")),
  continue: (at) => attempt(() => postAction("continue", { speaker: at.dataset.speaker })),
  branch,
  switch: (at) => attempt(() => postAction("switch", { turn: at.dataset.turn })),
  edit,
  remove,
  "other-model": otherModel,
  "answer-menu": answerMenu,
  widen: answers.widen,
  tab: answers.chooseTab,
  passage: answers.showPassage,
  propose: composer.takeProposal,
  settle: (at) => { composer.address(at.dataset.names.split(" ")); composer.write(at.dataset.text); },
  step: answers.step,
  select: menus.select,
  stop: (at) => attempt(() => postAction("stop", at.dataset.speaker ? { speaker: at.dataset.speaker } : {})),
  decide: answers.decide,
  "edit-arguments": answers.editArguments,
  "edit-queued": editQueued,
  "send-now": (at) => attempt(() => postAction("send-now", { question: queuedId(at) })),
  withdraw: (at) => attempt(async () => {
    const text = await sourceOf(at);
    await postAction("withdraw", { question: queuedId(at) });
    notice(word("withdrawn"), word("back_to_field"), () => composer.write(text));
  }),
  address: composer.toggle,
  memo: composer.toggleMemo,
  "add-menu": composer.openAdd,
  artifact: artifacts.openArtifact,
  "artifact-version": artifacts.showVersion,
  "artifact-view": artifacts.showView,
  "artifact-save": artifacts.save,
  "artifact-widen": artifacts.widen,
  "close-artifact": artifacts.closeArtifact,
  "pick-model": (at) => picker.openPicker(at.previousElementSibling, at),
  "filter-models": picker.filterBy,
  parameters: picker.openParameters,
  attach: composer.pick,
  try: tryIt,
  earlier,
  later,
  latest: toEnd,
  search: () => panels.openFinder(COMMANDS()),
  "find-from": panels.chooseAuthor,
  "find-when": panels.chooseTime,
  "find-archived": panels.toggleArchived,
  "find-everywhere": panels.findEverywhere,
  "entry-menu": sidebar.openEntryMenu,
  "chat-menu": sidebar.openChatMenu,
  "share-menu": (at) => menus.openMenu(at, sidebar.exports(state.path)),
  "main-menu": mainMenu,
  "more-conversations": sidebar.more,
  import: sidebar.pickImport,
  "toggle-sidebar": toggleSidebar,
  view: setView,
  tools: panels.openTools,
  settings: (at) => openSettings(at.dataset.page),
  "close-dialog": (at) => at.closest("dialog").close(),
  "toggle-tool": panels.toggleTool,
  "restart-server": panels.restartServer,
};
document.addEventListener("click", (event) => {
  const at = /** @type {HTMLElement} */ (event.target).closest?.("[data-action]");
  const action = at && ACTIONS[/** @type {HTMLElement} */ (at).dataset.action ?? ""];
  if (action) void action(at, event);
});

const COMMANDS = () => [
  { label: word("new_chat"), note: "Alt N", icon: "new", act: () => location.assign("/") },
  { label: word("focus_composer"), note: "Ctrl J", icon: "edit", act: () => byId("text").focus() },
  { label: word("last_answer"), note: "Alt ↑", icon: "up", act: lastAnswer },
  { label: word("command_stop"), note: "Esc", icon: "stop", act: () => void attempt(() => postAction("stop")) },
  { label: word("command_retry"), note: "", icon: "again", act: () => void attempt(() => postAction("retry")) },
  { label: word("memo_only"), note: "", icon: "memo", act: composer.toggleMemo },
  { label: word("tools"), note: "", icon: "tools", act: panels.openTools },
  { label: word("settings"), note: "Ctrl ,", icon: "settings", act: () => openSettings() },
  { label: word("import"), note: "", icon: "import", act: sidebar.pickImport },
  ...sidebar.exports(state.path).slice(0, 1).map(({ text, act }) => ({ label: text, note: "", icon: "download", act })),
  ...menus.themes((theme) => void setTheme(theme)).map(({ text, act }) => ({ label: `${word("theme")}: ${text}`, note: "", icon: "theme", act })),
];

/** @type {Record<string, () => void>} */
const KEYS = {
  "ctrl+k": () => panels.openFinder(COMMANDS()),
  "ctrl+j": () => byId("text").focus(),
  "ctrl+shift+f": () => panels.openFinder(COMMANDS()),
  "ctrl+,": () => openSettings(),
  "alt+n": () => location.assign("/"),
  "alt+arrowup": lastAnswer,
  f6: () => answers.moveRegion(1),
};
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    if (document.querySelector("dialog[open]") || composer.closeMenu() || menus.closeMenu()) return;
    if (document.body.classList.contains("with-sidebar")) { toggleSidebar(); return; }
    if (byId("pane").contains(document.activeElement) && artifacts.closeArtifact()) return;
    if (state.busy) void attempt(() => postAction("stop"));
    return;
  }
  const key = `${event.ctrlKey || event.metaKey ? "ctrl+" : ""}${event.altKey ? "alt+" : ""}${event.shiftKey && event.ctrlKey ? "shift+" : ""}${event.key.toLowerCase()}`;
  const act = KEYS[key];
  if (act) { event.preventDefault(); act(); return; }
  const place = /** @type {HTMLElement} */ (event.target);
  if ((key === "j" || key === "k") && place.closest?.(".answer, .message") && !place.matches("input, textarea")) { event.preventDefault(); answers.moveAnswer(key === "j" ? 1 : -1); }
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (step && place.matches("[role=tab]")) {
    event.preventDefault();
    const next = step > 0 ? place.nextElementSibling : place.previousElementSibling;
    if (next) answers.chooseTab(/** @type {HTMLElement} */ (next));
  }
});

// Changes outside the messages.
let planned = 0;
listeners.list = () => { clearTimeout(planned); planned = setTimeout(() => void sidebar.refresh(), 100); };
listeners.tools = () => void panels.refreshTools();
picker.listeners.chosen = composer.chosen;
listeners.people = () => void composer.refreshPeople();
listeners.total = () => void attempt(async () => {
  composer.refreshPrice();
  const view = await fetch(`${state.path}/total`);
  if (view.ok) byId("total").textContent = (await view.json()).total;
});
// A page from the back/forward cache is outdated.
addEventListener("pageshow", (event) => { if (event.persisted) void load(); });
const visitHash = () => { if (location.hash.length > 1) void visit(decodeURIComponent(location.hash.slice(1))); };
addEventListener("hashchange", visitHash);

label(document);
// Between the widths of a phone and a desk the sidebar is a rail of icons.
const rail = matchMedia("(900px <= width < 1200px)");
const fold = () => document.body.classList.toggle("folded", rail.matches || !!localStorage.getItem("folded"));
rail.addEventListener("change", fold);
fold();
answers.refreshTabs();
composer.restore();
follow();
listen();
if (new URLSearchParams(location.search).has("gone")) { notice(word("chat_gone")); history.replaceState(null, "", "/"); }
visitHash();
ready();
