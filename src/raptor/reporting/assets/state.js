"use strict";
// What the reader chose, once for the whole page: a layer, k, a token group, and teacher, surrogate, both or difference.
const DATA = JSON.parse(document.getElementById("data").textContent);
const MODELS = DATA.models;
const DEEPEST = Math.max(1, ...Object.values(MODELS).map((model) => model.layers));
const FIRST = Object.values(MODELS).find((model) => model.layers) || { layers: 0, k: 1, partitions: {}, groups: [], surrogates: {} };
const state = { layer: Math.round(DEEPEST / 2), hover: null, k: FIRST.k, group: "all", flow: "both" };
const listeners = [];

function set(change) {
  const changed = new Set();
  for (const [name, value] of Object.entries(change))
    if (state[name] !== value) { state[name] = value; changed.add(name); }
  if (changed.size) for (const listener of listeners) listener(changed);
}
// Models of different depth share one ruler: a layer is a share of depth.
function layerIn(model, layer) {
  const own = MODELS[model] ? MODELS[model].layers : 0;
  return layer === null || !own ? layer : Math.round(layer * own / DEEPEST);
}
function layerFrom(model, layer) {
  const own = MODELS[model] ? MODELS[model].layers : 0;
  return own ? Math.min(DEEPEST, Math.max(0, Math.round(layer * DEEPEST / own))) : layer;
}
// Lengths of the phases of a model for the chosen k and group; those of all tokens, or of its own k, where it has none.
function partitionOf(model) {
  const { partitions = {}, k } = MODELS[model] || {};
  for (const group of [state.group, "all", ...Object.keys(partitions)])
    for (const number of [state.k, k])
      if (partitions[group] && partitions[group][number]) return partitions[group][number];
  return [];
}
// Lengths of the phases of the surrogate with k blocks; those of the model where no surrogate has as many.
function tiedIn(model, k = state.k) {
  const { surrogates = {} } = MODELS[model] || {};
  return surrogates[k] || partitionOf(model);
}
// Whether the surrogate of the chosen k has other phases than the ruler shows.
const otherPhases = (model, k = state.k) => tiedIn(model, k).join("-") !== partitionOf(model).join("-");
function phaseOf(model, layer, lengths = partitionOf(model)) {
  let last = 0;
  for (let at = 0; at < lengths.length; at++) { last += lengths[at]; if (layer <= last) return layer > 0 ? at : -1; }
  return -1;
}
const phaseColour = (at) => DATA.phaseColours[at % DATA.phaseColours.length];

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}
function drawn(name, attributes = {}) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}
const colourOf = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const dark = () => document.documentElement.dataset.theme === "dark";
