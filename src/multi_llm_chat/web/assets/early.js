// Repeats what the user did before the modules of the page had loaded: clicks, Enter, Escape.
// @ts-check
"use strict";
{
  /** @type {Event[]} */
  const held = [];
  /** Whether only a script can do what this event asks for. @param {any} event */
  const needsScript = (event) => {
    if (event.type === "submit") return true;
    if (event.type === "click") return !!event.target.closest?.("[data-action]");
    if (event.isComposing) return false;
    return event.key === "Escape" || (event.key === "Enter" && !event.shiftKey && event.target.matches("textarea, [type=search]")) || ((event.ctrlKey || event.metaKey) && event.key === "k");
  };
  /** @param {Event} event */
  const hold = (event) => {
    if (!needsScript(event)) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    held.push(event);
  };
  const kinds = ["click", "submit", "keydown"];
  for (const kind of kinds) document.addEventListener(kind, hold, { capture: true });
  document.addEventListener("ready", () => {
    for (const kind of kinds) document.removeEventListener(kind, hold, { capture: true });
    for (const event of held) event.target?.dispatchEvent(new /** @type {any} */ (event.constructor)(event.type, event));
  }, { once: true });
}
