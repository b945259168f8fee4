// The panels as one picture to save, with title, legend and what was filtered: pixels (PNG) or lines (SVG).

const GAP = 16, HEAD = 26, LEGEND_LINE = 22;

/** Draws everything onto `context`, which is a canvas or writes SVG; returns nothing. */
function composePicture(context, stage, size, { title, filter, legend }) {
  const { colours } = stage.state, family = getComputedStyle(document.body).fontFamily;
  const write = (text, x, y, font, colour) => {
    context.font = `${font} ${family}`;
    context.fillStyle = colour;
    context.textBaseline = "middle";
    context.fillText(text, x, y);
  };
  context.fillStyle = colours.background;
  context.fillRect(0, 0, size.width, size.height);
  write(title, GAP, 22, "600 16px", colours.text);
  write(filter, GAP, 42, "12px", colours.quiet);
  stage.panels.forEach((panel, position) => {
    const x = GAP + (position % size.columns) * (stage.width + GAP);
    const y = size.top + Math.floor(position / size.columns) * (stage.height + GAP + HEAD);
    write(`${panel.name} (${panel.count.textContent})`, x, y + 12, "600 13px", colours.text);
    context.save();
    context.translate(x, y + HEAD);
    context.beginPath();
    context.rect(0, 0, stage.width, stage.height);
    context.clip();
    stage.painter.paintBase(context, panel, stage.width, stage.height);
    stage.painter.paintTop(context, panel, stage.width, stage.height);
    context.restore();
  });
  placeLegend(context, legend, size.width).places.forEach(([entry, x, line]) => {
    const y = size.height - GAP - size.legendHeight + (line + 0.5) * LEGEND_LINE;
    context.fillStyle = entry.colour;
    if (entry.colour && entry.disc) context.fillRect(x + 6, y - 5, 10, 10);
    else if (entry.colour) context.fillRect(x, y - 1.5, 22, 3);
    write(entry.text, x + (entry.colour ? 29 : 0), y, "12px", colours.text);
  });
}

/** Entries of a legend in lines as wide as the picture: [entry, x, line]. */
function placeLegend(context, legend, width) {
  context.font = `12px ${getComputedStyle(document.body).fontFamily}`;
  let x = GAP, line = 0;
  const places = legend.map((entry) => {
    const wide = context.measureText(entry.text).width + (entry.colour ? 29 : 0) + 18;
    if (x > GAP && x + wide > width - GAP) [x, line] = [GAP, line + 1];
    x += wide;
    return [entry, x - wide, line];
  });
  return { places, nLines: line + 1 };
}

/** Size of the whole picture. */
function pictureSize(stage, legend) {
  const columns = columnsFor(stage.panels.length), rows = Math.ceil(stage.panels.length / columns);
  const width = Math.max(columns * (stage.width + GAP) + GAP, 480), top = 58;
  const measuring = document.createElement("canvas").getContext("2d");
  const legendHeight = placeLegend(measuring, legend, width).nLines * LEGEND_LINE;
  return { columns, width, top, legendHeight, height: top + rows * (stage.height + GAP + HEAD) + legendHeight + GAP };
}

/** The picture as a canvas with twice as many pixels as the screen's. */
function pictureCanvas(stage, words) {
  const size = pictureSize(stage, words.legend), canvas = document.createElement("canvas");
  // Browsers refuse canvases of more than some ten thousand pixels a side.
  const ratio = Math.min(2, 12000 / Math.max(size.width, size.height));
  canvas.width = Math.round(size.width * ratio);
  canvas.height = Math.round(size.height * ratio);
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  composePicture(context, stage, size, words);
  return canvas;
}

/** The picture as the text of an SVG file. */
function pictureSvg(stage, words) {
  const size = pictureSize(stage, words.legend), context = new SvgContext();
  composePicture(context, stage, size, words);
  return `<?xml version="1.0" encoding="UTF-8"?>\n<svg xmlns="http://www.w3.org/2000/svg" width="${size.width}" height="${size.height}" `
    + `viewBox="0 0 ${size.width} ${size.height}">\n${context.text()}\n</svg>\n`;
}

/** The part of a canvas that the painter uses, written down as SVG. */
class SvgContext {
  constructor() {
    Object.assign(this, { globalAlpha: 1, lineWidth: 1, strokeStyle: "#000", fillStyle: "#000", font: "11px sans-serif", lineJoin: "round" });
    this.parts = [];
    this.nClips = 0;
    this.open = 0;
    this.measuring = document.createElement("canvas").getContext("2d");
  }

  text() { return this.parts.join("\n"); }
  save() { this.opened = this.open; }
  translate(x, y) { this.#group(`transform="translate(${x} ${y})"`); }
  restore() { for (; this.open > this.opened; this.open--) this.parts.push("</g>"); }
  beginPath() { this.path = []; }
  moveTo(x, y) { this.path.push(`M${short(x)} ${short(y)}`); }
  lineTo(x, y) { this.path.push(`L${short(x)} ${short(y)}`); }
  rect(x, y, width, height) { this.path.push(`M${x} ${y}h${width}v${height}h${-width}z`); }
  arc(x, y, radius) {
    const r = short(radius);
    this.path.push(`a${r} ${r} 0 1 0 ${short(-2 * radius)} 0a${r} ${r} 0 1 0 ${short(2 * radius)} 0z`);
  }

  clip() {
    this.nClips++;
    this.parts.push(`<clipPath id="panel-${this.nClips}"><path d="${this.path.join("")}"/></clipPath>`);
    this.#group(`clip-path="url(#panel-${this.nClips})"`);
  }

  stroke() { this.parts.push(`<path d="${this.path.join("")}" fill="none" stroke="${this.strokeStyle}" stroke-width="${short(this.lineWidth)}" stroke-opacity="${short(this.globalAlpha)}"/>`); }
  fill() { if (this.path.length) this.parts.push(`<path d="${this.path.join("")}" fill="${this.fillStyle}" fill-opacity="${short(this.globalAlpha)}"/>`); }
  fillRect(x, y, width, height) { this.parts.push(`<rect x="${short(x)}" y="${short(y)}" width="${short(width)}" height="${short(height)}" fill="${this.fillStyle}"/>`); }
  fillText(text, x, y) { this.#write(text, x, y, `fill="${this.fillStyle}"`); }
  strokeText(text, x, y) { this.#write(text, x, y, `fill="none" stroke="${this.strokeStyle}" stroke-width="${this.lineWidth}" stroke-linejoin="round"`); }

  measureText(text) {
    this.measuring.font = this.font;
    return this.measuring.measureText(text);
  }

  #group(attributes) {
    this.open++;
    this.parts.push(`<g ${attributes}>`);
  }

  #write(text, x, y, paint) {
    const [, weight, size, family] = this.font.match(/^(\d+ )?([\d.]+)px (.*)$/);
    this.parts.push(`<text x="${short(x)}" y="${short(y)}" dominant-baseline="central" font-size="${size}" font-weight="${(weight || "400").trim()}" `
      + `font-family="${escapeXml(family)}" ${paint}>${escapeXml(text)}</text>`);
  }
}

const short = (number) => String(Math.round(number * 100) / 100);

/** Text that XML can hold; characters that it cannot are left out. */
function escapeXml(text) {
  const entities = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
  return text.replace(/[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu, "").replace(/[&<>"]/g, (letter) => entities[letter]);
}
