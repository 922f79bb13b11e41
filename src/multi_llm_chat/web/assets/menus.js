// Menus, lists of choices, and questions to the user.
// @ts-check
import { byId, element, icon, word } from "./page.js";

/** @typedef {{ text: string, icon?: string, sign?: number, note?: string, key?: string, danger?: boolean, checked?: boolean, act: () => void } | null} Item */

const popup = byId("popup");
/** @type {HTMLElement | null} */
let opener = null;
let typed = "";
let typedAt = 0;

/** Close the menu; return whether it was open. @param {boolean} [focus] */
export function closeMenu(focus = true) {
  if (!opener) return false;
  const before = opener;
  opener = null;
  popup.hidePopover();
  before.setAttribute("aria-expanded", "false");
  if (focus) before.focus();
  return true;
}

/** Open a menu at a button, towards the free side; null is a line. @param {HTMLElement} at @param {Item[]} items @param {"menu" | "listbox"} [role] */
export function openMenu(at, items, role = "menu") {
  const again = opener === at;
  closeMenu(false);
  if (again) return;
  popup.setAttribute("role", role);
  popup.setAttribute("aria-label", at.getAttribute("aria-label") ?? at.textContent ?? "");
  popup.replaceChildren(...items.map((item) => (item ? row(item, role) : element("hr"))));
  // Outside an open dialog everything is inert.
  (at.closest("dialog, nav, main, aside") ?? document.body).append(popup);
  opener = at;
  at.setAttribute("aria-expanded", "true");
  popup.showPopover();
  place(at);
  const first = popup.querySelector("[aria-selected=true], [aria-checked=true]") ?? popup.querySelector("button");
  first?.focus();
}

/** @param {NonNullable<Item>} item @param {string} role */
function row(item, role) {
  const made = element("button", item.danger ? "danger" : "");
  made.type = "button";
  made.setAttribute("role", role === "listbox" ? "option" : item.checked === undefined ? "menuitem" : "menuitemcheckbox");
  if (item.checked !== undefined) made.setAttribute(role === "listbox" ? "aria-selected" : "aria-checked", String(item.checked));
  made.tabIndex = -1;
  if (item.sign !== undefined) made.append(element("span", `sign tiny hue-${item.sign}`, icon(String(item.sign), 14, "sign")));
  else if (item.icon) made.append(icon(item.icon));
  const words = element("span", "words-of", item.text);
  if (item.note) words.append(element("small", "", item.note));
  made.append(words);
  if (item.key) made.append(element("kbd", "", item.key));
  if (item.checked) made.append(icon("check"));
  made.onclick = () => { closeMenu(); item.act(); };
  return made;
}

/** @param {HTMLElement} at */
function place(at) {
  const box = at.getBoundingClientRect();
  const { offsetWidth: width, offsetHeight: height } = popup;
  const below = box.bottom + 4 + height <= innerHeight - 8 || box.top < innerHeight - box.bottom;
  const left = box.left + width <= innerWidth - 8 ? box.left : box.right - width;
  popup.style.left = `${Math.max(8, Math.min(left, innerWidth - width - 8))}px`;
  popup.style.top = `${Math.max(8, below ? Math.min(box.bottom + 4, innerHeight - height - 8) : box.top - 4 - height)}px`;
  popup.style.minWidth = popup.getAttribute("role") === "listbox" ? `${box.width}px` : "";
}

popup?.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
  const all = [...popup.querySelectorAll("button")];
  const now = all.indexOf(document.activeElement);
  /** @type {Record<string, number>} */
  const steps = { ArrowDown: now + 1, ArrowUp: now - 1 + all.length, Home: 0, End: all.length - 1 };
  if (event.key in steps) { event.preventDefault(); all[steps[event.key] % all.length]?.focus(); return; }
  if (event.key === "Escape" || event.key === "Tab") { event.preventDefault(); event.stopPropagation(); closeMenu(); return; }
  if (event.key.length === 1 && !event.ctrlKey && !event.altKey && event.key !== " ") {
    typed = (event.timeStamp - typedAt > 800 ? "" : typed) + event.key.toLowerCase();
    typedAt = event.timeStamp;
    all.find((each) => each.textContent.trim().toLowerCase().startsWith(typed))?.focus();
  }
});
document.addEventListener("pointerdown", (/** @type {any} */ event) => {
  if (opener && !popup.contains(event.target) && !opener.contains(event.target)) closeMenu(false);
});
addEventListener("resize", () => closeMenu(false));

/** Choose a value: a button, followed by a hidden field and a template with the options. @param {any} at */
export function select(at) {
  const field = at.nextElementSibling;
  const options = [...field.nextElementSibling.content.querySelectorAll("option")];
  openMenu(at, options.map((option) => ({
    text: option.textContent, checked: option.value === field.value,
    act: () => {
      field.value = option.value;
      at.querySelector("span").textContent = option.textContent;
      if (at.dataset.label) at.setAttribute("aria-label", `${at.dataset.label}: ${option.textContent}`);
      field.dispatchEvent(new Event("change", { bubbles: true }));
    },
  })), "listbox");
}

/** Ask for a few texts; null if the user cancels. @param {string} title @param {{ name: string, label: string, value?: string }[]} fields
 * @returns {Promise<Record<string, string> | null>} */
export function ask(title, fields) {
  const dialog = byId("asker");
  byId("asker-title").textContent = title;
  dialog.querySelector(".fields").replaceChildren(...fields.map(({ name, label, value }) => {
    const input = element("input", "field");
    input.name = name;
    input.value = value ?? "";
    return element("label", "", element("span", "", label), input);
  }));
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.onclose = () => {
      const values = Object.fromEntries([...dialog.querySelectorAll(".fields input")].map((each) => [each.name, each.value]));
      resolve(dialog.returnValue === "ok" ? values : null);
    };
    dialog.returnValue = "";
  });
}

/** The menu of a theme. @param {(theme: string) => void} choose */
export const themes = (choose) => ["auto", "light", "dark", "contrast"].map((theme) => ({
  text: word(`theme_${theme}`), icon: "theme", checked: document.documentElement.dataset.theme === theme, act: () => choose(theme),
}));
