// What the scripts of the real page do to the cards, on the component page.
// @ts-check
import { label, ready } from "./page.js";
import { refreshTabs } from "./answers.js";

label(document);
refreshTabs();
ready();
