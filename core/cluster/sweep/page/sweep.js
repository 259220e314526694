// The chart of a sweep's page: the best value so far, from run to run.
(() => {
  "use strict";
  const { axes, runs, goal, metric } = JSON.parse(document.getElementById("data").textContent);
  const box = document.getElementById("steps");
  if (!box) return;
  const NAMESPACE = "http://www.w3.org/2000/svg";
  const make = (parent, name, attributes = {}, text = "") => {
    const element = document.createElementNS(NAMESPACE, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text) element.textContent = text;
    parent.append(element);
    return element;
  };
  function draw() {
    const axis = axes.at(-1);
    const width = Math.max(280, box.clientWidth),
      height = 200,
      left = 56,
      right = width - 12,
      top = 10,
      bottom = 172;
    box.replaceChildren();
    const svg = make(box, "svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img" });
    svg.setAttribute("aria-label", `The best ${metric} so far, run by run`);
    const x = (i) => left + (runs.length > 1 ? i / (runs.length - 1) : 0.5) * (right - left);
    const y = (along) => bottom - along * (bottom - top);
    for (const { at, label } of axis.ticks) {
      make(svg, "line", { x1: left, x2: right, y1: y(at), y2: y(at), class: "grid" });
      make(svg, "text", { x: left - 8, y: y(at) + 4, "text-anchor": "end" }, label);
    }
    make(svg, "text", { x: left, y: bottom + 20 }, "run 0");
    if (runs.length > 1) {
      make(svg, "text", { x: right, y: bottom + 20, "text-anchor": "end" }, `run ${runs.length - 1}`);
    }
    let best = null, path = "";
    runs.forEach(({ at, metric: value, state }, i) => {
      if (value === null) return;
      const better = best === null || (goal === "maximize" ? value > best.value : value < best.value);
      if (better) {
        path += best === null ? `M${x(i)},${y(at.at(-1))}` : `H${x(i)}V${y(at.at(-1))}`;
        best = { value };
      }
      make(svg, "circle", { cx: x(i), cy: y(at.at(-1)), r: 3.2, class: state === "done" ? "dot" : "early" });
    });
    if (path) make(svg, "path", { d: `${path}H${right}`, class: "so-far" });
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
