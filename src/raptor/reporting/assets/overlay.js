"use strict";
// The ruler over a panel: phases as a coloured strip and lines, the chosen layer, and the layer under the pointer.
function place(chart) {
  if (chart.kind === "other" || !chart.view) return;
  const old = chart.place.querySelector("svg.ruler"), svg = chart.canvas.querySelector("svg");
  if (old) old.remove();
  if (!svg) return;
  const { view } = chart, padding = view.padding(), left = padding.left + view.origin()[0], top = padding.top + view.origin()[1];
  const scale = view.scale("x"), matrix = chart.kind === "matrix";
  const box = svg.getBoundingClientRect(), outer = chart.place.getBoundingClientRect();
  const over = drawn("svg", { class: "ruler", "aria-hidden": "true", width: box.width, height: box.height, viewBox: `0 0 ${svg.getAttribute("width")} ${svg.getAttribute("height")}` });
  over.style.left = `${box.left - outer.left}px`; over.style.top = `${box.top - outer.top}px`;
  chart.at = (layer) => left + scale(layer);
  chart.from = (x) => Math.round(scale.invert((x - svg.getBoundingClientRect().left) * svg.getAttribute("width") / svg.getBoundingClientRect().width - left));
  const vertical = matrix ? view.scale("y") : null;
  chart.down = vertical ? (layer) => top + vertical(layer) : null;
  chart.box = { left, top, right: left + view.width(), bottom: top + view.height() };
  chart.phases = drawn("g"); chart.hovered = drawn("g"); chart.marked = drawn("g", { class: "marked" });
  over.append(chart.phases, chart.hovered, chart.marked);
  chart.place.append(over);
  phases(chart); mark(chart); hover(chart);
}
// A figure with a surrogate has the phases of that surrogate, unless the reader chose the teacher alone.
function lengthsOf(chart) {
  const k = shownK(chart);
  return k === null ? partitionOf(chart.model) : tiedIn(chart.model, k);
}
function phases(chart) {
  if (!chart.phases) return;
  chart.phases.replaceChildren();
  const lengths = lengthsOf(chart), { box, at, down } = chart;
  let before = 0;
  lengths.forEach((length, index) => {
    const from = Math.max(box.left, at(before + 0.5)), to = Math.min(box.right, at(before + length + 0.5)), fill = phaseColour(index);
    chart.phases.append(drawn("rect", { x: from, y: box.bottom, width: Math.max(0, to - from), height: 5, fill }));
    if (down) chart.phases.append(drawn("rect", { x: box.left - 5, y: down(before + 0.5), width: 5, height: Math.max(0, down(before + length + 0.5) - down(before + 0.5)), fill }));
    before += length;
    if (index === lengths.length - 1) return;
    for (const name of ["halo", "cut"]) {
      chart.phases.append(drawn("line", { class: name, x1: to, x2: to, y1: box.top, y2: box.bottom }));
      if (down) chart.phases.append(drawn("line", { class: name, x1: box.left, x2: box.right, y1: down(before + 0.5), y2: down(before + 0.5) }));
    }
  });
}
function line(chart, group, layer, name) {
  const { box, at, down } = chart, x = at(layer);
  if (x >= box.left - 1 && x <= box.right + 1) group.append(drawn("line", { class: name, x1: x, x2: x, y1: box.top, y2: box.bottom }));
  if (down && layer >= 1) group.append(drawn("line", { class: name, x1: box.left, x2: box.right, y1: down(layer), y2: down(layer) }));
}
function mark(chart) {
  if (!chart.marked) return;
  const layer = layerIn(chart.model, state.layer);
  chart.marked.replaceChildren();
  chart.place.dataset.layer = layer;
  line(chart, chart.marked, layer, "halo"); line(chart, chart.marked, layer, "now");
}
function hover(chart) {
  if (!chart.hovered) return;
  chart.hovered.replaceChildren();
  if (state.hover !== null) line(chart, chart.hovered, layerIn(chart.model, state.hover), "hover");
}
// Pointing at a layer highlights it everywhere; a click chooses it.
function attend(chart) {
  if (chart.kind === "other") return;
  const layer = (event) => (chart.from ? layerFrom(chart.model, chart.from(event.clientX)) : null);
  chart.place.addEventListener("pointermove", (event) => set({ hover: layer(event) }));
  chart.place.addEventListener("pointerleave", () => set({ hover: null }));
  chart.place.addEventListener("click", (event) => { const at = layer(event); if (at !== null) set({ layer: at }); });
}
listeners.push((changed) => {
  if (changed.has("layer")) charts.forEach(mark);
  if (changed.has("hover")) charts.forEach(hover);
  if (["k", "group", "flow"].some((name) => changed.has(name))) for (const chart of charts) { phases(chart); note(chart); }
  if (CHOSEN.some((name) => changed.has(name)))
    for (const chart of charts) if ((chart.panel.params || []).some(({ name }) => changed.has(name))) attempt(chart, follow);
});
