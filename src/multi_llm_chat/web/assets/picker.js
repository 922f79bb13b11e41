// The models to choose from, and the chat's own instructions and parameters.
// @ts-check
import { attempt, byId, element, get, icon, notice, post, state, trusted, word } from "./page.js";

/** @typedef {{ id: string, name: string, speaker: string, provider: string, hue: number, window: number | null, input: string | null, output: string | null, free: boolean, can: string[], local: boolean }} Model */
/** @type {{ chosen: (speaker: string) => any }} */
export const listeners = { chosen: () => undefined };

const dialog = byId("picker");
const field = byId("model-search");
const list = byId("models");
const details = byId("model-details");
/** No reader looks through more. */
const MOST_ROWS = 200;
/** @type {Model[]} */
let all = [];
/** @type {Record<string, string>} */
let problems = {};
/** The speaker whose model is chosen, or null for any. @type {HTMLElement | null} */
let chip = null;
let filter = "";
let at = 0;
/** @type {Model[]} */
let shown = [];

/** @param {HTMLElement | null} speaker @param {HTMLElement} opener */
export function openPicker(speaker, opener) {
  chip = speaker;
  field.value = "";
  filter = "";
  list.replaceChildren(element("p", "note", word("reading_models")));
  details.replaceChildren();
  dialog.showModal();
  dialog.onclose = () => opener.isConnected && opener.checkVisibility() && opener.focus();
  field.focus();
  void attempt(async () => {
    ({ models: all, problems } = await (await get("/models")).json());
    draw();
  });
}
/** @param {HTMLElement} button */
export function filterBy(button) { filter = button.dataset.filter ?? ""; field.focus(); draw(); }

/** @returns {string[]} */
const favourites = () => JSON.parse(localStorage.getItem("favourites") ?? "[]");
/** @param {Model} model */
const keyOf = (model) => `${model.provider}/${model.id}`;
/** @param {Model} model */
function star(model) {
  const now = favourites();
  const key = keyOf(model);
  localStorage.setItem("favourites", JSON.stringify(now.includes(key) ? now.filter((each) => each !== key) : [...now, key]));
  draw(0);
  choose(shown.indexOf(model));
}
/** @param {number | null} tokens */
const short = (tokens) => (tokens === null ? "–" : tokens >= 1e6 ? `${Math.round(tokens / 1e5) / 10}M` : `${Math.round(tokens / 1000)}k`);
/** @param {Model} model */
const price = (model) => (model.free ? word("free") : model.input === null ? "–" : `${model.input} / ${model.output}`);
const ABILITIES = [["tools", "tools"], ["pictures", "eye"], ["thinking", "bulb"]];

/** Show the models that match, in groups. @param {number} [chosen] */
function draw(chosen) {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  const starred = favourites();
  const base = chip?.dataset.base;
  const matching = all.filter((model) => (!base || model.speaker === base)
    && words.every((/** @type {string} */ each) => `${model.id} ${model.name} ${model.provider} ${model.speaker}`.toLowerCase().includes(each))
    && (!filter || (filter === "favourites" ? starred.includes(keyOf(model)) : filter === "local" ? model.local : model.can.includes(filter))));
  const groups = [
    [word("favourites"), matching.filter((model) => starred.includes(keyOf(model)))],
    [word("from_keys"), matching.filter((model) => !starred.includes(keyOf(model)) && !model.local)],
    [word("on_this_machine"), matching.filter((model) => !starred.includes(keyOf(model)) && model.local)],
  ];
  shown = [];
  const rows = [];
  for (const [title, models] of /** @type {[string, Model[]][]} */ (groups)) {
    const some = models.slice(0, MOST_ROWS - shown.length);
    if (some.length) rows.push(heading(title), ...some.map((model) => row(model, starred.includes(keyOf(model)))));
    shown.push(...some);
  }
  if (matching.length > shown.length) rows.push(element("p", "note", word("more_models").replace("{count}", String(matching.length - shown.length))));
  if (!shown.length) rows.push(element("p", "note", word("no_models")));
  for (const [name, problem] of Object.entries(problems)) if (!base || base === name) rows.push(element("p", "note problem", `${name}: ${problem}`));
  list.replaceChildren(...rows);
  for (const button of dialog.querySelectorAll("[data-filter]")) button.setAttribute("aria-pressed", String(button.dataset.filter === filter));
  const current = shown.findIndex((model) => model.id === (chip?.dataset.model ?? ""));
  choose(Math.min(chosen ?? Math.max(0, current), shown.length - 1));
}
/** @param {string} text */
function heading(text) { const made = element("h3", "", text); made.setAttribute("role", "presentation"); return made; }
/** @param {Model} model @param {boolean} starred */
function row(model, starred) {
  const can = element("span", "can", ...ABILITIES.map(([ability, name]) => (model.can.includes(ability) ? icon(name, 14) : element("i"))));
  const made = element("div", `model-row hue-${model.hue}`, element("span", `sign tiny hue-${model.hue}`, icon(String(model.hue), 14, "sign")),
    element("span", "id", element("b", "", model.id), ...(chip ? [] : [element("small", "", model.speaker)])), element("span", "figure", short(model.window)), element("span", "figure", price(model)), can,
    element("span", `star${starred ? " on" : ""}`, icon(starred ? "starred" : "star", 16)), element("span", "mark-of", ...(isCurrent(model) ? [icon("check", 16)] : [])),
    element("span", "unseen", [...model.can.map((each) => word(`can_${each}`)), ...(starred ? [word("favourites")] : [])].join(", ")));
  made.setAttribute("role", "option");
  made.onclick = (/** @type {any} */ event) => (event.target.closest(".star") ? star(model) : take(model));
  made.onpointermove = () => { const place = shown.indexOf(model); if (place !== at) choose(place, false); };
  return made;
}
/** @param {Model} model */
const isCurrent = (model) => !!chip && chip.dataset.base === model.speaker && chip.dataset.model === model.id;
/** @param {number} place @param {boolean} [scroll] */
function choose(place, scroll = true) {
  at = place;
  const rows = [...list.querySelectorAll("[role=option]")];
  rows.forEach((each, number) => { each.id = `model-${number}`; each.setAttribute("aria-selected", String(number === place)); });
  field.toggleAttribute("aria-activedescendant", false);
  if (!rows[place]) { details.replaceChildren(); return; }
  field.setAttribute("aria-activedescendant", rows[place].id);
  if (scroll) rows[place].scrollIntoView({ block: "nearest" });
  describe(shown[place]);
}
let asked = 0;
/** @param {Model} model */
function describe(model) {
  const number = ++asked;
  /** @param {string} name @param {string | null} value */
  const line = (name, value) => element("div", "", element("dt", "", name), element("dd", "", value ?? word("unknown")));
  const cost = element("p", "note");
  details.replaceChildren(
    element("p", `who-of hue-${model.hue}`, element("span", `sign big hue-${model.hue}`, icon(String(model.hue), 14, "sign")), element("span", "", element("b", "", model.id), element("small", "", `${model.provider}, @${model.speaker}`))),
    element("dl", "figures", line(word("window"), model.window === null ? null : model.window.toLocaleString()), line(word("going_in"), model.free ? word("free") : model.input && `${model.input} / 1M`), line(word("coming_out"), model.free ? word("free") : model.output && `${model.output} / 1M`)),
    element("ul", "abilities", ...ABILITIES.filter(([ability]) => model.can.includes(ability)).map(([ability, name]) => element("li", "", icon(name, 16), word(`can_${ability}`)))),
    cost,
  );
  void get(`${state.path}/estimate?to=${encodeURIComponent(model.speaker)}&model=${encodeURIComponent(model.id)}`).then((found) => found.json()).then(({ text }) => {
    if (number === asked && text) cost.textContent = word("next_answer_costs").replace("{cost}", text);
  }, () => undefined); // without an estimate the figures stay
}
/** @param {Model} model */
const take = (model) => attempt(async () => {
  const name = chip?.dataset.name ?? model.speaker;
  await post(`${state.path}/model`, { speaker: name, model: model.id });
  dialog.onclose = null;
  dialog.close();
  await listeners.chosen(name);
  notice(word("uses_model").replace("{name}", name).replace("{model}", model.id));
});

field.addEventListener("input", () => draw(0));
dialog.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
  const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 }[event.key];
  if (step && shown.length) { event.preventDefault(); choose(Math.max(0, Math.min(shown.length - 1, at + step))); }
  if (event.key === "Enter" && !event.isComposing && event.target === field && shown[at]) { event.preventDefault(); void take(shown[at]); }
  if (event.altKey && event.code === "KeyS" && shown[at]) { event.preventDefault(); star(shown[at]); }
});

// The chat's own instructions and parameters.

const sheet = byId("chat-settings");
export const openParameters = () => attempt(async () => {
  sheet.querySelector(".inside").innerHTML = trusted(await (await get(`${state.path}/parameters`)).text());
  if (!sheet.open) sheet.showModal();
  sheet.querySelector("textarea").focus();
});
sheet.addEventListener("submit", (/** @type {any} */ event) => {
  event.preventDefault();
  const problem = sheet.querySelector(".problem");
  problem.hidden = true;
  void post(`${state.path}/parameters`, Object.fromEntries(new FormData(event.target))).then((saved) => saved.json()).then(({ text }) => {
    byId("parameters-set").textContent = text;
    sheet.close();
    notice(word("saved"));
  }, (error) => { problem.textContent = error.message; problem.hidden = false; });
});
