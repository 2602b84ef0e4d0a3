"use strict";
// How the pictures of a depth film are painted, and saved.
Object.assign(DepthFilm.prototype, {
  painters() {
    const { teacher, surrogate, film } = this;
    const found = { teacher: [teacher, (at) => this.colour(teacher, at), true], map: [teacher, (at) => cividis(this.cosine(teacher, at)), false] };
    if (surrogate) {
      found.surrogate = [surrogate, (at) => this.colour(surrogate, at), true];
      found["surrogate-map"] = [surrogate, (at) => cividis(this.cosine(surrogate, at)), false];
      found.difference = [surrogate, (at) => cividis(this.apart[surrogate][this.base() + at] / 255), false];
    }
    return found;
  },
  show() {
    const { film, layer, surrogate } = this, painters = this.painters();
    for (const [name, [flow, paint, over]] of Object.entries(painters)) {
      const { canvas, note } = this.reels[name];
      this.paint(canvas, flow, paint, over);
      if (name === "teacher" || name === "surrogate") note.textContent = flow;
      if (name === "difference") note.textContent = `1 - cosine: dark 0, bright ${film.most_apart.toFixed(2)}; mean here ${this.mean(surrogate).toFixed(3)}`;
      if (name.endsWith("map")) note.textContent = "dark 0, bright 1";
    }
    const shown = { teacher: ["teacher", "map", "path"], surrogate: ["surrogate", "surrogate-map", "path"], difference: ["difference", "path"] }[state.flow];
    for (const one of this.spot.querySelectorAll("[data-reel]")) one.hidden = Boolean(shown && surrogate) && !shown.includes(one.dataset.reel);
    this.thumbs.forEach((thumb, index) => thumb.setAttribute("aria-pressed", String(index === this.image)));
    this.slider.value = state.layer;
    this.label.textContent = `layer ${layer} of ${film.layers - 1}`;
    const row = Math.floor(this.patch / film.columns) + 1, column = this.patch % film.columns + 1;
    this.said.textContent = `Chosen patch: row ${row}, column ${column} of ${film.rows} x ${film.columns}. Click a picture, or use the arrow keys on it, to choose another.` +
      (Object.keys(this.outliers).length ? " A ring marks an outlier token: a norm of more than 5 times the median." : "") +
      (film.left_out ? ` Images that are not shown, for want of room on a page of several models: ${film.left_out}.` : "");
    this.drawPath();
  },
  mean(flow) {
    let sum = 0;
    for (let at = 0; at < this.n; at++) sum += this.apart[flow][this.base() + at];
    return sum / this.n / 255 * this.film.most_apart;
  },
  grid(paint) {
    const { rows, columns } = this.film, small = element("canvas", { width: columns, height: rows }), context = small.getContext("2d"), data = context.createImageData(columns, rows);
    for (let at = 0; at < this.n; at++) { const colour = paint(at); for (let i = 0; i < 3; i++) data.data[4 * at + i] = colour[i]; data.data[4 * at + 3] = 255; }
    context.putImageData(data, 0, 0);
    return small;
  },
  paint(canvas, flow, paint, over) {
    const context = canvas.getContext("2d"), { rows, columns } = this.film, { width, height } = canvas, picture = this.pictures[this.image];
    context.clearRect(0, 0, width, height);
    context.globalAlpha = 1;
    if (over && picture.complete && picture.naturalWidth) { context.imageSmoothingEnabled = true; context.drawImage(picture, 0, 0, width, height); context.globalAlpha = this.opacity; }
    context.imageSmoothingEnabled = this.smooth;
    context.imageSmoothingQuality = "high";
    context.drawImage(this.grid(paint), 0, 0, width, height);
    context.globalAlpha = 1;
    const wide = width / columns, high = height / rows, ring = (at, style, inset, line) => {
      context.strokeStyle = style; context.lineWidth = line;
      context.strokeRect(at % columns * wide + inset, Math.floor(at / columns) * high + inset, wide - 2 * inset, high - 2 * inset);
    };
    const outliers = this.outliers[flow];
    if (outliers) for (let at = 0; at < this.n; at++) if (outliers[this.base() + at]) {
      for (const [style, line] of [["#000000", 4], ["#ffffff", 2]]) {
        context.strokeStyle = style; context.lineWidth = line; context.beginPath();
        context.arc((at % columns + 0.5) * wide, (Math.floor(at / columns) + 0.5) * high, Math.min(wide, high) * 0.3, 0, 7); context.stroke();
      }
    }
    ring(this.patch, "#000000", 1, 4); ring(this.patch, "#ffffff", 1, 2);
  },
  // The sphere is seen from where the teacher's path is nearest.
  view() {
    const sum = [0, 0, 0];
    for (let layer = 0; layer < this.film.layers; layer++) this.point(this.teacher, layer).forEach((value, i) => { sum[i] += value; });
    const unit = (one) => { const length = Math.hypot(...one) || 1; return one.map((value) => value / length); };
    const front = unit(sum.some((value) => value) ? sum : [0, 0, 1]), up = Math.abs(front[1]) < 0.9 ? [0, 1, 0] : [1, 0, 0];
    const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
    const right = unit(cross(up, front)), top = cross(front, right), dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
    return (at) => [100 * dot(at, right), -100 * dot(at, top), dot(at, front)];
  },
  drawPath() {
    const seen = this.view(), flows = [[this.teacher, "teacher"], ...(this.surrogate ? [[this.surrogate, "surrogate"]] : [])];
    this.path.replaceChildren(drawn("circle", { r: 100, class: "globe" }), ...[-60, -30, 0, 30, 60].map((angle) => drawn("ellipse", { rx: 100 * Math.cos(angle * Math.PI / 180), ry: 22 * Math.cos(angle * Math.PI / 180), cy: -100 * Math.sin(angle * Math.PI / 180) * 0.97, class: "parallel" })));
    for (const [flow, name] of flows) {
      const lengths = name === "surrogate" ? tiedIn(this.film.model, this.film.blocks[flow]) : partitionOf(this.film.model);
      const points = Array.from({ length: this.film.layers }, (_, layer) => seen(this.point(flow, layer)));
      this.path.append(drawn("polyline", { points: points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" "), class: `line ${name}` }));
      points.forEach(([x, y, z], layer) => {
        const phase = phaseOf(this.film.model, layer, lengths), now = layer === this.layer;
        const dot = drawn("circle", { cx: x.toFixed(1), cy: y.toFixed(1), r: now ? 7 : 3.5, class: now ? "dot now" : "dot", opacity: z < 0 ? 0.35 : 1 });
        dot.style.fill = phase < 0 ? "var(--soft)" : phaseColour(phase);
        const title = drawn("title"); title.textContent = `${name}, layer ${layer}`; dot.append(title);
        this.path.append(dot);
      });
    }
  },
  download(kind) {
    const give = (name, text, type) => save(name, URL.createObjectURL(new Blob([text], { type })));
    if (kind === "csv") return give("film.csv", this.csv(), "text/csv");
    const name = `film-image-${this.image + 1}-layer-${this.layer}.${kind}`, names = Object.keys(this.painters());
    if (kind === "svg") return give(name, this.svg(), "image/svg+xml");
    const size = this.reels.teacher.canvas, all = element("canvas", { width: size.width * names.length, height: size.height });
    names.forEach((one, index) => all.getContext("2d").drawImage(this.reels[one].canvas, index * size.width, 0));
    save(name, all.toDataURL());
  },
  svg() {
    const { rows, columns } = this.film, parts = [], painters = Object.values(this.painters());
    painters.forEach(([, paint], index) => {
      for (let at = 0; at < this.n; at++) {
        const x = index * (columns + 1) + at % columns, y = Math.floor(at / columns);
        parts.push(`<rect x="${x}" y="${y}" width="1" height="1" fill="rgb(${[...paint(at)].map(Math.round).join(",")})"/>`);
      }
    });
    return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${painters.length * (columns + 1) - 1} ${rows}" shape-rendering="crispEdges">${parts.join("")}</svg>`;
  },
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
  },
});
