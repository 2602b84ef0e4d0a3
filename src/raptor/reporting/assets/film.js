"use strict";
// The depth film: patch tokens of every layer as colours over the image, with the cosines and the path of one patch.
function bytes(text) { return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)); }
const SIZE = 480;  // pixels of a picture; the page scales it to its place
// Ends and middle of the cividis scale: it reads the same with any colour vision.
const CIVIDIS = [[0, 32, 77], [87, 92, 109], [124, 123, 120], [187, 173, 108], [255, 233, 69]];
function cividis(share) {
  const spot = Math.min(Math.max(share, 0), 1) * (CIVIDIS.length - 1), low = Math.min(Math.floor(spot), CIVIDIS.length - 2);
  return CIVIDIS[low].map((value, at) => value + (CIVIDIS[low + 1][at] - value) * (spot - low));
}

class DepthFilm {
  constructor(spot, film) {
    this.film = film; this.spot = spot;
    this.n = film.rows * film.columns;
    this.colours = {}; this.directions = {}; this.cosines = {}; this.apart = {}; this.outliers = {};
    const signed = (text) => new Int8Array(bytes(text).buffer);
    for (const flow of film.flows) {
      this.colours[flow] = bytes(film.colours[flow]);
      if (film.directions[flow]) this.directions[flow] = signed(film.directions[flow]);
      if (film.cosines[flow]) this.cosines[flow] = signed(film.cosines[flow]);
      if (film.apart[flow]) this.apart[flow] = bytes(film.apart[flow]);
      if (film.outliers[flow]) this.outliers[flow] = bytes(film.outliers[flow]);
    }
    this.image = 0; this.patch = Math.floor(film.rows / 2) * film.columns + Math.floor(film.columns / 2);
    this.smooth = false; this.opacity = 0.8; this.running = null;
    this.pictures = film.pictures.map((address) => { const one = new Image(); one.onload = () => this.show(); one.src = address; return one; });
    this.build(spot);
    listeners.push((changed) => { if (["layer", "k", "flow"].some((name) => changed.has(name))) this.show(); });
    this.show();
  }
  get layer() { return Math.min(this.film.layers - 1, layerIn(this.film.model, state.layer)); }
  get teacher() { return this.film.flows[0]; }
  // The surrogate with the chosen k, or else the last one that was measured.
  get surrogate() {
    const others = this.film.flows.slice(1);
    return others.find((flow) => this.film.blocks[flow] === state.k) || others[others.length - 1] || null;
  }
  base(layer = this.layer) { return (this.image * this.film.layers + layer) * this.n; }
  colour(flow, at, layer = this.layer) {
    const first = 3 * (this.base(layer) + at);
    return this.colours[flow].subarray(first, first + 3);
  }
  cosine(flow, at) {
    if (this.cosines[flow]) return this.cosines[flow][this.base() * this.n + this.patch * this.n + at] / 127;
    if (at === this.patch) return 1;
    const { components } = this.film, own = this.directions[flow], one = (this.base() + this.patch) * components, other = (this.base() + at) * components;
    let sum = 0;
    for (let i = 0; i < components; i++) sum += own[one + i] * own[other + i];
    return sum / 127 / 127;
  }
  // The place of the chosen patch on a sphere: its first three coordinates, at unit length.
  point(flow, layer) {
    const { components } = this.film, own = this.directions[flow], first = (this.base(layer) + this.patch) * components;
    const at = own ? [own[first], own[first + 1], own[first + 2]] : [...this.colour(flow, this.patch, layer)].map((value) => value - 127.5);
    const length = Math.hypot(...at) || 1;
    return at.map((value) => value / length);
  }
  build(spot) {
    const { film } = this, press = (text, work, more = {}) => { const one = element("button", { type: "button", ...more }, text); one.addEventListener("click", work); return one; };
    this.thumbs = film.pictures.map((address, index) => press(element("img", { src: address, alt: "" }), () => { this.image = index; this.show(); }, { "aria-label": `image ${index + 1}` }));
    const step = (by) => set({ layer: Math.min(DEEPEST, Math.max(0, state.layer + by)) });
    this.play = press("Play", () => this.toggle());
    this.slider = element("input", { type: "range", min: 0, max: DEEPEST, step: 1, "aria-label": "layer of the film" });
    this.slider.addEventListener("input", () => set({ layer: Number(this.slider.value) }));
    this.label = element("output");
    const smooth = element("input", { type: "checkbox" }), opacity = element("input", { type: "range", min: 0, max: 1, step: 0.05, value: this.opacity });
    smooth.addEventListener("change", () => { this.smooth = smooth.checked; this.show(); });
    opacity.addEventListener("input", () => { this.opacity = Number(opacity.value); this.show(); });
    this.reels = {};
    const reel = (name, title, note) => {
      const canvas = element("canvas", { width: SIZE, height: Math.round(SIZE * film.rows / film.columns), role: "application", tabindex: 0, "aria-label": `${title}; arrow keys choose a patch` });
      this.picking(canvas);
      const words = element("span", { class: "reel-note" }, note || "");
      this.reels[name] = { canvas, note: words, box: element("div", { class: "reel", "data-reel": name }, element("p", {}, element("strong", {}, title), " ", words), canvas) };
      return this.reels[name].box;
    };
    const rows = [reel("teacher", "Teacher")];
    if (film.flows.length > 1) rows.push(reel("surrogate", "Surrogate"), reel("difference", "Difference"));
    const maps = [reel("map", "Cosine with the chosen patch, teacher")];
    if (film.flows.length > 1) maps.push(reel("surrogate-map", "Cosine with the chosen patch, surrogate"));
    this.path = drawn("svg", { class: "path", viewBox: "-120 -120 240 240", role: "img", "aria-label": "Path of the chosen patch on the sphere of directions" });
    maps.push(element("div", { class: "reel", "data-reel": "path" }, element("p", {}, element("strong", {}, "Path of the patch on the sphere"), " ", element("span", { class: "reel-note" }, film.flows.length > 1 ? "solid: teacher; dashed: surrogate; ring: this layer" : "ring: this layer")), this.path));
    this.said = element("p", { class: "said", "aria-live": "polite" });
    this.saves = ["png", "svg", "csv"].map((kind) => press(kind, () => this.download(kind), { "data-film-save": kind }));
    spot.append(
      element("div", { class: "thumbs" }, ...this.thumbs),
      element("div", { class: "film-controls" }, press("Back", () => step(-1), { "aria-label": "Back one layer" }), this.play, press("Next", () => step(1), { "aria-label": "Next layer" }), this.slider, this.label),
      element("div", { class: "film-controls" }, element("label", {}, smooth, " smooth"), element("label", {}, "tokens over the image ", opacity)),
      element("div", { class: "reels" }, ...rows), element("div", { class: "reels" }, ...maps), this.said, element("p", { class: "buttons" }, ...this.saves.flatMap((one) => [one, " "])));
  }
  toggle() {
    if (this.running) { clearInterval(this.running); this.running = null; }
    else {
      if (state.layer >= DEEPEST) set({ layer: 0 });
      this.running = setInterval(() => { if (state.layer >= DEEPEST) this.toggle(); else set({ layer: state.layer + 1 }); }, matchMedia("(prefers-reduced-motion: reduce)").matches ? 1500 : 450);
    }
    this.play.textContent = this.running ? "Pause" : "Play";
  }
  picking(canvas) {
    const { rows, columns } = this.film;
    canvas.addEventListener("click", (event) => {
      const box = canvas.getBoundingClientRect(), within = (share, most) => Math.min(most - 1, Math.max(0, Math.floor(share * most)));
      this.patch = within((event.clientY - box.top) / box.height, rows) * columns + within((event.clientX - box.left) / box.width, columns);
      this.show();
    });
    canvas.addEventListener("keydown", (event) => {
      const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
      if (!move) return;
      event.preventDefault();
      const row = Math.min(rows - 1, Math.max(0, Math.floor(this.patch / columns) + move[0])), column = Math.min(columns - 1, Math.max(0, this.patch % columns + move[1]));
      this.patch = row * columns + column;
      this.show();
    });
  }
}
