// What a reader chooses for this browser, and signing in and out.
// @ts-check
import { attempt, byId, notice, post, word } from "./page.js";

/** @param {string} theme */
export const setTheme = (theme) => attempt(async () => {
  await post("/preferences", { theme });
  document.documentElement.dataset.theme = theme;
  byId("contrast").media = { auto: "(prefers-contrast: more)", contrast: "all" }[theme] ?? "not all";
});
export const newLink = () => attempt(async () => {
  const { link } = await (await post("/link", {})).json();
  await navigator.clipboard.writeText(link).catch(() => undefined);
  notice(`${word("link_copied")} ${link}`);
});
export const logout = () => attempt(async () => { await post("/logout", {}); location.assign("/login"); });

/** Open the settings; the way back leads to this chat. @param {string} [page] */
export function openSettings(page = "") {
  sessionStorage.setItem("chat", location.pathname);
  location.assign(`/settings${page && `/${page}`}`);
}
