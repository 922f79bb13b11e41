// One stream of numbered changes for each conversation; every page that shows it changes in the same way.
// @ts-check
import { attempt, byId, get, label, notice, say, state, trusted, word } from "./page.js";

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
/** Whether the reader is at the end, and wants to stay there. */
const atEnd = () => scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 80;
scroll.addEventListener("scroll", () => { pinned = atEnd(); byId("latest").hidden = pinned; }, { passive: true });
export function toEnd() { pinned = true; scroll.scrollTop = scroll.scrollHeight; byId("latest").hidden = true; }

/** @param {Element | null} place @param {string} html */
function add(place, html) {
  if (!place) return;
  place.insertAdjacentHTML("beforeend", trusted(html));
  label(place);
}

/** @type {Record<string, (change: any) => void>} */
const APPLY = {
  append(change) {
    byId("welcome")?.remove();
    add(byId(change.to), change.html);
    if (change.to === "messages") pinned = true;
  },
  replace(change) {
    const old = byId(change.id);
    if (!old) return;
    const open = old.querySelector("details")?.open;
    old.outerHTML = trusted(change.html);
    const fresh = byId(change.id);
    label(fresh);
    if (open) fresh.querySelector("details")?.setAttribute("open", "");
    if (fresh.matches(".answer:not(.live)")) say(`${fresh.dataset.speaker}: ${fresh.querySelector(".words")?.textContent?.slice(0, 500) ?? ""}`);
    if (fresh.matches(".tool.waiting")) { say(`${word("needs_approval")}: ${fresh.querySelector(".name")?.textContent}`); toEnd(); }
  },
  stream(change) {
    const words = byId(change.id);
    if (!words) return;
    const [final, tail] = words.children;
    if (change.final) add(final, change.final);
    tail.innerHTML = trusted(change.tail);
    label(tail);
  },
  text(change) { byId(change.id)?.append(change.text); },
  remove(change) { byId(change.id)?.remove(); },
  busy(change) { busy(change.value); },
  notice(change) { notice(change.text); },
  total() { listeners.total?.(); },
  list() { listeners.list?.(); },
  tools() { listeners.tools?.(); },
  people() { listeners.people?.(); },
  reset() { void load(); },
};

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
    if (loading) return; // what comes behind a reset is in what is loaded
  }
  if (pinned) scroll.scrollTop = scroll.scrollHeight;
}

/** @param {MessageEvent} event */
function heard(event) {
  if (event.lastEventId) state.position = event.lastEventId;
  waiting.push(...JSON.parse(event.data));
  if (planned) return;
  planned = true;
  // A page that is not looked at draws no frames.
  if (document.hidden) queueMicrotask(flush);
  else requestAnimationFrame(flush);
}

export function listen() {
  source?.close();
  source = new EventSource(`/c/${encodeURIComponent(state.conversation)}/events?after=${encodeURIComponent(state.position)}`);
  source.onmessage = heard;
  source.onopen = () => { document.body.dataset.stream = "open"; };
}

// Browsers allow few connections to one server: a page that nobody looks at gives its own back, and catches up later.
/** @type {number | undefined} */
let leaving;
document.addEventListener("visibilitychange", () => {
  clearTimeout(leaving);
  if (document.hidden) leaving = setTimeout(() => { source?.close(); source = null; }, 10000);
  else if (!source) listen();
});

/** Load all messages anew, and go on from there. */
export async function load() {
  if (loading) return;
  loading = true;
  source?.close();
  waiting = [];
  try {
    for (let pause = 500; ; pause = Math.min(pause * 2, 8000)) {
      try {
        show(await (await get(`/c/${encodeURIComponent(state.conversation)}/view`)).json());
        break;
      } catch {
        // The server may be starting again: nothing is lost by waiting.
        await new Promise((resolve) => setTimeout(resolve, pause));
      }
    }
  } finally { loading = false; }
  listen();
}

/** @param {any} view */
function show(view) {
  byId("messages").innerHTML = trusted(view.html);
  byId("questions").innerHTML = trusted(view.questions);
  label(byId("messages"));
  state.position = view.position;
  busy(view.busy);
  if (view.title) byId("title").textContent = view.title;
  byId("total").textContent = view.total;
  if (pinned) toEnd();
}

/** @param {HTMLElement} button */
export const earlier = (button) => attempt(async () => {
  const path = `/c/${encodeURIComponent(state.conversation)}/earlier?before=${encodeURIComponent(button.dataset.first ?? "")}`;
  const { html } = await (await get(path)).json();
  const height = scroll.scrollHeight;
  button.outerHTML = trusted(html);
  label(byId("messages"));
  scroll.scrollTop += scroll.scrollHeight - height;
});

busy(state.busy);
