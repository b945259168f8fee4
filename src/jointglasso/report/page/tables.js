// Building parts of the page. Names from the data are only ever set as text, never as markup.

/** A new element; `text` goes in as text. */
function make(tag, { className, text, attributes = {} } = {}, children = []) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function makeButton(text, action, className = "") {
  const button = make("button", { text, className, attributes: { type: "button" } });
  button.addEventListener("click", action);
  return button;
}

const formatCount = (value) => value.toLocaleString("en");
const shareText = (count, total) => (count === total ? formatCount(count) : `${formatCount(count)} of ${formatCount(total)}`);
const formatSigned = (value) => {
  const size = Math.abs(value);
  return `${value < 0 ? "−" : "+"}${size < 0.0005 ? size.toExponential(0) : size.toFixed(3)}`;
};
const formatShare = (value) => (Number.isNaN(value) ? "–" : value.toFixed(2));
const formatSmall = (value) => (value === null || value === undefined ? "–" : value < 0.001 ? value.toExponential(1) : value.toFixed(3));

/**
 * A table whose columns sort on a click, and which shows more rows on demand.
 *
 * Columns: {label, value(row), cell(row)}; `value` is what is sorted by, `cell` gives an element or a text.
 */
class SortableTable {
  constructor(container, caption, columns, { pageSize = 10, sortBy = -1 } = {}) {
    this.columns = columns;
    this.pageSize = pageSize;
    this.limit = pageSize;
    this.sortBy = sortBy;
    this.descending = true;
    this.rows = [];
    this.head = make("tr");
    this.body = make("tbody");
    const table = make("table", {}, [make("caption", { text: caption, className: "hidden" }), make("thead", {}, [this.head]), this.body]);
    this.more = makeButton("Show more", () => { this.limit += 5 * this.pageSize; this.#fill(); }, "plain");
    container.append(make("div", { className: "scroll", attributes: { tabindex: "0", role: "region", "aria-label": caption } }, [table]), this.more);
    this.#fillHead();
  }

  /** Take other columns; sorted is by the last one that has numbers. */
  setColumns(columns) {
    this.columns = columns;
    this.sortBy = columns.length - 1;
    this.descending = true;
    this.#fillHead();
  }

  show(rows) {
    this.rows = rows;
    this.limit = this.pageSize;
    this.#fill();
  }

  #fillHead() {
    this.head.replaceChildren(...this.columns.map((column, position) => {
      const button = makeButton(column.label, () => this.#sort(position), "head");
      return make("th", { className: column.number ? "number" : "", attributes: { scope: "col" } }, [button]);
    }));
  }

  #sort(position) {
    this.descending = this.sortBy === position ? !this.descending : Boolean(this.columns[position].number);
    this.sortBy = position;
    this.#fill();
  }

  #sorted() {
    if (this.sortBy < 0) return this.rows;
    const { value } = this.columns[this.sortBy], direction = this.descending ? -1 : 1;
    const keyed = this.rows.map((row) => [value(row), row]);
    const compare = (a, b) => (typeof a === "string" ? a.localeCompare(b) : a - b);
    return keyed.sort((a, b) => direction * compare(a[0], b[0])).map(([, row]) => row);
  }

  #fill() {
    [...this.head.children].forEach((cell, position) => {
      cell.setAttribute("aria-sort", position !== this.sortBy ? "none" : this.descending ? "descending" : "ascending");
    });
    const rows = this.#sorted().slice(0, this.limit).map((row) => this.#row(row));
    if (!rows.length) rows.push(make("tr", {}, [make("td", { className: "quiet", text: "None.", attributes: { colspan: this.columns.length } })]));
    this.body.replaceChildren(...rows);
    this.more.hidden = this.rows.length <= this.limit;
    this.more.textContent = `Show more (${formatCount(this.rows.length - this.limit)} left)`;
  }

  #row(row) {
    return make("tr", {}, this.columns.map((column) => {
      const content = column.cell(row);
      const cell = make("td", { className: column.number ? "number" : "" });
      cell.append(content);
      return cell;
    }));
  }
}

/** Values of a pair in all classes, as a small table. */
function pairValues(model, pair) {
  const rows = model.classes.map((name, k) => {
    const edge = model.edgeAt(pair, k);
    const cells = [make("td", { text: name }), make("td", { className: "number" }, [model.hasPair(pair, k) ? signedValue(model, edge) : "not measured"])];
    if (model.stability) cells.push(make("td", { className: "number quiet", text: edge < 0 ? "" : `stability ${formatShare(model.stability[edge])}` }));
    if (model.certified) cells.push(make("td", { className: "quiet", text: edge >= 0 && model.certified[edge] ? "certified" : "" }));
    if (model.same && edge >= 0) cells.push(make("td", { className: "quiet", text: sameText(model, edge) }));
    return make("tr", {}, cells);
  });
  return make("table", { className: "values" }, [make("tbody", {}, rows)]);
}

/** With which classes an edge shares its value, in few words. */
function sameText(model, edge) {
  const others = model.sameIn(edge).filter((name) => name !== model.classes[model.edgeClass[edge]]);
  if (!others.length) return "a value of its own";
  const certified = model.same.cluster_proved[edge] ? ", certified" : "";
  return others.length > 4 ? `same as ${others.length} others${certified}` : `same as ${others.join(", ")}${certified}`;
}

/** A partial correlation, coloured by its sign; a dash where there is no edge. */
function signedValue(model, edge) {
  if (edge < 0) return make("span", { className: "quiet", text: "–" });
  const value = model.partial[edge];
  return make("span", { className: value < 0 ? "negative" : "positive", text: formatSigned(value) });
}

/** The same for a class; nothing where it lacks one of the variables. */
function valueCell(model, pair, classIndex) {
  return model.hasPair(pair, classIndex) ? signedValue(model, model.edgeAt(pair, classIndex)) : "";
}

/** Number of edges of a variable in all classes, as a small table. */
function variableValues(model, degreeByClass, variable) {
  const rows = model.classes.map((name, k) =>
    make("tr", {}, [make("td", { text: name }), make("td", { className: "number", text: `${degreeByClass[k][variable]}` }), make("td", { text: degreeByClass[k][variable] === 1 ? "edge" : "edges", className: "quiet" })]));
  return make("table", { className: "values" }, [make("tbody", {}, rows)]);
}

/** Pairs of a variable that are shown, the strongest first. */
function shownPairs(model, variable) {
  const strength = (pair) => summaryOf(model, pair, OVERLAY).strength;
  return model.incident[variable].filter((pair) => model.pairPasses(pair)).sort((a, b) => strength(b) - strength(a));
}

/** The neighbours of a variable, each with a square for every class: colour is sign, depth is strength. */
function neighbourList(model, variable, onChoose) {
  const items = shownPairs(model, variable).map((pair) => {
    const other = model.otherEnd(pair, variable);
    const squares = model.classes.map((name, k) => classSquare(model, name, model.edgeAt(pair, k), model.hasPair(pair, k)));
    const strip = make("span", { className: "strip", attributes: { "aria-hidden": "true" } }, squares);
    return make("li", {}, [makeButton(model.variables[other], () => onChoose(other), "link"), strip]);
  });
  return make("ul", { className: "neighbours scroll" }, items);
}

function classSquare(model, name, edge, measured) {
  const square = make("i", { attributes: { title: edge < 0 ? `${name}: ${measured ? "no edge" : "not measured"}` : `${name}: ${formatSigned(model.partial[edge])}` } });
  if (edge < 0) return square;
  square.className = model.partial[edge] < 0 ? "negative" : "positive";
  square.style.opacity = 0.3 + 0.7 * Math.sqrt(Math.abs(model.partial[edge]) / model.strongest);
  return square;
}

/** The neighbours of a variable with their values in all classes. */
function neighbourTable(model, variable, onChoose) {
  const pairs = shownPairs(model, variable);
  const head = make("tr", {}, [make("th", { text: "Neighbour" }), ...model.classes.map((name) => make("th", { className: "number", text: name }))]);
  const rows = pairs.map((pair) => {
    const other = model.otherEnd(pair, variable);
    const cells = model.classes.map((_, k) => make("td", { className: "number" }, [valueCell(model, pair, k)]));
    return make("tr", {}, [make("td", {}, [makeButton(model.variables[other], () => onChoose(other), "link")]), ...cells]);
  });
  return make("div", { className: "scroll tall" }, [make("table", {}, [make("thead", {}, [head]), make("tbody", {}, rows)])]);
}

/** Plain facts: a heading with rows of {term, value, note}, paragraphs, charts or a table. */
function factCard({ id, title, rows, paragraphs, charts, table }) {
  const wide = (charts && charts.length) || (table && table.columns.length > 5); // tables are not cut off at the right
  const card = make("div", { className: wide ? "card spanning" : "card", attributes: id ? { id } : {} }, [make("h2", { text: title })]);
  card.append(...(paragraphs || []).map((text) => make("p", { text })));
  if (rows) card.append(factList(rows));
  card.append(...(charts || []).map(({ kind, ...data }) => CHARTS[kind](data)));
  if (table) card.append(plainTable(title, table));
  return card;
}

function factList(rows) {
  const list = make("dl");
  for (const { term, value, note } of rows) {
    const content = [make("span", { text: value })];
    if (note) content.push(make("small", { className: "quiet", text: note }));
    list.append(make("dt", { text: term }), make("dd", {}, content));
  }
  return list;
}

/** A table of words, one row of which may be the one chosen. */
function plainTable(caption, { columns, rows, best }) {
  const cells = (tag, row) => row.map((text) => make(tag, { text, className: /^[+−-]?[\d.,]+(e[+-]?\d+)?$/.test(text) ? "number" : "" }));
  const body = rows.map((row, position) => make("tr", position === best ? { className: "best" } : {}, cells("td", row)));
  const head = make("thead", {}, [make("tr", {}, cells("th", columns))]);
  const table = make("table", {}, [make("caption", { className: "hidden", text: caption }), head, make("tbody", {}, body)]);
  return make("div", { className: "scroll tall", attributes: { tabindex: "0", role: "region", "aria-label": caption } }, [table]);
}
