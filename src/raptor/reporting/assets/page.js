"use strict";
const DATA = JSON.parse(document.getElementById("data").textContent);
const dark = () => document.documentElement.dataset.theme === "dark";
const views = {};

// Figures are drawn from their declarations, so that the theme can change and a slider can move.
function themed(spec) {
  const text = JSON.stringify(spec);
  return JSON.parse(dark() ? text.replaceAll('"#000000"', '"#ffffff"').replaceAll('"#666"', '"#bbb"') : text);
}
async function draw(place) {
  const id = place.dataset.spec, look = getComputedStyle(document.documentElement);
  const ink = look.getPropertyValue("--ink").trim(), line = look.getPropertyValue("--line").trim();
  const words = { labelColor: ink, titleColor: ink };
  const config = {
    background: "transparent", view: { stroke: line }, text: { fill: ink }, legend: words, header: words,
    axis: { ...words, gridColor: line, domainColor: line, tickColor: line }, title: { color: ink, subtitleColor: ink },
  };
  const bind = place.previousElementSibling;
  bind.replaceChildren();
  const kept = views[id] ? { k: signal(id, "k"), group: signal(id, "group") } : {};
  if (views[id]) views[id].finalize();
  const result = await vegaEmbed(place, themed(DATA.figures[id].spec), { actions: false, renderer: "svg", config, bind });
  views[id] = result.view;
  for (const [name, value] of Object.entries(kept)) if (value !== undefined) result.view.signal(name, value);
  await result.view.runAsync();
}
function signal(id, name) { try { return views[id].signal(name); } catch { return undefined; } }
async function drawAll() {
  for (const place of document.querySelectorAll(".chart")) {
    try { await draw(place); } catch (error) { place.textContent = "This figure cannot be drawn: " + error.message; console.error(error); }
  }
  document.documentElement.dataset.drawn = "yes";
}

function save(name, address) {
  const link = document.createElement("a");
  link.href = address; link.download = name;
  document.body.append(link); link.click(); link.remove();
  if (address.startsWith("blob:")) setTimeout(() => URL.revokeObjectURL(address), 10000);
}
document.addEventListener("click", async (event) => {
  const kind = event.target.dataset && event.target.dataset.save;
  if (!kind) return;
  const id = event.target.closest("figure").id, name = DATA.figures[id].name + "." + kind;
  if (kind === "csv") return save(name, URL.createObjectURL(new Blob([DATA.figures[id].csv], { type: "text/csv" })));
  // A picture for a paper is on white, whatever the page looks like.
  const apart = document.createElement("div");
  const { view } = await vegaEmbed(apart, DATA.figures[id].spec, { actions: false, config: { background: "white" } });
  for (const one of ["k", "group"]) { const value = signal(id, one); if (value !== undefined) view.signal(one, value); }
  await view.runAsync();
  save(name, await view.toImageURL(kind, kind === "png" ? 2 : 1));
  view.finalize();
});

const button = document.getElementById("theme");
function theme(name) {
  document.documentElement.dataset.theme = name;
  button.setAttribute("aria-pressed", String(name === "dark"));
  button.textContent = name === "dark" ? "Light" : "Dark";
}
theme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
let drawing = Promise.resolve();
function redraw() { films.forEach((film) => film.show()); drawing = drawing.then(drawAll); }
button.addEventListener("click", () => { theme(dark() ? "light" : "dark"); redraw(); });
// Ink follows the page's colours in print by a rule of its own; the theme comes back afterwards.
let before = "light";
addEventListener("beforeprint", () => { before = document.documentElement.dataset.theme; theme("light"); });
addEventListener("afterprint", () => theme(before));

const films = [];
for (const place of document.querySelectorAll(".film")) {
  try { films.push(new DepthFilm(place, DATA.films[place.dataset.film])); }
  catch (error) { place.textContent = "This film cannot be shown: " + error.message; console.error(error); }
}
redraw();
