// Drawing of one network on a canvas. Everything that depends on the filters is prepared once, not at every frame.

/** Width and opacity of lines from the weakest to the strongest edges: weak ones are thin and faint. */
const LINES = [[0.7, 0.3], [1.1, 0.45], [1.7, 0.65], [2.5, 0.8], [3.5, 0.9]];
const CLASS_COLOURS = 8, GROUP_COLOURS = 12;

/** What a panel shows, where it is not the network of one class. */
const OVERLAY = -1, DIFFERENCE = -2;

/** Colours of the page's current theme, for the canvases. */
function readColours() {
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(name).trim();
  return {
    background: read("--panel"), text: read("--text"), quiet: read("--quiet"), node: read("--node"), pale: read("--pale"), focus: read("--focus"),
    sign: { positive: read("--positive"), negative: read("--negative"), mixed: read("--mixed") },
    kind: [read("--shared"), read("--partly"), read("--specific")],
    common: [read("--in-all"), read("--in-some")],
    class: Array.from({ length: CLASS_COLOURS }, (_, k) => read(`--class-${k}`)),
    group: Array.from({ length: GROUP_COLOURS }, (_, k) => read(`--group-${k}`)),
  };
}

/** Some pairs of one picture in buckets of equal colour and width: {colour, width, opacity, pairs}. */
function makeBuckets(model, pairs, classIndex, state) {
  const buckets = new Map();
  for (const pair of pairs) {
    const shown = summaryOf(model, pair, classIndex, state);
    if (!shown.count) continue;
    const level = Math.min(LINES.length - 1, Math.floor(Math.sqrt(shown.strength / model.strongest) * LINES.length));
    const colour = edgeColour(model, pair, shown, classIndex, state);
    const key = `${level} ${colour}`;
    if (!buckets.has(key)) buckets.set(key, { colour, width: LINES[level][0], opacity: LINES[level][1], pairs: [] });
    buckets.get(key).pairs.push(pair);
  }
  return [...buckets.values()].sort((a, b) => a.width - b.width);
}

/** What is shown of a pair in one class, in all of them or as the difference of two. */
function summaryOf(model, pair, classIndex, state) {
  const shown = { count: 0, strength: 0, positive: false, negative: false, classIndex: -1 };
  for (let edge = model.start[pair]; edge < model.start[pair + 1]; edge++) {
    if (!model.passes[edge] || (classIndex >= 0 && model.edgeClass[edge] !== classIndex)) continue;
    shown.count++;
    shown.strength = Math.max(shown.strength, Math.abs(model.partial[edge]));
    if (model.partial[edge] > 0) shown.positive = true;
    else shown.negative = true;
    shown.classIndex = model.edgeClass[edge];
  }
  if (classIndex !== DIFFERENCE || !shown.count) return shown;
  const difference = model.difference(pair, state.compared);
  return { ...shown, strength: Math.abs(difference), positive: difference > 0, negative: difference < 0 };
}

function edgeColour(model, pair, shown, classIndex, { colourBy, colours }) {
  const kind = model.kind[pair];
  if (classIndex === DIFFERENCE) return shown.positive ? colours.sign.positive : colours.sign.negative;
  if (colourBy === "kind") return colours.kind[kind];
  if (colourBy === "same") {
    if (!model.same.changes[pair]) return colours.common[0];
    return classIndex < 0 ? colours.kind[SPECIFIC] : colours.class[model.same.cluster[model.edgeAt(pair, classIndex)] % CLASS_COLOURS];
  }
  if (colourBy === "class") {
    return kind === SPECIFIC || model.nClasses === 1 ? colours.class[shown.classIndex % CLASS_COLOURS] : colours.common[kind];
  }
  if (shown.positive && shown.negative) return colours.sign.mixed;
  return shown.positive ? colours.sign.positive : colours.sign.negative;
}

/** Variables by the colour of their group. */
function byGroup(model, variables, { colours, showGroups }) {
  if (!model.groups || !showGroups) return [[colours.node, variables]];
  const piles = new Map();
  for (const variable of variables) {
    const group = model.groups.of[variable];
    const colour = group < 0 || group >= GROUP_COLOURS ? colours.node : colours.group[group];
    if (!piles.has(colour)) piles.set(colour, []);
    piles.get(colour).push(variable);
  }
  return [...piles];
}

/** What belongs to a variable or pair that is in focus or under the pointer. */
function highlightOf(model, { variable, pair }) {
  if (variable >= 0) return { variables: [variable], pairs: model.incident[variable] };
  if (pair >= 0) return { variables: [model.first[pair], model.second[pair]], pairs: [pair] };
  return { variables: [], pairs: [] };
}

/** Smallest rectangle around some variables: left, top, right, bottom. */
function boundsOf(model, variables) {
  const bounds = [Infinity, Infinity, -Infinity, -Infinity];
  for (const variable of variables) {
    bounds[0] = Math.min(bounds[0], model.x[variable]);
    bounds[1] = Math.min(bounds[1], model.y[variable]);
    bounds[2] = Math.max(bounds[2], model.x[variable]);
    bounds[3] = Math.max(bounds[3], model.y[variable]);
  }
  return bounds;
}

/** Where the picture is seen from; all panels share one camera. */
class Camera {
  constructor() {
    this.scale = 1;
    this.x = 0;
    this.y = 0;
    this.fitScale = 1;
  }

  /** Show the listed variables in a panel of the given size, with `margin` on both sides for names. */
  fit(model, variables, width, height, margin, limit = Infinity) {
    const [left, top, right, bottom] = boundsOf(model, variables);
    if (left > right) return;
    const room = (size, edge) => Math.max(20, size - 2 * edge);
    this.scale = Math.min(room(width, margin) / Math.max(right - left, 1e-9), room(height, 22) / Math.max(bottom - top, 1e-9), limit);
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
  get size() { return Math.min(3.4, Math.max(0.45, 0.19 * this.model.spacing * this.camera.fitScale)); }

  screenX(variable) { return this.model.x[variable] * this.camera.scale + this.camera.x; }
  screenY(variable) { return this.model.y[variable] * this.camera.scale + this.camera.y; }

  radius(variable) {
    const zoom = Math.sqrt(Math.min(Math.max(this.camera.scale / this.camera.fitScale, 1), 9));
    return zoom * this.size * Math.min(3, 0.8 + 0.3 * Math.sqrt(this.state.degree[variable]));
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
    const { state, model } = this, dimmed = state.focus.variable >= 0 || state.focus.pair >= 0;
    // Edges per pixel: where there are many, thin and pale ones leave the structure visible.
    const crowd = panel.nShown / (width * height * (this.camera.scale / this.camera.fitScale) ** 2);
    const crowded = Math.min(1, Math.max(0, (crowd - 0.004) / 0.03));
    for (const bucket of panel.buckets) {
      context.globalAlpha = dimmed ? 0.08 : bucket.opacity * (1 - 0.4 * crowded);
      this.strokeEdges(context, bucket, width, height, 1 - 0.4 * crowded);
    }
    context.globalAlpha = dimmed ? 0.25 : 1;
    const ring = this.size > 1 ? state.colours.background : null;
    this.fillNodes(context, panel.absent, state.colours.pale, null);
    for (const [colour, variables] of byGroup(model, panel.present, state)) this.fillNodes(context, variables, colour, ring);
    context.globalAlpha = 1;
    if (!dimmed && state.showLabels) this.paintLabels(context, this.#named(panel, width, height), this.#labels(panel, width, height), panel);
  }

  /** Variables of a panel that are in view, those with most edges first. */
  #named(panel, width, height) {
    const closeness = Math.min(6, Math.max(1, this.camera.scale / this.camera.fitScale));
    const limit = Math.max(20, Math.round(((width * height) / 3000) * closeness));
    const inView = [];
    for (const variable of this.state.byDegree) {
      if (inView.length >= 3 * limit) break;
      const x = this.screenX(variable), y = this.screenY(variable);
      if (x > 0 && y > 0 && x < width && y < height && panel.degree[variable]) inView.push(variable);
    }
    return { variables: inView, limit };
  }

  /** Free places for names; variables must stay visible too, unless they are very many. */
  #labels(panel, width, height) {
    const many = panel.present.length > 800;
    const discs = many ? [] : [...panel.present, ...panel.absent].map((v) => [this.screenX(v), this.screenY(v), this.radius(v)]);
    return new Labels(width, height, discs);
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
      context.globalAlpha = Math.max(0.6, bucket.opacity);
      this.strokeEdges(context, { ...bucket, width: bucket.width + 1 }, width, height);
      bucket.pairs.forEach((pair) => around.add(model.first[pair]).add(model.second[pair]));
    }
    context.globalAlpha = 1;
    chosen.forEach((variable) => around.delete(variable));
    for (const [colour, variables] of byGroup(model, [...around], state)) this.fillNodes(context, variables, colour, state.colours.background);
    this.fillNodes(context, chosen, state.colours.focus, state.colours.background);
    const discs = [...chosen, ...around].map((v) => [this.screenX(v), this.screenY(v), this.radius(v)]);
    const labels = new Labels(width, height, discs);
    this.paintLabels(context, { variables: [...chosen], limit: 4 }, labels, panel, true);
    const byDegree = [...around].sort((a, b) => state.degree[b] - state.degree[a]);
    this.paintLabels(context, { variables: byDegree, limit: 80 }, labels, panel);
  }

  /** Where the edges of a variable that a panel shows lead to. */
  #ends(variable, panel) {
    const { model } = this, ends = [];
    for (const pair of model.incident[variable]) {
      const edge = panel.classIndex < 0 ? -1 : model.edgeAt(pair, panel.classIndex);
      if (edge < 0 ? panel.classIndex >= 0 || !model.pairPasses(pair) : !model.passes[edge]) continue;
      const other = model.otherEnd(pair, variable);
      ends.push([this.screenX(other), this.screenY(other)]);
      if (ends.length >= 24) break; // around a hub every side has edges
    }
    return ends;
  }

  paintLabels(context, { variables, limit }, labels, panel, always = false) {
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
      const disc = [this.screenX(variable), this.screenY(variable), this.radius(variable)];
      const place = labels.place(disc, this.#width(context, text), this.#ends(variable, panel), always);
      if (!place) continue;
      context.strokeText(text, place.x, place.y);
      context.fillText(text, place.x, place.y);
      painted++;
    }
  }

  #width(context, text) {
    const key = `${context.font} ${text}`;
    if (!this.textWidths.has(key)) this.textWidths.set(key, context.measureText(text).width);
    return this.textWidths.get(key);
  }
}

/** Free places for names: around a variable, never over another name or variable, within the panel. */
class Labels {
  constructor(width, height, discs) {
    this.width = width;
    this.height = height;
    this.discs = discs;
    this.taken = [];
  }

  /** A free place for a name, if possible one that the edges of its variable, which lead to `ends`, do not cross. */
  place([x, y, radius], textWidth, ends, always) {
    const aside = radius + 3, above = radius + 8, near = 0.7 * radius + 2;
    const places = [
      [x + aside, y], [x - aside - textWidth, y], [x - textWidth / 2, y - above], [x - textWidth / 2, y + above],
      [x + near, y - near - 5], [x + near, y + near + 5], [x - near - textWidth, y - near - 5], [x - near - textWidth, y + near + 5],
    ];
    let found = null, fewest = Infinity;
    for (const [left, middle] of places) {
      const box = boxOf(left, middle, textWidth);
      if (!this.#free(box, x, y)) continue;
      const crossings = ends.filter(([endX, endY]) => crosses(box, x, y, endX, endY)).length;
      if (crossings < fewest) [found, fewest] = [[left, middle], crossings];
      if (!crossings) break;
    }
    if (!found && always) found = [Math.min(Math.max(places[0][0], 3), this.width - textWidth - 3), Math.min(Math.max(y, 9), this.height - 9)];
    if (!found) return null;
    this.taken.push(boxOf(...found, textWidth));
    return { x: found[0], y: found[1] };
  }

  #free(box, x, y) {
    if (box.left < 0 || box.right > this.width || box.top < 0 || box.bottom > this.height) return false;
    if (!this.taken.every((other) => box.right < other.left || box.left > other.right || box.bottom < other.top || box.top > other.bottom)) return false;
    return this.discs.every(([discX, discY, radius]) => (discX === x && discY === y)
      || Math.hypot(Math.max(box.left - discX, 0, discX - box.right), Math.max(box.top + 2 - discY, 0, discY - box.bottom + 2)) >= radius);
  }
}

const boxOf = (left, middle, width) => ({ left: left - 2, right: left + width + 2, top: middle - 7, bottom: middle + 7 });

/** Whether the line between two points meets a box: what is left of it after clipping at each side. */
function crosses(box, x1, y1, x2, y2) {
  let from = 0, to = 1;
  for (const [step, room] of [[x1 - x2, x1 - box.left], [x2 - x1, box.right - x1], [y1 - y2, y1 - box.top], [y2 - y1, box.bottom - y1]]) {
    if (step === 0 && room < 0) return false;
    if (step < 0) from = Math.max(from, room / step);
    if (step > 0) to = Math.min(to, room / step);
  }
  return from < to;
}

function shorten(text, length) {
  const letters = Array.from(text);
  return letters.length > length ? `${letters.slice(0, length - 1).join("")}…` : text;
}
