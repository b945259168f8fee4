// The panels with the canvases: sizes, pointer and keyboard, one camera for all of them.

const NOTHING = { variable: -1, pair: -1 };

/** Above this many milliseconds for a frame, the picture is moved as it is while dragging and drawn anew afterwards. */
const SLOW_FRAME = 50;

class Stage {
  constructor(model, state, container, events) {
    this.model = model;
    this.state = state;
    this.container = container;
    this.events = events;
    this.camera = new Camera();
    this.painter = new Painter(model, this.camera, state);
    this.panels = [];
    this.frameTime = 0;
    this.drag = null;
    this.allPairs = Array.from({ length: model.nPairs }, (_, pair) => pair);
    new ResizeObserver(() => this.#resized()).observe(container);
  }

  /** Make one panel for each class shown, or a single one for all of them. */
  build() {
    const { mode, classes } = this.state;
    const shown = this.model.classes.map((_, k) => k).filter((k) => classes[k]);
    const wanted = { overlay: [OVERLAY], difference: [DIFFERENCE], single: shown.slice(this.state.moment).slice(0, 1) }[mode] || shown;
    this.container.replaceChildren();
    this.panels = wanted.map((classIndex) => this.#makePanel(classIndex));
    this.container.dataset.mode = mode;
    this.container.classList.toggle("empty", !this.model.nPairs && !this.state.showIsolated);
    this.container.style.setProperty("--columns", columnsFor(wanted.length));
    this.container.style.setProperty("--rows", Math.ceil(wanted.length / columnsFor(wanted.length)));
    this.#measure();
  }

  #makePanel(classIndex) {
    const figure = make("figure", { className: "panel" });
    const { classes } = this.model, [one, two] = this.state.compared;
    const name = { [OVERLAY]: "All classes", [DIFFERENCE]: `${classes[one]} minus ${classes[two]}` }[classIndex] ?? classes[classIndex];
    const caption = make("figcaption", {}, [make("strong", { text: name }), make("span", { className: "quiet" })]);
    const view = make("div", { className: "view", attributes: { tabindex: "0", role: "group", "aria-label": `Network: ${name}` } });
    const canvases = [0, 1].map(() => make("canvas", { attributes: { "aria-hidden": "true" } })); // the view has the name
    view.append(...canvases);
    figure.append(caption, view);
    this.container.append(figure);
    const [base, top] = canvases.map((canvas) => canvas.getContext("2d"));
    const panel = { classIndex, name, figure, view, base, top, count: caption.lastChild };
    this.#listen(panel);
    return panel;
  }

  /** Take over what passes the filters. */
  refresh() {
    const { model, state } = this;
    const visible = variablesShown(model, state);
    for (const panel of this.panels) {
      panel.buckets = makeBuckets(model, this.allPairs, panel.classIndex, state);
      panel.nShown = panel.buckets.reduce((sum, bucket) => sum + bucket.pairs.length, 0);
      panel.degree = panel.classIndex < 0 ? state.degree : state.degreeByClass[panel.classIndex];
      const known = panel.classIndex < 0 ? visible : visible.filter((variable) => model.has(variable, panel.classIndex));
      panel.present = known.filter((variable) => panel.degree[variable] > 0);
      panel.absent = known.filter((variable) => panel.degree[variable] === 0);
      const noun = panel.classIndex < 0 ? ["pair", "pairs"] : ["edge", "edges"];
      panel.count.textContent = `${panel.nShown.toLocaleString("en")} ${noun[panel.nShown === 1 ? 0 : 1]}`;
    }
    this.visible = visible;
    this.draw();
  }

  /** Show everything, or the neighbourhood that is in focus. */
  fit() {
    // Names need room at the sides; where a panel is narrow, the picture needs it more.
    const margin = Math.min(56, Math.max(24, 0.1 * this.width));
    this.#fillPanels(margin);
    this.camera.fit(this.model, this.visible, this.width, this.height, margin);
    this.camera.fitScale = this.camera.scale;
    const { variables, pairs } = highlightOf(this.model, this.state.focus);
    if (variables.length) {
      const around = pairs.filter((pair) => this.model.pairPasses(pair));
      const ends = around.flatMap((pair) => [this.model.first[pair], this.model.second[pair]]);
      this.camera.fit(this.model, [...variables, ...ends], this.width, this.height, 1.3 * margin, 4 * this.camera.fitScale);
    }
    this.draw();
  }

  /** Stretch the picture sideways, within reason, to the shape of the panels. */
  #fillPanels(margin) {
    this.model.stretch(1);
    const [left, top, right, bottom] = boundsOf(this.model, this.visible);
    if (!(right > left && bottom > top)) return;
    const wanted = (this.width - 2 * margin) / (this.height - 44);
    this.model.stretch(Math.min(2.2, Math.max(0.45, (wanted * (bottom - top)) / (right - left))));
  }

  zoomMiddle(factor) {
    this.camera.zoom(factor, this.width / 2, this.height / 2);
    this.#moved();
  }

  draw() {
    if (this.pending) return;
    this.pending = requestAnimationFrame(() => { this.pending = 0; this.drawNow(); });
  }

  drawNow() {
    const begin = performance.now();
    clearTimeout(this.settle);
    for (const panel of this.panels) {
      panel.base.canvas.style.transform = "";
      panel.base.clearRect(0, 0, this.width, this.height);
      this.painter.paintBase(panel.base, panel, this.width, this.height);
      // On paper a cleared canvas is white, not transparent: there everything goes onto the lower one.
      if (this.printing) this.painter.paintTop(panel.base, panel, this.width, this.height);
    }
    this.drawTop();
    this.drawn = { scale: this.camera.scale, x: this.camera.x, y: this.camera.y };
    // Browsers paint after the script has ended: the time of this frame is known in the next one.
    requestAnimationFrame(() => { this.frameTime = performance.now() - begin; });
  }

  drawTop() {
    for (const panel of this.panels) {
      panel.top.clearRect(0, 0, this.width, this.height);
      this.painter.paintTop(panel.top, panel, this.width, this.height);
    }
  }

  #moved() {
    if (this.frameTime < SLOW_FRAME) return this.draw();
    const { camera, drawn } = this, factor = camera.scale / drawn.scale;
    const shift = `translate(${camera.x - drawn.x * factor}px, ${camera.y - drawn.y * factor}px) scale(${factor})`;
    for (const panel of this.panels) {
      panel.base.canvas.style.transform = shift;
      panel.top.clearRect(0, 0, this.width, this.height);
    }
    clearTimeout(this.settle);
    this.settle = setTimeout(() => this.drawNow(), 140);
    return undefined;
  }

  #measure() {
    if (!this.panels.length) return;
    const { clientWidth, clientHeight } = this.panels[0].view;
    [this.width, this.height] = [clientWidth, clientHeight];
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    for (const { base, top } of this.panels) {
      for (const context of [base, top]) {
        context.canvas.width = Math.round(clientWidth * ratio);
        context.canvas.height = Math.round(clientHeight * ratio);
        context.setTransform(ratio, 0, 0, ratio, 0, 0);
      }
    }
  }

  #resized() {
    const view = this.panels[0] && this.panels[0].view;
    // A browser that prints lays the page out anew but does not wait for the canvases: they are stretched instead.
    if (this.printing || !view || !this.visible || (view.clientWidth === this.width && view.clientHeight === this.height)) return;
    this.#measure();
    this.fit();
  }

  #listen(panel) {
    const { view } = panel;
    const at = (event) => ({ x: event.clientX - view.getBoundingClientRect().left, y: event.clientY - view.getBoundingClientRect().top });
    view.addEventListener("pointermove", (event) => this.#pointerMoved(panel, at(event), event));
    view.addEventListener("pointerleave", () => this.#hover(NOTHING, null));
    view.addEventListener("pointerdown", (event) => {
      view.setPointerCapture(event.pointerId);
      this.drag = { ...at(event), moved: false };
    });
    view.addEventListener("pointerup", (event) => {
      if (this.drag && !this.drag.moved) this.events.choose(this.#find(panel, at(event)));
      this.drag = null;
    });
    view.addEventListener("pointercancel", () => { this.drag = null; });
    view.addEventListener("wheel", (event) => {
      // Until a panel is clicked the wheel scrolls the page, or one could not get past the panels.
      if (!event.ctrlKey && !event.metaKey && !this.container.contains(document.activeElement)) return;
      event.preventDefault();
      this.camera.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)), at(event).x, at(event).y);
      this.#moved();
    }, { passive: false });
    view.addEventListener("keydown", (event) => this.#key(event));
  }

  #pointerMoved(panel, point, event) {
    if (!this.drag) return this.#hover(this.#find(panel, point), event);
    const [dx, dy] = [point.x - this.drag.x, point.y - this.drag.y];
    if (!this.drag.moved && Math.hypot(dx, dy) < 4) return undefined;
    this.camera.x += dx;
    this.camera.y += dy;
    this.drag = { ...point, moved: true };
    this.#hover(NOTHING, null);
    return this.#moved();
  }

  #hover(found, event) {
    const { hover } = this.state;
    if (found.variable !== hover.variable || found.pair !== hover.pair) {
      this.state.hover = found;
      this.drawTop();
    }
    this.events.hover(found, event);
  }

  #key(event) {
    const step = 40;
    const actions = {
      ArrowLeft: () => { this.camera.x += step; }, ArrowRight: () => { this.camera.x -= step; },
      ArrowUp: () => { this.camera.y += step; }, ArrowDown: () => { this.camera.y -= step; },
      "+": () => this.zoomMiddle(1.3), "=": () => this.zoomMiddle(1.3), "-": () => this.zoomMiddle(1 / 1.3),
      0: () => this.fit(), Escape: () => this.events.choose(NOTHING),
    };
    if (!actions[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    actions[event.key]();
    if (event.key.startsWith("Arrow")) this.#moved();
  }

  /** Variable or, failing that, edge at a point of a panel. */
  #find(panel, point) {
    const variable = this.#nearestVariable(panel, point);
    return variable >= 0 ? { variable, pair: -1 } : { variable: -1, pair: this.#nearestPair(panel, point) };
  }

  #nearestVariable(panel, point) {
    let best = -1, bestDistance = Infinity;
    for (const variable of this.visible) {
      const distance = Math.hypot(this.painter.screenX(variable) - point.x, this.painter.screenY(variable) - point.y);
      if (distance < bestDistance && distance < this.painter.radius(variable) + 3) [best, bestDistance] = [variable, distance];
    }
    return best;
  }

  #nearestPair(panel, point) {
    let best = -1, bestDistance = 4;
    for (const { pairs } of panel.buckets) {
      for (const pair of pairs) {
        const distance = this.#distanceToPair(pair, point);
        if (distance < bestDistance) [best, bestDistance] = [pair, distance];
      }
    }
    return best;
  }

  #distanceToPair(pair, point) {
    const { painter, model } = this;
    const x1 = painter.screenX(model.first[pair]), y1 = painter.screenY(model.first[pair]);
    const dx = painter.screenX(model.second[pair]) - x1, dy = painter.screenY(model.second[pair]) - y1;
    const share = Math.min(1, Math.max(0, ((point.x - x1) * dx + (point.y - y1) * dy) / (dx * dx + dy * dy || 1)));
    return Math.hypot(x1 + share * dx - point.x, y1 + share * dy - point.y);
  }
}

function columnsFor(count) {
  if (count <= 3) return Math.max(1, count);
  return count === 4 ? 2 : count <= 9 ? 3 : 4;
}

function variablesShown(model, state) {
  const all = Array.from({ length: model.nVariables }, (_, variable) => variable);
  return all.filter((variable) => state.showIsolated || state.degree[variable] > 0 || variable === state.focus.variable);
}
