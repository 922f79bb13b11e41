// The pane of an artifact: its preview in a sandboxed frame, its source, its changes and its versions.
// @ts-check
import { attempt, byId, element, get, label, state, trusted, word } from "./page.js";

const pane = byId("pane");
/** @type {{ title: string, language: string, at: number, versions: { turn: string, number: number }[], code: string } | null} */
let shown = null;
/** @type {HTMLElement | null} */
let opener = null;

/** @param {string} turn @param {string | number} number */
const show = (turn, number) => attempt(async () => {
  const segment = /^\w[\w.-]*$/.test(turn) ? turn : `~${btoa(String.fromCharCode(...new TextEncoder().encode(turn))).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "")}`;
  const path = `${state.path}/artifacts/${encodeURIComponent(segment)}/${number}`;
  const found = await (await get(path)).json();
  shown = found;
  byId("pane-title").textContent = found.title;
  byId("pane-version").textContent = `${found.at} / ${found.versions.length}`;
  const [before, after] = pane.querySelectorAll("[data-action=artifact-version]");
  before.disabled = found.at === 1;
  after.disabled = found.at === found.versions.length;
  byId("pane-size").textContent = `${found.speaker} · ${found.size < 1000 ? `${found.size} B` : `${(found.size / 1000).toFixed(1)} KB`}`;
  const frame = element("iframe");
  frame.setAttribute("sandbox", "allow-scripts"); // as the document's own policy says; both hold
  frame.setAttribute("referrerpolicy", "no-referrer");
  frame.title = found.title;
  frame.src = `${path}/document`;
  byId("pane-preview").replaceChildren(frame);
  byId("pane-source").innerHTML = trusted(found.source);
  if (found.changes) byId("pane-changes").innerHTML = trusted(found.changes);
  else byId("pane-changes").replaceChildren(element("p", "note", found.at === 1 ? word("first_version") : word("no_changes")));
  label(pane);
  pane.hidden = false;
  document.body.classList.add("with-pane");
  setWidth(wanted);
  mark();
});
/** Mark the card of the artifact that is open. */
function mark() {
  const open = shown && shown.versions[shown.at - 1];
  for (const card of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll(".artifact"))) card.classList.toggle("open", !!open && !pane.hidden && card.dataset.turn === open.turn && card.dataset.number === String(open.number));
}
/** @param {HTMLElement} button */
export async function openArtifact(button) {
  const card = /** @type {HTMLElement} */ (button.closest(".artifact"));
  opener = button;
  await show(card.dataset.turn ?? "", card.dataset.number ?? "0");
  if (shown) pane.querySelector("[data-view=preview]")?.click();
  pane.querySelector("[data-action=close-artifact]")?.focus();
}
/** @param {HTMLElement} button */
export function showVersion(button) {
  const wanted = shown?.versions[shown.at - 1 + Number(button.dataset.by)];
  if (wanted) void show(wanted.turn, wanted.number);
}
/** @param {HTMLElement} button */
export function showView(button) {
  for (const each of /** @type {NodeListOf<HTMLElement>} */ (pane.querySelectorAll("[data-action=artifact-view]"))) {
    each.setAttribute("aria-pressed", String(each === button));
    byId(`pane-${each.dataset.view}`).hidden = each !== button;
  }
}
export function save() {
  if (!shown) return;
  const link = element("a");
  link.href = URL.createObjectURL(new Blob([shown.code], { type: "application/octet-stream" }));
  link.download = `${shown.title.replace(/[^\p{L}\p{N}-]+/gu, "-").slice(0, 60)}.${shown.language}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// The edge between the chat and the pane: dragged, or moved by keys; the width is remembered.

const edge = byId("pane-edge");
const LEAST = 360;
const USUAL = 468;
let wanted = Number(localStorage.getItem("chat-width")) || USUAL;
const left = () => byId("main").getBoundingClientRect().left;
const most = () => Math.max(LEAST, Math.round(innerWidth - left() - 320));
/** Give the chat a width; the pane has the rest. @param {number} width */
function setWidth(width) {
  const now = Math.round(Math.min(most(), Math.max(LEAST, width)));
  document.documentElement.style.setProperty("--chat", `${now}px`);
  for (const [name, value] of [["min", LEAST], ["max", most()], ["now", now]]) edge.setAttribute(`aria-value${name}`, String(value));
  return now;
}
/** @param {number} width */
function keepWidth(width) {
  wanted = setWidth(width);
  localStorage.setItem("chat-width", String(wanted));
}
edge.addEventListener("pointerdown", (/** @type {PointerEvent} */ event) => {
  if (event.button) return;
  event.preventDefault();
  edge.focus();
  edge.setPointerCapture(event.pointerId);
  document.body.classList.add("resizing"); // the frame, which is another process, takes no events meanwhile
});
for (const end of ["pointerup", "pointercancel", "lostpointercapture"]) edge.addEventListener(end, () => document.body.classList.remove("resizing"));
edge.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => { if (edge.hasPointerCapture(event.pointerId)) keepWidth(event.clientX - left()); });
edge.addEventListener("dblclick", () => keepWidth(USUAL));
edge.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
  const by = event.shiftKey ? 96 : 24;
  const width = { ArrowLeft: wanted - by, ArrowRight: wanted + by, Home: LEAST, End: most() }[event.key];
  if (width === undefined) return;
  event.preventDefault();
  keepWidth(width);
});
addEventListener("resize", () => { if (!pane.hidden) setWidth(wanted); });

/** @param {HTMLElement} button */
export function widen(button) { button.setAttribute("aria-pressed", String(document.body.classList.toggle("pane-wide"))); }
/** Close the pane; whether it was open. */
export function closeArtifact() {
  if (pane.hidden) return false;
  pane.hidden = true;
  byId("pane-preview").replaceChildren(); // its scripts end
  document.body.classList.remove("with-pane", "pane-wide");
  mark();
  if (opener?.isConnected) opener.focus(); else byId("text").focus();
  return true;
}
