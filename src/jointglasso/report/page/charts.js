// Charts of tests, drawn once as SVG: intervals by class, differences against their p-values, and matrices of q-values.

const CHART = { names: 250, width: 860, right: 20, bottom: 40, top: 8 };

/** An SVG element; colours are custom properties, so that they follow the theme. */
function draw(tag, attributes = {}, children = [], style = {}) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  Object.assign(element.style, style);
  element.append(...children);
  return element;
}

function drawText(text, x, y, anchor = "middle", size = 12) {
  return draw("text", { x, y, "text-anchor": anchor, "dominant-baseline": "middle", "font-size": size }, [text], { fill: "var(--text)" });
}

function chartFrame(label, width, height, children) {
  const picture = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, children, { width: "100%" });
  const frame = make("div", { className: "chart" }, [picture]);
  Object.assign(frame.style, { display: width < CHART.width ? "inline-block" : "block", width: `min(100%, ${width}px)` }); // narrow charts stand side by side
  return frame;
}

/** A horizontal axis with round numbers. */
function drawAxis(scale, [low, high], y, x0, x1) {
  const step = [0.05, 0.1, 0.2, 0.5].find((size) => (high - low) / size <= 8) || 0.5;
  const parts = [draw("line", { x1: x0, x2: x1, y1: y, y2: y }, [], { stroke: "var(--quiet)" })];
  for (let n = Math.ceil(low / step); n * step <= high; n += 1) {
    const x = scale(n * step);
    parts.push(draw("line", { x1: x, x2: x, y1: y, y2: y + 4 }, [], { stroke: "var(--quiet)" }), drawText(String(+(n * step).toFixed(2)).replace("-", "−"), x, y + 14, "middle", 11));
  }
  return parts;
}

const classColour = (k) => `var(--class-${k % 8})`;

/** Forest plot: {classes, words, pairs: [{name, values: [[estimate, low, high, found], ...] by class}]}. */
function forestChart({ classes, words, pairs }) {
  const { names, width, right, bottom, top } = CHART, row = 12 * classes.length + 6;
  const legend = 22, height = top + legend + pairs.length * row + bottom;
  const all = pairs.flatMap((pair) => pair.values.flat().filter((value) => typeof value === "number"));
  const range = [Math.min(0, ...all) - 0.03, Math.max(0, ...all) + 0.03];
  const scale = (value) => names + ((value - range[0]) / (range[1] - range[0])) * (width - names - right);
  const base = top + legend + pairs.length * row;
  const parts = [draw("line", { x1: scale(0), x2: scale(0), y1: top + legend, y2: base }, [], { stroke: "var(--pale)" }), ...drawAxis(scale, range, base, names, width - right)];
  classes.forEach((name, k) => parts.push(
    draw("circle", { cx: names + k * 130, cy: top + 6, r: 4.5 }, [], { fill: classColour(k) }), drawText(name, names + 10 + k * 130, top + 7, "start")));
  pairs.forEach((pair, n) => {
    const middle = top + legend + (n + 0.5) * row;
    parts.push(drawText(pair.name, names - 10, middle, "end"));
    pair.values.forEach(([estimate, low, high, found], k) => {
      const y = middle + (classes.length > 1 ? ((k / (classes.length - 1)) - 0.5) * (row - 12) : 0);
      parts.push(
        draw("line", { x1: scale(low), x2: scale(high), y1: y, y2: y, "stroke-width": 1.6 }, [], { stroke: classColour(k) }),
        draw("circle", { cx: scale(estimate), cy: y, r: 3.6, "stroke-width": 1.4 }, [draw("title", {}, [`${pair.name}, ${classes[k]}: ${estimate} (${low} to ${high})`])],
          { stroke: classColour(k), fill: found ? classColour(k) : "var(--panel)" }));
    });
  });
  parts.push(drawText(words, (names + width) / 2, height - 8, "middle", 11));
  return chartFrame("Estimates with intervals, by class", width, height, parts);
}

/** Volcano plot: {label, points: [[difference, -log10 p, name or null], ...]}, named ones being discoveries. */
function volcanoChart({ label, points }) {
  const width = 560, height = 320, left = 46, { right, bottom, top } = CHART;
  const widest = Math.max(0.05, ...points.map(([x]) => Math.abs(x))) * 1.1, tallest = Math.max(1, ...points.map(([, y]) => y)) * 1.06;
  const x = (value) => left + ((value + widest) / (2 * widest)) * (width - left - right);
  const y = (value) => height - bottom - (value / tallest) * (height - bottom - top);
  const parts = [draw("line", { x1: x(0), x2: x(0), y1: top, y2: height - bottom }, [], { stroke: "var(--pale)" }), ...drawAxis(x, [-widest, widest], height - bottom, left, width - right)];
  const step = Math.ceil(tallest / 6);
  for (let n = 0; n <= tallest; n += step) parts.push(drawText(String(n), left - 8, y(n), "end", 11));
  for (const [difference, strength, name] of points) {
    const title = name === null ? [] : [draw("title", {}, [name])];
    parts.push(draw("circle", { cx: x(difference).toFixed(1), cy: y(strength).toFixed(1), r: name === null ? 2 : 4 }, title,
      { fill: name === null ? "var(--pale)" : "var(--negative)" }));
  }
  parts.push(drawText(`difference, ${label}; upwards: −log10 p`, (left + width) / 2, height - 8, "middle", 11));
  return chartFrame(`Differences against p-values, ${label}`, width, height, parts);
}

/** Matrix of q-values: {label, names, cells: [[row, column, q, positive], ...]}; darker cells have smaller q, pale ones are not significant. */
function heatChart({ label, names, cells, quantity = null }) {
  const caption = quantity ? `${label}: ${quantity}, the darker the larger` : `${label}: significant edges, the darker the smaller q`;
  const cell = Math.max(14, Math.min(26, 240 / names.length)), margin = Math.min(150, 20 + 6.5 * Math.max(...names.map((name) => name.length)));
  const size = margin + cell * names.length, height = size + 34;
  const parts = names.flatMap((name, i) => [
    drawText(name, margin - 6, margin + (i + 0.5) * cell, "end", 10),
    draw("text", { transform: `translate(${margin + (i + 0.5) * cell} ${margin - 6}) rotate(-90)`, "dominant-baseline": "middle", "font-size": 10 }, [name], { fill: "var(--text)" })]);
  const largest = Math.max(...cells.map(([, , value]) => Math.abs(value)));
  for (const [i, j, value, positive] of cells) {
    const title = () => draw("title", {}, [`${names[i]} – ${names[j]}: ${quantity ?? "q"} = ${value}`]);
    const shade = quantity ? Math.abs(value) / largest : Math.min(1, -Math.log10(Math.max(value, 1e-9)) / 4);
    const style = { fill: positive ? "var(--positive)" : "var(--negative)", opacity: String(0.25 + 0.75 * shade) };
    for (const [row, column] of [[i, j], [j, i]]) {
      parts.push(draw("rect", { x: margin + column * cell, y: margin + row * cell, width: cell - 1, height: cell - 1 }, [title()], style));
    }
  }
  parts.push(draw("rect", { x: margin, y: margin, width: cell * names.length, height: cell * names.length }, [], { fill: "none", stroke: "var(--pale)" }));
  parts.push(drawText(caption, 0, height - 12, "start", 11));
  return chartFrame(`Matrix of ${quantity ?? "q-values"}, ${label}`, Math.max(size, 6 * caption.length) + 10, height, parts);
}

const CHARTS = { forest: forestChart, volcano: volcanoChart, heat: heatChart };
