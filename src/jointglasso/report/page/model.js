// The embedded data as typed arrays, what passes the filters, and counts of it. Nothing here touches the page.

const KINDS = ["shared", "partly shared", "specific"];
const SHARED = 0, PARTLY_SHARED = 1, SPECIFIC = 2;

class Model {
  constructor(data) {
    this.classes = data.classes;
    this.variables = data.variables;
    this.x = Float64Array.from(data.layout.x);
    this.y = Float64Array.from(data.layout.y);
    this.spacing = data.layout.spacing;
    this.first = Uint32Array.from(data.pairs.first);
    this.second = Uint32Array.from(data.pairs.second);
    this.kind = Uint8Array.from(data.pairs.kind);
    this.flips = Uint8Array.from(data.pairs.sign_differs);
    this.start = runningSum(data.pairs.count);
    this.edgeClass = Uint16Array.from(data.edges.class);
    this.precision = Float64Array.from(data.edges.precision);
    this.stability = data.edges.stability && Float64Array.from(data.edges.stability);
    this.certified = data.edges.certified && Uint8Array.from(data.edges.certified);
    this.pairOfEdge = this.#pairsOfEdges();
    this.partial = this.#partialCorrelations(data.diagonal);
    this.strongest = this.partial.reduce((most, value) => Math.max(most, Math.abs(value)), 1e-9);
    this.incident = incidence(this.variables.length, this.first, this.second);
    this.passes = new Uint8Array(this.nEdges).fill(1);
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

  isDifferential(pair) {
    return this.kind[pair] !== SHARED || this.flips[pair] === 1;
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

  otherEnd(pair, variable) {
    return this.first[pair] === variable ? this.second[pair] : this.first[pair];
  }

  /** Largest difference of the partial correlation between two classes, absent counting as 0. */
  spread(pair) {
    const absent = this.start[pair + 1] - this.start[pair] < this.nClasses;
    let low = absent ? 0 : Infinity, high = absent ? 0 : -Infinity;
    for (let edge = this.start[pair]; edge < this.start[pair + 1]; edge++) {
      low = Math.min(low, this.partial[edge]);
      high = Math.max(high, this.partial[edge]);
    }
    return high - low;
  }

  /** Mark the edges that pass `filter`. */
  apply(filter) {
    for (let edge = 0; edge < this.nEdges; edge++) {
      const pair = this.pairOfEdge[edge];
      this.passes[edge] = filter.classes[this.edgeClass[edge]]
        && filter.kinds[this.kind[pair]]
        && (filter.change !== "differential" || this.isDifferential(pair))
        && (filter.change !== "sign" || this.flips[pair])
        && Math.abs(this.partial[edge]) >= filter.strength
        && (!this.stability || this.stability[edge] >= filter.stability) ? 1 : 0;
    }
  }

  /** Number of marked edges of each class. */
  shownByClass() {
    const counts = new Array(this.nClasses).fill(0);
    for (let edge = 0; edge < this.nEdges; edge++) counts[this.edgeClass[edge]] += this.passes[edge];
    return counts;
  }

  /** Marked edges of each variable, class by class. */
  degrees() {
    const table = Array.from({ length: this.nClasses }, () => new Uint32Array(this.nVariables));
    for (let edge = 0; edge < this.nEdges; edge++) {
      if (!this.passes[edge]) continue;
      const row = table[this.edgeClass[edge]], pair = this.pairOfEdge[edge];
      row[this.first[pair]]++;
      row[this.second[pair]]++;
    }
    return table;
  }

  /** Compare every two of the listed classes by their marked edges. */
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
      if (this.passes[edge]) signs[this.edgeClass[edge]][this.pairOfEdge[edge]] = Math.sign(this.partial[edge]);
    }
    return signs;
  }

  #compare(signs, one, two) {
    const row = { one, two, common: 0, onlyFirst: 0, onlySecond: 0, signFlips: 0 };
    for (let pair = 0; pair < this.nPairs; pair++) {
      const a = signs[one][pair], b = signs[two][pair];
      if (a && b) row.common++;
      else if (a) row.onlyFirst++;
      else if (b) row.onlySecond++;
      if (a * b < 0) row.signFlips++;
    }
    row.jaccard = row.common / (row.common + row.onlyFirst + row.onlySecond);
    return row;
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

/** Positions of the variables whose name contains `words`: beginnings first, then short names. */
function findVariables(names, words, limit) {
  const wanted = words.trim().toLowerCase();
  if (!wanted) return [];
  const found = [];
  names.forEach((name, position) => {
    const at = name.toLowerCase().indexOf(wanted);
    if (at >= 0) found.push({ position, late: at > 0, length: name.length });
  });
  found.sort((a, b) => a.late - b.late || a.length - b.length || a.position - b.position);
  return found.slice(0, limit).map((match) => match.position);
}

/** Text of a CSV file (RFC 4180) from rows of cells. */
function csvText(rows) {
  const quote = (cell) => {
    const text = cell === null || cell === undefined ? "" : String(cell);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return rows.map((row) => row.map(quote).join(",")).join("\r\n") + "\r\n";
}
