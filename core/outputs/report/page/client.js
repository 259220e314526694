// The part of a report that runs in a browser: draws the charts, zooms and smooths them, sorts tables. Uses uPlot; asks the
// network for nothing.
(() => {
  "use strict";
  const { runs, xs, charts } = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const HUES = 8;
  const HEIGHT = 200;
  const FEW = 60; // as many points are drawn as points

  const state = { smoothing: 0, log: false, from: null, to: null, hidden: new Set() };
  const last = xs.reduce((most, steps) => Math.max(most, steps.at(-1) ?? 0), 0);
  let plots = [];

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
    if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(2).replace("e+", "e");
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

  /** Steps of an axis of steps. */
  const WHOLE = Array.from({ length: 12 }, (_, i) => 10 ** i).flatMap((
    power,
  ) => [power, 2 * power, 5 * power]);
  /** Steps of an axis of bytes. */
  const POWERS = Array.from({ length: 50 }, (_, i) => 2 ** i);

  // Data of a chart, in uPlot's columns.

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

  function columnsOf(chart, log) {
    const lines = chart.lines.filter(({ run }) => !state.hidden.has(run));
    const columns = [], roles = [];
    for (const line of lines) {
      const x = xs[line.x], noisy = x.length > FEW && state.smoothing > 0 && !line.steady;
      const parts = [];
      const add = (role, values) => {
        parts.push(log ? positive(values) : values);
        roles.push({ role, line });
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

  // A chart.

  function build(chart, figure) {
    const host = figure.querySelector(".plot");
    host.textContent = "";
    const log = state.log && Boolean(chart.log);
    const { lines, roles, data } = columnsOf(chart, log);
    const write = WRITE[chart.unit];
    legend(figure, lines, write);
    if (data[0].length === 0) return null;
    const series = roles.map(({ role, line }) => seriesOf(role, line));
    const bands = roles.flatMap(({ role, line }, i) =>
      role === "hi" ? [{ series: [i + 1, i + 2], fill: hue(line.hue) + "2e" }] : []
    );
    const axis = (more) => ({
      stroke: () => colour("--faint"),
      grid: { stroke: () => colour("--line"), width: 1 },
      ticks: { show: false },
      font: "12px system-ui, sans-serif",
      ...more,
    });
    const plot = new uPlot(
      {
        width: Math.max(200, host.clientWidth),
        height: HEIGHT,
        padding: [8, 22, 0, 0],
        legend: { show: false },
        cursor: {
          drag: { x: true, y: false },
          points: { show: (_plot, i) => roles[i - 1]?.role === "main" ? undefined : null, size: 6 },
          sync: { key: "steps", filters: { pub: (type) => type === "mousemove" || type === "mouseleave" } },
        },
        scales: {
          x: { time: false },
          y: { distr: log ? 3 : 1, range: log ? undefined : (_plot, low, high) => rangeOf(chart, low, high) },
        },
        axes: [
          axis({
            space: 70,
            size: 28,
            incrs: WHOLE,
            values: (_plot, splits) =>
              splits.map((step) => step < 10_000 ? String(step) : scaled(step, 1000, ["", "K", "M"])),
          }),
          axis({
            size: 66,
            ...(chart.unit === "bytes" ? { incrs: POWERS } : {}),
            values: (_plot, splits) => splits.map((value) => value == null ? "" : write(value)),
          }),
        ],
        series: [{}, ...series],
        bands,
        hooks: {
          setScale: [(plot, key) => key === "x" && zoomed(plot)],
          setCursor: [(plot) => follow(plot, figure, roles, lines, write)],
          draw: [(plot) => markWrong(plot, lines)],
        },
      },
      data,
      host,
    );
    if (state.from !== null) plot.setScale("x", { min: state.from, max: state.to });
    return plot;
  }

  function seriesOf(role, line) {
    const of = hue(line.hue);
    const few = xs[line.x].length <= FEW;
    const dash = line.hue >= HUES ? [6, 4] : undefined;
    const base = { spanGaps: true, points: { show: false } };
    if (role === "main") {
      return { ...base, stroke: of, width: 1.8, dash, points: { show: few, size: 5, fill: of } };
    }
    if (role === "raw") return { ...base, stroke: of + "55", width: 1 };
    return { ...base, stroke: "transparent", width: 0 };
  }

  function rangeOf(chart, low, high) {
    if (low == null || high == null) return [0, 1];
    if (chart.zero) low = Math.min(0, low);
    const some = high - low > 1e-6 * Math.abs(high); // less is what adding up has made of a constant
    const room = some ? (high - low) * 0.05 : Math.abs(high) * 0.1 || 1;
    return [chart.zero && low === 0 ? 0 : low - room, high + room];
  }

  /** Steps without a number: a mark at the bottom. */
  function markWrong(plot, lines) {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.fillStyle = colour("--bad");
    for (const { wrong = [] } of lines) {
      for (const step of wrong) {
        const x = plot.valToPos(step, "x", true);
        if (x >= bbox.left && x <= bbox.left + bbox.width) {
          ctx.fillRect(x - 1, bbox.top + bbox.height - 10, 3, 10);
        }
      }
    }
    ctx.restore();
  }

  function legend(figure, lines, write) {
    const list = figure.querySelector(".legend");
    list.textContent = "";
    // A single line has the chart's own title for a name, and every run is named above.
    for (const { label, hue, y, wrongs } of lines) {
      const key = document.createElement("span");
      key.className = "key";
      const swatch = document.createElement("i");
      swatch.className = `swatch h${hue % HUES}`;
      const value = document.createElement("output");
      value.textContent = write(y.findLast((one) => one != null) ?? NaN);
      const name = document.createElement("span");
      name.textContent = lines.length === 1 ? "" : label;
      key.append(swatch, name, value);
      if (wrongs) {
        const note = document.createElement("em");
        note.textContent = `${wrongs} not finite`;
        key.append(note);
      }
      list.append(key);
    }
  }

  /** The values under the cursor, or the last ones. */
  function follow(plot, figure, roles, lines, write) {
    const { idx } = plot.cursor;
    const values = figure.querySelectorAll(".legend output");
    figure.querySelector(".at").textContent = idx == null ? "" : `step ${plot.data[0][idx]}`;
    lines.forEach((line, i) => {
      const column = plot.data[1 + roles.findIndex((role) => role.role === "main" && role.line === line)];
      let at = idx ?? column.length - 1;
      while (at >= 0 && column[at] == null) at--;
      values[i].textContent = at < 0 ? "" : write(column[at]);
    });
  }

  // All charts together.

  let zooming = false;
  function zoomed(plot) {
    if (zooming) return;
    const { min, max } = plot.scales.x;
    const whole = min <= plot.data[0][0] && max >= plot.data[0].at(-1);
    state.from = whole ? null : min;
    state.to = whole ? null : max;
    zooming = true;
    for (const other of plots) {
      if (other === null || other === plot) continue;
      const [first, end] = [other.data[0][0], other.data[0].at(-1)];
      other.setScale("x", whole ? { min: first, max: Math.max(end, first + 1) } : { min, max });
    }
    zooming = false;
    document.getElementById("whole").disabled = whole;
  }

  const figures = charts.map((chart) => {
    const figure = document.createElement("figure");
    figure.className = "chart";
    const caption = document.createElement("figcaption");
    const title = document.createElement("h3");
    title.textContent = chart.title;
    const note = document.createElement("span");
    note.className = "note";
    note.textContent = chart.note ?? "";
    const legend = document.createElement("span");
    legend.className = "legend";
    const at = document.createElement("span");
    at.className = "at";
    caption.append(title, note, at, legend);
    const plot = document.createElement("div");
    plot.className = "plot";
    figure.append(caption, plot);
    document.getElementById(chart.machine ? "machine" : "charts").append(figure);
    return figure;
  });

  function buildAll() {
    for (const plot of plots) plot?.destroy();
    zooming = true; // charts that are being made ask nothing of the others
    plots = charts.map((chart, i) => build(chart, figures[i]));
    zooming = false;
  }

  function zoomTo(share) {
    state.from = share === 1 ? null : last * (1 - share);
    state.to = share === 1 ? null : last;
    document.getElementById("whole").disabled = share === 1;
    buildAll();
  }

  // The controls.

  const smoothing = document.getElementById("smoothing");
  const apply = () => {
    // Equal ways of the slider are equal factors of the steps that count.
    state.smoothing = smoothing.value === "0" ? 0 : 1 - 1 / Math.pow(200, Number(smoothing.value) / 100);
  };
  let due = 0;
  smoothing.addEventListener("input", () => {
    apply();
    cancelAnimationFrame(due);
    due = requestAnimationFrame(buildAll);
  });
  document.getElementById("log").addEventListener("change", (event) => {
    state.log = event.target.checked;
    buildAll();
  });
  document.getElementById("whole").addEventListener("click", () => zoomTo(1));
  document.getElementById("late").addEventListener("click", () => zoomTo(0.25));
  for (const box of document.querySelectorAll("input[data-run]")) {
    box.addEventListener("change", () => {
      const run = Number(box.dataset.run);
      if (box.checked) state.hidden.delete(run);
      else state.hidden.add(run);
      buildAll();
    });
  }

  root.addEventListener("theme", buildAll);

  // Widths follow the window.

  const sizes = new ResizeObserver((entries) => {
    for (const { target, contentRect } of entries) {
      const plot = plots[figures.findIndex((figure) => figure.contains(target))];
      const width = Math.floor(contentRect.width);
      if (plot && width > 0 && width !== plot.width) plot.setSize({ width, height: HEIGHT });
    }
  });

  // Tables sort by the column whose head is pressed.

  for (const table of document.querySelectorAll("table.sorts")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      head.querySelector("button")?.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const valueOf = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
        const rows = [...table.tBodies[0].rows].sort((a, b) => {
          const [x, y] = [valueOf(a), valueOf(b)];
          const [m, n] = [Number(x), Number(y)];
          // Rows without a value come last in both orders.
          if (x === "" || y === "") return x === y ? 0 : x === "" ? 1 : -1;
          const order = Number.isNaN(m) || Number.isNaN(n)
            ? x.localeCompare(y, undefined, { numeric: true })
            : m - n;
          return down ? -order : order;
        });
        table.tBodies[0].append(...rows);
      });
    });
  }

  apply();
  buildAll();
  for (const figure of figures) sizes.observe(figure.querySelector(".plot"));
  root.dataset.runs = String(runs.length);
  root.dataset.ready = String(Math.round(performance.now()));
})();
