// The parts of a page that its script fills with charts, and the controls of all of them.
import type { chartData } from "./chart_data.ts";
import type { ChartPlace } from "./charts.ts";
import { foldedPart, Html, markup } from "./html.ts";
import { formatPlural } from "../../base/format.ts";

type Drawn = ReturnType<typeof chartData>;

const has = ({ charts }: Drawn, place: ChartPlace): boolean => charts.some((chart) => chart.place === place);

/** The script puts the charts of this place into it. */
export const chartsHost = (drawn: Drawn, place: ChartPlace): Html | null =>
  has(drawn, place) ? markup`<div class="charts ${place}" id="charts-${place}"></div>` : null;

/** Loss and the measure that matters, with the controls of all charts. */
export function curvesSection(drawn: Drawn): Html | null {
  if (!drawn.charts.some(({ place }) => place === "large" || place === "training")) {
    return markup`<section id="curves"><h2>Curves</h2><p class="faint">There are too few logged steps for a curve: <code>--log-interval 1</code> logs each.</p></section>`;
  }
  const several = drawn.runs.length > 1;
  return markup`<section id="curves">${
    several &&
    markup`<div class="controls runs" role="group" aria-label="Runs that are shown">${
      drawn.runs.map(({ name }, i) =>
        markup`<label><input type="checkbox" checked data-run="${i}"><i class="swatch h${
          i % 8
        }"></i>${name}</label>`
      )
    }</div>`
  }
<div class="controls"><h2>Curves</h2><label><input type="checkbox" id="log"${
    drawn.logarithmic && new Html(" checked")
  }>Logarithmic loss</label>
<label>Smoothing <input type="range" id="smoothing" min="0" max="100" value="45" aria-describedby="smoothed"></label>
<span id="smoothed" class="note"></span>${several && relativeChoice(drawn)}
<button type="button" id="late">Last quarter</button><button type="button" id="whole" disabled>All steps</button></div>
<noscript><p>The curves need JavaScript; the numbers do not.</p></noscript>
${chartsHost(drawn, "large")}${
    drawn.unchanged.length > 0 && markup`<p class="faint">Constant: ${drawn.unchanged.join(", ")}.</p>`
  }</section>`;
}

const relativeChoice = ({ relative }: Drawn): Html =>
  markup`<label><input type="checkbox" id="relative"${
    relative && new Html(" checked")
  }>Each run from 0 to 100%</label>`;

/** Small charts of this place under a heading. */
export const smallCharts = (drawn: Drawn, place: ChartPlace, title: string): Html | null =>
  has(drawn, place)
    ? markup`<section id="${place}"><h2>${title}</h2>${chartsHost(drawn, place)}</section>`
    : null;

/** Folded, because few look at them; they are drawn when they are opened. */
export function foldedCharts(drawn: Drawn, place: ChartPlace, title: string): Html | null {
  const count = drawn.charts.filter((chart) => chart.place === place).length;
  return foldedPart(place, title, formatPlural(count, "chart"), chartsHost(drawn, place));
}
