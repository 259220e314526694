// The charts of a report: draws them with uPlot, zooms and smooths them, follows the pointer and the arrow keys. It asks
// the network for nothing.
(() => {
  "use strict";
  const { runs, xs, charts, relative, logarithmic } = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const HUES = 8;
  const HEIGHTS = { large: 320, training: 170, measures: 170, time: 230, machine: 170 };
  const PAPER_HEIGHTS = { large: 230, training: 120, measures: 120, time: 150, machine: 120 };
  const FEW = 60; // as many points are drawn as points
  const FONT = "12px system-ui, sans-serif";

  const state = { smoothing: 0, log: logarithmic, relative, from: null, to: null, hidden: new Set() };
  let plots = charts.map(() => null);

  const heightOf = ({ place }) => (root.dataset.paper === undefined ? HEIGHTS : PAPER_HEIGHTS)[place];
  const byId = (id) => document.getElementById(id);
  const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const hue = (index) => colour(`--hue${index % HUES}`);

  // Numbers, by the unit of a chart.

  const scaled = (value, base, units) => {
    let unit = 0;
    for (; Math.abs(value) >= base && unit < units.length - 1; unit++) value /= base;
    return `${Number(value.toPrecision(3))}${units[unit]}`;
  };
  const plain = (value) => {
    const size = Math.abs(value);
    if (size !== 0 && (size < 1e-3 || size >= 1e5)) {
      return String(Number(value.toPrecision(3)).toExponential()).replace("e+", "e");
    }
    return String(Number(value.toPrecision(4)));
  };
  const WRITE = {
    value: plain,
    rate: (value) => scaled(value, 1000, ["", "K", "M", "G"]),
    count: (value) => scaled(value, 1000, ["", "K", "M", "G"]),
    bytes: (value) => scaled(value, 1024, [" B", " KiB", " MiB", " GiB", " TiB"]),
    seconds: (value) => value < 1 ? `${Number((1000 * value).toPrecision(3))} ms` : `${plain(value)} s`,
    share: (value) => `${Number((100 * value).toPrecision(3))}%`,
    percent: (value) => `${Number(value.toPrecision(3))}%`,
  };
  const stepText = (x) => state.relative ? `${Number(x.toPrecision(3))}%` : `step ${Math.round(x)}`;

  /** Steps of an axis of steps. */
  const WHOLE = Array.from({ length: 12 }, (_, i) => 10 ** i)
    .flatMap((power) => [power, 2 * power, 5 * power]);
  /** Steps of an axis of bytes. */
  const POWERS = Array.from({ length: 50 }, (_, i) => 2 ** i);

  // Data of a chart, in uPlot's columns.

  const placeOf = (run, step) => state.relative ? 100 * step / Math.max(1, runs[run].steps) : step;

  /** Means that forget older points by and by; the first ones count in full. */
  function smoothed(values, weight) {
    let sum = 0, all = 0;
    return values.map((value) => {
      if (value == null) return value;
      sum = sum * weight + value;
      all = all * weight + 1;
      return sum / all;
    });
  }

  const positive = (values) => values.map((value) => value > 0 ? value : null);

  const canBeSmoothed = (line) => xs[line.x].length > FEW && !line.steady;
  const isSmoothed = (line) => canBeSmoothed(line) && state.smoothing > 0;

  function columnsOf(chart, log) {
    const lines = chart.lines.filter(({ run }) => !state.hidden.has(run));
    if (chart.stacked) return stackOf(lines);
    const columns = [], roles = [];
    for (const line of lines) {
      const x = xs[line.x].map((step) => placeOf(line.run, step)), noisy = isSmoothed(line);
      const parts = [];
      const add = (role, values) => {
        parts.push(log ? positive(values) : values);
        roles.push({ role, line, values });
      };
      if (line.hi) {
        add("hi", line.hi);
        add("lo", line.lo);
      } else if (noisy) add("raw", line.y);
      add("main", noisy ? smoothed(line.y, state.smoothing) : line.y);
      columns.push([x, ...parts]);
    }
    return { lines, roles, data: columns.length > 0 ? uPlot.join(columns) : [[]] };
  }

  /** The whole stands first, and each later area covers what lies below its part. */
  function stackOf(lines) {
    const [x, ...values] = uPlot.join(lines.map((line) => [xs[line.x], line.y]));
    const tops = [];
    values.forEach((column, i) =>
      tops.push(column.map((value, at) => (value ?? 0) + (tops[i - 1]?.[at] ?? 0)))
    );
    const order = lines.map((_, i) => i).reverse();
    const roles = order.map((i) => ({ role: "area", line: lines[i], values: values[i] }));
    return { lines, roles, data: [x, ...order.map((i) => tops[i])] };
  }

  // A chart.

  function build(chart, figure) {
    const host = figure.querySelector(".plot");
    host.textContent = "";
    host.style.minHeight = `${heightOf(chart)}px`;
    const log = chart.place === "large" ? state.log && Boolean(chart.log) : Boolean(chart.wide);
    const { lines, roles, data } = columnsOf(chart, log);
    const write = WRITE[chart.unit];
    legend(figure, chart, lines, write);
    if (data[0].length === 0) return null;
    const series = roles.map(({ role, line }) => seriesOf(role, line));
    const bands = roles.flatMap(({ role, line }, i) =>
      role === "hi" ? [{ series: [i + 1, i + 2], fill: hue(line.hue) + "2e" }] : []
    );
    const large = chart.place === "large";
    const axis = (more) => ({
      stroke: () => colour("--faint"),
      grid: { stroke: () => colour("--line"), width: 1 },
      ticks: { show: false },
      font: FONT,
      labelFont: FONT,
      labelSize: 18,
      ...more,
    });
    const plot = new uPlot(
      {
        width: Math.max(160, Math.floor(host.getBoundingClientRect().width)),
        height: heightOf(chart),
        padding: [10, 16, 0, 0],
        legend: { show: false },
        cursor: {
          // The line stands where the values are that the legend shows.
          move: (plot, left, top) =>
            left < 0 ? [left, top] : [plot.valToPos(plot.data[0][plot.posToIdx(left)], "x"), top],
          drag: { x: true, y: false },
          points: {
            show: (_plot, i) => roles[i - 1]?.role === "main" ? undefined : null,
            size: 7,
          },
          sync: { key: "steps", filters: { pub: (type) => type === "mousemove" || type === "mouseleave" } },
        },
        scales: {
          x: { time: false, range: (_plot, low, high) => low === high ? [low - 1, high + 1] : [low, high] },
          y: { distr: log ? 3 : 1, range: log ? undefined : (_plot, low, high) => rangeOf(chart, low, high) },
        },
        axes: [
          axis({
            space: large ? 64 : 44,
            size: 26,
            label: state.relative ? "share of the run" : "step",
            incrs: WHOLE,
            values: (_plot, splits) =>
              splits.map((x) =>
                state.relative ? `${x}%` : x < 10_000 ? String(x) : scaled(x, 1000, ["", "K", "M"])
              ),
          }),
          axis({
            size: (_plot, values) => Math.max(large ? 58 : 44, 14 + longest(values ?? [])),
            ...(large ? { label: chart.axis } : {}),
            space: large ? 34 : 28,
            ...(chart.unit === "bytes" ? { incrs: POWERS } : {}),
            values: (_plot, splits) => splits.map((value) => value == null ? "" : write(value)),
            ...(log
              ? { filter: decades, grid: { stroke: () => colour("--line"), width: 1, filter: decades } }
              : {}),
          }),
          ...(large && epochsOf() !== null ? [epochAxis(axis, epochsOf())] : []),
        ],
        series: [{}, ...series],
        bands,
        hooks: {
          setScale: [(plot, key) => key === "x" && zoomed(plot)],
          setCursor: [(plot) => follow(plot, figure, chart, roles, lines, write)],
          draw: [(plot) => annotate(plot, chart, lines, write)],
        },
      },
      data,
      host,
    );
    plot.setScale("x", state.from === null ? wholeOf(chart) : { min: state.from, max: state.to });
    return plot;
  }

  /** Charts beside each other have the same steps, wherever their own curves begin. */
  function wholeOf({ place }) {
    const lines = charts.filter((chart) => chart.place === place).flatMap((chart) => chart.lines);
    const shown = lines.filter(({ run, x }) => !state.hidden.has(run) && xs[x].length > 0);
    const min = Math.min(...shown.map(({ run, x }) => placeOf(run, xs[x][0])));
    const max = Math.max(...shown.map(({ run, x }) => placeOf(run, xs[x].at(-1))));
    return min === max ? { min: min - 1, max: max + 1 } : { min, max };
  }

  /** CSS pixels of the longest text. */
  const ruler = document.createElement("canvas").getContext("2d");
  function longest(texts) {
    ruler.font = FONT;
    return texts.reduce((most, text) => Math.max(most, Math.ceil(ruler.measureText(text ?? "").width)), 0);
  }

  /** A logarithmic axis over many decades has lines and numbers at these alone. */
  function decades(plot, splits) {
    const { min, max } = plot.scales.y,
      many = Math.log10(max / min),
      every = Math.max(1, Math.ceil(many / 8));
    if (many < 2) return splits;
    return splits.map((value) => {
      const power = Math.log10(value);
      return Math.abs(power - Math.round(power)) < 1e-6 && Math.round(power) % every === 0 ? value : null;
    });
  }

  /** Epochs have an axis of their own where all runs count them alike. */
  function epochsOf() {
    const each = new Set(runs.map(({ stepsPerEpoch }) => stepsPerEpoch));
    const [steps] = each;
    const reached = runs.some((run) => run.steps >= steps);
    return each.size === 1 && steps > 1 && reached && !state.relative ? steps : null;
  }

  const epochAxis = (axis, steps) =>
    axis({
      side: 0,
      scale: "x",
      size: 24,
      grid: { show: false },
      splits: (plot) => {
        const { min, max } = plot.scales.x, most = Math.max(2, plot.width / 60);
        const every = WHOLE.find((one) => (max - min) / steps / one <= most);
        const first = Math.max(1, Math.ceil(min / steps / every));
        const count = Math.max(0, Math.floor(max / steps / every + 1e-9) - first + 1);
        return Array.from({ length: count }, (_, i) => (first + i) * every * steps);
      },
      values: (_plot, splits) =>
        splits.map((step, i) => `${i === 0 ? "epoch " : ""}${Math.round(step / steps)}`),
    });

  function seriesOf(role, line) {
    const of = hue(line.hue);
    const few = xs[line.x].length <= FEW;
    const dash = line.hue >= HUES ? [6, 4] : undefined;
    const base = { spanGaps: true, points: { show: false } };
    if (role === "area") return { ...base, stroke: of, width: 1, fill: of };
    if (role === "main") {
      return { ...base, stroke: of, width: 2, dash, points: { show: few, size: 6, fill: of } };
    }
    if (role === "raw") return { ...base, stroke: of + "55", width: 1 };
    return { ...base, stroke: "transparent", width: 0 };
  }

  /** A baseline that is far away would press the curves flat: the legend names it then. */
  function isNear({ lines }, y) {
    const all = lines.flatMap((line) => line.y.filter((value) => value != null));
    const low = all.reduce((a, b) => Math.min(a, b), Infinity),
      high = all.reduce((a, b) => Math.max(a, b), -Infinity);
    const span = high - low || Math.abs(high) || 1;
    return y > low - 1.2 * span && y < high + 1.2 * span;
  }

  function rangeOf(chart, low, high) {
    if (low == null || high == null) return [0, 1];
    if (chart.zero) low = Math.min(0, low);
    for (const { y } of chart.rules ?? []) {
      if (isNear(chart, y)) [low, high] = [Math.min(low, y), Math.max(high, y)];
    }
    const some = high - low > 1e-6 * Math.abs(high); // less is what adding up has made of a constant
    const room = some ? (high - low) * 0.06 : Math.abs(high) * 0.1 || 1;
    return [(chart.zero || chart.unit === "share") && low === 0 ? 0 : low - room, high + room];
  }

  // Baselines, the best point and steps without a number are drawn over the curves.

  function annotate(plot, chart, lines, write) {
    const { ctx, bbox } = plot, dpr = devicePixelRatio || 1;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.font = `${12 * dpr}px system-ui, sans-serif`;
    ctx.lineWidth = 1.5 * dpr;
    for (const { y, label } of chart.rules ?? []) {
      const at = plot.valToPos(y, "y", true);
      if (!(at >= bbox.top && at <= bbox.top + bbox.height)) continue;
      ctx.strokeStyle = ctx.fillStyle = colour("--ink");
      ctx.setLineDash([5 * dpr, 4 * dpr]);
      ctx.beginPath();
      ctx.moveTo(bbox.left, at);
      ctx.lineTo(bbox.left + bbox.width, at);
      ctx.stroke();
      ctx.setLineDash([]);
      const above = at - bbox.top > 22 * dpr;
      // The label stands where curves are farther away.
      const ends = [0, -1].map((end) =>
        Math.min(...lines.map((line) => Math.abs((line.y.at(end) ?? Infinity) - y)))
      );
      const left = ends[0] > ends[1];
      ctx.textAlign = left ? "left" : "right";
      const side = bbox.left + (left ? 6 * dpr : bbox.width - 6 * dpr);
      written(ctx, `${label}: ${write(y)}`, side, at + (above ? -6 : 16) * dpr);
    }
    for (const { wrong = [], run } of lines) {
      ctx.fillStyle = colour("--bad");
      const high = wrong.length > 3 ? 12 * dpr : bbox.height;
      for (const step of wrong) {
        const x = plot.valToPos(placeOf(run, step), "x", true);
        ctx.fillRect(x - dpr, bbox.top + bbox.height - high, 2 * dpr, high);
        if (wrong.length > 3 || chart.place !== "large") continue;
        const right = x - bbox.left > bbox.width / 2;
        ctx.textAlign = right ? "right" : "left";
        written(ctx, `not finite at step ${step}`, x + (right ? -6 : 6) * dpr, bbox.top + 16 * dpr);
      }
    }
    ctx.restore();
    ctx.save();
    ctx.font = `${12 * dpr}px system-ui, sans-serif`;
    const least = Math.min(...(chart.best ?? []).map(({ y }) => y));
    const leading = runs.length === 1 ? 0 : chart.best?.find(({ y }) => y === least)?.run;
    for (const { run, x, y } of chart.best ?? []) {
      if (state.hidden.has(run)) continue;
      const left = plot.valToPos(placeOf(run, x), "x", true), top = plot.valToPos(y, "y", true);
      const text = run === leading ? `best ${write(y)}` : "";
      const wide = ctx.measureText(text).width;
      const free = CORNERS.find((corner) => isFree(plot, lines, { left, top, wide }, corner));
      bestPoint(ctx, left, top, { text, large: chart.place === "large", corner: free ?? CORNERS[0] });
    }
    ctx.restore();
  }

  /** Where a text may stand beside its point: to the right or the left, above or below. */
  const CORNERS = [[1, -1], [-1, -1], [1, 1], [-1, 1]];

  /** The text lies within the chart, and no curve runs through it. */
  function isFree(plot, lines, { left, top, wide }, [side, height]) {
    const dpr = devicePixelRatio || 1, { bbox } = plot;
    const from = side > 0 ? left - 2 * dpr : left + 2 * dpr - wide, to = from + wide;
    const near = top + height * 5 * dpr, far = top + height * 32 * dpr;
    const [high, low] = [Math.min(near, far), Math.max(near, far)];
    if (from < bbox.left || to > bbox.left + bbox.width || high < bbox.top || low > bbox.top + bbox.height) {
      return false;
    }
    return lines.every((line) => {
      let before = null;
      for (const [i, step] of xs[line.x].entries()) {
        if (line.y[i] == null) continue;
        const x = plot.valToPos(placeOf(line.run, step), "x", true), y = plot.valToPos(line.y[i], "y", true);
        const point = { x, y };
        if (crosses(before ?? point, point, from, to, high, low)) return false;
        before = point;
        if (x > to) break;
      }
      return true;
    });
  }

  /** A straight line between two points comes into this rectangle. */
  function crosses(a, b, from, to, high, low) {
    if (b.x < from || a.x > to) return false;
    const at = (x) => b.x === a.x ? b.y : a.y + (b.y - a.y) * (x - a.x) / (b.x - a.x);
    const first = at(Math.max(a.x, from)), last = at(Math.min(b.x, to));
    return Math.min(first, last, b.x === a.x ? a.y : first) <= low &&
      Math.max(first, last, b.x === a.x ? a.y : first) >= high;
  }

  function bestPoint(ctx, x, y, { text, large, corner: [side, height] }) {
    const dpr = devicePixelRatio || 1;
    ctx.strokeStyle = ctx.fillStyle = colour("--ink");
    ctx.lineWidth = 2 * dpr;
    ctx.beginPath();
    ctx.arc(x, y, (large ? 6 : 4.5) * dpr, 0, 2 * Math.PI);
    ctx.stroke();
    if (!large || text === "") return;
    ctx.textAlign = side > 0 ? "left" : "right";
    written(ctx, text, x - side * 2 * dpr, y + (height > 0 ? 24 : -13) * dpr);
  }

  /** Text with a halo, so that it is read over curves. */
  function written(ctx, text, x, y) {
    const dpr = devicePixelRatio || 1, fill = ctx.fillStyle;
    ctx.save();
    ctx.lineJoin = "round";
    ctx.lineWidth = 4 * dpr;
    ctx.strokeStyle = colour("--card");
    ctx.strokeText(text, x, y);
    ctx.fillStyle = fill;
    ctx.fillText(text, x, y);
    ctx.restore();
  }

  // The legend, and the values under the pointer.

  function element(name, className, text = "") {
    const made = document.createElement(name);
    made.className = className;
    made.textContent = text;
    return made;
  }

  function legend(figure, chart, lines, write) {
    const list = figure.querySelector(".legend");
    list.textContent = "";
    // A single line has the chart's own title for a name, and every run is named above.
    for (const { label, hue, y, wrongs } of chart.stacked ? lines.toReversed() : lines) {
      const key = element("span", "key");
      const value = element("span", "value", write(y.findLast((one) => one != null) ?? NaN));
      const name = element("span", "", lines.length === 1 && runs.length === 1 ? "" : label);
      key.append(element("i", `swatch h${hue % HUES}`), name, value);
      if (wrongs) key.append(element("em", "", `${wrongs} not finite`));
      list.append(key);
    }
    for (const { y, label } of (chart.rules ?? []).filter((rule) => !isNear(chart, rule.y))) {
      const key = element("span", "key");
      key.append(element("i", "swatch dashed"), element("span", "", label), element("span", "", write(y)));
      list.append(key);
    }
  }

  /** The values under the cursor, or the last ones. */
  function follow(plot, figure, chart, roles, lines, write) {
    const { idx } = plot.cursor;
    const values = figure.querySelectorAll(".legend .value");
    const x = idx == null ? null : plot.data[0][idx];
    figure.querySelector(".at").textContent = x === null ? "" : stepText(x);
    const said = (chart.stacked ? lines.toReversed() : lines).map((line, i) => {
      const role = roles.findIndex((one) =>
        (one.role === "main" || one.role === "area") && one.line === line
      );
      const column = roles[role].role === "area" ? roles[role].values : plot.data[1 + role];
      let at = idx ?? column.length - 1;
      while (at >= 0 && column[at] == null) at--;
      values[i].textContent = at < 0 ? "" : write(column[at]);
      return `${line.label} ${values[i].textContent}`;
    });
    const slider = figure.querySelector(".plot");
    slider.setAttribute("aria-valuenow", String(idx ?? plot.data[0].length - 1));
    slider.setAttribute("aria-valuemax", String(plot.data[0].length - 1));
    slider.setAttribute("aria-valuetext", `${x === null ? "the end" : stepText(x)}: ${said.join(", ")}`);
  }

  /** A chart is a slider over its steps: the arrow keys move through the values, and a screen reader says them. */
  function byKeys(event, i) {
    const plot = plots[i];
    if (plot === null) return;
    const [first, end] = plot.series[0].idxs ?? [0, plot.data[0].length - 1];
    const now = plot.cursor.idx ?? end, leap = Math.max(1, Math.round((end - first) / 10));
    const to = {
      ArrowLeft: now - 1,
      ArrowDown: now - 1,
      ArrowRight: now + 1,
      ArrowUp: now + 1,
      PageDown: now - leap,
      PageUp: now + leap,
      Home: first,
      End: end,
    }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const at = Math.min(end, Math.max(first, to));
    plot.setCursor({ left: plot.valToPos(plot.data[0][at], "x"), top: plot.over.clientHeight / 2 });
  }

  // All charts together.

  const isWhole = (whole) => byId("whole")?.toggleAttribute("disabled", whole);

  let zooming = false;
  function zoomed(plot) {
    if (zooming) return;
    const { min, max } = plot.scales.x;
    const whole = min <= plot.data[0][0] && max >= plot.data[0].at(-1);
    state.from = whole ? null : min;
    state.to = whole ? null : max;
    zooming = true;
    plots.forEach((other, i) => {
      if (other === null || (other === plot && !whole)) return;
      other.setScale("x", whole ? wholeOf(charts[i]) : { min, max });
    });
    zooming = false;
    isWhole(whole);
  }

  const figures = charts.map((chart, i) => {
    const figure = element("figure", "chart");
    const caption = document.createElement("figcaption");
    const heading = element("h3", "", chart.title);
    caption.append(
      heading,
      element("span", "note", chart.note),
      element("span", "at"),
      element("span", "legend"),
    );
    const plot = element("div", "plot");
    plot.tabIndex = 0;
    for (
      const [name, value] of [["role", "slider"], ["aria-label", `${chart.title} by step`], [
        "aria-valuemin",
        "0",
      ]]
    ) {
      plot.setAttribute(name, value);
    }
    plot.setAttribute("aria-valuemax", "0");
    plot.setAttribute("aria-valuenow", "0");
    plot.addEventListener("keydown", (event) => byKeys(event, i));
    figure.append(caption, plot);
    byId(`charts-${chart.place}`).append(figure);
    return figure;
  });

  /** Charts of a part that is folded are drawn when it is opened. */
  const isFolded = (figure) => figure.closest("details:not([open])") !== null;

  function buildAll() {
    for (const plot of plots) plot?.destroy();
    zooming = true; // charts that are being made ask nothing of the others
    plots = charts.map((chart, i) => isFolded(figures[i]) ? null : build(chart, figures[i]));
    zooming = false;
    tellSmoothing();
  }

  const lastX = () => state.relative ? 100 : runs.reduce((most, { steps }) => Math.max(most, steps), 0);

  function zoomTo(share) {
    state.from = share === 1 ? null : lastX() * (1 - share);
    state.to = share === 1 ? null : lastX();
    isWhole(share === 1);
    buildAll();
  }

  function tellSmoothing() {
    const told = byId("smoothed");
    if (!told) return;
    const possible = charts.some(({ lines }) => lines.some(canBeSmoothed));
    const points = Math.round(1 / (1 - state.smoothing));
    smoothing.disabled = !possible;
    told.textContent = !possible
      ? `not with ${FEW} points or fewer: each is as it was logged`
      : state.smoothing > 0
      ? `means of about ${points} points; what was logged is pale`
      : "none: every point is as it was logged";
  }

  // The controls, which are there where there are curves.

  const on = (id, event, then) => byId(id)?.addEventListener(event, then);
  const smoothing = byId("smoothing");
  const apply = () => {
    // Equal ways of the slider are equal factors of the points that count.
    const value = smoothing?.value ?? "0";
    state.smoothing = value === "0" ? 0 : 1 - 1 / Math.pow(200, Number(value) / 100);
  };
  let due = 0;
  on("smoothing", "input", () => {
    apply();
    cancelAnimationFrame(due);
    due = requestAnimationFrame(buildAll);
  });
  on("log", "change", ({ target }) => {
    state.log = target.checked;
    buildAll();
  });
  on("relative", "change", ({ target }) => {
    state.relative = target.checked;
    zoomTo(1);
  });
  on("whole", "click", () => zoomTo(1));
  on("late", "click", () => zoomTo(0.25));
  for (const box of document.querySelectorAll("input[data-run]")) {
    box.addEventListener("change", () => {
      const run = Number(box.dataset.run);
      if (box.checked) state.hidden.delete(run);
      else state.hidden.add(run);
      buildAll();
    });
  }
  for (const part of document.querySelectorAll("details.part")) part.addEventListener("toggle", buildAll);
  root.addEventListener("theme", buildAll);

  // Widths follow the window.

  const sizes = new ResizeObserver((entries) => {
    for (const { target, contentRect } of entries) {
      const i = figures.findIndex((figure) => figure.contains(target)), plot = plots[i];
      const width = Math.floor(contentRect.width);
      if (plot && width > 0 && width !== plot.width) plot.setSize({ width, height: heightOf(charts[i]) });
    }
  });

  apply();
  buildAll();
  for (const figure of figures) sizes.observe(figure.querySelector(".plot"));
  root.dataset.runs = String(runs.length);
  root.dataset.ready = String(Math.round(performance.now()));
})();
