"use strict";
// The depth film: patch tokens of every layer as pictures, the similarity of one patch to all others, and its path.
function bytes(text) { return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)); }
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}
const CELL = 26;  // pixels of a patch
// Ends and middle of the cividis scale: it reads the same with any colour vision.
const CIVIDIS = [[0, 32, 77], [87, 92, 109], [124, 123, 120], [187, 173, 108], [255, 233, 69]];
function cividis(share) {
  const place = Math.min(Math.max(share, 0), 1) * (CIVIDIS.length - 1), low = Math.min(Math.floor(place), CIVIDIS.length - 2);
  return CIVIDIS[low].map((value, at) => value + (CIVIDIS[low + 1][at] - value) * (place - low));
}

class DepthFilm {
  constructor(place, film) {
    this.film = film;
    this.n = film.rows * film.columns;
    this.colours = {}; this.cosines = {}; this.apart = {};
    for (const flow of film.flows) {
      this.colours[flow] = bytes(film.colours[flow]);
      this.cosines[flow] = new Int8Array(bytes(film.cosines[flow]).buffer);
      if (film.apart[flow]) this.apart[flow] = bytes(film.apart[flow]);
    }
    this.image = 0; this.layer = 0; this.patch = Math.floor(this.n / 2) + Math.floor(film.columns / 2);
    this.build(place);
    this.show();
  }
  build(place) {
    const film = this.film;
    this.thumbs = film.pictures.map((address, index) => {
      const one = element("button", { type: "button", "aria-label": "image " + (index + 1) }, element("img", { src: address, alt: "" }));
      one.addEventListener("click", () => { this.image = index; this.show(); });
      return one;
    });
    this.slider = element("input", { type: "range", min: 0, max: film.layers - 1, step: 1, value: 0, "aria-label": "layer" });
    this.slider.addEventListener("input", () => { this.layer = Number(this.slider.value); this.show(); });
    this.label = element("output");
    this.play = element("button", { type: "button" }, "Play");
    this.play.addEventListener("click", () => this.toggle());
    this.phases = film.phases.map((length, index) => element("span", { style: `flex: ${length}` }, `phase ${index + 1}: ${length} layers`));
    // One column a kind of picture: teacher above surrogate, their difference below.
    const columns = [element("div", { class: "column" }), element("div", { class: "column" })];
    this.reels = [];
    const reel = (column, title, paint) => {
      const canvas = element("canvas", { width: film.columns * CELL, height: film.rows * CELL, role: "application", "aria-label": title + "; arrow keys choose a patch", tabindex: 0 });
      this.picking(canvas);
      columns[column].append(element("div", { class: "reel" }, element("p", {}, title), canvas));
      this.reels.push({ canvas, paint });
    };
    for (const flow of film.flows) {
      reel(0, flow, (at) => this.colour(flow, at));
      reel(1, `${flow}: cosine with the chosen patch (dark 0, bright 1)`, (at) => cividis(this.cosine(flow, at)));
    }
    for (const flow of film.flows.slice(1))
      reel(0, `difference of the two models: 1 - cosine (dark 0, bright ${film.most_apart.toFixed(3)})`, (at) => cividis(this.apart[flow][this.base() + at] / 255));
    this.path = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    this.path.setAttribute("class", "path"); this.path.setAttribute("viewBox", "-10 -10 275 275");
    columns[1].append(element("div", { class: "reel" }, element("p", {}, "path of the chosen patch through the layers (first two components); the large dot is the current layer"), this.path));
    const reels = element("div", { class: "reels" }, ...columns);
    this.said = element("p", { "aria-live": "polite" });
    this.saves = ["png", "svg", "csv"].map((kind) => {
      const one = element("button", { type: "button", "data-film-save": kind }, kind);
      one.addEventListener("click", () => this.download(kind));
      return one;
    });
    const bar = element("div", { class: "phases" }, element("span", { style: "flex: 1" }, "layer 0"), ...this.phases);
    place.append(element("div", { class: "thumbs" }, ...this.thumbs),
      element("div", { class: "controls" }, this.play, this.slider, this.label, ...this.saves), bar, reels, this.said);
    this.embedding = bar.firstChild;
  }
  download(kind) {
    if (kind === "csv") return this.give("film.csv", this.csv(), "text/csv");
    const name = `film-image-${this.image + 1}-layer-${this.layer}.${kind}`;
    if (kind === "svg") return this.give(name, this.svg(), "image/svg+xml");
    const size = this.reels[0].canvas, all = element("canvas", { width: size.width * this.reels.length, height: size.height });
    this.reels.forEach(({ canvas }, index) => all.getContext("2d").drawImage(canvas, index * size.width, 0));
    save(name, all.toDataURL());
  }
  give(name, text, type) { save(name, URL.createObjectURL(new Blob([text], { type }))); }
  svg() {
    const { rows, columns } = this.film, parts = [];
    this.reels.forEach(({ paint }, index) => {
      for (let at = 0; at < this.n; at++) {
        const x = index * (columns + 1) + at % columns, y = Math.floor(at / columns);
        parts.push(`<rect x="${x}" y="${y}" width="1" height="1" fill="rgb(${[...paint(at)].map(Math.round).join(",")})"/>`);
      }
    });
    const box = `0 0 ${this.reels.length * (columns + 1) - 1} ${rows}`;
    return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="${box}" shape-rendering="crispEdges">${parts.join("")}</svg>`;
  }
  csv() {
    const { film, n } = this, lines = ["flow,image,layer,row,column,red,green,blue,apart"];
    for (const flow of film.flows) {
      const name = `"${flow.replaceAll('"', '""')}"`, apart = this.apart[flow];
      for (let place = 0; place < film.images * film.layers * n; place++) {
        const at = place % n, layer = Math.floor(place / n) % film.layers, image = Math.floor(place / n / film.layers);
        const far = apart ? (apart[place] / 255 * film.most_apart).toFixed(4) : "";
        const patch = [Math.floor(at / film.columns) + 1, at % film.columns + 1];
        lines.push([name, image + 1, layer, ...patch, ...this.colours[flow].subarray(3 * place, 3 * place + 3), far].join(","));
      }
    }
    return lines.join("\n") + "\n";
  }
  base() { return (this.image * this.film.layers + this.layer) * this.n; }
  colour(flow, at, layer = this.layer) {
    const place = 3 * ((this.image * this.film.layers + layer) * this.n + at);
    return this.colours[flow].subarray(place, place + 3);
  }
  cosine(flow, at) { return this.cosines[flow][(this.base() + this.patch) * this.n + at] / 127; }
  picking(canvas) {
    canvas.addEventListener("click", (event) => {
      const box = canvas.getBoundingClientRect(), { rows, columns } = this.film;
      const row = Math.min(rows - 1, Math.floor((event.clientY - box.top) / box.height * rows));
      const column = Math.min(columns - 1, Math.floor((event.clientX - box.left) / box.width * columns));
      this.patch = Math.max(0, row) * columns + Math.max(0, column);
      this.show();
    });
    canvas.addEventListener("keydown", (event) => {
      const { rows, columns } = this.film;
      let row = Math.floor(this.patch / columns), column = this.patch % columns;
      if (event.key === "ArrowUp") row--; else if (event.key === "ArrowDown") row++;
      else if (event.key === "ArrowLeft") column--; else if (event.key === "ArrowRight") column++; else return;
      event.preventDefault();
      this.patch = Math.min(Math.max(row, 0), rows - 1) * columns + Math.min(Math.max(column, 0), columns - 1);
      this.show();
    });
  }
  toggle() {
    if (this.timer) { clearInterval(this.timer); this.timer = null; } else {
      this.timer = setInterval(() => { this.layer = (this.layer + 1) % this.film.layers; this.show(); }, 600);
    }
    this.play.textContent = this.timer ? "Pause" : "Play";
  }
  show() {
    this.slider.value = this.layer;
    this.label.textContent = this.layer ? `layer ${this.layer} of ${this.film.layers - 1}` : "layer 0: the embedding";
    this.thumbs.forEach((one, index) => one.setAttribute("aria-pressed", String(index === this.image)));
    let end = 0;
    this.embedding.className = this.layer === 0 ? "now" : "";
    this.film.phases.forEach((length, index) => {
      this.phases[index].className = this.layer > end && this.layer <= end + length ? "now" : "";
      end += length;
    });
    for (const { canvas, paint } of this.reels) this.paint(canvas, paint);
    this.drawPath();
    const row = Math.floor(this.patch / this.film.columns) + 1, column = this.patch % this.film.columns + 1;
    this.said.textContent = `Chosen patch: row ${row}, column ${column}. To choose another, click a picture or press the arrow keys.`;
  }
  paint(canvas, paint) {
    const context = canvas.getContext("2d"), { columns } = this.film;
    for (let at = 0; at < this.n; at++) {
      context.fillStyle = `rgb(${[...paint(at)].map(Math.round).join(",")})`;
      context.fillRect(at % columns * CELL, Math.floor(at / columns) * CELL, CELL, CELL);
    }
    const x = this.patch % columns * CELL, y = Math.floor(this.patch / columns) * CELL;
    for (const [style, inset] of [["#000000", 0.5], ["#ffffff", 1.5]]) {
      context.strokeStyle = style; context.lineWidth = 1;
      context.strokeRect(x + inset, y + inset, CELL - 2 * inset, CELL - 2 * inset);
    }
  }
  drawPath() {
    const ink = getComputedStyle(document.documentElement).getPropertyValue("--ink").trim();
    const parts = [];
    this.film.flows.forEach((flow, index) => {
      const stroke = index ? "#E69F00" : ink, points = [];
      for (let layer = 0; layer < this.film.layers; layer++) {
        const [x, y] = this.colour(flow, this.patch, layer);
        points.push(`${x},${255 - y}`);
        const now = layer === this.layer;
        parts.push(`<circle cx="${x}" cy="${255 - y}" r="${now ? 7 : 3}" fill="${stroke}"><title>layer ${layer}</title></circle>`);
      }
      parts.push(`<polyline points="${points.join(" ")}" fill="none" stroke="${stroke}" stroke-width="1.5"/>`);
    });
    this.path.innerHTML = parts.join("");
  }
}
