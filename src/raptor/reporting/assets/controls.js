"use strict";
// The bar that stays in view: the ruler of layers, k, token group, and teacher, surrogate, both or their difference.
function choices(name, legend, options) {
  const box = element("fieldset", { class: "choice" }, element("legend", {}, legend));
  for (const { value, text, colour, dash } of options) {
    const input = element("input", { type: "radio", name, value, id: `${name}-${value}` });
    input.checked = state[name] === value;
    input.addEventListener("change", () => set({ [name]: value }));
    const label = element("label", { for: input.id });
    if (colour) { const key = element("span", { class: "key", "aria-hidden": "true" }, "\u25CF"); key.style.color = themed(colour); label.append(key); }
    if (dash) label.append(element("span", { class: `stroke ${dash}`, "aria-hidden": "true" }));
    label.append(text);
    box.append(element("span", { class: "option" }, input, label));
  }
  listeners.push((changed) => { if (changed.has(name)) for (const input of box.querySelectorAll("input")) input.checked = input.value === String(state[name]); });
  return box;
}
const placed = (layer, lengths) => { const phase = phaseOf("", layer, lengths); return phase < 0 ? "embedding" : `phase ${phase + 1} of ${lengths.length} (${lengths.join("-")})`; };
function ruler() {
  const tied = element("div", { class: "strip tied", "aria-hidden": "true" });
  const strip = element("div", { class: "strip", "aria-hidden": "true" }), said = element("output", { for: "layer", id: "layer-said" });
  const slider = element("input", { type: "range", id: "layer", min: 0, max: DEEPEST, step: 1, value: state.layer, "aria-label": "Layer" });
  slider.addEventListener("input", () => set({ layer: Number(slider.value) }));
  const model = Object.keys(MODELS).find((id) => MODELS[id].layers === DEEPEST) || "m0";
  for (let layer = 0; layer <= DEEPEST; layer++) {
    const cell = element("span", {}, DEEPEST <= 24 || layer % 5 === 0 ? String(layer) : "");
    cell.addEventListener("pointerenter", () => set({ hover: layer }));
    cell.addEventListener("pointerleave", () => set({ hover: null }));
    cell.addEventListener("click", () => set({ layer }));
    strip.append(cell);
    tied.append(element("span"));
  }
  const show = () => {
    slider.value = state.layer;
    const other = otherPhases(model), surrogate = tiedIn(model);
    said.textContent = `layer ${state.layer} of ${DEEPEST}, ${placed(state.layer, partitionOf(model))}` + (other ? `; surrogate (lower strip): ${placed(state.layer, surrogate)}` : "");
    tied.hidden = !other;
    [...tied.children].forEach((cell, layer) => { const own = phaseOf(model, layer, surrogate); cell.style.background = own < 0 ? "var(--line)" : phaseColour(own); });
    slider.setAttribute("aria-valuetext", said.textContent);
    [...strip.children].forEach((cell, layer) => {
      const own = phaseOf(model, layer);
      cell.style.background = own < 0 ? "var(--line)" : phaseColour(own);
      cell.className = [layer === state.layer ? "now" : "", layer === state.hover ? "hover" : "", own >= 0 && phaseOf(model, layer + 1) !== own ? "end" : ""].join(" ");
    });
  };
  listeners.push(show); show();
  return [element("div", { class: "depth" }, said, element("div", { class: "track" }, strip, tied, slider))];
}
function controls(bar) {
  if (!FIRST.layers) { bar.remove(); return; }
  const ks = [...new Set(Object.values(MODELS).flatMap((model) => Object.values(model.partitions).flatMap((one) => Object.keys(one).map(Number))))].sort((one, other) => one - other);
  const measured = new Set(Object.values(MODELS).flatMap((model) => Object.keys(model.surrogates).map(Number)));
  const groups = [...new Set(Object.values(MODELS).flatMap((model) => model.groups))];
  const parts = [...ruler()], row = element("div", { class: "choices" });
  if (ks.length > 1) row.append(choices("k", "phases k", ks.map((value) => ({ value, text: measured.has(value) ? `${value}*` : String(value) }))));
  if (groups.length) row.append(choices("group", "tokens", [{ value: "all", text: "all" }, ...groups.map((value) => ({ value, text: value, colour: DATA.groupColours[value] }))]));
  if (measured.size) row.append(choices("flow", "show", [
    { value: "teacher", text: "teacher", dash: "solid" }, { value: "surrogate", text: "surrogate", dash: "dashed" },
    { value: "both", text: "both" }, { value: "difference", text: "difference" }]));
  if (ks.length > 1 && measured.size) row.append(element("span", { class: "note" }, "* with a surrogate"));
  bar.append(...parts, row);
  // The arrow keys move the ruler from anywhere that does not use them itself.
  document.addEventListener("keydown", (event) => {
    if (event.target.closest("input, select, textarea, canvas, data, [role=application], [role=dialog]") || event.altKey || event.ctrlKey || event.metaKey) return;
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step) set({ layer: Math.min(DEEPEST, Math.max(0, state.layer + step)) });
  });
}
