// The stream of numbered changes of a conversation; every page applies them in the same order.
// @ts-check
import { attempt, byId, get, label, notice, announce, postAction, state, trusted, word } from "./page.js";
import { refreshTabs } from "./answers.js";

/** @type {EventSource | null} */
let source = null;
/** @type {any[]} */
let waiting = [];
let planned = false;
let loading = false;
/** @type {Record<string, () => void>} */
export const listeners = {};

const scroll = byId("scroll");
let pinned = true;
/** Whether answers of an exchange stand side by side. @param {Element | null | undefined} exchange */
function hasColumns(exchange) {
  const [first, second] = /** @type {HTMLElement[]} */ ([...(exchange?.querySelectorAll(":scope > .answers > .answer") ?? [])]);
  return !!first?.offsetParent && !!second?.offsetParent && first.offsetTop === second.offsetTop;
}
/** How far the page follows the answers: to their end, but no further than the beginning of columns, for the end of the longest is not the end of the others. */
function following() {
  const bottom = scroll.scrollHeight - scroll.clientHeight;
  const last = [...document.querySelectorAll("#messages > .exchange")].at(-1);
  if (!last || !hasColumns(last)) return bottom;
  return Math.min(bottom, scroll.scrollTop + last.getBoundingClientRect().top - scroll.getBoundingClientRect().top - 4);
}
/** Follow the answers; what is read never moves down. */
export function follow() {
  if (pinned) scroll.scrollTop = Math.max(scroll.scrollTop, following());
  offerLatest();
}
/** Offer the way to the end, if it is out of sight. */
function offerLatest() { byId("latest").hidden = !state.later && scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < (pinned ? 240 : 80); }
scroll.addEventListener("scroll", () => {
  // Whether the reader is where the page follows to, and wants to stay there.
  pinned = following() - scroll.scrollTop < 80 && !state.later;
  offerLatest();
  // Who comes near the first message that is shown gets the earlier ones.
  const first = /** @type {HTMLButtonElement | null} */ (document.querySelector("#messages > .earlier[data-first]"));
  if (first && scroll.scrollTop < 600) void earlier(first);
}, { passive: true });
export function toEnd() {
  if (state.later) { state.later = false; pinned = true; void load(); return; }
  pinned = true;
  scroll.scrollTop = scroll.scrollHeight;
  byId("latest").hidden = true;
}
// The composer floats over the messages: they end above it.
new ResizeObserver(() => {
  document.documentElement.style.setProperty("--dock", `${byId("dock").offsetHeight}px`);
  follow();
}).observe(byId("dock"));

/** @param {Element | null} place @param {string} html */
function add(place, html) {
  if (!place) return;
  place.insertAdjacentHTML("beforeend", trusted(html));
  label(place);
}

/** @param {string} html @returns {Element[]} */
function elements(html) {
  const made = document.createElement("template");
  made.innerHTML = trusted(html);
  label(made.content);
  return [...made.content.children];
}

/** The details elements in an element, by the ids around them. @param {Element} root */
const details = (root) => [...(root.matches("details") ? [root] : []), ...root.querySelectorAll("details")]
  .map((each) => ({ key: `${each.closest("[id]")?.id} ${each.className}`, each: /** @type {HTMLDetailsElement} */ (each) }));

/** Replace an element unless it is equal; details that the reader has opened stay open.
 * @param {Element | null} old @param {Element | null} fresh */
function update(old, fresh) {
  if (!old || !fresh) { if (fresh === null) old?.remove(); return; }
  for (const css of ["chosen", "wide", "opened"]) if (old.classList.contains(css)) fresh.classList.add(css);
  const open = new Map(details(old).map(({ key, each }) => [key, each.open]));
  for (const { key, each } of details(fresh)) each.open = open.get(key) ?? each.open;
  if (!old.isEqualNode(fresh)) old.replaceWith(fresh);
}

/** Update the messages to the state of the server. @param {Element} place @param {Element[]} wanted */
function updateMessages(place, wanted) {
  const exchanges = wanted.filter((each) => each.matches(".exchange"));
  // Earlier messages never change: those that were loaded stay.
  let kept = exchanges.length && !state.later && !place.querySelector(":scope > [data-last]") ? place.querySelector(`#${CSS.escape(exchanges[0].id)}`) : null;
  if (!kept) { place.replaceChildren(...wanted); return; }
  for (const fresh of exchanges) {
    if (kept?.id !== fresh.id) { kept ? kept.before(fresh) : place.append(fresh); continue; }
    const next = /** @type {Element | null} */ (kept.nextElementSibling);
    updateExchange(kept, fresh);
    kept = next;
  }
  while (kept) { const next = kept.nextElementSibling; kept.remove(); kept = /** @type {Element | null} */ (next); }
}

/** @param {Element} old @param {Element} fresh */
function updateExchange(old, fresh) {
  const [message, wantedMessage] = [old, fresh].map((each) => each.querySelector(":scope > .message"));
  if (!message?.querySelector("form")) update(message, wantedMessage); // unless the reader is editing it
  const [answers, wanted] = [old, fresh].map((each) => [...each.querySelectorAll(":scope > .answers > *")]);
  if (answers.map((each) => each.id).join(" ") === wanted.map((each) => each.id).join(" ")) answers.forEach((each, at) => update(each, wanted[at]));
  else update(old.querySelector(":scope > .answers"), fresh.querySelector(":scope > .answers"));
}

/** @type {Record<string, (change: any) => void>} */
const APPLY = {
  append(change) {
    if (change.to === "messages") {
      if (state.later) return; // there is a gap: these messages are loaded with the later ones
      leaveWelcome();
      pinned = true;
    }
    const next = change.before && byId(change.before);
    if (next) next.before(...elements(change.html));
    else add(byId(change.to), change.html);
  },
  replace(change) {
    const old = byId(change.id);
    if (!old) return;
    const [fresh] = /** @type {any} */ (elements(change.html));
    update(old, fresh);
    if (fresh.matches(".answer:not(.live)")) announce(`${fresh.dataset.speaker}: ${fresh.querySelector(".words")?.textContent?.slice(0, 500) ?? ""}`);
    if (fresh.matches(".tool.waiting, .tool.asks")) {
      announce(`${word("needs_approval")}: ${fresh.dataset.name}`);
      if (pinned) fresh.scrollIntoView({ block: "nearest" });
    }
  },
  stream(change) {
    const words = byId(change.id);
    if (!words) return;
    const [final, tail] = words.children;
    if (change.final) add(final, change.final);
    tail.innerHTML = trusted(change.tail);
    label(tail);
  },
  grow(change) { byId(change.id)?.lastElementChild?.lastElementChild?.insertAdjacentHTML("beforeend", trusted(change.html)); },
  text(change) { byId(change.id)?.append(change.text); },
  remove(change) { byId(change.id)?.remove(); },
  busy(change) { busy(change.value); },
  notice(change) { notice(change.text); },
  total() { listeners.total?.(); },
  list() { listeners.list?.(); },
  tools() { listeners.tools?.(); },
  people() { listeners.people?.(); },
  reset() { void attempt(load); },
};

/** The first message takes the place of what a new conversation shows. */
function leaveWelcome() {
  byId("welcome")?.remove();
  byId("starters")?.remove();
  document.body.classList.remove("is-new");
}

/** @param {boolean} value */
function busy(value) {
  state.busy = value;
  byId("stop").hidden = !value;
  document.body.dataset.busy = String(value);
}

function flush() {
  planned = false;
  const changes = waiting;
  waiting = [];
  for (const change of changes) {
    APPLY[change.op]?.(change);
    if (loading) return; // the reload contains all changes after a reset
  }
  if (changes.some((change) => change.op === "append" || change.op === "replace")) refreshTabs(byId("messages").lastElementChild ?? document);
  follow();
}

/** @param {MessageEvent} event */
function onMessage(event) {
  if (event.lastEventId) state.position = event.lastEventId;
  waiting.push(...JSON.parse(event.data));
  if (planned) return;
  planned = true;
  // A hidden page gets no animation frames.
  if (document.hidden) queueMicrotask(flush);
  else requestAnimationFrame(flush);
}

export function listen() {
  source?.close();
  source = new EventSource(`${state.path}/events?after=${encodeURIComponent(state.position)}`);
  source.onmessage = onMessage;
  source.onopen = () => { document.body.dataset.stream = "open"; };
  // The browser reconnects by itself, but not after an error response, such as one of a proxy whose server is down.
  source.onerror = () => { if (source?.readyState === EventSource.CLOSED) void attempt(load); };
}

// Browsers allow few connections to one server: a hidden page closes its own, and catches up later.
/** @type {number | undefined} */
let closing;
document.addEventListener("visibilitychange", () => {
  clearTimeout(closing);
  if (document.hidden) closing = setTimeout(() => { source?.close(); source = null; }, 10000);
  else if (!source) listen();
});

/** The turn that the reader is on the way to, and the load that is under way. */
let visiting = "";
/** @type {Promise<void> | null} */
let inFlight = null;
/** Load the messages again, the newest or those around a turn, then continue the stream from there. @param {string} [around] */
export function load(around = visiting) {
  inFlight ??= reload(around).finally(() => { inFlight = null; });
  return inFlight;
}
/** @param {string} around */
async function reload(around) {
  loading = true;
  source?.close();
  waiting = [];
  try {
    for (let pause = 500; ; pause = Math.min(pause * 2, 8000)) {
      try {
        const path = around ? `${state.path}/view?around=${encodeURIComponent(around)}` : `${state.path}/view`;
        show(await (await get(path)).json(), !!around);
        break;
      } catch (error) {
        if (around) throw error;
        // The server may be restarting: wait and retry.
        await new Promise((resolve) => setTimeout(resolve, pause));
      }
    }
  } finally {
    loading = false;
    listen();
  }
}

/** Show a message, wherever it is: on the page, earlier or later, or on another branch. @param {string} turn */
export const visit = (turn) => attempt(async () => {
  if (!placeOf(turn)) {
    visiting = turn; // the change of branch makes every page load again: this one loads around the turn
    try { await load(); }
    catch (error) {
      if (/** @type {any} */ (error).status !== 409) throw error;
      await postAction("switch", { turn });
      await load();
    } finally { visiting = ""; }
  }
  const place = placeOf(turn);
  if (!place) return;
  pinned = false;
  const columns = place.closest(".answers");
  for (const each of columns?.children ?? []) each.classList.toggle("chosen", each === place);
  if (columns) refreshTabs(/** @type {Element} */ (place.closest(".exchange")));
  // What is far away has no height yet: laid out, it moves the message.
  for (let frames = 0; frames < 3; frames++) {
    place.scrollIntoView({ block: "center", inline: "nearest" });
    await new Promise((resolve) => (document.hidden ? resolve(0) : requestAnimationFrame(resolve)));
  }
  place.classList.add("flash");
  setTimeout(() => place.classList.remove("flash"), 1800);
});
/** @param {string} turn @returns {Element | null} */
const placeOf = (turn) => document.querySelector(`#messages article[data-turn="${CSS.escape(turn)}"]`) ?? document.querySelector(`#messages #${CSS.escape(turn)}`);

/** @param {any} view @param {boolean} around */
function show(view, around) {
  if (view.html) leaveWelcome();
  if (around) pinned = false;
  state.later = view.later;
  const top = document.elementFromPoint(scroll.getBoundingClientRect().left + 40, scroll.getBoundingClientRect().top + 8)?.closest("[id]");
  const height = top?.getBoundingClientRect().top ?? 0;
  updateMessages(byId("messages"), elements(view.html));
  byId("questions").replaceChildren(...elements(view.questions));
  update(byId("outbox"), /** @type {any} */ (elements(view.outbox)[0]));
  refreshTabs();
  if (!pinned && top?.id && byId(top.id)) scroll.scrollTop += byId(top.id).getBoundingClientRect().top - height;
  state.position = view.position;
  busy(view.busy);
  if (view.title) byId("title").textContent = view.title;
  byId("total").textContent = view.total;
  follow();
}

/** @param {HTMLElement} button */
export const later = (button) => attempt(async () => {
  const path = `${state.path}/earlier?after=${encodeURIComponent(button.dataset.last ?? "")}`;
  const view = await (await get(path)).json();
  button.outerHTML = trusted(view.html);
  state.later = view.later;
  label(byId("messages"));
  refreshTabs();
});

/** @param {HTMLButtonElement} button */
export const earlier = (button) => attempt(async () => {
  if (button.disabled) return; // they are on their way
  button.disabled = true;
  const path = `${state.path}/earlier?before=${encodeURIComponent(button.dataset.first ?? "")}`;
  const { html } = await (await get(path)).json().finally(() => { button.disabled = false; });
  const height = scroll.scrollHeight;
  button.outerHTML = trusted(html);
  label(byId("messages"));
  refreshTabs();
  scroll.scrollTop += scroll.scrollHeight - height;
});

busy(state.busy);
