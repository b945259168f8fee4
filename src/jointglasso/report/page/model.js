// The embedded data as typed arrays, what passes the filters, and counts of it. Nothing here touches the page.

const KINDS = ["shared", "partly shared", "specific"];
const SHARED = 0, PARTLY_SHARED = 1, SPECIFIC = 2;

class Model {
  constructor(data) {
    this.classes = data.classes;
    this.variables = data.variables;
    this.texts = data.texts || [];
    this.groups = data.groups;
    this.plainX = Float64Array.from(data.layout.x);
    this.x = Float64Array.from(this.plainX);
    this.y = Float64Array.from(data.layout.y);
    this.spacing = data.layout.spacing;
    this.first = Uint32Array.from(data.pairs.first);
    this.second = Uint32Array.from(data.pairs.second);
    this.kindOfAll = Uint8Array.from(data.pairs.kind);
    // Kind, opposite signs and whether an edge is in all, among the classes that are shown: `apply` sets them.
    [this.kind, this.flips, this.inAll] = [0, 1, 2].map(() => new Uint8Array(this.first.length));
    this.lacking = data.absent && data.absent.map((variables) => new Set(variables));
    this.start = runningSum(data.pairs.count);
    this.edgeClass = Uint16Array.from(data.edges.class);
    this.precision = Float64Array.from(data.edges.precision);
    this.stability = data.edges.stability && Float64Array.from(data.edges.stability);
    this.certified = data.edges.certified && Uint8Array.from(data.edges.certified);
    this.same = data.same; // Which classes share a value, where the penalty compared values.
    this.pairOfEdge = this.#pairsOfEdges();
    this.partial = this.#partialCorrelations(data.diagonal);
    this.strongest = this.partial.reduce((most, value) => Math.max(most, Math.abs(value)), 1e-9);
    this.incident = incidence(this.variables.length, this.first, this.second);
    this.passes = new Uint8Array(this.nEdges).fill(1);
    this.everyEdge = new Uint8Array(this.nEdges).fill(1);
  }

  get nClasses() { return this.classes.length; }
  get nVariables() { return this.variables.length; }
  get nPairs() { return this.first.length; }
  get nEdges() { return this.edgeClass.length; }

  #pairsOfEdges() {
    const pairs = new Uint32Array(this.nEdges);
    for (let pair = 0; pair < this.nPairs; pair++) pairs.fill(pair, this.start[pair], this.start[pair + 1]);
    return pairs;
  }

  // In the order of operations that the package uses, so that the numbers agree to the last digit.
  #partialCorrelations(diagonal) {
    const scale = diagonal.map((row) => Float64Array.from(row, (value) => 1 / Math.sqrt(value)));
    return Float64Array.from(this.precision, (value, edge) => {
      const pair = this.pairOfEdge[edge], own = scale[this.edgeClass[edge]];
      return 0 - value * own[this.first[pair]] * own[this.second[pair]];
    });
  }

  /** Draw everything this much wider, so that it fills the panels. */
  stretch(factor) {
    this.plainX.forEach((x, variable) => { this.x[variable] = x * factor; });
  }

  /** Whether a pair is missing in one of the classes shown or changes its sign between them. */
  isDifferential(pair) {
    return !this.inAll[pair] || this.flips[pair] === 1;
  }

  /** Whether a class has a variable, and both variables of a pair. */
  has(variable, classIndex) {
    return !this.lacking || !this.lacking[classIndex].has(variable);
  }

  hasPair(pair, classIndex) {
    return this.has(this.first[pair], classIndex) && this.has(this.second[pair], classIndex);
  }

  /** Edge of a pair in a class, or -1. */
  edgeAt(pair, classIndex) {
    for (let edge = this.start[pair]; edge < this.start[pair + 1]; edge++) {
      if (this.edgeClass[edge] === classIndex) return edge;
    }
    return -1;
  }

  /** Whether a pair is drawn in some class. */
  pairPasses(pair) {
    for (let edge = this.start[pair]; edge < this.start[pair + 1]; edge++) if (this.passes[edge]) return true;
    return false;
  }

  /** The classes that share the value of an edge. */
  sameIn(edge) {
    const { cluster } = this.same, pair = this.pairOfEdge[edge], found = [];
    for (let other = this.start[pair]; other < this.start[pair + 1]; other++) {
      if (cluster[other] === cluster[edge]) found.push(this.classes[this.edgeClass[other]]);
    }
    return found;
  }

  /** Whether a pair has one value in all classes or changes, and whether that is certified. */
  sameWords(pair) {
    const words = this.same.changes[pair] ? "value changes" : "one value in all classes";
    return `${words}${this.same.changes_proved[pair] ? " (certified)" : " (not certified)"}`;
  }

  otherEnd(pair, variable) {
    return this.first[pair] === variable ? this.second[pair] : this.first[pair];
  }

  /** Partial correlation of a pair in a class, 0 where there is no edge. */
  valueAt(pair, classIndex) {
    const edge = this.edgeAt(pair, classIndex);
    return edge < 0 ? 0 : this.partial[edge];
  }

  /** Difference of the partial correlation between two classes, or its range over more of them, no edge counting as 0. */
  difference(pair, classIndices) {
    const values = classIndices.filter((k) => this.hasPair(pair, k)).map((k) => this.valueAt(pair, k));
    if (values.length === 2) return values[0] - values[1];
    return values.length > 1 ? Math.max(...values) - Math.min(...values) : 0;
  }

  /**
   * Mark the edges that pass `filter`.
   *
   * Strength is that of the strongest class shown: an edge a little weaker in one class than in another must not look
   * as if it were missing there.
   */
  apply(filter) {
    const shown = this.classes.map((_, k) => k).filter((k) => filter.classes[k]);
    for (let pair = 0; pair < this.nPairs; pair++) {
      const strongest = this.#look(pair, filter.classes, shown);
      const passes = filter.kinds[this.kind[pair]]
        && (filter.change !== "differential" || this.isDifferential(pair))
        && (filter.change !== "sign" || this.flips[pair])
        && (filter.change !== "stays" || !this.same.changes[pair])
        && (filter.change !== "changes" || this.same.changes[pair])
        && strongest >= filter.strength
        && (!filter.difference || Math.abs(this.difference(pair, shown)) >= filter.difference);
      for (let edge = this.start[pair]; edge < this.start[pair + 1]; edge++) {
        this.passes[edge] = passes && filter.classes[this.edgeClass[edge]]
          && (!this.stability || this.stability[edge] >= filter.stability) ? 1 : 0;
      }
    }
  }

  /** Find the kind of a pair among the classes shown; returns its largest size there. */
  #look(pair, classes, shown) {
    let count = 0, positive = 0, strongest = 0;
    for (let edge = this.start[pair]; edge < this.start[pair + 1]; edge++) {
      if (!classes[this.edgeClass[edge]]) continue;
      count++;
      positive += this.partial[edge] > 0;
      strongest = Math.max(strongest, Math.abs(this.partial[edge]));
    }
    this.inAll[pair] = count === (this.lacking ? shown.filter((k) => this.hasPair(pair, k)).length : shown.length) ? 1 : 0;
    this.kind[pair] = count === 1 && shown.length > 1 ? SPECIFIC : this.inAll[pair] ? SHARED : PARTLY_SHARED;
    this.flips[pair] = positive > 0 && positive < count ? 1 : 0;
    return strongest;
  }

  /** Number of pairs with an edge that is marked. */
  nPairsShown() {
    let count = 0;
    for (let pair = 0; pair < this.nPairs; pair++) count += this.pairPasses(pair);
    return count;
  }

  /** Number of edges of each class among those marked. */
  countByClass(marked = this.passes) {
    const counts = new Array(this.nClasses).fill(0);
    for (let edge = 0; edge < this.nEdges; edge++) counts[this.edgeClass[edge]] += marked[edge];
    return counts;
  }

  /** Edges of each variable, class by class, among those marked. */
  degrees(marked = this.passes) {
    const table = Array.from({ length: this.nClasses }, () => new Uint32Array(this.nVariables));
    for (let edge = 0; edge < this.nEdges; edge++) {
      if (!marked[edge]) continue;
      const row = table[this.edgeClass[edge]], pair = this.pairOfEdge[edge];
      row[this.first[pair]]++;
      row[this.second[pair]]++;
    }
    return table;
  }

  /** Compare every two of the listed classes by all of their edges, whatever the filters show. */
  comparisons(classIndices) {
    const signs = this.#signTable();
    const rows = [];
    classIndices.forEach((one, position) => {
      for (const two of classIndices.slice(position + 1)) rows.push(this.#compare(signs, one, two));
    });
    return rows;
  }

  #signTable() {
    const signs = Array.from({ length: this.nClasses }, () => new Int8Array(this.nPairs));
    for (let edge = 0; edge < this.nEdges; edge++) {
      signs[this.edgeClass[edge]][this.pairOfEdge[edge]] = Math.sign(this.partial[edge]);
    }
    return signs;
  }

  #compare(signs, one, two) {
    const row = { one, two, common: 0, onlyFirst: 0, onlySecond: 0, signFlips: 0 };
    for (let pair = 0; pair < this.nPairs; pair++) {
      if (this.lacking && !(this.hasPair(pair, one) && this.hasPair(pair, two))) continue;
      const a = signs[one][pair], b = signs[two][pair];
      if (a && b) row.common++;
      else if (a) row.onlyFirst++;
      else if (b) row.onlySecond++;
      if (a * b < 0) row.signFlips++;
    }
    if (this.same) row.same = this.#countSame(one, two);
    row.jaccard = row.common / (row.common + row.onlyFirst + row.onlySecond);
    return row;
  }

  /** Edges of two classes that have the same value. */
  #countSame(one, two) {
    let count = 0;
    for (let pair = 0; pair < this.nPairs; pair++) {
      const a = this.edgeAt(pair, one), b = this.edgeAt(pair, two);
      if (a >= 0 && b >= 0 && this.same.cluster[a] === this.same.cluster[b]) count++;
    }
    return count;
  }
}

function runningSum(counts) {
  const sums = new Uint32Array(counts.length + 1);
  counts.forEach((count, position) => { sums[position + 1] = sums[position] + count; });
  return sums;
}

/** Pairs of each variable. */
function incidence(nVariables, first, second) {
  const lists = Array.from({ length: nVariables }, () => []);
  for (let pair = 0; pair < first.length; pair++) {
    lists[first[pair]].push(pair);
    lists[second[pair]].push(pair);
  }
  return lists;
}

/** The size that `most` of the values reach, as many as a picture can hold; 0 where there are hardly more anyhow. */
function readableSize(values, most) {
  const sizes = values.map(Math.abs).filter((size) => size > 0).sort((a, b) => b - a);
  return sizes.length <= 1.25 * most ? 0 : sizes[most - 1];
}

/** Positions of the variables whose name or text contains `words`: beginnings first, then short names, then texts. */
function findVariables({ variables, texts }, words, limit) {
  const wanted = words.trim().toLowerCase();
  if (!wanted) return [];
  const found = [];
  variables.forEach((name, position) => {
    const at = name.toLowerCase().indexOf(wanted);
    if (at >= 0) found.push({ position, late: Number(at > 0), length: name.length });
    else if ((texts[position] || "").toLowerCase().includes(wanted)) found.push({ position, late: 2, length: name.length });
  });
  found.sort((a, b) => a.late - b.late || a.length - b.length || a.position - b.position);
  return found.slice(0, limit).map((match) => match.position);
}

/** Text of a CSV file (RFC 4180) from rows of cells; words that a spreadsheet would run get an apostrophe in front. */
function csvText(rows) {
  const quote = (cell) => {
    const harmless = typeof cell === "string" && /^'*[=+\-@\t\r\n]/.test(cell) ? `'${cell}` : cell;
    const text = harmless === null || harmless === undefined ? "" : String(harmless);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return rows.map((row) => row.map(quote).join(",")).join("\r\n") + "\r\n";
}
