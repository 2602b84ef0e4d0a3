"use strict";
// Starts the page: theme, controls, films and figures; citations, downloads and links to figures.
const button = document.getElementById("theme");
function theme(name) {
  document.documentElement.dataset.theme = name;
  button.setAttribute("aria-pressed", String(name === "dark"));
  button.textContent = name === "dark" ? "Light" : "Dark";
}
theme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
controls(document.getElementById("controls"));
const films = [];
for (const spot of document.querySelectorAll(".film")) {
  try { films.push(new DepthFilm(spot, DATA.films[spot.dataset.film])); }
  catch (error) { spot.textContent = "This film cannot be shown: " + error.message; console.error(error); }
}
document.querySelectorAll("figure[data-panels]").forEach(build);
document.documentElement.dataset.ready = "yes";
performance.mark("ready");
let drawing = Promise.resolve();
function redraw() { films.forEach((film) => film.show()); drawing = drawing.then(drawAll); return drawing; }
redraw();
button.addEventListener("click", () => { theme(dark() ? "light" : "dark"); redraw(); });
let resizing = null;
addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(() => {
  if (charts.some((chart) => chart.view && chart.width !== chart.place.clientWidth)) redraw();
}, 150); });
// On paper the page is light, and everything that can be opened is open.
let before = "light";
addEventListener("beforeprint", () => { before = document.documentElement.dataset.theme; theme("light"); document.querySelectorAll("details").forEach((one) => { one.open = true; }); });
addEventListener("afterprint", () => theme(before));

function save(name, address) {
  const link = element("a", { href: address, download: name });
  document.body.append(link); link.click(); link.remove();
  if (address.startsWith("blob:")) setTimeout(() => URL.revokeObjectURL(address), 10000);
}
// A figure as one picture on white, with the boundaries that it has without the page.
function whole(id) {
  const { panels } = DATA.figures[id], params = new Map();
  for (const chart of charts.filter(({ figure }) => figure.dataset.panels === id))
    for (const one of chart.panel.params || []) params.set(one.name, { ...one, value: CHOSEN.includes(one.name) ? chosen(chart, one) : one.value });
  const bare = panels.map(({ params: _, config, $schema, model, ...rest }) => rest);
  return { $schema: "https://vega.github.io/schema/vega-lite/v5.json", hconcat: bare, params: [...params.values()], resolve: { scale: { color: "independent", shape: "independent" } } };
}
async function download(id, kind) {
  const name = DATA.figures[id].name + "." + kind;
  if (kind === "csv") return save(name, URL.createObjectURL(new Blob([DATA.figures[id].csv], { type: "text/csv" })));
  const { view } = await vegaEmbed(element("div"), whole(id), { actions: false, config: { background: "white" } });
  save(name, await view.toImageURL(kind, kind === "png" ? 2 : 1));
  view.finalize();
}
async function copy(pressed) {
  const text = document.getElementById(pressed.dataset.copy).textContent;
  try { await navigator.clipboard.writeText(text); }
  catch { const area = element("textarea"); area.value = text; document.body.append(area); area.select(); document.execCommand("copy"); area.remove(); }
  const said = pressed.textContent;
  pressed.textContent = "Copied"; setTimeout(() => { pressed.textContent = said; }, 1500);
}
document.addEventListener("click", (event) => {
  const pressed = event.target.closest("button, a");
  if (!pressed) return;
  if (pressed.dataset.save) download(pressed.closest("figure").dataset.panels, pressed.dataset.save);
  else if (pressed.dataset.copy) copy(pressed);
  else if (pressed.dataset.figure) {
    const figure = (pressed.closest("article") || document).querySelector(`figure[data-name="${CSS.escape(pressed.dataset.figure)}"]`);
    event.preventDefault();
    if (figure) { figure.scrollIntoView({ block: "start" }); figure.focus({ preventScroll: true }); }
  }
});
for (const one of document.querySelectorAll(".ribbon [data-phase]")) one.style.background = phaseColour(Number(one.dataset.phase));
