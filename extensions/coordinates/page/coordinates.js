// Runs as lines over their settings, with a range on each axis that is set by dragging or by keys. On a narrow screen the
// axes lie one below the other.
(() => {
  "use strict";
  const { axes, runs, goal, metric } = JSON.parse(document.getElementById("data").textContent);
  const box = document.getElementById("parallel");
  if (!box) return;
  const NAMESPACE = "http://www.w3.org/2000/svg";
  const make = (parent, name, attributes = {}, text = "") => {
    const element = document.createElementNS(NAMESPACE, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text) element.textContent = text;
    parent.append(element);
    return element;
  };
  const shown = (value) => {
    const rounded = Number(value.toPrecision(3));
    return rounded !== 0 && (Math.abs(rounded) < 0.001 || Math.abs(rounded) >= 1e5)
      ? rounded.toExponential()
      : String(rounded);
  };
  const textAt = (axis, at) => {
    if (axis.kind === "choice") {
      return axis.choices[Math.min(axis.choices.length - 1, Math.floor(at * axis.choices.length))];
    }
    const value = axis.log ? axis.low * (axis.high / axis.low) ** at : axis.low + (axis.high - axis.low) * at;
    return axis.whole ? String(Math.round(value)) : shown(value);
  };

  // The best run, the best tenth, quarter and half, and the rest.
  const order = runs.map((_, i) => i).filter((i) => runs[i].metric !== null)
    .sort((a, b) => (runs[a].metric - runs[b].metric) * (goal === "maximize" ? -1 : 1));
  const place = new Map(order.map((run, i) => [run, i]));
  const classOf = (i) => {
    if (!place.has(i)) return runs[i].state === "failed" ? "failed" : "q4";
    const share = place.get(i) / order.length;
    return place.get(i) === 0 ? "q0" : share < 0.1 ? "q1" : share < 0.25 ? "q2" : share < 0.5 ? "q3" : "q4";
  };

  const ranges = axes.map(() => [0, 1]);
  const lines = [];
  const rows = new Map(
    [...document.querySelectorAll("#table tr[data-run]")].map((row) => [Number(row.dataset.run), row]),
  );
  const isIn = ({ at }) =>
    axes.every((_, a) => {
      const [from, to] = ranges[a];
      if (from <= 0 && to >= 1) return true;
      return at[a] !== null && at[a] >= from - 1e-9 && at[a] <= to + 1e-9;
    });
  const choose = () => {
    const kept = runs.map(isIn), count = kept.filter(Boolean).length;
    kept.forEach((inside, i) => {
      lines[i]?.classList.toggle("out", !inside);
      rows.get(i)?.classList.toggle("out", !inside);
    });
    document.getElementById("count").textContent = count === runs.length
      ? `${runs.length} ${runs.length === 1 ? "run" : "runs"}`
      : `${count} of ${runs.length} runs cross the chosen ranges`;
  };
  const seen = document.getElementById("seen");
  const look = (i) => {
    lines.forEach((line, other) => line?.classList.toggle("seen", other === i));
    rows.forEach((row, other) => row.classList.toggle("seen", other === i));
    const run = runs[i];
    seen.textContent = run
      ? `${run.run} (${run.state}): ${run.words}${
        run.metric === null ? "" : `; ${metric} ${shown(run.metric)}`
      }`
      : "";
  };
  for (const [i, row] of rows) {
    row.addEventListener("pointerenter", () => look(i));
    row.addEventListener("pointerleave", () => look(-1));
  }

  function draw() {
    const width = Math.max(280, box.clientWidth), tall = width < 640;
    box.replaceChildren();
    const height = tall ? 96 * axes.length + 10 : 380;
    const svg = make(box, "svg", { viewBox: `0 0 ${width} ${height}`, height, role: "group" });
    svg.setAttribute("aria-label", `${runs.length} runs over ${axes.map(({ name }) => name).join(", ")}`);
    const [top, bottom] = [46, height - 20], [left, right] = tall ? [26, width - 26] : [40, width - 64];
    /** A point on axis `a`: across is where the axis stands, along is from 0 to 1 on it. */
    const point = (a, along) =>
      tall ? [left + along * (right - left), 48 + a * 96] : [
        left + (axes.length > 1 ? a / (axes.length - 1) : 0.5) * (right - left),
        bottom - along * (bottom - top),
      ];
    const linesBehind = make(svg, "g");
    // The best are drawn last, on top.
    lines.length = 0;
    runs.map((_, i) => i).sort((a, b) => (place.get(b) ?? 1e9) - (place.get(a) ?? 1e9)).forEach((i) => {
      const points = runs[i].at.flatMap((along, a) =>
        along === null ? [] : [point(a, along).map((v) => v.toFixed(1)).join()]
      );
      if (points.length > 0) {
        lines[i] = make(linesBehind, "polyline", { points: points.join(" "), class: classOf(i) });
      }
    });
    axes.forEach((axis, a) => drawAxis(svg, axis, a, { tall, point, width }));
    svg.addEventListener("pointermove", (event) => look(nearest(event, svg, point, tall)));
    svg.addEventListener("pointerleave", () => look(-1));
    choose();
  }

  /** The line that is nearest to the pointer, between its two axes. */
  function nearest(event, svg, point, tall) {
    const frame = svg.getBoundingClientRect(), scale = svg.viewBox.baseVal.width / frame.width;
    const at = [(event.clientX - frame.left) * scale, (event.clientY - frame.top) * scale];
    let best = -1, least = 8;
    runs.forEach(({ at: along }, i) => {
      if (!lines[i] || lines[i].classList.contains("out")) return;
      for (let a = 0; a + 1 < axes.length; a++) {
        if (along[a] === null || along[a + 1] === null) continue;
        const [x0, y0] = point(a, along[a]), [x1, y1] = point(a + 1, along[a + 1]);
        const share = tall ? (at[1] - y0) / (y1 - y0) : (at[0] - x0) / (x1 - x0);
        if (share < 0 || share > 1) continue;
        const far = tall
          ? Math.abs(at[0] - x0 - share * (x1 - x0))
          : Math.abs(at[1] - y0 - share * (y1 - y0));
        if (far < least) [best, least] = [i, far];
      }
    });
    return best;
  }

  function drawAxis(svg, axis, a, { tall, point, width }) {
    const [x0, y0] = point(a, 0), [x1, y1] = point(a, 1);
    make(svg, "line", { x1: x0, y1: y0, x2: x1, y2: y1, class: "axis" });
    const last = a === axes.length - 1;
    const name = axis.metric ? axis.name : axis.name.split(".").at(-1);
    const anchor = tall ? "start" : a === 0 ? "start" : last ? "end" : "middle";
    const nameX = tall ? 0 : a === 0 ? x0 - 34 : last ? width : x0;
    make(svg, "text", { x: nameX, y: tall ? y0 - 28 : 16, "text-anchor": anchor, class: "name" }, name);
    let before = -Infinity;
    for (const { at, label } of axis.ticks) {
      const [x, y] = point(a, at), room = 7 * label.length + 10;
      if (tall && x - before < room) continue;
      before = x;
      if (tall) {
        make(svg, "line", { x1: x, x2: x, y1: y - 3, y2: y + 3, class: "axis" });
        make(svg, "text", {
          x,
          y: y + 20,
          "text-anchor": at > 0.9 ? "end" : at < 0.1 ? "start" : "middle",
          class: "label",
        }, label);
      } else {
        make(svg, "line", { x1: x - 3, x2: x + 3, y1: y, y2: y, class: "axis" });
        make(svg, "text", { x: x + 8, y: y + 4, class: "label" }, label);
      }
    }
    const brush = make(svg, "rect", { class: "brush" });
    const rail = make(svg, "rect", {
      class: "rail",
      x: tall ? x0 - 8 : x0 - 14,
      y: tall ? y0 - 14 : y1 - 8,
      width: tall ? x1 - x0 + 16 : 28,
      height: tall ? 28 : y0 - y1 + 16,
    });
    const handles = [0, 1].map((end) => handleOf(svg, axis, a, end));
    const place = () => {
      const [from, to] = ranges[a], whole = from <= 0 && to >= 1;
      const [xa, ya] = point(a, from), [xb, yb] = point(a, to);
      const shape = tall
        ? { x: xa, y: ya - 9, width: Math.max(0, xb - xa), height: 18 }
        : { x: xa - 9, y: yb, width: 18, height: Math.max(0, ya - yb) };
      for (const [key, value] of Object.entries({ ...shape, visibility: whole ? "hidden" : "visible" })) {
        brush.setAttribute(key, value);
      }
      handles.forEach((handle, end) => {
        const [x, y] = point(a, ranges[a][end]), out = end === 0 ? 1 : -1;
        const at = tall ? [x - 3 - 4 * out, y - 8] : [x - 8, y - 3 + 4 * out];
        handle.firstChild.setAttribute("x", at[0]);
        handle.firstChild.setAttribute("y", at[1]);
        handle.firstChild.setAttribute("width", tall ? 6 : 16);
        handle.firstChild.setAttribute("height", tall ? 16 : 6);
        handle.setAttribute("aria-valuenow", Math.round(100 * ranges[a][end]));
        handle.setAttribute("aria-valuetext", textAt(axis, ranges[a][end]));
      });
    };
    const set = (range) => {
      ranges[a] = [
        Math.min(Math.max(Math.min(...range), 0), 1),
        Math.min(Math.max(Math.max(...range), 0), 1),
      ];
      place();
      choose();
    };
    handles.forEach((handle, end) =>
      handle.addEventListener("keydown", (event) => moveByKey(event, axis, a, end, set))
    );
    dragged(rail, handles, a, set, (event) => {
      const frame = svg.getBoundingClientRect(), scale = svg.viewBox.baseVal.width / frame.width;
      return tall
        ? ((event.clientX - frame.left) * scale - x0) / (x1 - x0)
        : ((event.clientY - frame.top) * scale - y0) / (y1 - y0);
    });
    place();
  }

  function handleOf(svg, axis, a, end) {
    const handle = make(svg, "g", {
      class: "handle",
      tabindex: 0,
      role: "slider",
      "aria-label": `${axis.name}, ${end === 0 ? "from" : "to"}`,
      "aria-valuemin": 0,
      "aria-valuemax": 100,
      "data-handle": `${a}-${end}`,
    });
    make(handle, "rect", { rx: 2 });
    return handle;
  }

  function moveByKey(event, axis, a, end, set) {
    const step = axis.kind === "choice" ? 1 / axis.choices.length : event.shiftKey ? 0.1 : 0.02;
    const move = { ArrowUp: step, ArrowRight: step, ArrowDown: -step, ArrowLeft: -step }[event.key];
    const range = [...ranges[a]];
    if (event.key === "Escape") ranges.forEach((_, other) => ranges[other] = [0, 1]);
    else if (event.key === "Home") range[end] = end === 0 ? 0 : range[0];
    else if (event.key === "End") range[end] = end === 0 ? range[1] : 1;
    else if (move !== undefined) {
      range[end] += move;
      range[end] = end === 0 ? Math.min(range[0], range[1]) : Math.max(range[0], range[1]);
    } else return;
    event.preventDefault();
    if (event.key !== "Escape") return set(range);
    draw();
    box.querySelector(`[data-handle="${a}-${end}"]`).focus();
  }

  /** A handle moves its end; elsewhere on the axis a drag makes a new range, and a click alone takes it away. */
  function dragged(rail, handles, a, set, alongOf) {
    const begin = (event, end) => {
      event.preventDefault();
      const from = alongOf(event), target = event.currentTarget;
      let moved = false;
      target.setPointerCapture(event.pointerId);
      const move = (now) => {
        const to = alongOf(now);
        moved ||= Math.abs(to - from) > 0.01;
        if (!moved) return;
        set(
          end === null
            ? [from, to]
            : end === 0
            ? [Math.min(to, ranges[a][1]), ranges[a][1]]
            : [ranges[a][0], Math.max(to, ranges[a][0])],
        );
      };
      const done = () => {
        target.removeEventListener("pointermove", move);
        if (!moved && end === null) set([0, 1]);
      };
      target.addEventListener("pointermove", move);
      target.addEventListener("pointerup", done, { once: true });
      target.addEventListener("pointercancel", done, { once: true });
    };
    rail.addEventListener("pointerdown", (event) => begin(event, null));
    handles.forEach((handle, end) => handle.addEventListener("pointerdown", (event) => begin(event, end)));
  }

  let before = 0;
  new ResizeObserver(() => {
    if (box.clientWidth === before) return;
    before = box.clientWidth;
    draw();
  }).observe(box);
  before = box.clientWidth;
  draw();
})();
