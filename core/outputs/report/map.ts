// Maps as figures: colours, a coastline, ticks of the coordinates, and a bar that tells what the colours mean.
import {
  cividis,
  colourOfClass,
  type Colours,
  diverging,
  encodeMapPng,
  type ValueRange,
  viridis,
} from "../../data/preview/picture.ts";
import { type Plane, shrunkPlane, upsideDown } from "../../data/preview/look.ts";
import { type MapAxes, type MapAxis, rises } from "../../data/preview/axes.ts";
import type { Histogram } from "../../data/preview/preview.ts";
import { Html, markup } from "./html.ts";

export const classColour = (k: number): string =>
  `#${colourOfClass(k).map((part) => part.toString(16).padStart(2, "0")).join("")}`;

const classes = (count: number): Colours => (share, rgb, at) => {
  const colour = colourOfClass(Math.round(share * (count - 1)));
  for (let i = 0; i < 3; i++) rgb[at + i] = colour[i];
};

const SCALES = { sequential: viridis, diverging, share: cividis, classes: viridis } as const;

const coloursOf = (scale: keyof typeof SCALES, [, most]: ValueRange): Colours =>
  scale === "classes" ? classes(most + 1) : SCALES[scale];

interface MapFigure {
  readonly title: string;
  readonly plane: Plane;
  readonly scale: keyof typeof SCALES;
  readonly range: ValueRange;
  readonly units?: string;
  readonly axes: MapAxes | null;
  /** Points that are missing here have a coast around them. */
  readonly land: Plane | null;
  readonly coasts: Coasts;
  /** Larger maps are drawn with fewer points. */
  readonly mostPoints: number;
}

/** A map is at least a quarter as high as wide, and not much higher than wide. */
const LOWEST = 0.25, HIGHEST = 1.25;

export function mapFigure(given: MapFigure): Html {
  const { title, scale, range, units = "", axes, mostPoints } = given;
  const flipped = axes !== null && rises(axes.y.values);
  const upright = (plane: Plane) => {
    const small = shrunkPlane(plane, mostPoints);
    return flipped ? upsideDown(small) : small;
  };
  const plane = upright(given.plane), { width, height } = plane;
  const high = Math.min(HIGHEST * width, Math.max(LOWEST * width, height));
  const land = given.land && upright(given.land);
  const picture = pngSource(plane, range, coloursOf(scale, range));
  const named = axes && axes.x.values && axes.y.values ? axes : null;
  return markup`<figure class="map"><figcaption>${title}</figcaption>
<div class="${named ? "frame" : "frame bare"}">${named && verticalTicks(named.y, flipped)}
<svg class="field" viewBox="0 0 ${width} ${high}" preserveAspectRatio="none" role="img" aria-label="${title}">
<image width="${width}" height="${high}" preserveAspectRatio="none" href="${picture}"/>
${land && given.coasts.drawn(coastOf(land), `scale(${width / land.width} ${high / land.height})`)}</svg>${
    named && horizontalTicks(ticksOf(named.x), namesOf(named))
  }</div>
${scale === "classes" ? null : colourBar(scale, range, units)}</figure>`;
}

const pngSource = (plane: Plane, range: ValueRange, colours: Colours): string =>
  `data:image/png;base64,${encodeMapPng(plane, range, colours).toBase64()}`;

// The coast.

/** A mask like noise has no coast worth its bytes. */
const LONGEST_COAST = 60_000, LONGEST_COASTS = 400_000;

/** Maps of one page share their coasts. */
export class Coasts {
  readonly #known = new Map<string, number>();
  #room = LONGEST_COASTS;

  drawn(path: string, transform: string): Html | null {
    if (path === "") return null;
    const key = `${transform} ${path}`, known = this.#known.get(key), id = known ?? this.#known.size;
    if (known === undefined) {
      if (path.length > Math.min(LONGEST_COAST, this.#room)) return null;
      this.#room -= path.length;
      this.#known.set(key, id);
    }
    const shape = new Html(
      `fill="none" vector-effect="non-scaling-stroke" transform="${transform}" d="${path}"`,
    );
    // A light line lies below the dark one, so that it is seen on any colour.
    return markup`${
      known === undefined && markup`<defs><path id="coast${id}" ${shape}/></defs>`
    }<use class="halo" href="#coast${id}"/><use class="coast" href="#coast${id}"/>`;
  }
}

/** Lines between points that are missing and others; "" where there are none. */
export function coastOf({ width, height, values }: Plane): string {
  const land = (x: number, y: number) => Number.isNaN(values[y * width + x]);
  const parts: string[] = [];
  const along = (
    lines: number,
    length: number,
    differs: (line: number, at: number) => boolean,
    draw: string,
  ) => {
    for (let line = 1; line < lines; line++) {
      for (let at = 0; at < length; at++) {
        if (!differs(line, at)) continue;
        const from = at;
        while (at < length && differs(line, at)) at++;
        parts.push(draw === "h" ? `M${from} ${line}h${at - from}` : `M${line} ${from}v${at - from}`);
      }
    }
  };
  along(height, width, (y, x) => land(x, y - 1) !== land(x, y), "h");
  along(width, height, (x, y) => land(x - 1, y) !== land(x, y), "v");
  return parts.join("");
}

// Ticks.

interface Tick {
  /** From 0 to 1. */
  readonly at: number;
  readonly text: string;
}

const isNorth = (units = "") => /^degrees?_?n(orth)?$/i.test(units);
const isEast = (units = "") => /^degrees?_?e(ast)?$/i.test(units);

/** Degrees say by themselves what they are. */
function namesOf({ x, y }: MapAxes): string {
  if (isNorth(y.units) && isEast(x.units)) return "";
  const named = ({ name, units }: MapAxis) => units && units !== "1" ? `${name} (${units})` : name;
  return x.units === y.units && x.units ? `${x.name}, ${named(y)}` : `${named(x)}, ${named(y)}`;
}

export function ticksOf({ values, units }: MapAxis): Tick[] {
  if (values === null || values.length < 2) return [];
  const [first, last] = [values[0], values[values.length - 1]];
  return niceNumbers(Math.min(first, last), Math.max(first, last), isNorth(units) || isEast(units)).map((
    value,
  ) => ({
    at: (placeOf(values, value) + 0.5) / values.length,
    text: degrees(value, units) ?? tickText(value),
  }));
}

/** A value lies between those of two points. */
function placeOf(values: Float64Array, value: number): number {
  const up = values[values.length - 1] >= values[0];
  const found = values.findIndex((one) => up ? one >= value : one <= value);
  const after = found < 0 ? values.length - 1 : found;
  if (after === 0) return 0;
  const [low, high] = [values[after - 1], values[after]];
  return after - 1 + (high === low ? 0 : Math.min(1, (value - low) / (high - low)));
}

function degrees(value: number, units: string | undefined): string | null {
  if (isNorth(units)) return `${tickText(Math.abs(value))}°${value > 0 ? "N" : value < 0 ? "S" : ""}`;
  if (!isEast(units)) return null;
  const east = ((value + 180) % 360 + 360) % 360 - 180;
  return `${tickText(Math.abs(east))}°${east > 0 ? "E" : east < 0 && east > -180 ? "W" : ""}`;
}

/** Some round numbers from one to the other. */
export function niceNumbers(from: number, to: number, angles = false, most = 5): number[] {
  const rough = (to - from) / most;
  if (!(rough > 0) || rough === Infinity) return [from];
  const power = 10 ** Math.floor(Math.log10(rough));
  const usual = [1, 2, 2.5, 5, 10].map((factor) => factor * power);
  const step = (angles ? [5, 10, 15, 30, 45, 60, 90] : []).find((one) => rough > 2 && one >= rough) ??
    usual.find((one) => one >= rough * 0.999)!;
  const first = Math.ceil(from / step - 1e-9), last = Math.floor(to / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(12)) + 0);
}

export function tickText(value: number): string {
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e5 || size < 1e-3)) {
    return value.toExponential().replace("e+", "e").replace("-", "−");
  }
  return String(Number(value.toPrecision(6))).replace("-", "−");
}

const percent = (share: number): string => `${(100 * share).toFixed(2)}%`;

function verticalTicks(axis: MapAxis, flipped: boolean): Html {
  return markup`<svg class="ticks upright" aria-hidden="true">${
    ticksOf(axis).map(({ at, text }) =>
      markup`<text x="100%" y="${
        percent(flipped ? 1 - at : at)
      }" dx="-6" dy="4" text-anchor="end">${text}</text>`
    )
  }</svg>`;
}

function horizontalTicks(ticks: readonly Tick[], name = ""): Html {
  return markup`<div class="under"><svg class="ticks" aria-hidden="true">${
    ticks.map(({ at, text }, i) =>
      markup`<text${i % 2 === 1 && ticks.length > 3 && new Html(' class="extra"')} x="${
        percent(at)
      }" y="12" text-anchor="${at < 0.06 ? "start" : at > 0.94 ? "end" : "middle"}">${text}</text>`
    )
  }</svg>${name && markup`<span class="axis">${name}</span>`}</div>`;
}

// Colours.

/** The same for all maps of a kind. */
const BAR: Plane = { width: 255, height: 1, values: Float64Array.from({ length: 255 }, (_, i) => i / 254) };

function colourBar(scale: MapFigure["scale"], [least, most]: ValueRange, units: string): Html {
  const span = most - least;
  const ticks = niceNumbers(least, most).map((value) => ({
    at: span > 0 ? (value - least) / span : 0.5,
    text: scale === "share" ? `${Number((100 * value).toPrecision(3))}%` : tickText(value),
  }));
  return markup`<div class="scale"><img alt="${`Colours from ${tickText(least)} to ${
    tickText(most)
  }`}" src="${pngSource(BAR, [0, 1], SCALES[scale])}">${
    units && units !== "1" && scale !== "share" ? markup`<span class="axis">${units}</span>` : null
  }${horizontalTicks(ticks)}</div>`;
}

/** Values that are few on both sides of zero do not make a difference of a field. */
const TELLING = 0.15;

/** Values on both sides of zero are blue, white and red, as xarray has them; others go from dark to light. */
export function colourScale(planes: readonly Plane[]): Pick<MapFigure, "scale" | "range"> {
  const [least, most] = usualRange(planes);
  const both = least < 0 && most > 0 && Math.min(-least, most) > TELLING * Math.max(-least, most);
  return both
    ? { scale: "diverging", range: evenRange([least, most]) }
    : { scale: "sequential", range: [least, most] };
}

export function evenRange([least, most]: ValueRange): ValueRange {
  const size = Math.max(Math.abs(least), Math.abs(most)) || 1;
  return [-size, size];
}

/** From the 200th part to the last but one of as many: one odd point takes the colour of none. */
export function usualRange(planes: readonly Plane[]): ValueRange {
  const values = planes.flatMap(({ values }) => {
    const each = Math.ceil(values.length / 100_000);
    return Array.from(values.filter((value, i) => i % each === 0 && value - value === 0));
  }).sort((a, b) => a - b);
  if (values.length === 0) return [0, 1];
  const at = (share: number) => values[Math.min(values.length - 1, Math.floor(share * values.length))];
  const range: ValueRange = [at(0.005), at(0.995)];
  return range[0] < range[1] ? range : [values[0], values[values.length - 1]];
}

// Lines, histograms and bars.

interface LineFigure {
  readonly title: string;
  readonly x: MapAxis;
  readonly units: string;
  /** A line without hue is faint. */
  readonly lines: readonly {
    readonly label: string;
    readonly hue: number;
    readonly y: readonly (number | null)[];
  }[];
  /** Zero belongs to it. */
  readonly zero: boolean;
}

export function lineFigure({ title, x, units, lines, zero }: LineFigure): Html {
  const known = lines.flatMap(({ y }) => y.filter((value) => value !== null));
  const least = Math.min(...known, zero ? 0 : Infinity), most = Math.max(...known, zero ? 0 : -Infinity);
  const ticks = niceNumbers(least, most + (most > least ? 0 : 1), false, 4);
  const low = Math.min(least, ticks[0]),
    high = Math.max(most, ticks[ticks.length - 1]),
    span = high - low || 1;
  const count = lines[0].y.length, from = x.values ?? Float64Array.from({ length: count }, (_, i) => i);
  const [first, last] = [Math.min(...from), Math.max(...from)], wide = last - first || 1;
  const across = (i: number) => 20 + 960 * (from[i] - first) / wide;
  const up = (value: number) => 100 - 100 * (value - low) / span;
  const short = (value: number) => Number(value.toFixed(2));
  const along = x.values && count > 24
    ? niceNumbers(first, last, /^degrees/.test(x.units ?? ""))
    : niceNumbers(first, last, /^degrees/.test(x.units ?? "")).filter((value) =>
      !isSteps(x) || Number.isInteger(value)
    );
  const name = x.units && !/^degrees/.test(x.units) ? `${x.name} (${x.units})` : x.name;
  return markup`<figure class="map"><figcaption>${title}${
    units && markup` <span class="axis">${units}</span>`
  }</figcaption>
<div class="frame">${
    uprightTicks(ticks, up)
  }<svg class="lines" viewBox="0 0 1000 100" preserveAspectRatio="none" role="img" aria-label="${title}">${
    ticks.map((value) => markup`<path class="rule" d="M0 ${short(up(value))}H1000"/>`)
  }${
    lines.map(({ hue, y }) => {
      const points = y.map((value, i) => value === null ? null : `${short(across(i))} ${short(up(value))}`);
      const path = points.map((point, i) => point && `${i > 0 && points[i - 1] ? "L" : "M"}${point}`).join(
        "",
      );
      const dots = count > 24 ? "" : points.map((point) => point && `M${point}h0`).join("");
      return markup`<path class="line s${hue}" d="${path}"/>${
        dots && markup`<path class="dot s${hue}" d="${dots}"/>`
      }`;
    })
  }</svg>${
    horizontalTicks(
      along.map((value) => ({
        at: (20 + 960 * (value - first) / wide) / 1000,
        text: degrees(value, x.units) ?? tickText(value),
      })),
      name,
    )
  }</div>${
    lines.length > 1 &&
    markup`<p class="legend">${
      lines.map(({ label, hue }) => markup`<span class="key"><i class="swatch h${hue}"></i>${label}</span>`)
    }</p>`
  }</figure>`;
}

/** `up` is from the top, in percent. */
const uprightTicks = (ticks: readonly number[], up: (value: number) => number): Html =>
  markup`<svg class="ticks upright" aria-hidden="true">${
    ticks.map((value) =>
      markup`<text x="100%" y="${up(value).toFixed(2)}%" dx="-6" dy="4" text-anchor="end">${
        tickText(value)
      }</text>`
    )
  }</svg>`;

/** Predictions over the truth: a perfect model has all points on the diagonal. */
export function scatterFigure(
  { title, units, x, y, caption }: {
    readonly title: string;
    readonly units: string;
    readonly x: readonly number[];
    readonly y: readonly number[];
    /** It is said to those who do not see the points. */
    readonly caption: string;
  },
): Html {
  const all = [...x, ...y].filter(Number.isFinite), least = Math.min(...all), most = Math.max(...all);
  const room = (most - least) * 0.04 || 1, low = least - room, span = most - least + 2 * room;
  const across = (value: number) => 100 * (value - low) / span, up = (value: number) => 100 - across(value);
  const ticks = niceNumbers(low, low + span, false, 4), short = (value: number) => Number(value.toFixed(2));
  const points = x.map((value, i) =>
    Number.isFinite(value) && Number.isFinite(y[i]) ? `M${short(across(value))} ${short(up(y[i]))}h0` : ""
  ).join("");
  const unit = units && `, ${units}`;
  return markup`<figure class="map scatter"><figcaption>${title} <span class="axis">predicted${unit}</span></figcaption>
<div class="frame">${
    uprightTicks(ticks, up)
  }<svg class="square" viewBox="0 0 100 100" preserveAspectRatio="none" role="img" aria-label="${caption}">${
    ticks.map((value) =>
      markup`<path class="rule" d="M0 ${short(up(value))}H100M${short(across(value))} 0V100"/>`
    )
  }<path class="diagonal" d="M0 100L100 0"/><path class="dot s0" d="${points}"/></svg>${
    horizontalTicks(ticks.map((value) => ({ at: across(value) / 100, text: tickText(value) })), `true${unit}`)
  }</div></figure>`;
}

const isSteps = ({ name }: MapAxis): boolean => name === "lead";

export function histogramFigure(title: string, { from, to, counts }: Histogram, units = ""): Html {
  const most = Math.max(1, ...counts), span = to - from;
  const ticks = niceNumbers(from, to).map((value) => ({
    at: span > 0 ? (value - from) / span : 0.5,
    text: tickText(value),
  }));
  return markup`<figure class="map histogram">${captionOf(title)}
<svg class="bins" viewBox="0 0 ${counts.length} 100" preserveAspectRatio="none" role="img" aria-label="${title}">${
    counts.map((count, i) => {
      const high = 100 * count / most;
      return count > 0 &&
        markup`<rect class="h0" x="${i + 0.06}" width="0.88" y="${(100 - high).toFixed(2)}" height="${
          high.toFixed(2)
        }"/>`;
    })
  }</svg>
${horizontalTicks(ticks, units === "1" ? "" : units)}</figure>`;
}

const captionOf = (title: string): Html | "" => title && markup`<figcaption>${title}</figcaption>`;

const MOST_BARS = 20;

export function barsFigure(
  title: string,
  bars: readonly { readonly name: string; readonly count: number }[],
): Html {
  const shown = bars.slice(0, MOST_BARS), most = Math.max(1, ...bars.map(({ count }) => count));
  const all = bars.reduce((sum, { count }) => sum + count, 0);
  return markup`<figure class="map">${captionOf(title)}<table class="shares">${
    shown.map(({ name, count }) =>
      markup`<tr><th scope="row">${name}</th><td class="bars"><svg class="share" viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true"><rect class="h0" width="${
        (100 * count / most).toFixed(2)
      }" height="1"/></svg></td><td class="number">${count}</td><td class="number">${
        (100 * count / Math.max(1, all)).toFixed(1)
      }%</td></tr>`
    )
  }</table>${
    bars.length > shown.length && markup`<p class="faint">${bars.length - shown.length} more</p>`
  }</figure>`;
}
