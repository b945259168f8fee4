// Ties the parts together: reads the controls into one state and shows it.

const byId = (id) => document.getElementById(id);

/** Pairs that one picture can hold so that a reader sees structure. */
const READABLE = 150;

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
    this.downloads = new Downloads(this);
    byId("facts").append(...data.facts.map(factCard));
    this.#listen();
    this.applyFilters({ rebuild: true });
  }

  #startState() {
    return {
      mode: this.data.start_mode || "side", moment: 0, colourBy: "sign", colourChosen: false, showIsolated: this.model.nPairs === 0 && this.model.nVariables <= 200, showLabels: true,
      showGroups: Boolean(this.model.groups), compared: [0, this.model.nClasses > 1 ? 1 : 0], shown: [],
      classes: this.model.classes.map(() => true), kinds: KINDS.map(() => true), change: "all",
      strength: this.data.start_strength, difference: 0, stability: 0,
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
    byId("verdict").classList.add(data.verdict.section === "inference" ? "significant" : data.verdict.good ? "good" : "doubtful");
    [byId("footer").textContent, byId("verdict").hidden] = [data.footer, !data.verdict.text];
    byId("verdict").href = `#${data.verdict.section || "proof"}`;
    document.body.classList.toggle("compact", Boolean(data.compact));
  }

  #fillControls() {
    const { model, state } = this;
    byId("classes").replaceChildren(...model.classes.map((name, k) => this.#check(name, `--class-${k % CLASS_COLOURS}`, "class", k)));
    byId("kinds").replaceChildren(...KINDS.map((name, kind) => this.#check(name, ["--shared", "--partly", "--specific"][kind], "kind", kind)));
    const ofSeveral = "#kind-field, #comparison, #differential, #mode-field .segments";
    if (model.nClasses === 1) document.querySelectorAll(ofSeveral).forEach((part) => { part.hidden = true; });
    this.#showWhatIsTested();
    byId("stability-field").hidden = !model.stability;
    if (!model.same) document.querySelectorAll("[data-same]").forEach((option) => option.remove());
    byId("groups-field").hidden = !model.groups;
    if (model.groups) byId("groups-word").textContent = model.groups.title.toLowerCase();
    for (const id of ["first-class", "second-class"]) {
      byId(id).replaceChildren(...model.classes.map((name, k) => make("option", { text: name, attributes: { value: k } })));
    }
    this.#sizeSliders();
    this.#showControls();
    this.#showLegend();
    state.colours = readColours();
  }

  /** Differences are tested, or said not to be; between networks of significant edges they are those of the section with intervals. */
  #showWhatIsTested() {
    const { tests, significant } = this.data;
    byId("comparison-words").textContent = tests
      ? `An edge in one class only is no significant difference: those are tested over all pairs of variables, at a false discovery rate of ${tests.significant.rate}.`
      : "Edges in one class only and opposite signs are those of the estimates, not tested: jointglasso infer tests differences.";
    byId("differential-title").textContent = tests ? "Differences between the estimates, with tests" : "Differences between the estimates (not tested)";
    byId("differential-words").textContent = tests
      ? `${tests.low ? "Difference and interval are those of desparsified estimates, which the penalties do not shrink. " : ""}The p-value is that of equal partial correlations in all classes (desparsified estimates), q the false discovery rate at which it is significant; the smallest p-values come first.`
      : "A difference between two estimates, or an opposite sign, is not a significant difference: jointglasso infer tests them. The largest come first.";
    if (!significant) return;
    byId("differential").hidden = true;
    document.querySelector("input[name=mode][value=difference]").parentNode.hidden = true;
    byId("comparison-words").textContent = "An edge that is significant in one class only is not a significant difference: see “Differences with intervals”.";
  }

  /** Steps as fine as the values need. */
  #sizeSliders() {
    const { strongest } = this.model, decimals = strongest >= 0.3 ? 2 : strongest >= 0.03 ? 3 : 4, step = 10 ** -decimals;
    this.decimals = { strength: decimals, difference: decimals, stability: 2 };
    for (const [name, most] of [["strength", strongest], ["difference", 2 * strongest]]) {
      byId(name).step = step.toFixed(decimals);
      byId(name).max = (Math.ceil(most / step) * step).toFixed(decimals);
    }
  }

  /** Put the state into the controls. */
  #showControls() {
    const { state } = this;
    for (const name of ["strength", "difference", "stability"]) {
      byId(name).value = state[name]; // as near as its steps allow; the state stays exact until the slider is moved
      byId(`${name}-value`).textContent = state[name].toFixed(this.decimals[name]);
    }
    const comparing = state.mode === "difference";
    byId("compared").hidden = byId("difference-field").hidden = !comparing;
    byId("strength-field").hidden = byId("class-field").hidden = byId("colour-field").hidden = comparing;
    byId("moment-field").hidden = state.mode !== "single";
    document.querySelector(`input[name=mode][value=${state.mode}]`).checked = true;
    byId("first-class").value = state.compared[0];
    byId("second-class").value = state.compared[1];
    byId("colour").value = state.colourBy;
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
    const { model, state } = this, counts = KINDS.map(() => 0), shown = KINDS.map(() => 0);
    for (let pair = 0; pair < model.nPairs; pair++) {
      if (!state.shown.some((k) => model.edgeAt(pair, k) >= 0)) continue;
      counts[model.kind[pair]]++;
      shown[model.kind[pair]] += model.pairPasses(pair);
    }
    // With two classes nothing is partly shared.
    byId("kinds").children[PARTLY_SHARED].hidden = state.shown.length === 2;
    byId("kinds").querySelectorAll(".count").forEach((cell, kind) => { cell.textContent = shareText(shown[kind], counts[kind]); });
  }

  #makeTables() {
    const { model } = this, { tests } = this.data;
    this.degreeOfAll = model.degrees(model.everyEdge);
    const link = (variable) => makeButton(model.variables[variable], () => this.chooseVariable(variable), "link");
    const number = (label, value, text = (row) => formatCount(value(row))) => ({ label, value, cell: text, number: true });
    this.hubs = new SortableTable(byId("hubs"), "Hubs", []);
    this.hubColumns = (shown) => [
      { label: "Variable", value: (v) => model.variables[v], cell: link },
      ...shown.map((k) => number(model.classes[k], (v) => this.degreeOfAll[k][v])),
      number("Sum", (v) => shown.reduce((sum, k) => sum + this.degreeOfAll[k][v], 0)),
    ];
    this.comparison = new SortableTable(byId("comparison"), "Classes compared", [
      { label: "Class", value: (row) => row.one, cell: (row) => model.classes[row.one] },
      { label: "and class", value: (row) => row.two, cell: (row) => model.classes[row.two] },
      number("Common", (row) => row.common), ...(model.same ? [number("Same value", (row) => row.same)] : []), number("Only first", (row) => row.onlyFirst), number("Only second", (row) => row.onlySecond),
      tests ? number("Significant differences", (row) => tests.significant.counts[row.one][row.two]) : number("Opposite signs", (row) => row.signFlips),
      number("Jaccard", (row) => row.jaccard, (row) => formatShare(row.jaccard)),
    ], { pageSize: 15 });
    this.differential = new SortableTable(byId("differential"), "Differences between the classes", [], { pageSize: 15 });
    this.differenceColumns = (shown) => [
      { label: "Variable", value: (pair) => model.variables[model.first[pair]], cell: (pair) => link(model.first[pair]) },
      { label: "and variable", value: (pair) => model.variables[model.second[pair]], cell: (pair) => link(model.second[pair]) },
      { label: "Edge", value: (pair) => this.#presence(pair), cell: (pair) => this.#presence(pair) },
      ...shown.map((k) => number(model.classes[k], (pair) => model.valueAt(pair, k), (pair) => valueCell(model, pair, k))),
      ...(this.data.tests?.low ? [] : [number(shown.length === 2 ? `${model.classes[shown[0]]} − ${model.classes[shown[1]]}` : "Difference",
        (pair) => Math.abs(model.difference(pair, shown)), (pair) => differenceText(model.difference(pair, shown), shown.length))]),
      ...this.#tested(number), // last, since the last column is sorted by
    ];
  }

  /** Columns of tests of the differences, where some were made. */
  #tested(number) {
    const { tests } = this.data;
    const column = (label, values) => number(label, (pair) => (values[pair] === null ? -2 : -values[pair]), (pair) => formatSmall(values[pair]));
    if (!tests) return [];
    const interval = tests.low ? [number(`${this.model.classes[0]} − ${this.model.classes[1]}`,
      (pair) => Math.abs(tests.difference[pair]), (pair) => (tests.difference[pair] === null ? "–" : formatSigned(tests.difference[pair]))), {
      label: "95 % interval", number: true, value: (pair) => tests.low[pair],
      cell: (pair) => (tests.low[pair] === null ? "not tested" : `${formatSigned(tests.low[pair])} to ${formatSigned(tests.high[pair])}`),
    }] : [];
    return [...interval, column("q-value", tests.q), column("p-value", tests.p)];
  }

  /** In which of the classes shown a pair is joined. */
  #presence(pair) {
    const { model, state } = this;
    if (model.flips[pair]) return "opposite signs";
    const held = state.shown.filter((k) => model.edgeAt(pair, k) >= 0);
    if (model.inAll[pair] && (held.length > 1 || state.shown.length === 1)) return state.shown.length === 2 ? "in both" : "in all";
    const measured = state.shown.filter((k) => model.hasPair(pair, k)).length;
    return held.length === 1 ? `only ${model.classes[held[0]]}` : `in ${held.length} of ${measured}`;
  }

  // Following the state

  applyFilters({ rebuild = false } = {}) {
    const { model, state } = this;
    const filter = this.#filter();
    state.shown = model.classes.map((_, k) => k).filter((k) => filter.classes[k]);
    model.apply(filter);
    state.degreeByClass = model.degrees();
    state.degree = Uint32Array.from({ length: model.nVariables }, (_, v) => model.incident[v].reduce((sum, pair) => sum + model.pairPasses(pair), 0));
    state.byDegree = Array.from(state.degree.keys()).sort((a, b) => state.degree[b] - state.degree[a]);
    this.#showMoment();
    if (rebuild) this.stage.build();
    this.stage.refresh();
    if (rebuild) this.stage.fit();
    this.#showCounts();
    this.#showDetails();
    this.#showTables();
  }

  /** The slider over the classes that are ticked. */
  #showMoment() {
    const { model, state } = this;
    state.moment = Math.max(0, Math.min(state.moment, state.shown.length - 1));
    byId("moment").max = Math.max(0, state.shown.length - 1);
    byId("moment").value = state.moment;
    byId("moment-value").textContent = state.shown.length ? model.classes[state.shown[state.moment]] : "–";
  }

  /** What the state asks for: the difference of two classes is about these alone, and about its own size. */
  #filter() {
    const { state } = this;
    if (state.mode !== "difference") return { ...state, difference: 0 };
    return { ...state, classes: state.classes.map((_, k) => state.compared.includes(k)), strength: 0 };
  }

  /** The classes shown, where some are hidden. */
  classWords() {
    const { model, state } = this;
    return state.shown.length < model.nClasses ? [`only ${state.shown.map((k) => model.classes[k]).join(", ") || "no class"}`] : [];
  }

  /** The filters in words, those that leave nothing out excepted. */
  filterWords() {
    const { model, state } = this, comparing = state.mode === "difference";
    const value = (name) => state[name].toFixed(this.decimals[name]);
    return [
      ...(comparing ? [] : this.classWords()),
      !comparing && state.strength > 0 && `|partial correlation| at least ${value("strength")}${state.shown.length > 1 ? " in some class" : ""}`,
      comparing && `|${state.compared.map((k) => model.classes[k]).join(" − ")}| ${state.difference > 0 ? `at least ${value("difference")}` : "not 0"}`,
      state.stability > 0 && `stability at least ${value("stability")}`,
      state.kinds.includes(false) && `without ${KINDS.filter((_, kind) => !state.kinds[kind]).join(" and ")} edges`,
      state.change !== "all" && {
        differential: "edges not in all classes, or of opposite signs", sign: "opposite signs only", stays: "edges of one value in all classes", changes: "edges whose value changes",
      }[state.change],
    ].filter(Boolean);
  }

  #showCounts() {
    const counts = this.model.countByClass(), totals = this.model.countByClass(this.model.everyEdge);
    byId("classes").querySelectorAll(".count").forEach((cell, k) => { cell.textContent = shareText(counts[k], totals[k]); });
    this.#countKinds();
    const all = this.model.passes.every((passes) => passes);
    const { nPairs } = this.model, pairs = `joined ${nPairs === 1 ? "pair" : "pairs"}`;
    const none = this.data.significant ? `No edge is significant at a false discovery rate of ${this.data.significant}.` : "No two variables are joined in any class at these penalties.";
    byId("shown").textContent = !this.model.nPairs ? none
      : all ? `All ${formatCount(nPairs)} ${pairs} shown.`
      : `${formatCount(this.model.nPairsShown())} of ${formatCount(nPairs)} ${pairs} shown: ${this.filterWords().join("; ")}.`;
    byId("show-all").hidden = all || this.state.mode === "difference";
    document.querySelectorAll("[data-scope]").forEach((part) => { part.textContent = all ? "All edges are counted." : "Only edges that pass the filters are counted."; });
  }

  /** The tables are below the fold: they may follow a moment after the picture. */
  #showTables() {
    clearTimeout(this.tableTimer);
    this.tableTimer = setTimeout(() => {
      const { model, state } = this;
      const columns = state.shown.join(" ");
      if (columns !== this.columnsShown) {
        this.columnsShown = columns;
        this.hubs.setColumns(this.hubColumns(state.shown));
        this.differential.setColumns(this.differenceColumns(state.shown));
      }
      this.hubs.show([...state.degree.keys()].filter((variable) => state.shown.some((k) => this.degreeOfAll[k][variable] > 0)));
      this.comparison.show(model.comparisons(state.shown));
      this.differential.show(this.stage.allPairs.filter((pair) => model.pairPasses(pair) && model.difference(pair, state.shown) !== 0));
    }, 60);
  }

  /** Entries of the legend: {variable, text} for lines, with `disc` for groups of variables. */
  legend() {
    const { model, state } = this, [one, two] = state.compared.map((k) => model.classes[k]);
    const lines = state.mode === "difference" ? [["--positive", `higher in ${one}`], ["--negative", `higher in ${two}`]] : {
      sign: [["--positive", "positive"], ["--negative", "negative"], ...(state.mode === "overlay" ? [["--mixed", "differs by class"]] : [])],
      kind: [["--shared", "shared: in all classes"], ...(model.nClasses > 2 ? [["--partly", "partly shared"]] : []), ["--specific", "specific: in one class"]],
      class: [...(model.nClasses > 1 ? [["--in-all", "in all classes"]] : []),
        ...(model.nClasses > 2 ? [["--in-some", "in several"]] : []),
        ...model.classes.map((name, k) => [`--class-${k % CLASS_COLOURS}`, model.nClasses > 1 ? `only ${name}` : name])],
      same: [["--in-all", "one value in all classes"], ...(state.mode === "overlay" ? [["--specific", "value changes"]]
        : model.classes.map((name, k) => [`--class-${k % CLASS_COLOURS}`, k ? name : `value changes; the same as in ${name}`]))],
    }[state.colourBy];
    const entries = [...lines.map(([variable, text]) => ({ variable, text })), { text: `thicker: ${state.mode === "difference" ? "larger difference" : "stronger"}` }];
    if (!model.groups || !state.showGroups) return entries;
    const { title, names, of } = model.groups;
    const named = names.slice(0, GROUP_COLOURS).map((name, k) => ({ variable: `--group-${k}`, text: name, disc: true }));
    const others = of.some((group) => group < 0 || group >= GROUP_COLOURS);
    return [...entries, { text: `${title}:` }, ...named, ...(others ? [{ variable: "--node", text: "other", disc: true }] : [])];
  }

  #showLegend() {
    const marks = this.legend().map(({ variable, text, disc }) => {
      if (!variable) return make("span", { className: "quiet", text });
      const mark = make("i", { className: disc ? "disc" : "line" });
      mark.style.setProperty("--colour", `var(${variable})`);
      return make("span", {}, [mark, text]);
    });
    byId("networks").dataset.colour = this.state.colourBy;
    byId("legend").replaceChildren(...marks);
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
    if (variable >= 0 && model.texts[variable]) details.append(make("p", { text: model.texts[variable] }));
    if (variable >= 0) details.append(variableValues(model, state.degreeByClass, variable), neighbourList(model, variable, onChoose), ...this.#hiddenNeighbours(variable));
    else details.append(make("p", { className: "quiet", text: pairWords(model, pair) }), pairValues(model, pair));
  }

  /** A line about neighbours that the filters hide, with a way to see them. */
  #hiddenNeighbours(variable) {
    const hidden = this.model.incident[variable].filter((pair) => !this.model.pairPasses(pair)).length;
    if (!hidden) return [];
    const words = `${formatCount(hidden)} more ${hidden === 1 ? "neighbour is" : "neighbours are"} hidden by the filters.`;
    return [make("p", { className: "quiet hint", text: words }), makeButton("Show all edges", () => this.showAll(), "plain")];
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
    if (variable >= 0 && model.texts[variable]) tip.append(make("div", { text: model.texts[variable] }));
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
    this.#onChange("groups", (box) => { state.showGroups = box.checked; this.#showLegend(); stage.refresh(); });
    ["first-class", "second-class"].forEach((id, place) => this.#onChange(id, (select) => this.compare(place, Number(select.value))));
    this.#onChange("isolated", (box) => { state.showIsolated = box.checked; stage.refresh(); stage.fit(); });
    this.#onChange("labels", (box) => { state.showLabels = box.checked; stage.draw(); });
    this.#onChange("change", (select) => { state.change = select.value; this.applyFilters(); });
    for (const name of ["strength", "difference", "stability"]) {
      byId(name).addEventListener("input", () => this.#slide(name));
    }
    byId("moment").addEventListener("input", () => {
      state.moment = Number(byId("moment").value);
      this.#showMoment();
      stage.build();
      stage.refresh();
    });
    byId("show-all").addEventListener("click", () => this.showAll());
    byId("more").addEventListener("click", () => {
      const open = document.querySelector(".side").classList.toggle("open");
      byId("more").setAttribute("aria-expanded", String(open));
      byId("more").textContent = open ? "Fewer filters" : "More filters";
    });
    byId("zoom-in").addEventListener("click", () => stage.zoomMiddle(1.4));
    byId("zoom-out").addEventListener("click", () => stage.zoomMiddle(1 / 1.4));
    byId("fit").addEventListener("click", () => { this.choose(NOTHING); stage.fit(); });
    byId("reset").addEventListener("click", () => this.reset());
    this.search = new SearchBox(byId("search"), byId("matches"), this.model, (variable) => this.chooseVariable(variable));
    this.#listenToTheme();
    document.addEventListener("keydown", (event) => { if (event.key === "Escape" && !byId("details").hidden) this.choose(NOTHING); });
  }

  #onChange(id, action) {
    byId(id).addEventListener("change", (event) => action(event.target));
  }

  #slide(name) {
    this.state[name] = Number(byId(name).value);
    byId(`${name}-value`).textContent = this.state[name].toFixed(this.decimals[name]);
    // Many events a frame while the handle moves: one filtering for each frame is enough.
    if (this.sliding) return;
    this.sliding = requestAnimationFrame(() => { this.sliding = 0; this.applyFilters(); });
  }

  setMode(mode) {
    const { state } = this;
    state.mode = mode;
    if (!state.colourChosen) state.colourBy = mode === "overlay" ? "class" : "sign";
    if (mode === "difference") this.#startComparison();
    this.#showControls();
    this.#showLegend();
    this.applyFilters({ rebuild: true });
  }

  /** Begin with the first two classes that are ticked, and with as many differences as can be read. */
  #startComparison() {
    const { model, state } = this;
    const ticked = model.classes.map((_, k) => k).filter((k) => state.classes[k]);
    if (!state.comparisonChosen && ticked.length > 1) state.compared = ticked.slice(0, 2);
    state.difference = readableSize(this.stage.allPairs.map((pair) => model.difference(pair, state.compared)), READABLE);
  }

  /** Compare other classes; choosing the other one of the two swaps them. */
  compare(place, classIndex) {
    const { state } = this, other = 1 - place;
    const compared = [...state.compared];
    if (compared[other] === classIndex) compared[other] = compared[place];
    compared[place] = classIndex;
    state.compared = compared;
    state.comparisonChosen = true;
    this.setMode("difference");
  }

  /** Hide no edge. */
  showAll() {
    const { state } = this;
    Object.assign(state, { strength: 0, difference: 0, stability: 0, change: "all", classes: state.classes.map(() => true), kinds: KINDS.map(() => true) });
    document.querySelectorAll("#classes input, #kinds input").forEach((box) => { box.checked = true; });
    byId("change").value = "all";
    this.#showControls();
    this.applyFilters({ rebuild: true });
  }

  reset() {
    Object.assign(this.state, { ...this.#startState(), colours: this.state.colours, comparisonChosen: false });
    document.querySelectorAll("#networks input[type=checkbox]").forEach((box) => { box.checked = box.id !== "isolated" || this.state.showIsolated; });
    byId("change").value = "all";
    byId("search").value = "";
    this.#showControls();
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
}

const pairName = (model, pair) => `${model.variables[model.first[pair]]} – ${model.variables[model.second[pair]]}`;
const pairWords = (model, pair) => `partial correlation, ${model.flips[pair] ? "opposite signs, " : ""}${KINDS[model.kind[pair]]}${model.same ? `; ${model.sameWords(pair)}` : ""}`;
const differenceText = (value, nClasses) => (nClasses === 2 ? formatSigned(value) : value.toFixed(3));

function start() {
  const page = new Page(JSON.parse(byId("data").textContent));
  page.stage.drawNow();
  document.documentElement.dataset.ready = Math.round(performance.now());
}

start();
