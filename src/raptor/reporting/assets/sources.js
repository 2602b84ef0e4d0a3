"use strict";
// A number says where it comes from: a click, or Enter, shows its full value, its key and a link to its result file.
// One number of each tile, table or paragraph takes part in the order of the tab key; arrow keys go to the others.
const NUMBERS = "data[data-key]";
const source = element("div", { id: "source", role: "dialog", "aria-label": "Where this number comes from", tabindex: -1, hidden: "" });
document.querySelector("main").append(source);
let asked = null;

const groupOf = (number) => number.closest("table, .tile, p, li") || document.body;
function fileOf(number) {
  const model = (number.closest("[data-model]") || { dataset: {} }).dataset.model || "m0";
  return ((DATA.files || {})[model] || {})[number.dataset.run];
}
function closeSource(back) {
  if (source.hidden) return;
  source.hidden = true;
  if (back && asked) asked.focus();
}
function openSource(number) {
  asked = number;
  const { run, key } = number.dataset, file = fileOf(number), name = `${run}/result.json`;
  const close = element("button", { type: "button" }, "Close"), link = file ? element("a", { href: file, target: "_blank", rel: "noopener" }, name) : element("span", {}, name);
  close.addEventListener("click", () => closeSource(true));
  source.replaceChildren(
    element("p", {}, element("strong", {}, number.getAttribute("value"))),
    element("p", {}, "File: ", link), element("p", {}, "Key: ", element("code", {}, key)),
    element("p", { class: "note" }, file ? "The link works while this page lies beside its run directories." : "This page was made without run directories."), close);
  source.hidden = false;
  const box = number.getBoundingClientRect(), outer = document.querySelector("main").getBoundingClientRect();
  source.style.top = `${box.bottom - outer.top + 6}px`;
  source.style.left = `${Math.max(8, Math.min(box.left - outer.left, outer.width - source.offsetWidth - 8))}px`;
  (file ? link : close).focus({ preventScroll: true });
}
for (const number of document.querySelectorAll(NUMBERS)) {
  number.title = `${number.dataset.run}/result.json: ${number.dataset.key}`;
  number.setAttribute("role", "button");
  number.setAttribute("aria-haspopup", "dialog");
  number.tabIndex = groupOf(number).querySelector(NUMBERS) === number ? 0 : -1;
}
document.addEventListener("click", (event) => {
  const number = event.target.closest(NUMBERS);
  if (number) openSource(number);
  else if (!event.target.closest("#source")) closeSource(false);
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") closeSource(true);
  const number = event.target.closest(NUMBERS);
  if (!number) return;
  if (event.key === "Enter" || event.key === " ") { event.preventDefault(); openSource(number); return; }
  const step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
  if (!step) return;
  event.preventDefault();
  const all = [...groupOf(number).querySelectorAll(NUMBERS)], next = all[all.indexOf(number) + step];
  if (next) { number.tabIndex = -1; next.tabIndex = 0; next.focus(); }
});
