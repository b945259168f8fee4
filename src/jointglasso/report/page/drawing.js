// Drawing of one network on a canvas. Everything that depends on the filters is prepared once, not at every frame.

const WIDTHS = [0.7, 1.2, 2, 3.2];
const CLASS_COLOURS = 8;

/** Colours of the page's current theme, for the canvases. */
function readColours() {
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(name).trim();
  return {
    background: read("--panel"), text: read("--text"), node: read("--node"), pale: read("--pale"), focus: read("--focus"),
    sign: { positive: read("--positive"), negative: read("--negative"), mixed: read("--mixed") },
    kind: [read("--shared"), read("--partly"), read("--specific")],
    common: [read("--in-all"), read("--in-some")],
    class: Array.from({ length: CLASS_COLOURS }, (_, k) => read(`--class-${k}`)),
  };
}

/** Some pairs of one picture in buckets of equal colour and width: {colour, width, pairs}. */
function makeBuckets(model, pairs, classIndex, state) {
  const buckets = new Map();
  for (const pair of pairs) {
    const shown = summaryOf(model, pair, classIndex);
    if (!shown.count) continue;
    const width = Math.min(WIDTHS.length - 1, Math.floor((shown.strength / model.strongest) * WIDTHS.length));
    const colour = edgeColour(model, pair, shown, state);
    const key = `${width} ${colour}`;
    if (!buckets.has(key)) buckets.set(key, { colour, width: WIDTHS[width], pairs: [] });
    buckets.get(key).pairs.push(pair);
  }
  return [...buckets.values()].sort((a, b) => a.width - b.width);
}

/** What is shown of a pair in one class, or in all of them where `classIndex` is -1. */
function summaryOf(model, pair, classIndex) {
  const shown = { count: 0, strength: 0, positive: false, negative: false, classIndex: -1 };
  for (let edge = model.start[pair]; edge < model.start[pair + 1]; edge++) {
    if (!model.passes[edge] || (classIndex >= 0 && model.edgeClass[edge] !== classIndex)) continue;
    shown.count++;
    shown.strength = Math.max(shown.strength, Math.abs(model.partial[edge]));
    if (model.partial[edge] > 0) shown.positive = true;
    else shown.negative = true;
    shown.classIndex = model.edgeClass[edge];
  }
  return shown;
}

function edgeColour(model, pair, shown, { colourBy, colours }) {
  const kind = model.kind[pair];
  if (colourBy === "kind") return colours.kind[kind];
  if (colourBy === "class") {
    return kind === SPECIFIC || model.nClasses === 1 ? colours.class[shown.classIndex % CLASS_COLOURS] : colours.common[kind];
  }
  if (shown.positive && shown.negative) return colours.sign.mixed;
  return shown.positive ? colours.sign.positive : colours.sign.negative;
}

/** What belongs to a variable or pair that is in focus or under the pointer. */
function highlightOf(model, { variable, pair }) {
  if (variable >= 0) return { variables: [variable], pairs: model.incident[variable] };
  if (pair >= 0) return { variables: [model.first[pair], model.second[pair]], pairs: [pair] };
  return { variables: [], pairs: [] };
}

/** Where the picture is seen from; all panels share one camera. */
class Camera {
  constructor() {
    this.scale = 1;
    this.x = 0;
    this.y = 0;
    this.fitScale = 1;
  }

  /** Show the listed variables in a panel of the given size. */
  fit(model, variables, width, height, limit = Infinity) {
    const margin = 28;
    let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
    for (const variable of variables) {
      left = Math.min(left, model.x[variable]);
      right = Math.max(right, model.x[variable]);
      top = Math.min(top, model.y[variable]);
      bottom = Math.max(bottom, model.y[variable]);
    }
    if (left > right) return;
    const room = (size) => Math.max(20, size - 2 * margin);
    this.scale = Math.min(room(width) / Math.max(right - left, 1e-9), room(height) / Math.max(bottom - top, 1e-9), limit);
    this.x = width / 2 - (this.scale * (left + right)) / 2;
    this.y = height / 2 - (this.scale * (top + bottom)) / 2;
  }

  zoom(factor, x, y) {
    const scale = Math.min(Math.max(this.scale * factor, this.fitScale / 4), this.fitScale * 60);
    this.x = x - ((x - this.x) * scale) / this.scale;
    this.y = y - ((y - this.y) * scale) / this.scale;
    this.scale = scale;
  }
}

/** Draws one panel: the network below, what is under the pointer or in focus on a canvas above it. */
class Painter {
  constructor(model, camera, state) {
    this.model = model;
    this.camera = camera;
    this.state = state;
    this.textWidths = new Map();
  }

  /** Radius of a variable without edges at the scale where everything fits: small where they stand close. */
  get size() { return Math.min(2.6, Math.max(0.45, 0.09 * this.model.spacing * this.camera.fitScale)); }

  screenX(variable) { return this.model.x[variable] * this.camera.scale + this.camera.x; }
  screenY(variable) { return this.model.y[variable] * this.camera.scale + this.camera.y; }

  radius(variable) {
    const zoom = Math.sqrt(Math.min(Math.max(this.camera.scale / this.camera.fitScale, 1), 9));
    return zoom * this.size * (1 + 0.35 * Math.sqrt(this.state.degree[variable]));
  }

  strokeEdges(context, bucket, width, height, thinness = 1) {
    const { model } = this;
    context.strokeStyle = bucket.colour;
    context.lineWidth = bucket.width * thinness;
    for (const pair of bucket.pairs) {
      const x1 = this.screenX(model.first[pair]), y1 = this.screenY(model.first[pair]);
      const x2 = this.screenX(model.second[pair]), y2 = this.screenY(model.second[pair]);
      if ((x1 < 0 && x2 < 0) || (y1 < 0 && y2 < 0) || (x1 > width && x2 > width) || (y1 > height && y2 > height)) continue;
      // One stroke per edge: long paths of crossing lines take the rasteriser longer than many short ones.
      context.beginPath();
      context.moveTo(x1, y1);
      context.lineTo(x2, y2);
      context.stroke();
    }
  }

  fillNodes(context, variables, colour, ring) {
    context.beginPath();
    for (const variable of variables) {
      const x = this.screenX(variable), y = this.screenY(variable), radius = this.radius(variable);
      context.moveTo(x + radius, y);
      context.arc(x, y, radius, 0, 2 * Math.PI);
    }
    if (ring) {
      context.strokeStyle = ring;
      context.lineWidth = 1.4;
      context.stroke();
    }
    context.fillStyle = colour;
    context.fill();
  }

  /** The network of a panel; pale where a variable is in focus. */
  paintBase(context, panel, width, height) {
    const { state } = this, dimmed = state.focus.variable >= 0 || state.focus.pair >= 0;
    // Edges per pixel: where there are many, thin and pale ones leave the structure visible.
    const crowd = panel.nShown / (width * height * (this.camera.scale / this.camera.fitScale) ** 2);
    const crowded = Math.min(1, Math.max(0, (crowd - 0.005) / 0.03));
    context.globalAlpha = dimmed ? 0.1 : 0.75 - 0.35 * crowded;
    for (const bucket of panel.buckets) this.strokeEdges(context, bucket, width, height, 1 - 0.4 * crowded);
    context.globalAlpha = dimmed ? 0.25 : 1;
    const ring = this.size > 1 ? state.colours.background : null;
    this.fillNodes(context, panel.absent, state.colours.pale, null);
    this.fillNodes(context, panel.present, state.colours.node, ring);
    context.globalAlpha = 1;
    if (!dimmed && state.showLabels) this.paintLabels(context, this.hubLabels(panel, width, height), new Labels(width, height));
  }

  hubLabels(panel, width, height) {
    const closeness = Math.min(6, Math.max(1, this.camera.scale / this.camera.fitScale));
    const limit = Math.max(4, Math.round(((width * height) / 16000 - 2) * closeness ** 1.5));
    const inView = [];
    for (const variable of this.state.byDegree) {
      if (inView.length >= 3 * limit) break;
      const x = this.screenX(variable), y = this.screenY(variable);
      if (x > 0 && y > 0 && x < width && y < height && panel.degree[variable]) inView.push(variable);
    }
    return { variables: inView, limit };
  }

  /** What is in focus or under the pointer. */
  paintTop(context, panel, width, height) {
    const { state, model } = this;
    const parts = [highlightOf(model, state.focus), highlightOf(model, state.hover)];
    const chosen = new Set(parts.flatMap((part) => part.variables));
    if (!chosen.size) return;
    const pairs = new Set(parts.flatMap((part) => part.pairs));
    const buckets = makeBuckets(model, pairs, panel.classIndex, state);
    const around = new Set();
    for (const bucket of buckets) {
      this.strokeEdges(context, { ...bucket, width: bucket.width + 1 }, width, height);
      bucket.pairs.forEach((pair) => around.add(model.first[pair]).add(model.second[pair]));
    }
    chosen.forEach((variable) => around.delete(variable));
    this.fillNodes(context, around, state.colours.node, state.colours.background);
    this.fillNodes(context, chosen, state.colours.focus, state.colours.background);
    const labels = new Labels(width, height);
    this.paintLabels(context, { variables: [...chosen], limit: 4 }, labels, true);
    const byDegree = [...around].sort((a, b) => state.degree[b] - state.degree[a]);
    this.paintLabels(context, { variables: byDegree, limit: 80 }, labels);
  }

  paintLabels(context, { variables, limit }, labels, always = false) {
    const { colours } = this.state;
    context.font = `${always ? "600 " : ""}11px ${getComputedStyle(document.body).fontFamily}`;
    context.textBaseline = "middle";
    context.lineJoin = "round";
    context.lineWidth = 3;
    context.strokeStyle = colours.background;
    context.fillStyle = colours.text;
    let painted = 0;
    for (const variable of variables) {
      if (painted >= limit) return;
      const text = shorten(this.model.variables[variable], 22);
      const place = labels.place(this.screenX(variable), this.screenY(variable), this.radius(variable), this.#width(context, text), always);
      if (!place) continue;
      context.strokeText(text, place.x, place.y);
      context.fillText(text, place.x, place.y);
      painted++;
    }
  }

  #width(context, text) {
    if (!this.textWidths.has(text)) this.textWidths.set(text, context.measureText(text).width);
    return this.textWidths.get(text);
  }
}

/** Free places for names: beside a variable, never over another name, within the panel. */
class Labels {
  constructor(width, height) {
    this.width = width;
    this.height = height;
    this.taken = [];
  }

  place(x, y, radius, textWidth, always) {
    const sides = [x + radius + 3, x - radius - 3 - textWidth];
    for (const left of sides) {
      const box = { left: left - 2, right: left + textWidth + 2, top: y - 7, bottom: y + 7 };
      if (this.#free(box) || (always && left === sides[0])) {
        this.taken.push(box);
        return { x: left, y };
      }
    }
    return null;
  }

  #free(box) {
    if (box.left < 0 || box.right > this.width || box.top < 0 || box.bottom > this.height) return false;
    return this.taken.every((other) => box.right < other.left || box.left > other.right || box.bottom < other.top || box.top > other.bottom);
  }
}

function shorten(text, length) {
  const letters = Array.from(text);
  return letters.length > length ? `${letters.slice(0, length - 1).join("")}…` : text;
}
