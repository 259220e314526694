// The report of a data set: its dimensions, where it has gaps, and each variable as numbers, maps and a histogram.
import { basename } from "../../../deps/path.ts";
import { formatBytes, formatPlural } from "../../base/format.ts";
import { timeCoding } from "../../data/arrays/calendar.ts";
import { axisText } from "../../data/arrays/coordinate.ts";
import { dimensionNotes, type DimensionSummary } from "../../data/preview/dimensions.ts";
import { type FieldOverview, fieldOverviews, type Plane } from "../../data/preview/look.ts";
import { encodePng, enlarged, paint } from "../../data/preview/picture.ts";
import { mapAxesOf, type PreviewField } from "../../data/preview/axes.ts";
import type { Preview } from "../../data/preview/preview.ts";
import { Html, htmlFile, markup, THEME } from "./html.ts";
import { barsFigure, Coasts, colourScale, histogramFigure, mapFigure, niceNumbers, tickText } from "./map.ts";

/** The page stays below 2 MB: a point of a map is a byte at most, and a third more as text. */
const MOST_POINTS = 900_000, MOST_OF_MAP = 60_000;
const MOST_SHOWN = { maps: 24, columns: 120 }, MOST_OTHERS = 200;

/** `now` is in Unix seconds. The data is read before it first waits, so it may be closed then. */
export async function dataPage(whole: Preview, now: number): Promise<string> {
  const preview = bounded(whole);
  const { looks: overviews, others } = fieldOverviews(preview, MOST_SHOWN);
  const figures = overviews.reduce((sum, { maps }) => sum + 2 * maps.length, 0);
  const mostPoints = Math.min(MOST_OF_MAP, Math.floor(MOST_POINTS / Math.max(1, figures)));
  const coasts = new Coasts();
  const sections = [
    heading(preview),
    dimensionsSection(preview.dimensions ?? []),
    coverageSection(preview, overviews),
    picturesSection(preview, overviews),
    classesSection(preview),
    ...overviews.filter(hasMaps).map((overview) =>
      variableSection(preview, overview, overviews, { mostPoints, coasts })
    ),
    columnsSection(preview, overviews),
    othersSection(others, preview.noun),
  ];
  return await htmlFile({ title: nameOf(preview.path), sections, now });
}

const LONGEST = 120, MOST_DIMENSIONS = 100, MOST_FACTS = 40;

/** Names and units in files may be of any length. */
function bounded(preview: Preview): Preview {
  const short = (text: string) => text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text;
  const { fields, dimensions = [], facts, path } = preview;
  const some = Object.entries(facts).slice(0, MOST_FACTS);
  return {
    ...preview,
    path: path.length > 4 * LONGEST ? short(path) : path,
    facts: Object.fromEntries(some.map(([name, value]) => [short(name), value.slice(0, 4 * LONGEST)])),
    dimensions: dimensions.slice(0, MOST_DIMENSIONS).map((one) => ({
      ...one,
      name: short(one.name),
      units: one.units && short(one.units),
    })),
    fields: fields.map((field) => ({
      ...field,
      name: short(field.name),
      units: field.units && short(field.units),
      dimensions: field.dimensions?.map(short),
      remark: field.remark && short(field.remark),
      texts: field.texts?.map(short),
    })),
    classes: preview.classes?.map(({ name, samples }) => ({ name: short(name), samples })) ?? null,
  };
}

/** A glob or a list of files has its whole text for a name. */
const nameOf = (path: string): string => /[*?[{,]/.test(path) ? path : basename(path) || path;

function heading({ path, kind, bytes, samples, facts }: Preview): Html {
  const about = [
    kind,
    bytes === null ? "" : formatBytes(bytes),
    samples === null ? "" : formatPlural(samples, "sample"),
    ...Object.entries(facts).map(([name, value]) => `${name}: ${value}`),
  ].filter((text) => text !== "");
  return markup`<header><h1>${nameOf(path)}</h1>${THEME}
<p class="about">${about.join(" · ")}</p></header>`;
}

function dimensionsSection(dimensions: readonly DimensionSummary[]): Html | null {
  if (dimensions.length === 0) return null;
  return markup`<section id="dimensions"><h2>Dimensions</h2>
<ul class="dimensions">${
    dimensions.map(({ name, size, units, calendar, range }) => {
      const about = calendar ?? (units === "1" ? "" : units ?? "");
      const notes = range ? dimensionNotes(size, range) : [];
      const span = range && (size > 1 ? `${range.from} to ${range.to}` : `${range.from}`);
      const odd = (i: number) => range?.step === null || i > 0;
      return markup`<li><b>${name}</b><span class="size">${size}</span><span class="span">${span} <span class="faint">${
        range && about
      }</span></span><span class="notes">${
        notes.map((note, i) =>
          markup`${i > 0 ? "; " : ""}<span class="${calendar && odd(i) ? "warn" : "faint"}">${note}</span>`
        )
      }</span></li>`;
    })
  }</ul></section>`;
}

// Coverage is what there is along the samples.

const MOST_STRETCHES = 600;

function coverageSection(preview: Preview, overviews: readonly FieldOverview[]): Html | null {
  const shown = overviews.filter(({ present }) => present.length > 1);
  const along = shown[0]?.field.dimensions?.[0];
  const place = placeOfRows(preview, along, Math.max(0, ...shown.map(({ field }) => field.shape[0])));
  const odd = shown.filter(({ present }) => present.some((share) => share !== present[0]));
  if (odd.length === 0 && !place.gaps) return null;
  const rows = odd.length > 0 ? odd : shown.slice(0, 1);
  return markup`<section id="coverage"><h2>Coverage</h2>
<p class="faint">The share of values that are not missing, ${
    along === undefined ? "sample by sample" : `along ${along}`
  }.</p><div class="coverage">${
    rows.map(({ field, rows, present }) =>
      markup`<span class="name">${field.name}</span><svg class="area" viewBox="0 0 1000 100" preserveAspectRatio="none" role="img" aria-label="${field.name}"><path class="h0" d="${
        areaOf(rows, present, place)
      }"/></svg><span class="faint">${shareSpan(present)}</span>`
    )
  }<span></span>${place.ticks}</div></section>`;
}

function shareSpan(present: readonly number[]): string {
  const least = present.reduce((a, b) => Math.min(a, b)), most = present.reduce((a, b) => Math.max(a, b));
  const text = (share: number) => Number((100 * share).toFixed(1));
  return least === most ? `${text(most)}%` : `${text(least)} to ${text(most)}%`;
}

interface RowPlace {
  /** From 0 to 1, and how wide one row is. */
  of(row: number): number;
  readonly each: number;
  readonly gaps: boolean;
  readonly ticks: Html;
}

/** Times lie where they belong, so that a gap is seen; other rows lie one after the other. */
function placeOfRows(
  { fields, dimensions = [] }: Preview,
  along: string | undefined,
  count: number,
): RowPlace {
  const dimension = dimensions.find(({ name }) => name === along);
  const field = fields.find(({ name }) => name === along);
  const times = field?.units && dimension?.calendar ? timeCoding(field.units, dimension.calendar) : null;
  const { range, size = count } = dimension ?? {};
  if (
    !field?.read || times === null || typeof times === "string" || !range || range.backwards !== null ||
    range.absent !== null
  ) {
    const ticks = niceNumbers(0, count).map((row) => ({ at: row / count, text: tickText(row) }));
    return { of: (row) => row / count, each: 1 / count, gaps: false, ticks: ticksBelow(ticks) };
  }
  const values = Float64Array.from(field.read(0, size) as ArrayLike<number>, Number);
  const steps = Array.from(values.subarray(1), (value, i) => value - values[i]).sort((a, b) => a - b);
  const step = steps[Math.floor(steps.length / 2)] || 1;
  const [first, span] = [values[0], values[size - 1] - values[0] + step];
  const years = [0, 1, 2, 3, 4].map((i) => Math.round((size - 1) * i / 4));
  const ticks = [...new Set(years)].map((row) => ({
    at: (values[row] - first) / span,
    text: axisText({ times }, values[row]).slice(0, span / step > 48 ? 7 : 10),
  }));
  return {
    of: (row) => (values[row] - first) / span,
    each: step / span,
    gaps: range.gaps.length > 0,
    ticks: ticksBelow(ticks),
  };
}

const ticksBelow = (ticks: readonly { readonly at: number; readonly text: string }[]): Html =>
  markup`<svg class="ticks" aria-hidden="true">${
    ticks.map(({ at, text }, i) =>
      markup`<text${i % 2 === 1 && new Html(' class="extra"')} x="${
        (100 * at).toFixed(2)
      }%" y="12" text-anchor="${at < 0.06 ? "start" : at > 0.9 ? "end" : "middle"}">${text}</text>`
    )
  }</svg>`;

/** Rows of a stretch have their mean share. */
function areaOf(rows: readonly number[], present: readonly number[], { of, each }: RowPlace): string {
  const together = Math.ceil(rows.length / MOST_STRETCHES), parts: string[] = [];
  const gap = rows.length > 1 ? (rows[rows.length - 1] - rows[0]) / (rows.length - 1) : 1;
  const number = (value: number) => String(Number(value.toFixed(1)));
  let end = NaN;
  for (let i = 0; i < rows.length; i += together) {
    const some = present.slice(i, i + together),
      share = some.reduce((sum, one) => sum + one, 0) / some.length;
    const from = 1000 * of(rows[i]), last = rows[Math.min(rows.length, i + together) - 1];
    const to = 1000 * (of(last) + each * gap);
    // A stretch begins where the one before it has ended, unless there is a gap between them.
    const left = from - end < 1000 * each * gap * 0.5 ? end : from;
    parts.push(`M${number(left)} 100V${number(100 - 100 * share)}H${number(to)}V100z`);
    end = to;
  }
  return parts.join("");
}

// Pictures of samples that are no maps, and classes.

const PICTURES = 12, PICTURE_SIDE = 112;

function picturesSection({ pictures }: Preview, overviews: readonly FieldOverview[]): Html | null {
  if (pictures === null || pictures.count === 0) return null;
  const isMap = overviews.some(({ maps, field }) => maps.length > 0 && field.dimensions !== undefined);
  if (isMap) return null;
  const count = Math.min(PICTURES, pictures.count);
  const samples = pictures.some?.(count) ?? Array.from({ length: count }, (_, i) => i);
  return markup`<section id="samples"><h2>Samples</h2><div class="samples">${
    samples.map((sample) => {
      const picture = paint(pictures.raster(sample), { width: PICTURE_SIDE, height: PICTURE_SIDE });
      const times = Math.max(1, Math.floor(PICTURE_SIDE / Math.max(picture.width, picture.height)));
      const caption = pictures.caption ? pictures.caption(sample) : `sample ${sample}`;
      return markup`<figure><img alt="${caption}" src="data:image/png;base64,${
        encodePng(enlarged(picture, times)).toBase64()
      }"><figcaption>${caption}</figcaption></figure>`;
    })
  }</div></section>`;
}

function classesSection({ classes }: Preview): Html | null {
  if (classes === null || classes.length === 0) return null;
  const bars = classes.map(({ name, samples }) => ({ name, count: samples }));
  return markup`<section id="classes"><h2>Classes</h2><div class="maps">${
    barsFigure(formatPlural(classes.length, "class").replace("classs", "classes"), bars)
  }</div></section>`;
}

// Variables.

interface Drawing {
  readonly mostPoints: number;
  readonly coasts: Coasts;
}

function variableSection(
  preview: Preview,
  overview: FieldOverview,
  all: readonly FieldOverview[],
  drawing: Drawing,
): Html {
  return markup`<section class="variable"><h2>${overview.field.name}</h2>
<p class="faint">${aboutText(overview)}</p>
<div class="maps">${mapFigures(preview, overview, all, drawing)}${spreadFigure(overview)}</div></section>`;
}

const hasMaps = ({ maps }: FieldOverview): boolean => maps.length > 0;

function columnsSection({ noun }: Preview, overviews: readonly FieldOverview[]): Html | null {
  const columns = overviews.filter((overview) => !hasMaps(overview));
  if (columns.length === 0) return null;
  const title = columns.length < overviews.length
    ? `Other ${noun}s`
    : `${noun[0].toUpperCase()}${noun.slice(1)}s`;
  return markup`<section id="columns"><h2>${title}</h2><div class="maps">${
    columns.map((overview) =>
      markup`<div class="column"><h3>${overview.field.name}</h3><p class="faint">${aboutText(overview)}</p>${
        spreadFigure(overview)
      }</div>`
    )
  }</div></section>`;
}

function aboutText({ field, numbers, missing, values, infinite, rows }: FieldOverview): string {
  const { dtype, shape, units, dimensions, texts } = field;
  const sides = shape.map((size, i) => dimensions?.[i] ? `${dimensions[i]} ${size}` : size).join(" × ");
  const about = [
    dtype,
    sides,
    ...(numbers && !texts
      ? [
        `${short(numbers.min)} to ${short(numbers.max)}${units && units !== "1" ? ` ${units}` : ""}`,
        `mean ${short(numbers.mean)} ± ${short(numbers.std)}`,
      ]
      : []),
    ...(missing > 0 ? [`${shareText(missing / values)} missing`] : []),
    ...(infinite > 0 ? [`${infinite} infinite`] : []),
    ...(rows.length > 0 && rows.length < shape[0]
      ? [`from ${rows.length} of ${shape[0]}, evenly spread`]
      : []),
  ];
  return about.join(" · ");
}

const short = (value: number): string => tickText(Number(value.toPrecision(4)));

const shareText = (share: number): string => `${Number((100 * share).toPrecision(2))}%`;

function spreadFigure({ field: { units, texts }, numbers, maps }: FieldOverview): Html | null {
  if (numbers === null) return null;
  if (numbers.counts) {
    const bars = numbers.counts.map(([value, count]) => ({ name: texts?.[value] ?? tickText(value), count }));
    return barsFigure(maps.length > 0 ? "Values" : "", bars);
  }
  return texts ? null : histogramFigure(maps.length > 0 ? "Histogram" : "", numbers.histogram, units);
}

function mapFigures(
  preview: Preview,
  overview: FieldOverview,
  all: readonly FieldOverview[],
  drawing: Drawing,
): Html[] {
  const { field, maps, numbers } = overview;
  // A mean of more than two classes is none of them.
  if (maps.length === 0 || (!field.dtype.startsWith("f") && (numbers?.counts?.length ?? 0) > 2)) return [];
  const axes = mapAxesOf(preview.fields, field),
    land = landOf(overview, all),
    isStatic = overview.rows.length === 0;
  const common = { ...drawing, axes, land };
  return maps.flatMap(({ channel, mean, missing }, i) => {
    const of = channel === null ? "" : `, ${channelText(preview, field, channel)}`;
    const title = isStatic ? (of ? of.slice(2) : "Map") : `Mean${of}`;
    const some = missing.values.some((share) => share > 0 && share < 1);
    const known = i > 0 && missing.values.every((share, at) => share === maps[0].missing.values[at]);
    return [
      mapFigure({ ...common, title, plane: mean, ...colourScale([mean]), units: field.units }),
      ...(some && !known
        ? [mapFigure({ ...common, title: `Missing${of}`, plane: missing, scale: "share", range: [0, 1] })]
        : []),
    ];
  });
}

/** Its own missing points are a coast, or those of another variable on the same grid. */
function landOf({ field, maps: [map] }: FieldOverview, all: readonly FieldOverview[]): Plane | null {
  const isLand = ({ values }: Plane) => values.some(Number.isNaN);
  if (isLand(map.mean)) return map.mean;
  const grid = field.dimensions?.slice(-2).join();
  if (grid === undefined) return null;
  const same = all.filter(({ field, maps }) =>
    maps.length > 0 && field.dimensions?.slice(-2).join() === grid
  );
  const mask = same.find(({ field: { name }, numbers }) =>
    MASKS.test(name) && numbers?.min === 0 && numbers.max === 1
  );
  if (mask) {
    const { width, height, values } = mask.maps[0].mean;
    return { width, height, values: values.map((share) => share >= 0.5 ? NaN : share) };
  }
  return same.find(({ maps: [map] }) => isLand(map.mean))?.maps[0].mean ?? null;
}

const MASKS = /^(lsm|land|land_?mask|land_?sea_?mask|land_binary_mask|sftlf)$/i;

/** Channels along a named dimension with a coordinate have its value. */
function channelText({ fields }: Preview, { dimensions, shape }: PreviewField, channel: number): string {
  const name = dimensions?.[dimensions.length - 3];
  const own = fields.find((field) => field.name === name && field.shape.join() === String(shape.at(-3)));
  if (name === undefined || !own?.read) return `channel ${channel}`;
  const value = Number(own.read(channel, 1)[0]);
  return `${name} ${own.texts?.[value] ?? tickText(value)}${
    own.units && own.units !== "1" ? ` ${own.units}` : ""
  }`;
}

function othersSection(others: readonly PreviewField[], noun: string): Html | null {
  if (others.length === 0) return null;
  const shown = others.slice(0, MOST_OTHERS);
  return markup`<section id="others"><h2>Not drawn</h2>
<div class="wide"><table><thead><tr><th>${noun}</th><th>type</th><th>shape</th><th></th></tr></thead><tbody>${
    shown.map(({ name, dtype, shape, dimensions, units, remark }) =>
      markup`<tr><th scope="row">${name}</th><td>${dtype}</td><td>${
        shape.map((size, i) => dimensions?.[i] ? `${dimensions[i]} ${size}` : size).join(" × ")
      }</td><td class="faint">${
        [units && units !== "1" ? units : "", remark ?? ""].filter(Boolean).join("; ")
      }</td></tr>`
    )
  }</tbody></table></div>${
    others.length > shown.length && markup`<p class="faint">and ${others.length - shown.length} more</p>`
  }</section>`;
}
