// What a reader does with answers on the page: tabs, width, countdowns, forms, moving between them.
// @ts-check
import { attempt, byId, element, icon, postAction, word } from "./page.js";

// One tab a speaker, where there is no room for columns.

/** Give the exchanges with several answers their tabs, and mark the chosen answers. @param {ParentNode} [root] */
export function refreshTabs(root = document) {
  for (const answers of root.querySelectorAll(".answers")) {
    const all = /** @type {HTMLElement[]} */ ([...answers.querySelectorAll(":scope > .answer")]);
    const before = answers.previousElementSibling;
    const known = before?.matches(".tabs") ? before : null;
    if (all.length < 2) { known?.remove(); continue; }
    /** @type {Element} */
    const bar = known ?? element("div", "tabs");
    if (!known) {
      bar.setAttribute("role", "tablist");
      answers.before(bar);
    }
    const chosen = all.find((each) => each.classList.contains("chosen")) ?? all[0];
    for (const each of all) each.classList.toggle("chosen", each === chosen);
    const wanted = all.map((each) => tab(each, each === chosen));
    if (wanted.length !== bar.children.length || wanted.some((each, at) => !each.isEqualNode(bar.children[at]))) bar.replaceChildren(...wanted);
  }
}
/** @param {HTMLElement} answer @param {boolean} chosen */
function tab(answer, chosen) {
  const hue = /hue-(\d)/.exec(answer.className)?.[1] ?? "0";
  const made = element("button", `hue-${hue}`, element("span", `sign hue-${hue}`, icon(answer.matches(".verdict") ? "8" : hue, 14, "sign")), element("span", "", answer.dataset.title ?? answer.dataset.speaker ?? ""));
  made.type = "button";
  made.setAttribute("role", "tab");
  made.setAttribute("aria-selected", String(chosen));
  made.setAttribute("aria-controls", answer.id);
  made.tabIndex = chosen ? 0 : -1;
  made.dataset.action = "tab";
  if (answer.querySelector(".tool.waiting, .question")) { const dot = element("i", "dot waiting"); dot.title = word("needs_approval"); made.append(dot); }
  else if (answer.matches(".live")) made.append(element("i", "dot"));
  return made;
}
/** @param {HTMLElement} button */
export function chooseTab(button) {
  const answers = /** @type {HTMLElement} */ (button.closest(".tabs")).nextElementSibling;
  for (const each of answers?.children ?? []) each.classList.toggle("chosen", each.id === button.getAttribute("aria-controls"));
  refreshTabs(/** @type {HTMLElement} */ (button.closest(".exchange")));
  /** @type {HTMLElement | null} */ (document.querySelector(`[role=tab][aria-controls="${CSS.escape(button.getAttribute("aria-controls") ?? "")}"]`))?.focus();
}

/** Give one answer the whole width. @param {HTMLElement} button */
export function widen(button) {
  const answer = /** @type {HTMLElement} */ (button.closest(".answer"));
  if (answer.parentElement?.querySelector(":scope > .verdict .findings") && !answer.matches(".verdict")) { // a member of a council, in short
    button.setAttribute("aria-pressed", String(answer.classList.toggle("opened")));
    return;
  }
  const wide = !answer.classList.contains("wide");
  for (const each of answer.parentElement?.children ?? []) each.classList.remove("wide");
  answer.classList.toggle("wide", wide);
  answer.parentElement?.classList.toggle("widened", wide);
  button.setAttribute("aria-pressed", String(wide));
  answer.scrollIntoView({ block: "nearest" });
}

/** Show a paragraph of another answer of the exchange: that with the words of the link. Letters are compared, for citations add numbers. @param {HTMLElement} link */
export function showPassage(link) {
  const exchange = /** @type {HTMLElement} */ (link.closest(".exchange"));
  const answer = /** @type {HTMLElement | undefined} */ ([.../** @type {NodeListOf<HTMLElement>} */ (exchange.querySelectorAll(".answer:not(.verdict)"))].filter((each) => each.dataset.speaker === link.dataset.speaker).at(-1));
  if (!answer) return;
  const letters = (/** @type {string | null | undefined} */ text) => (text ?? "").replace(/\P{L}/gu, "").slice(0, 40);
  const wanted = letters(link.dataset.text);
  const blocks = /** @type {HTMLElement[]} */ ([...answer.querySelectorAll(".words :is(p, li, h1, h2, h3, h4, h5, h6, blockquote, table, figure, pre)")]);
  const place = (wanted && blocks.find((each) => letters(each.textContent).startsWith(wanted.slice(0, letters(each.textContent).length || 1)))) || answer;
  for (const each of answer.parentElement?.children ?? []) each.classList.toggle("chosen", each === answer);
  answer.classList.add("opened");
  refreshTabs(exchange);
  answer.focus({ preventScroll: true });
  place.scrollIntoView({ block: "center" });
  place.classList.add("flash");
  setTimeout(() => place.classList.remove("flash"), 1800);
}

// Waits count down.
setInterval(() => {
  for (const each of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-until]"))) {
    const left = Math.ceil(Number(each.dataset.until) - Date.now() / 1000);
    const text = left > 0 ? (each.dataset.words ?? "").replace("{seconds}", String(left)) : word("tries_now");
    if (each.textContent !== text) each.textContent = text;
  }
}, 500);

// Forms of tool servers.

/** @param {any} button */
export function step(button) {
  const field = button.parentElement.querySelector("input");
  if (Number(button.dataset.by) > 0) field.stepUp(); else field.stepDown();
  field.dispatchEvent(new Event("input", { bubbles: true }));
}
/** Show what is wrong with a field below it; return whether it is right. @param {any} field */
function check(field) {
  const box = field.closest(".form-field");
  const problem = box?.querySelector(".problem");
  const missing = field.type === "hidden" && field.previousElementSibling?.hasAttribute("data-required") && !field.value;
  const text = missing ? word("required") : field.validationMessage ?? "";
  if (problem) { problem.textContent = text; problem.hidden = !text; }
  box?.classList.toggle("wrong", !!text);
  return !text;
}
document.addEventListener("input", (/** @type {any} */ event) => { if (event.target.closest?.(".form-field.wrong")) check(event.target); });
document.addEventListener("submit", (/** @type {any} */ event) => {
  const question = event.target.dataset.question;
  if (!question) return;
  event.preventDefault();
  const decision = event.submitter?.value ?? "accept";
  const fields = [...event.target.querySelectorAll("[data-kind]")];
  if (decision === "accept") {
    const wrong = fields.filter((each) => !check(each));
    if (wrong.length) { wrong[0].focus(); return; }
  }
  /** @type {Record<string, unknown>} */
  const content = {};
  for (const field of fields) {
    if (field.dataset.kind === "boolean") content[field.name] = field.checked;
    else if (field.type === "radio" && !field.checked) continue;
    else if (field.value !== "") content[field.name] = field.dataset.kind === "number" ? Number(field.value) : field.value;
  }
  void attempt(() => postAction("answer", { question, decision, content: decision === "accept" ? content : {} }));
});

// Arguments of a call that waits for approval.

/** Open or close the editor of a call's arguments; closing it forgets what was changed. @param {HTMLElement} at */
export function editArguments(at) {
  const sends = /** @type {HTMLElement} */ (at.closest(".sends"));
  const [editor, now, field] = [".editor", ".now", "textarea"].map((each) => /** @type {any} */ (sends.querySelector(each)));
  const open = editor.hidden;
  [editor.hidden, now.hidden] = [!open, open];
  at.setAttribute("aria-expanded", String(open));
  /** @type {HTMLElement} */ (at.querySelector("span")).textContent = word(open ? "cancel" : "edit");
  field.value = field.defaultValue;
  problem(sends, "");
  if (open) { field.focus(); field.setSelectionRange(0, 0); }
}
/** @param {HTMLElement} sends @param {string} text */
function problem(sends, text) {
  const place = /** @type {HTMLElement} */ (sends.querySelector(".problem"));
  place.textContent = text;
  place.hidden = !text;
  sends.querySelector("textarea")?.setAttribute("aria-invalid", String(!!text));
}
/** Decide about a call; what is wrong with changed arguments is said in the card. @param {HTMLButtonElement} at */
export function decide(at) {
  const sends = /** @type {HTMLElement} */ (at.closest(".sends"));
  const buttons = /** @type {HTMLButtonElement[]} */ ([...(at.parentElement?.children ?? [])]);
  const editor = /** @type {HTMLElement} */ (sends.querySelector(".editor"));
  const text = editor.hidden ? null : /** @type {any} */ (editor.firstElementChild).value;
  for (const each of buttons) each.disabled = true;
  return attempt(async () => {
    try { await postAction("decide", { question: at.dataset.question, decision: at.dataset.decision, arguments: text }); }
    catch (error) {
      for (const each of buttons) each.disabled = false;
      if (text === null || at.dataset.decision === "deny" || !(error instanceof Error)) throw error;
      problem(sends, error.message);
      /** @type {any} */ (editor.firstElementChild).focus();
    }
  });
}

// Moving between answers and regions.

/** Focus the answer before or after. @param {number} by */
export function moveAnswer(by) {
  const all = /** @type {HTMLElement[]} */ ([...document.querySelectorAll(".answer, .message")].filter((each) => each.checkVisibility()));
  const now = all.findIndex((each) => each.contains(document.activeElement));
  const next = all[now < 0 ? all.length - 1 : now + by];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}
/** Focus the next region. @param {number} by */
export function moveRegion(by) {
  const places = [byId("sidebar"), byId("scroll"), byId("composer")].filter((each) => each?.checkVisibility());
  const now = places.findIndex((each) => each.contains(document.activeElement));
  const next = places[(now + by + places.length) % places.length];
  if (next === byId("composer")) byId("text").focus();
  else if (next === byId("scroll")) { byId("scroll").focus(); moveAnswer(0); }
  else next?.querySelector("a, button")?.focus();
}
