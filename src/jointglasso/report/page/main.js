// Ties the parts together: reads the controls into one state and shows it.

const byId = (id) => document.getElementById(id);

class Page {
  constructor(data) {
    this.data = data;
    this.model = new Model(data);
    this.state = this.#startState();
    this.stage = new Stage(this.model, this.state, byId("panels"), {
      hover: (found, event) => this.#showTip(found, event),
      choose: (found) => this.choose(found),
    });
    this.#fillHead();
    this.#fillControls();
    this.#makeTables();
    this.#makeDownloads();
    byId("facts").append(...data.facts.map(factCard));
    this.#listen();
    this.applyFilters({ rebuild: true });
  }

  #startState() {
    return {
      mode: "side", colourBy: "sign", colourChosen: false, showIsolated: this.model.nPairs === 0, showLabels: true,
      classes: this.model.classes.map(() => true), kinds: KINDS.map(() => true), change: "all", strength: 0, stability: 0,
      focus: NOTHING, hover: NOTHING, colours: readColours(), degree: [], degreeByClass: [], byDegree: [],
    };
  }

  // What is shown once

  #fillHead() {
    const { data, model } = this;
    byId("title").textContent = data.title;
    const counted = [[model.nClasses, "class", "classes"], [model.nVariables, "variable", "variables"], [model.nPairs, "joined pair", "joined pairs"]];
    byId("subtitle").textContent = counted.map(([count, one, many]) => `${formatCount(count)} ${count === 1 ? one : many}`).join(" · ");
    byId("verdict").textContent = data.verdict.text;
    byId("verdict").classList.add(data.verdict.good ? "good" : "doubtful");
    byId("footer").textContent = data.footer;
  }

  #fillControls() {
    const { model, state } = this;
    byId("classes").replaceChildren(...model.classes.map((name, k) => this.#check(name, `--class-${k % CLASS_COLOURS}`, "class", k)));
    byId("kinds").replaceChildren(...KINDS.map((name, kind) => this.#check(name, ["--shared", "--partly", "--specific"][kind], "kind", kind)));
    // With two classes nothing is partly shared.
    byId("kinds").children[PARTLY_SHARED].hidden = model.nClasses === 2;
    if (model.nClasses === 1) ["kind-field", "comparison", "differential"].forEach((id) => { byId(id).hidden = true; });
    if (model.nClasses === 1) document.querySelector("#mode-field .segments").hidden = true;
    byId("stability-field").hidden = !model.stability;
    byId("strength").max = (Math.ceil(model.strongest * 100) / 100).toFixed(2);
    this.#countKinds();
    this.#showLegend();
    state.colours = readColours();
  }

  #check(name, colour, group, position) {
    const box = make("input", { attributes: { type: "checkbox", "data-group": group, "data-position": position } });
    box.checked = true;
    box.addEventListener("change", () => {
      this.state[group === "class" ? "classes" : "kinds"][position] = box.checked;
      this.applyFilters({ rebuild: group === "class" });
    });
    const swatch = make("i", { className: "swatch" });
    swatch.style.setProperty("--colour", `var(${colour})`);
    return make("label", { className: "check" }, [box, swatch, make("span", { className: "name", text: name }), make("span", { className: "count quiet" })]);
  }

  #countKinds() {
    const counts = KINDS.map((_, kind) => this.model.kind.reduce((sum, value) => sum + (value === kind ? 1 : 0), 0));
    byId("kinds").querySelectorAll(".count").forEach((cell, kind) => { cell.textContent = formatCount(counts[kind]); });
  }

  #makeTables() {
    const { model } = this;
    const link = (variable) => makeButton(model.variables[variable], () => this.chooseVariable(variable), "link");
    const number = (label, value, text = (row) => formatCount(value(row))) => ({ label, value, cell: text, number: true });
    this.hubs = new SortableTable(byId("hubs"), "Hubs", [
      { label: "Variable", value: (v) => model.variables[v], cell: link },
      ...model.classes.map((name, k) => number(name, (v) => this.state.degreeByClass[k][v])),
      number("Sum", (v) => this.state.degree[v] && model.classes.reduce((sum, _, k) => sum + this.state.degreeByClass[k][v], 0)),
    ], { sortBy: model.nClasses + 1 });
    this.comparison = new SortableTable(byId("comparison"), "Classes compared", [
      { label: "Class", value: (row) => row.one, cell: (row) => model.classes[row.one] },
      { label: "and class", value: (row) => row.two, cell: (row) => model.classes[row.two] },
      number("Common", (row) => row.common), number("Only first", (row) => row.onlyFirst), number("Only second", (row) => row.onlySecond),
      number("Sign flips", (row) => row.signFlips), number("Jaccard", (row) => row.jaccard, (row) => formatShare(row.jaccard)),
    ], { pageSize: 15 });
    this.differential = new SortableTable(byId("differential"), "Differential edges", [
      { label: "Variable", value: (pair) => model.variables[model.first[pair]], cell: (pair) => link(model.first[pair]) },
      { label: "and variable", value: (pair) => model.variables[model.second[pair]], cell: (pair) => link(model.second[pair]) },
      { label: "Kind", value: (pair) => KINDS[model.kind[pair]], cell: (pair) => KINDS[model.kind[pair]] + (model.flips[pair] ? ", sign changes" : "") },
      ...model.classes.map((name, k) => number(name, (pair) => this.#value(pair, k), (pair) => signedValue(model, model.edgeAt(pair, k)))),
      number("Difference", (pair) => model.spread(pair), (pair) => model.spread(pair).toFixed(3)),
    ], { pageSize: 15, sortBy: model.nClasses + 3 });
  }

  #value(pair, classIndex) {
    const edge = this.model.edgeAt(pair, classIndex);
    return edge < 0 ? 0 : this.model.partial[edge];
  }

  // Following the state

  applyFilters({ rebuild = false } = {}) {
    const { model, state } = this;
    model.apply(state);
    state.degreeByClass = model.degrees();
    state.degree = Uint32Array.from({ length: model.nVariables }, (_, v) => model.incident[v].reduce((sum, pair) => sum + model.pairPasses(pair), 0));
    state.byDegree = Array.from(state.degree.keys()).sort((a, b) => state.degree[b] - state.degree[a]);
    if (rebuild) this.stage.build();
    this.stage.refresh();
    if (rebuild) this.stage.fit();
    this.#showCounts();
    this.#showDetails();
    this.#showTables();
  }

  #showCounts() {
    const shown = this.model.shownByClass();
    byId("classes").querySelectorAll(".count").forEach((cell, k) => { cell.textContent = formatCount(shown[k]); });
    const all = this.model.passes.every((passes) => passes);
    document.querySelectorAll("[data-scope]").forEach((part) => { part.textContent = all ? "All edges are counted." : "Only edges that pass the filters are counted."; });
  }

  /** The tables are below the fold: they may follow a moment after the picture. */
  #showTables() {
    clearTimeout(this.tableTimer);
    this.tableTimer = setTimeout(() => {
      const { model, state } = this;
      this.hubs.show([...state.degree.keys()].filter((variable) => state.degree[variable] > 0));
      this.comparison.show(model.comparisons(model.classes.map((_, k) => k).filter((k) => state.classes[k])));
      this.differential.show(this.stage.allPairs.filter((pair) => model.isDifferential(pair) && model.pairPasses(pair)));
    }, 60);
  }

  #showLegend() {
    const { model, state } = this;
    const entries = {
      sign: [["--positive", "positive"], ["--negative", "negative"], ...(state.mode === "overlay" ? [["--mixed", "differs by class"]] : [])],
      kind: [["--shared", "shared: in all classes"], ...(model.nClasses > 2 ? [["--partly", "partly shared"]] : []), ["--specific", "specific: in one class"]],
      class: [...(model.nClasses > 1 ? [["--in-all", "in all classes"]] : []),
        ...(model.nClasses > 2 ? [["--in-some", "in several"]] : []),
        ...model.classes.map((name, k) => [`--class-${k % CLASS_COLOURS}`, model.nClasses > 1 ? `only ${name}` : name])],
    }[state.colourBy];
    const swatches = entries.map(([colour, text]) => {
      const line = make("i", { className: "line" });
      line.style.setProperty("--colour", `var(${colour})`);
      return make("span", {}, [line, text]);
    });
    byId("networks").dataset.colour = state.colourBy;
    byId("legend").replaceChildren(...swatches, make("span", { className: "quiet", text: "thicker: stronger" }));
  }

  // Focus

  chooseVariable(variable) {
    this.choose({ variable, pair: -1 });
    byId("networks").scrollIntoView({ block: "start" });
  }

  choose(found) {
    const wasFocused = this.state.focus.variable >= 0;
    this.state.focus = found;
    this.state.hover = NOTHING;
    this.#showTip(NOTHING, null);
    this.stage.refresh();
    if (found.variable >= 0 || wasFocused) this.stage.fit();
    this.#showDetails();
  }

  #showDetails() {
    const { model, state } = this, { variable, pair } = state.focus;
    const details = byId("details");
    details.hidden = variable < 0 && pair < 0;
    this.#showNeighbours(variable);
    if (details.hidden) return;
    const title = variable >= 0 ? model.variables[variable] : pairName(model, pair);
    const head = make("div", { className: "details-head" }, [make("h2", { text: title }), makeButton("Close", () => this.choose(NOTHING), "plain")]);
    details.replaceChildren(head);
    const onChoose = (other) => this.chooseVariable(other);
    if (variable >= 0) details.append(variableValues(model, state.degreeByClass, variable), neighbourList(model, variable, onChoose));
    else details.append(make("p", { className: "quiet", text: pairWords(model, pair) }), pairValues(model, pair));
  }

  #showNeighbours(variable) {
    const card = byId("neighbours"), { model } = this;
    card.hidden = variable < 0;
    if (card.hidden) return;
    const title = make("h2", { text: `Neighbours of ${model.variables[variable]}` });
    card.replaceChildren(title, make("p", { className: "quiet", text: "Partial correlations in each class." }),
      neighbourTable(model, variable, (other) => this.chooseVariable(other)));
  }

  #showTip({ variable, pair }, event) {
    const tip = byId("tip");
    tip.hidden = !event || (variable < 0 && pair < 0);
    if (tip.hidden) return;
    const { model } = this;
    const title = variable >= 0 ? model.variables[variable] : pairName(model, pair);
    tip.replaceChildren(make("strong", { text: title }));
    if (pair >= 0) tip.append(make("div", { className: "quiet", text: pairWords(model, pair) }), pairValues(model, pair));
    else tip.append(variableValues(model, this.state.degreeByClass, variable));
    const left = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8);
    const top = event.clientY + 16 + tip.offsetHeight > window.innerHeight ? event.clientY - tip.offsetHeight - 12 : event.clientY + 16;
    tip.style.left = `${Math.max(4, left)}px`;
    tip.style.top = `${Math.max(4, top)}px`;
  }

  // Controls

  #listen() {
    const { state, stage } = this;
    document.querySelectorAll("input[name=mode]").forEach((radio) => radio.addEventListener("change", () => this.setMode(radio.value)));
    this.#onChange("colour", (select) => { state.colourBy = select.value; state.colourChosen = true; this.#showLegend(); stage.refresh(); });
    this.#onChange("isolated", (box) => { state.showIsolated = box.checked; stage.refresh(); stage.fit(); });
    this.#onChange("labels", (box) => { state.showLabels = box.checked; stage.draw(); });
    this.#onChange("change", (select) => { state.change = select.value; this.applyFilters(); });
    for (const name of ["strength", "stability"]) {
      byId(name).addEventListener("input", () => this.#slide(name));
    }
    byId("zoom-in").addEventListener("click", () => stage.zoomMiddle(1.4));
    byId("zoom-out").addEventListener("click", () => stage.zoomMiddle(1 / 1.4));
    byId("fit").addEventListener("click", () => { this.choose(NOTHING); stage.fit(); });
    byId("reset").addEventListener("click", () => this.reset());
    this.search = new SearchBox(byId("search"), byId("matches"), this.model.variables, (variable) => this.chooseVariable(variable));
    this.#listenToTheme();
    document.addEventListener("keydown", (event) => { if (event.key === "Escape" && !byId("details").hidden) this.choose(NOTHING); });
  }

  #onChange(id, action) {
    byId(id).addEventListener("change", (event) => action(event.target));
  }

  #slide(name) {
    this.state[name] = Number(byId(name).value);
    byId(`${name}-value`).textContent = this.state[name].toFixed(2);
    // Many events a frame while the handle moves: one filtering for each frame is enough.
    if (this.sliding) return;
    this.sliding = requestAnimationFrame(() => { this.sliding = 0; this.applyFilters(); });
  }

  setMode(mode) {
    const { state } = this;
    state.mode = mode;
    if (!state.colourChosen) {
      state.colourBy = mode === "overlay" ? "class" : "sign";
      byId("colour").value = state.colourBy;
    }
    this.#showLegend();
    this.applyFilters({ rebuild: true });
  }

  reset() {
    Object.assign(this.state, { ...this.#startState(), colours: this.state.colours });
    document.querySelectorAll("#networks input[type=checkbox]").forEach((box) => { box.checked = box.id !== "isolated" || this.state.showIsolated; });
    document.querySelector("input[name=mode][value=side]").checked = true;
    Object.entries({ colour: "sign", change: "all", strength: 0, stability: 0, search: "" }).forEach(([id, value]) => { byId(id).value = value; });
    ["strength", "stability"].forEach((name) => { byId(`${name}-value`).textContent = "0.00"; });
    this.#showLegend();
    this.applyFilters({ rebuild: true });
  }

  #listenToTheme() {
    const system = matchMedia("(prefers-color-scheme: dark)"), root = document.documentElement;
    let chosen = null; // The system decides until the reader does.
    const usual = () => chosen ?? (system.matches ? "dark" : "light");
    const set = (theme) => {
      root.dataset.theme = theme;
      byId("theme").textContent = theme === "dark" ? "Light" : "Dark";
      this.state.colours = readColours();
    };
    const show = (theme) => { set(theme); this.stage.refresh(); };
    const print = (printing) => { this.stage.printing = printing; show(printing ? "light" : usual()); this.stage.drawNow(); };
    byId("theme").addEventListener("click", () => { chosen = usual() === "dark" ? "light" : "dark"; show(chosen); });
    system.addEventListener("change", () => show(usual()));
    window.addEventListener("beforeprint", () => print(true));
    window.addEventListener("afterprint", () => print(false));
    set(usual());
  }

  // Downloads

  #makeDownloads() {
    const offers = {
      "All edges": () => saveText("edges.csv", csvText(this.edgeRows(() => true))),
      "Edges shown": () => saveText("edges-shown.csv", csvText(this.edgeRows((edge) => this.model.passes[edge]))),
      "Degrees": () => saveText("degrees.csv", csvText(this.degreeRows())),
      "Classes compared": () => saveText("comparison.csv", csvText(this.comparisonRows())),
      "Picture": () => this.stage.picture().toBlob((blob) => saveBlob("networks.png", blob)),
    };
    document.querySelector("#downloads .buttons").append(...Object.entries(offers).map(([name, action]) => makeButton(name, action)));
  }

  edgeRows(keep) {
    const { model } = this;
    const rows = [["variable1", "variable2", "class", "precision", "partial_correlation", "kind", "differential", "stability", "certified"]];
    for (let edge = 0; edge < model.nEdges; edge++) {
      if (!keep(edge)) continue;
      const pair = model.pairOfEdge[edge];
      rows.push([model.variables[model.first[pair]], model.variables[model.second[pair]], model.classes[model.edgeClass[edge]],
        model.precision[edge], model.partial[edge], KINDS[model.kind[pair]], pythonBoolean(model.isDifferential(pair)),
        model.stability ? model.stability[edge] : "", model.certified ? pythonBoolean(model.certified[edge]) : ""]);
    }
    return rows;
  }

  degreeRows() {
    const { model, state } = this;
    return [["variable", ...model.classes], ...model.variables.map((name, v) => [name, ...state.degreeByClass.map((row) => row[v])])];
  }

  comparisonRows() {
    const { model } = this;
    const all = model.classes.map((_, k) => k);
    return [["class1", "class2", "common", "only_first", "only_second", "sign_flips", "jaccard"],
      ...model.comparisons(all).map((row) => [model.classes[row.one], model.classes[row.two], row.common, row.onlyFirst, row.onlySecond,
        row.signFlips, Number.isNaN(row.jaccard) ? "" : row.jaccard])];
  }
}

/** Search with suggestions, by the keyboard pattern of a combobox. */
class SearchBox {
  constructor(input, list, names, onChoose) {
    Object.assign(this, { input, list, names, onChoose, found: [], active: -1 });
    input.addEventListener("input", () => this.#suggest());
    input.addEventListener("focus", () => this.#suggest());
    input.addEventListener("blur", () => this.#close());
    input.addEventListener("keydown", (event) => this.#key(event));
  }

  #suggest() {
    this.found = findVariables(this.names, this.input.value, 12);
    this.active = this.found.length ? 0 : -1;
    const options = this.found.map((variable, position) => {
      const option = make("li", { text: this.names[variable], attributes: { role: "option", id: `match-${position}` } });
      // A press would take the focus from the input and close the list before the click arrives.
      option.addEventListener("mousedown", (event) => event.preventDefault());
      option.addEventListener("click", () => this.#choose(position));
      return option;
    });
    if (!options.length && this.input.value.trim()) options.push(make("li", { className: "quiet", text: "No such variable" }));
    this.list.replaceChildren(...options);
    this.#mark();
    this.list.hidden = !options.length;
    this.input.setAttribute("aria-expanded", String(this.found.length > 0));
  }

  #mark() {
    [...this.list.children].forEach((option, position) => option.setAttribute("aria-selected", String(position === this.active)));
    if (this.active >= 0) this.input.setAttribute("aria-activedescendant", `match-${this.active}`);
    else this.input.removeAttribute("aria-activedescendant");
  }

  #key(event) {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      const step = event.key === "ArrowDown" ? 1 : -1;
      if (this.found.length) this.active = (this.active + step + this.found.length) % this.found.length;
      this.#mark();
    } else if (event.key === "Enter") {
      if (this.active < 0) this.#suggest();
      if (this.active >= 0) this.#choose(this.active);
    } else if (event.key === "Escape") this.#close();
  }

  #choose(position) {
    const variable = this.found[position];
    this.input.value = this.names[variable];
    this.#close();
    this.onChoose(variable);
  }

  #close() {
    this.list.hidden = true;
    this.active = -1;
    this.input.setAttribute("aria-expanded", "false");
    this.input.removeAttribute("aria-activedescendant");
  }
}

const pairName = (model, pair) => `${model.variables[model.first[pair]]} – ${model.variables[model.second[pair]]}`;
const pairWords = (model, pair) => `partial correlation, ${model.flips[pair] ? "sign changes, " : ""}${KINDS[model.kind[pair]]}`;
const pythonBoolean = (value) => (value ? "True" : "False");

function saveText(name, text) {
  saveBlob(name, new Blob([text], { type: "text/csv;charset=utf-8" }));
}

function saveBlob(name, blob) {
  const address = URL.createObjectURL(blob);
  make("a", { attributes: { href: address, download: name } }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

function start() {
  const page = new Page(JSON.parse(byId("data").textContent));
  page.stage.drawNow();
  document.documentElement.dataset.ready = Math.round(performance.now());
}

start();
