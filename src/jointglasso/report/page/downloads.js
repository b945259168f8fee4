// Files made from what the page shows.

class Downloads {
  constructor(page) {
    this.page = page;
    this.#makeButtons();
  }

  get model() { return this.page.model; }
  get state() { return this.page.state; }

  #makeButtons() {
    const table = (name, rows, words) => saveText(this.#fileName(name, "csv", words), csvText(rows));
    const ofClasses = () => this.page.classWords();
    const offers = {
      "All edges": () => saveText("edges.csv", csvText(this.edgeRows(() => true))),
      "Edges shown": () => table("edges-shown", this.edgeRows((edge) => this.model.passes[edge])),
      "Degrees": () => table("degrees", this.degreeRows(), ofClasses()),
      "Classes compared": () => table("comparison", this.comparisonRows(), ofClasses()),
      "Differences": () => table("differences", this.differenceRows()),
      "Picture (PNG)": () => pictureCanvas(this.page.stage, this.#pictureWords()).toBlob((blob) => saveBlob(this.#fileName("networks", "png"), blob)),
      "Picture (SVG)": () => saveBlob(this.#fileName("networks", "svg"), new Blob([pictureSvg(this.page.stage, this.#pictureWords())], { type: "image/svg+xml" })),
    };
    if (this.page.data.significant) delete offers.Differences; // of estimates cut off at a significance: the tests are in a section
    if (this.model.nClasses === 1) ["Classes compared", "Differences"].forEach((name) => delete offers[name]);
    document.querySelector("#downloads .buttons").append(...Object.entries(offers).map(([name, action]) => makeButton(name, action)));
  }

  /** File name that encodes the filters. */
  #fileName(name, ending, words = this.model.passes.every((passes) => passes) ? [] : this.page.filterWords()) {
    const safe = [name, ...words].join(" ").normalize("NFKD").replace(/partial correlation/g, "strength").replace(/[^A-Za-z0-9.]+/g, "-").replace(/^-|-$/g, "");
    return `${safe.slice(0, 120)}.${ending}`;
  }

  #pictureWords() {
    const read = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    const legend = this.page.legend().map((entry) => ({ ...entry, colour: entry.variable && read(entry.variable) }));
    return { title: this.page.data.title, filter: byId("shown").textContent, legend };
  }

  differenceRows() {
    const { model, state: { shown } } = this, { tests } = this.page.data;
    const header = ["variable1", "variable2", ...shown.map((k) => model.classes[k]), "difference", ...(tests?.low ? ["estimated_difference", "low", "high"] : []), ...(tests ? ["p_value", "q_value"] : [])];
    const pairs = this.page.stage.allPairs.filter((pair) => model.pairPasses(pair) && model.difference(pair, shown) !== 0);
    pairs.sort((a, b) => Math.abs(model.difference(b, shown)) - Math.abs(model.difference(a, shown)));
    return [header, ...pairs.map((pair) => [model.variables[model.first[pair]], model.variables[model.second[pair]],
      ...shown.map((k) => (model.hasPair(pair, k) ? model.valueAt(pair, k) : "")), model.difference(pair, shown), ...(tests?.low ? [tests.difference[pair], tests.low[pair], tests.high[pair]] : []), ...(tests ? [tests.p[pair], tests.q[pair]] : [])])];
  }

  edgeRows(keep) {
    const { model } = this;
    const rows = [["variable1", "variable2", "class", "precision", "partial_correlation", "kind", "stability", "certified",
      ...(model.same ? ["same_in", "same_certified"] : [])]];
    for (let edge = 0; edge < model.nEdges; edge++) {
      if (!keep(edge)) continue;
      const pair = model.pairOfEdge[edge];
      rows.push([model.variables[model.first[pair]], model.variables[model.second[pair]], model.classes[model.edgeClass[edge]],
        model.precision[edge], model.partial[edge], KINDS[model.kindOfAll[pair]],
        model.stability ? model.stability[edge] : "", model.certified ? pythonBoolean(model.certified[edge]) : "",
        ...(model.same ? [model.sameIn(edge).join(", "), pythonBoolean(model.same.cluster_proved[edge])] : [])]);
    }
    return rows;
  }

  degreeRows() {
    const { model, state: { shown } } = this, degreeByClass = this.page.degreeOfAll;
    return [["variable", ...shown.map((k) => model.classes[k])], ...model.variables.map((name, v) => [name, ...shown.map((k) => (model.has(v, k) ? degreeByClass[k][v] : ""))])];
  }

  comparisonRows() {
    const { model, state } = this;
    return [["class1", "class2", "common", "only_first", "only_second", "sign_flips", "jaccard", ...(model.same ? ["same"] : [])],
      ...model.comparisons(state.shown).map((row) => [model.classes[row.one], model.classes[row.two], row.common, row.onlyFirst, row.onlySecond,
        row.signFlips, Number.isNaN(row.jaccard) ? "" : row.jaccard, ...(model.same ? [row.same] : [])])];
  }
}

const pythonBoolean = (value) => (value ? "True" : "False");

function saveText(name, text) {
  saveBlob(name, new Blob([text], { type: "text/csv;charset=utf-8" }));
}

function saveBlob(name, blob) {
  const address = URL.createObjectURL(blob);
  make("a", { attributes: { href: address, download: name } }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}
