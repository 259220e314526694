// The sections of a run's report that an evaluation's diagnostics fill: maps of samples, errors by place and
// lead, each target's scores, and classes taken for others.
import { formatPlural, formatValue } from "../../base/format.ts";
import type { MapAxes } from "../../data/preview/axes.ts";
import type { Plane } from "../../data/preview/look.ts";
import {
  type DiagnosedAxis,
  type DiagnosedOutput,
  type Diagnostics,
  type ShownSample,
  unpackMap,
} from "../../run/diagnostics.ts";
import { examplesSection } from "./examples.ts";
import { headCell, Html, markup } from "./html.ts";
import { scoreOf } from "./measures.ts";
import {
  classColour,
  Coasts,
  colourScale,
  evenRange,
  lineFigure,
  mapFigure,
  tickText,
  usualRange,
} from "./map.ts";

/** The first one shows examples; null where there are none. */
export function diagnosticsSections(found: Diagnostics): (Html | null)[] {
  try {
    return [
      examplesSection(found) ?? mapsSection(found),
      classesSection(found),
      targetsSection(found),
      errorsSection(found),
    ];
  } catch {
    return []; // damaged, or written by another version
  }
}

const validatedAt = ({ samples, step }: Diagnostics): string =>
  `${formatPlural(samples, "sample")} of the validation set, at step ${step}`;

// Samples.

const MOST_POINTS = 500_000;

function mapsSection(found: Diagnostics): Html | null {
  const { shown, task, axes, names } = found;
  if (shown.length === 0) return null;
  const figures = shown.reduce((sum, { inputs, outputs }) => sum + inputs.length + 3 * outputs.length, 0);
  const drawing = {
    axes: withoutTicks(axes && { x: axisOf(axes.x), y: axisOf(axes.y) }),
    mostPoints: Math.floor(MOST_POINTS / Math.max(1, figures)),
    coasts: new Coasts(),
  };
  const draw = task === "segmentation" ? segmented : fields;
  return markup`<section id="maps"><h2>Examples</h2>
<p class="faint">Of the validation set, at step ${found.step}.</p>${
    task === "segmentation" && markup`<p class="legend">${
      Array.from({ length: classCount(found) }, (_, k) =>
        markup`<span class="key"><svg width="12" height="12" aria-hidden="true"><rect width="12" height="12" rx="2" fill="${
          classColour(k)
        }"/></svg>${names[k] ?? k}</span>`)
    }</p>`
  }${shown.map((sample) => draw(found, sample, drawing))}</section>`;
}

interface Drawing {
  readonly axes: MapAxes | null;
  readonly mostPoints: number;
  readonly coasts: Coasts;
}

const axisOf = ({ name, units, values }: DiagnosedAxis) => ({
  name,
  units,
  values: values && Float64Array.from(values),
});

/** Maps side by side are larger without; which way is up they still know. */
const withoutTicks = (axes: MapAxes | null): MapAxes | null =>
  axes && { x: { ...axes.x, values: null }, y: axes.y };

function fields(
  { outputs: about }: Diagnostics,
  { name, image, inputs, outputs }: ShownSample,
  drawing: Drawing,
): Html {
  const maps = outputs.map(({ output, target, prediction }) => {
    const known = unpackMap(target), made = hiddenLike(unpackMap(prediction), known);
    return { about: about[output], known, made, difference: differenceOf(made, known) };
  });
  const offBy = evenRange(usualRange(maps.map(({ difference }) => difference)));
  const [first] = maps;
  return markup`<h3 class="sample">${name}</h3>${
    maps.map(({ about, known, made, difference }, i) => {
      const scale = colourScale([known]), common = { ...drawing, land: known, units: about.units };
      const left = i > 0 ? [] : inputs.slice(0, 1).map(({ map }) => {
        const plane = unpackMap(map);
        return mapFigure({ ...drawing, land: first.known, title: "Input", plane, ...colourScale([plane]) });
      });
      return markup`<div class="four">${
        i === 0 && image !== null ? imageFigure(image) : left.length > 0 ? left : leadText(about, difference)
      }${[
        mapFigure({ ...common, title: `Target ${named(about)}`, plane: known, ...scale }),
        mapFigure({ ...common, title: "Prediction", plane: made, ...scale }),
        mapFigure({
          ...common,
          title: "Prediction \u2212 target",
          plane: difference,
          scale: "diverging",
          range: offBy,
        }),
      ]}</div>`;
    })
  }`;
}

function leadText(about: DiagnosedOutput, { values }: Plane): Html {
  const known = values.filter((value) => !Number.isNaN(value)), count = Math.max(1, known.length);
  const rmse = Math.sqrt(known.reduce((sum, value) => sum + value * value, 0) / count);
  const bias = known.reduce((sum, value) => sum + value, 0) / count;
  const units = about.units && ` ${about.units}`;
  return markup`<p class="about"><b>${named(about)}</b><br>RMSE ${formatValue(rmse)}${units}<br>bias ${
    formatValue(bias)
  }${units}</p>`;
}

const imageFigure = (png: string): Html =>
  markup`<figure class="map"><figcaption>Input</figcaption><img class="image" alt="Input" src="data:image/png;base64,${
    /^[A-Za-z0-9+/=]*$/.test(png) ? png : ""
  }"></figure>`;

const classCount = ({ names, confusion }: Diagnostics): number =>
  Math.max(2, names.length, confusion?.length ?? 0);

function segmented(
  found: Diagnostics,
  { name, image, inputs, outputs }: ShownSample,
  drawing: Drawing,
): Html {
  const count = classCount(found);
  return markup`<h3 class="sample">${name}</h3><div class="four">${
    image !== null ? imageFigure(image) : inputs.slice(0, 1).map(({ map }) => {
      const plane = unpackMap(map);
      return mapFigure({ ...drawing, land: null, title: "Input", plane, ...colourScale([plane]) });
    })
  }${
    outputs.map(({ target, prediction }) => {
      const known = unpackMap(target), made = hiddenLike(unpackMap(prediction), known);
      const wrong = {
        ...known,
        values: known.values.map((label, i) => label === made.values[i] ? NaN : made.values[i]),
      };
      const common = {
        ...drawing,
        axes: withoutTicks(drawing.axes),
        scale: "classes",
        range: [0, count - 1],
        land: null,
      } as const;
      return [
        mapFigure({ ...common, title: "Target", plane: known }),
        mapFigure({ ...common, title: "Prediction", plane: made }),
        mapFigure({ ...common, title: "Where it is wrong", plane: wrong }),
      ];
    })
  }</div>`;
}

/** Predictions are not shown where nothing is known, such as on land. */
const hiddenLike = (made: Plane, { values }: Plane): Plane => ({
  ...made,
  values: made.values.map((value, i) => Number.isNaN(values[i]) ? NaN : value),
});

const differenceOf = (made: Plane, { values }: Plane): Plane => ({
  ...made,
  values: made.values.map((value, i) => value - values[i]),
});

// Errors.

const MOST_LINES = 3;

function errorsSection(found: Diagnostics): Html | null {
  const { errors, outputs, axes } = found;
  const figures = [byLead(found)];
  if (errors && errors.along.values && errors.along.values.length > 1) {
    const some = someOf(outputs.length), { units } = outputs[0];
    const x = axisOf(errors.along);
    const line = (of: "rmse" | "bias") =>
      some.map((k, i) => ({ label: named(outputs[k]), hue: i, y: errors.outputs[k][of] }));
    const by = /^degrees?_?n/i.test(errors.along.units) ? "latitude" : errors.along.name;
    figures.push(
      lineFigure({ title: `RMSE by ${by}`, x: { ...x, name: "" }, units, lines: line("rmse"), zero: true }),
    );
    figures.push(
      lineFigure({ title: `Bias by ${by}`, x: { ...x, name: "" }, units, lines: line("bias"), zero: true }),
    );
  }
  if (errors && errors.rmse.length > 0) {
    const coasts = new Coasts(), some = someOf(outputs.length), planes = errors.rmse.map(unpackMap);
    const range = [0, usualRange(planes)[1]] as const;
    planes.forEach((plane, i) =>
      figures.push(mapFigure({
        ...{
          title: `RMSE, ${named(outputs[some[i]])}`,
          plane,
          scale: "sequential",
          range,
          coasts,
          land: plane,
        },
        units: outputs[some[i]].units,
        axes: axes && { x: axisOf(axes.x), y: axisOf(axes.y) },
        mostPoints: 40_000,
      }))
    );
  }
  const drawn = figures.filter((figure) => figure !== null);
  if (drawn.length === 0) return null;
  return markup`<section id="errors"><h2>Errors</h2><p class="faint">${validatedAt(found)}.</p>
<div class="maps">${drawn}</div></section>`;
}

const someOf = (count: number): number[] =>
  count <= MOST_LINES
    ? Array.from({ length: count }, (_, k) => k)
    : Array.from({ length: MOST_LINES }, (_, i) => Math.round(i * (count - 1) / (MOST_LINES - 1)));

const named = ({ target, lead }: DiagnosedOutput): string =>
  lead === null ? target : `${target} +${formatPlural(lead, "step")}`;

/** The root mean square error of each lead, beside those of the two forecasts that a model has to beat. */
function byLead(found: Diagnostics): Html | null {
  const { outputs } = found,
    leads = [...new Set(outputs.map(({ lead }) => lead))].filter((lead) => lead !== null);
  const [{ target, units }] = outputs.length > 0 ? outputs : [{ target: "", units: "" }];
  if (leads.length < 2) return null;
  const own = outputs.map((output, k) => ({ ...output, k })).filter((output) => output.target === target);
  const rmse = own.map(({ k }) => scoreOf(found, "rmse", k));
  const baseline = (name: string) =>
    own.map(({ k }, i) => {
      const skill = scoreOf(found, `skill_${name}`, k), error = rmse[i];
      return skill === null || error === null || skill >= 1 ? null : error / (1 - skill);
    });
  const lines = [
    { label: "model", hue: 0, y: rmse },
    { label: "persistence", hue: 1, y: baseline("persistence") },
    { label: "climatology", hue: 2, y: baseline("climatology") },
  ].filter(({ y }) => y.some((value) => value !== null));
  const x = { name: "lead", units: "steps", values: Float64Array.from(leads) };
  return lines.length === 0
    ? null
    : lineFigure({ title: `RMSE by lead, ${target}`, x, units, lines, zero: true });
}

// Scores of targets.

const SCORES = [["r2", "R2"], ["rmse", "RMSE"], ["mae", "MAE"], ["bias", "bias"]] as const;
const SKILLS = [["skill_persistence", "skill over persistence"], [
  "skill_climatology",
  "skill over climatology",
]] as const;

function targetsSection(found: Diagnostics): Html | null {
  const { outputs, task } = found;
  if (task !== "regression") return null;
  const columns = [...SCORES, ...SKILLS].filter(([name]) =>
    outputs.some((_, k) => scoreOf(found, name, k) !== null)
  );
  if (columns.length === 0) return null;
  const hasUnits = outputs.some(({ units }) => units !== "");
  return markup`<section id="targets"><h2>Targets</h2><p class="faint">${validatedAt(found)}.</p>
<div class="wide"><table class="sorts"><thead><tr>${headCell("target")}${
    columns.map(([, label]) => headCell(label, true))
  }${hasUnits && markup`<th>units</th>`}</tr></thead><tbody>${
    outputs.map((output, k) =>
      markup`<tr><th scope="row">${named(output)}</th>${
        columns.map(([name]) => scoreCell(scoreOf(found, name, k)))
      }${hasUnits && markup`<td class="faint">${output.units}</td>`}</tr>`
    )
  }</tbody></table></div></section>`;
}

const scoreCell = (value: number | null): Html =>
  markup`<td class="number" data-value="${value ?? ""}">${value === null ? "" : scoreText(value)}</td>`;

/** Four digits or so: with all decimals, the columns of a phone would be cut off. */
function scoreText(value: number): string {
  const size = Math.abs(value);
  return size >= 1 && size < 1e5 ? value.toFixed(size < 10 ? 3 : size < 100 ? 2 : 1) : formatValue(value);
}

// Classes.

/** Larger matrices have colours alone. */
const MOST_WITH_NUMBERS = 16;

function classesSection(found: Diagnostics): Html | null {
  const { confusion, names, task } = found;
  if (confusion === null || confusion.length < 2) return null;
  const name = (k: number) => names[k] ?? String(k), labels = confusion.map((_, k) => k);
  const sum = (values: readonly number[]) => values.reduce((a, b) => a + b, 0);
  const each = confusion.map(sum), taken = labels.map((k) => sum(confusion.map((row) => row[k])));
  const many = labels.length > MOST_WITH_NUMBERS;
  const scores = labels.map((k) => {
    const hits = confusion[k][k], precision = hits / taken[k], recall = hits / each[k];
    return {
      k,
      precision,
      recall,
      f1: 2 * hits / (taken[k] + each[k]),
      iou: hits / (taken[k] + each[k] - hits),
    };
  });
  const points = task === "segmentation" ? "pixel" : "sample";
  return markup`<section id="confusion"><h2>Classes</h2>
<p class="faint">${validatedAt(found)}. Rows are what it is, columns what it was taken for.</p>
<div class="beside"><div class="wide"><table class="confusion${many && " many"}"><thead><tr><th></th>${
    labels.map((k) => markup`<th scope="col"><span>${many ? "" : name(k)}</span></th>`)
  }</tr></thead><tbody>${
    confusion.map((row, k) =>
      markup`<tr><th scope="row">${name(k)}</th>${
        row.map((count, j) => {
          const share = each[k] > 0 ? count / each[k] : 0;
          const sentence = `${name(k)} taken for ${name(j)}: ${(100 * share).toFixed(1)}%`;
          return markup`<td class="o${Math.min(10, Math.ceil(10 * share))}" title="${sentence}">${
            many ? "" : countText(count)
          }</td>`;
        })
      }</tr>`
    )
  }</tbody></table></div>
<div class="wide"><table class="sorts"><thead><tr>${headCell("class")}${
    ["precision", "recall", "F1", ...(task === "segmentation" ? ["IoU"] : []), `${points}s`].map((head) =>
      headCell(head, true)
    )
  }</tr></thead><tbody>${
    scores.map(({ k, precision, recall, f1, iou }) =>
      markup`<tr><th scope="row">${name(k)}</th>${
        [precision, recall, f1, ...(task === "segmentation" ? [iou] : [])].map((score) =>
          scoreCell(Number.isFinite(score) ? score : null)
        )
      }<td class="number" data-value="${each[k]}">${countText(each[k])}</td></tr>`
    )
  }</tbody></table></div></div></section>`;
}

const countText = (count: number): string =>
  count < 100_000 ? String(count) : tickText(Number(count.toPrecision(3)));
