"use strict";
// Panels of figures. Each is a Vega-Lite view that fills its place, follows the reader's choices and has the ruler.
const charts = [];
const SHAPES = { circle: "\u25CF", square: "\u25A0", diamond: "\u25C6", "triangle-up": "\u25B2", cross: "\u271A", "triangle-down": "\u25BC" };
// Colours that are lighter on a dark page, with their names in the style sheet.
const THEMED = { "#000000": "--ink", "#0072B2": "--blue", "#D55E00": "--vermilion" };
// Where sky blue is used too, blue stays: lighter, it would look the same.
const themes = (colours) => Object.entries(THEMED).filter(([colour]) => !(colour === "#0072B2" && colours.includes("#56B4E9")));
const themed = (colour, among = "") => (Object.fromEntries(themes(among))[colour] ? `var(${THEMED[colour]})` : colour);
const SMALL = 12;  // pixels of the smallest type

function units(spec) { return [spec, ...(spec.layer || []).flatMap(units)]; }
function rowsOf(panel) { return units(panel).flatMap((unit) => (unit.data && Array.isArray(unit.data.values) ? unit.data.values : [])); }
function encodings(panel) { return units(panel).map((unit) => unit.encoding || {}); }

// What a panel's axes are: depth across, depth in both directions, or something else.
function kindOf(panel) {
  const fields = encodings(panel).map((one) => (one.x || {}).field);
  if (fields.includes("left")) return "matrix";
  return fields.includes("depth") || fields.includes("layer") ? "depth" : "other";
}
// The value of a parameter that a panel has data for: what the reader chose, or else the panel's own.
function chosen(chart, parameter) {
  const has = (field, value) => chart.rows.some((row) => row[field] === value), own = parameter.value;
  if (parameter.name === "group") return has("group", state.group) || state.group === "all" && own === "all" ? state.group : own;
  if (parameter.name === "flow") return state.flow === "both" || has("role", state.flow) ? state.flow : "both";
  if (parameter.name === "k") return has("k", state.k) ? state.k : own;
  return own;
}
const CHOSEN = ["group", "flow", "k"];

function look(width) {
  const ink = colourOf("--ink"), soft = colourOf("--soft"), line = colourOf("--line"), font = getComputedStyle(document.body).fontFamily;
  const words = { labelColor: ink, titleColor: soft, labelFontSize: SMALL, titleFontSize: SMALL, titleFontWeight: "normal", labelFont: font, titleFont: font };
  return {
    font, background: "transparent", view: { stroke: null }, text: { fill: ink, fontSize: SMALL }, header: words,
    axis: { ...words, gridColor: line, gridOpacity: 0.6, domainColor: soft, tickColor: soft, labelOverlap: true, labelSeparation: 6, titlePadding: 8 },
    axisY: { titleAngle: 0, titleAlign: "left", titleBaseline: "bottom", titleX: 0, titleY: -8, titleLimit: width - 60 }, axisX: { titleLimit: width - 60 },
    legend: { ...words, orient: "bottom", titleLimit: 400, labelLimit: 300, gradientLength: 180, columns: width < 520 ? 1 : 3, gradientThickness: 10, offset: 8 },
    line: { strokeWidth: 2.2 }, point: { size: 40 },
  };
}
// Legends of names stand once above a figure; those of token groups are the controls.
function legendOf(encoding) {
  const { field, scale, legend, title, type } = encoding.color || {};
  if (!field || type !== "nominal" || !scale || !scale.domain || !scale.range || (legend && legend.labelExpr)) return null;
  const shapes = encoding.shape && encoding.shape.field === field && encoding.shape.scale ? encoding.shape.scale.range : null;
  return { field, title: title || "", names: scale.domain, colours: scale.range, shapes };
}
function legendsOf(panels) {
  const found = new Map(), several = new Set(panels.map(({ model }) => model)).size > 1;
  for (const [one, model] of panels.flatMap((panel) => encodings(panel).map((encoding) => [legendOf(encoding), panel.model])))
    if (one && one.field !== "group") { const key = JSON.stringify([one.names, one.colours, several ? model : ""]); if (!found.has(key) || one.shapes) found.set(key, several ? { ...one, title: MODELS[model].title, labelled: true } : one); }
  return [...found.values()].map((one) => element("ul", { class: "legend", "aria-label": one.title }, ...((one.labelled || one.names.length < 3) && one.title ? [element("li", { class: "about" }, one.title + ":")] : []), ...one.names.map((name, at) => {
    const colour = one.colours[at % one.colours.length];
    const mark = element("span", { class: "key", "aria-hidden": "true" }, one.shapes ? SHAPES[one.shapes[at]] || "\u25CF" : "\u25CF");
    mark.style.color = themed(colour, one.colours);
    return element("li", {}, mark, name);
  })));
}
// A scale of colours that several panels of a figure share has one legend, that of the first.
const scaleKey = ({ color }) => (color && color.scale && color.scale.domain && color.type !== "nominal" ? JSON.stringify([color.title, color.scale]) : null);
function hasScale(panel, key) { return encodings(panel).some((one) => scaleKey(one) === key); }
function repeats(chart, encoding) {
  const key = scaleKey(encoding), first = key && charts.find((one) => one.figure === chart.figure && hasScale(one.panel, key));
  return Boolean(first) && first !== chart;
}
// Lines and bars in a scale of colours keep away from the end of the scale that looks like the paper.
function readable(spec) {
  const marks = units(spec).map(({ mark }) => (mark && mark.type) || mark), own = encodings(spec).filter(({ color }) => color && color.scale && color.scale.scheme === "cividis");
  if (marks.includes("line")) for (const { color } of own) color.scale = { ...color.scale, scheme: { name: "cividis", extent: dark() ? [0.4, 1] : [0, 0.75] } };
  for (const unit of units(spec)) if ((unit.mark && unit.mark.type) === "bar" || unit.mark === "bar") unit.mark = { ...(unit.mark.type ? unit.mark : { type: "bar" }), stroke: colourOf("--soft"), strokeWidth: 0.8 };
}
function ticks(first, last, width) {
  const step = Math.max(1, Math.ceil((last - first) / Math.max(2, width / 34))), found = [];
  for (let at = first; at <= last; at += step) found.push(at);
  return found;
}
function fitted(chart) {
  const given = JSON.stringify(chart.panel);
  const spec = JSON.parse(themes(given).reduce((text, [colour, name]) => text.replaceAll(JSON.stringify(colour), JSON.stringify(colourOf(name))), given));
  const width = Math.max(200, Math.floor(chart.place.clientWidth)), layers = (MODELS[chart.model] || {}).layers || 0;
  if (spec.layer) spec.layer = spec.layer.filter((part) => !String(part.name || "").startsWith("cuts"));
  for (const encoding of encodings(spec)) if (repeats(chart, encoding)) encoding.color.legend = null;
  const bottom = encodings(spec).some((one) => one.color && one.color.field && !legendOf(one) && one.color.legend !== null);
  for (const encoding of encodings(spec)) {
    // The title of the panel, above it, is that of its axis.
    if (encoding.y && chart.heading && encoding.y.title === chart.heading) encoding.y.title = null;
    if (legendOf(encoding)) { encoding.color.legend = null; if (encoding.shape) encoding.shape.legend = null; }
    if (encoding.color && encoding.color.legend && encoding.color.legend.orient) delete encoding.color.legend.orient;
    if (chart.kind === "depth" && encoding.x && layers) {
      encoding.x.scale = { ...encoding.x.scale, domain: [-0.5, layers + 0.5], nice: false, padding: 0 };
      if (encoding.x.axis !== null) encoding.x.axis = { ...encoding.x.axis, values: ticks(0, layers, width - 60), format: "d" };
    }
    if (chart.kind === "matrix") for (const axis of ["x", "y"])
      if (encoding[axis] && encoding[axis].axis) encoding[axis].axis = { ...encoding[axis].axis, values: ticks(1, layers, width - 60) };
  }
  // A circle stays a circle at any width: the real axis is as much longer as the panel is wider.
  if (chart.plane) for (const { x, y } of encodings(spec)) if (x && y && y.scale) x.scale = { ...y.scale, domain: y.scale.domain.map((end) => end * chart.ratio) };
  readable(spec);
  delete spec.title; delete spec.model;
  const wide = chart.square ? Math.min(width, 680) : Math.min(Math.max(width * 0.55, 250), 400);
  spec.params = (spec.params || []).map(({ bind, ...rest }) => ({ ...rest, value: CHOSEN.includes(rest.name) ? chosen(chart, rest) : rest.value }));
  return { ...spec, width, height: Math.round(wide + (bottom ? 50 : 0)), autosize: { type: "fit", contains: "padding" }, padding: { left: 4, top: 4, right: 9, bottom: 4 } };
}
async function draw(chart, corrections = 3) {
  if (chart.view) chart.view.finalize();
  const { view } = await vegaEmbed(chart.canvas, fitted(chart), { actions: false, renderer: "svg", config: look(chart.place.clientWidth) });
  chart.view = view; chart.width = chart.place.clientWidth;
  // Without axes and titles, whose size is known once it is drawn. Another range may change the labels, and so the size again.
  const ratio = view.width() / view.height();
  if (chart.plane && corrections && Math.abs(ratio / chart.ratio - 1) > 0.01) { chart.ratio = ratio; return draw(chart, corrections - 1); }
  const svg = chart.canvas.querySelector("svg");
  if (svg) { svg.setAttribute("role", "img"); svg.setAttribute("aria-label", chart.label); }
  place(chart);
  note(chart);
}
async function follow(chart) {
  if (!chart.view) return;
  for (const parameter of chart.panel.params || [])
    if (CHOSEN.includes(parameter.name)) chart.view.signal(parameter.name, chosen(chart, parameter));
  await chart.view.runAsync();
  place(chart);
  note(chart);
}
// The number of blocks of the surrogate that a panel shows; null where it shows none.
function shownK(chart) {
  const parameter = (chart.panel.params || []).find(({ name }) => name === "k");
  if (state.flow !== "teacher" && chart.rows.some((row) => row.role === "surrogate")) return parameter ? chosen(chart, parameter) : state.k;
  return chart.rows.some((row) => row.surrogate) ? state.k : null;
}
// Says which surrogate a figure shows where the chosen k was not measured, and whose phases are drawn.
function noteOf(chart) {
  const k = shownK(chart);
  if (k === null || chart.kind === "other") return "";
  const missing = k === state.k ? "" : `The surrogate shown has k = ${k}; none with k = ${state.k} was measured here. `;
  return missing + (otherPhases(chart.model, k) ? `Boundaries are those of the surrogate, ${tiedIn(chart.model, k).join("-")}.` : "");
}
function note(chart) {
  const line = chart.figure.querySelector(".status"), own = charts.filter(({ figure }) => figure === chart.figure);
  const several = new Set(own.map(({ model }) => model)).size > 1;
  if (line) line.textContent = [...new Set(own.map((one) => { const said = noteOf(one); return said && several ? `${MODELS[one.model].title}: ${said}` : said; }))].filter(Boolean).join(" ");
}
async function attempt(chart, work) {
  try { await work(chart); }
  catch (error) { chart.canvas.textContent = "This figure cannot be drawn: " + error.message; console.error(error); }
}
// Builds the places of all panels; drawing is left to `drawAll`, what is in view first.
function build(figure) {
  const entry = DATA.figures[figure.dataset.panels], box = figure.querySelector(".panels"), title = figure.querySelector(".figure-title").textContent;
  box.before(...legendsOf(entry.panels));
  box.dataset.count = Math.min(entry.panels.length, 4);
  for (const panel of entry.panels) {
    const heading = typeof panel.title === "object" && panel.title ? panel.title.text : panel.title;
    const canvas = element("div", { class: "canvas" }), spot = element("div", { class: "chart" }, canvas);
    box.append(element("div", { class: "panel" }, ...(entry.panels.length > 1 && heading ? [element("p", { class: "panel-title" }, heading)] : []), spot));
    const chart = { figure, panel, canvas, place: spot, model: panel.model || entry.model, kind: kindOf(panel), square: encodings(panel).some(({ x }) => x && ["left", "column"].includes(x.field)), heading: entry.panels.length > 1 ? heading : null, plane: encodings(panel).some(({ x }) => x && x.field === "real"), ratio: 1, rows: rowsOf(panel), view: null, label: heading && entry.panels.length > 1 ? `${title}: ${heading}` : title };
    charts.push(chart);
    attend(chart);
  }
}
async function drawAll() {
  const seen = (chart) => { const box = chart.place.getBoundingClientRect(); return box.top < innerHeight && box.bottom > 0; };
  for (const chart of [...charts].sort((one, other) => seen(other) - seen(one))) {
    await attempt(chart, draw);
    await new Promise((done) => setTimeout(done));  // the page stays usable between two figures
  }
  document.documentElement.dataset.drawn = "yes";
}
