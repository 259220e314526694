// One pass makes a sample of a stored image: crops, flips and turns; resizing adds passes.
import { BadSample } from "../arrays/rows.ts";
import type { SampleNumbers } from "../arrays/numbers.ts";
import { UserError } from "../../base/errors.ts";
import { copyPlanes, cut, type Planes, planesOf, type Stored, type Target } from "../augment/planes.ts";
import { type ImageSize, openResize, resizedSize } from "../augment/resize.ts";
import { type Draw, Room } from "../augment/sample.ts";
import { openSteps, type Steps } from "../augment/run.ts";
import { shapeAfter as shapeAfterSteps } from "../augment/list.ts";
import type { Shape } from "../augment/kind.ts";
import { type Components, type Turn, turnBy, turnComponents } from "./vectors.ts";
import type { DType } from "../../../ffi/dtype.ts";
import type { Patches } from "../../models/patches.ts";

export interface Geometry {
  /** The shorter side becomes this long (bilinear, with Pillow's antialiasing); 0 leaves the size. */
  readonly resize: number;
  /** The middle square has this side; 0 takes all. */
  readonly centreCrop: number;
  /** A random square has this side, after `padding` zeros on every side; 0 for none. */
  readonly randomCrop: number;
  readonly padding: number;
  readonly flip: "none" | "horizontal" | "both";
  readonly rotate: boolean;
  /** A random patch of the map in place of a random crop. */
  readonly patch?: Patch | null;
  /** Channels that are components of vectors. */
  readonly vectors?: Components | null;
  /** The steps of --augment come last. */
  readonly list?: Steps | null;
}

export const AS_IT_IS: Geometry = {
  resize: 0,
  centreCrop: 0,
  randomCrop: 0,
  padding: 0,
  flip: "none",
  rotate: false,
};

interface Patch {
  readonly height: number;
  readonly width: number;
  /** The map goes on from its last row, or column, to its first. */
  readonly wraps: readonly [rows: boolean, columns: boolean];
  /** It begins at multiples of this: a map that is k times finer has its window at the same place. */
  readonly unit: number;
}

/** Each choice about a sample has a random number of its own. */
const TOP = 0, LEFT = 1, MIRROR = 2, UPSIDE_DOWN = 3, TURN = 4;
/** From here on are other places of a patch, down and across. */
const AGAIN = 5;
/** Places of a patch that a sample may have: the number of draws allows no more. */
export const PLACES = 6;

/** The same choices but for the patch's place. */
const drawAgain = (draw: Draw, attempt: number): Draw =>
  attempt === 0 ? draw : (k) => draw(k <= LEFT ? AGAIN + 2 * (attempt - 1) + k : k);

/** A list of steps comes behind all that. */
const asItIs = (plan: Geometry) =>
  !(plan.resize || plan.centreCrop || plan.randomCrop || plan.rotate || plan.patch || plan.flip !== "none");

export function sampleShape(plan: Geometry, stored: readonly number[], where: string): number[] {
  if (plan.padding > 0 && plan.randomCrop === 0) {
    throw new UserError(
      "usage",
      `--crop-padding ${plan.padding} puts zeros around images before a random crop, and there is none: ` +
        "add --random-crop, or leave --crop-padding out.",
    );
  }
  if (asItIs(plan) && !plan.list) return [...stored];
  if (stored.length === 2 && plan.list && asItIs(plan)) {
    const after = shapeAfterSteps(plan.list.steps, [1, stored[0], stored[1]]);
    if (typeof after === "string") throw new UserError("usage", `--augment: a sample of ${where} ${after}.`);
    return after.slice(1);
  }
  if (stored.length !== 3) {
    throw new UserError(
      "usage",
      `${where} has samples of shape [${stored.join(", ")}], but ${
        flagsOf(plan)
      } can only be used with images ` +
        "and maps, which have [channels, height, width].",
    );
  }
  const [channels, height, width] = stored;
  const problem = misfit(plan, [height, width]);
  if (problem) throw new UserError("usage", `${where}: a sample here ${problem}.`);
  const size = outcome(plan, [height, width]);
  const after = plan.list ? shapeAfterSteps(plan.list.steps, [channels, ...size]) : [channels, ...size];
  if (typeof after === "string") throw new UserError("usage", `--augment: a sample of ${where} ${after}.`);
  return [...after];
}

function flagsOf(plan: Geometry): string {
  const flags = [
    plan.resize && "--resize",
    plan.centreCrop && "--centre-crop",
    plan.randomCrop && "--random-crop",
    plan.patch && "--patch",
    plan.flip !== "none" && "--flip",
    plan.rotate && "--rotate",
    plan.list && "--augment",
  ].filter(Boolean);
  return flags.join(", ").replace(/, ([^,]*)$/, " and $1");
}

function misfit(plan: Geometry, stored: ImageSize): string | null {
  const { centreCrop, randomCrop, padding, rotate } = plan;
  const size = plan.resize ? resizedSize(stored, plan.resize) : stored;
  const least = Math.min(...size);
  const after = plan.resize ? " after --resize" : "";
  const small = (flag: string, crop: number, added = "") =>
    `is ${sizeText(size)}${after}${added}, smaller than --${flag} ${crop}: ` +
    `add --resize ${crop} (or more), or take a smaller crop`;
  if (centreCrop > least) return small("centre-crop", centreCrop);
  if (centreCrop && randomCrop > centreCrop + 2 * padding) {
    return `can't be cropped at random to ${randomCrop} out of --centre-crop ${centreCrop}: take a smaller --random-crop`;
  }
  if (!centreCrop && randomCrop > least + 2 * padding) {
    return small("random-crop", randomCrop, padding ? ` and --crop-padding ${padding}` : "");
  }
  if (plan.patch && (plan.patch.height > stored[0] || plan.patch.width > stored[1])) {
    const { height, width } = plan.patch;
    return `is ${sizeText(size)}, smaller than --patch ${height}x${width}: take a smaller patch, such as ` +
      `${Math.min(height, stored[0])}x${Math.min(width, stored[1])}`;
  }
  const [height, width] = outcome(plan, stored);
  if (rotate && height !== width) {
    return `is ${
      sizeText([height, width])
    }${after}, and --rotate needs squares: add --patch N, --random-crop N or --centre-crop N ` +
      `with at most ${least}, or leave --rotate out`;
  }
  return null;
}

const sizeText = ([height, width]: ImageSize) => `${height} pixels high and ${width} wide`;

function outcome({ resize, centreCrop, randomCrop, patch }: Geometry, stored: ImageSize): ImageSize {
  if (patch) return [patch.height, patch.width];
  const side = randomCrop || centreCrop;
  return side ? [side, side] : resize ? resizedSize(stored, resize) : stored;
}

/** Without `draw` a random crop is the middle one. Every sample must come to `shape`. */
export function openGeometry(
  plan: Geometry,
  shape: readonly number[],
): (stored: Stored, into: SampleNumbers, draw: Draw | null) => void {
  if (plan.list) return openListed(plan, plan.list, shape);
  const resample = openResize();
  const same = asItIs(plan);
  return (stored, into, draw) => {
    const found = shapeAfter(plan, same, stored.shape);
    if (!equal(found, shape)) throw misshapen(plan, stored, found, shape);
    const { data } = stored;
    if (same && !stored.strides) {
      return (into as Uint8Array).set(data.subarray(0, into.length) as Uint8Array);
    }
    const planes = planesOf(stored);
    if (same) {
      const { height, width } = planes;
      return copyPlanes(planes, into, { start: 0, plane: height * width, row: width, column: 1 });
    }
    const [, height, width] = found;
    if (plan.patch) {
      const target = turned([height, width], plan, draw);
      for (const { top, left, rows, columns, below, beside } of pieces(placeOf(plan.patch, planes, draw))) {
        const start = target.start + below * target.row + beside * target.column;
        copyPlanes(cut(planes, top, left, rows, columns), into, { ...target, start });
      }
      return turnVectors(plan, into, height * width, draw);
    }
    const { top, left, rows, columns, below, beside } = windowOf(plan, planes, draw);
    const seen = plan.resize
      ? resample(planes, resizedSize([planes.height, planes.width], plan.resize), {
        top,
        left,
        rows,
        columns,
      })
      : cut(planes, top, left, rows, columns);
    const target = turned([height, width], plan, draw);
    if (rows < height || columns < width) into.fill(zeroOf(into) as never);
    copyPlanes(seen, into, { ...target, start: target.start + below * target.row + beside * target.column });
    turnVectors(plan, into, height * width, draw);
  };
}

type Arrange = ReturnType<typeof openGeometry>;

/** The settings before the list may leave samples in several sizes. */
function openListed(plan: Geometry, list: Steps, shape: readonly number[]): Arrange {
  const before = { ...plan, list: null }, same = asItIs(before);
  const steps = openSteps(list, shape), room = new Room(), first = new Map<string, Arrange>();
  return (stored, into, draw) => {
    let seen = stored;
    if (!same) {
      const found = shapeAfter(before, false, stored.shape), key = String(found);
      if (!first.has(key)) first.set(key, openGeometry(before, found));
      const data = room.beside(stored.data, found.reduce((product, side) => product * side, 1));
      first.get(key)!(stored, data, draw);
      seen = { data, shape: found };
    }
    const sample = steps(seen, draw);
    sample.writeTo(into);
    if (plan.vectors) turnBy(into, sample.height * sample.width, plan.vectors, sample.turn);
  };
}

function turnVectors(plan: Geometry, into: SampleNumbers, plane: number, draw: Draw | null): void {
  if (plan.vectors && draw !== null) turnComponents(into, plane, plan.vectors, turnOf(plan, draw));
}

const equal = (a: readonly number[], b: readonly number[]) =>
  a.length === b.length && a.every((x, i) => x === b[i]);
const zeroOf = (numbers: SampleNumbers) =>
  numbers instanceof BigInt64Array || numbers instanceof BigUint64Array ? 0n : 0;

function shapeAfter(plan: Geometry, same: boolean, stored: readonly number[]): readonly number[] {
  if (same) return stored;
  const [channels, height, width] = stored;
  const problem = misfit(plan, [height, width]);
  if (problem) throw new BadSample("", problem);
  return [channels, ...outcome(plan, [height, width])];
}

function misshapen(
  plan: Geometry,
  { shape: stored }: Stored,
  found: readonly number[],
  expected: readonly number[],
): BadSample {
  const text = (shape: readonly number[]) => `[${shape.join(", ")}]`;
  const made = equal(stored, found) ? "" : `, which becomes ${text(found)}`;
  const least = Math.min(...stored.slice(-2));
  const fix = stored.length !== 3 || expected[0] !== found[0]
    ? ""
    : plan.resize
    ? `: cut all to one size with --centre-crop ${plan.resize}`
    : `: bring all to one size, with --resize ${least} --centre-crop ${least} say`;
  return new BadSample("", `is ${text(stored)}${made}, but samples of ${text(expected)} were expected${fix}`);
}

/** The window is after resizing; `below` and `beside` zeros of the padding are in sight. */
interface Window {
  readonly top: number;
  readonly left: number;
  readonly rows: number;
  readonly columns: number;
  readonly below: number;
  readonly beside: number;
}

function windowOf(plan: Geometry, { height, width }: Planes, draw: Draw | null): Window {
  const { centreCrop, randomCrop, padding } = plan;
  const size = plan.resize ? resizedSize([height, width], plan.resize) : [height, width];
  const [down, across] = size.map((length, axis) => {
    const middle = centreCrop || length;
    const from = half(length - middle);
    const side = randomCrop || middle;
    const at = randomCrop === 0
      ? 0
      : draw === null
      ? half(middle - side)
      : Math.floor(draw(axis === 0 ? TOP : LEFT) * (middle + 2 * padding - side + 1)) - padding;
    const first = Math.max(0, at), end = Math.min(middle, at + side);
    return { from: from + first, count: Math.max(0, end - first), zeros: first - at };
  });
  return {
    top: down.from,
    left: across.from,
    rows: down.count,
    columns: across.count,
    below: down.zeros,
    beside: across.zeros,
  };
}

type Span = readonly { readonly from: number; readonly count: number; readonly at: number }[];

/** Rows and columns of the map, in two spans where the patch goes around it; `at` is their place in the patch. */
function placeOf(
  { height, width, wraps, unit }: Patch,
  map: Pick<Planes, "height" | "width">,
  draw: Draw | null,
): readonly [rows: Span, columns: Span] {
  const along = (side: number, patch: number, wraps: boolean, k: number): Span => {
    const around = wraps && patch < side;
    const places = (around ? side : side - patch + unit) / unit;
    const from = unit * Math.floor(draw === null ? (places - 1) / 2 : draw(k) * places);
    const first = Math.min(patch, side - from);
    const begin = { from, count: first, at: 0 };
    return first === patch ? [begin] : [begin, { from: 0, count: patch - first, at: first }];
  };
  return [along(map.height, height, wraps[0], TOP), along(map.width, width, wraps[1], LEFT)];
}

const pieces = ([down, across]: ReturnType<typeof placeOf>): Window[] =>
  down.flatMap((rows) =>
    across.map((columns) => ({
      ...{ top: rows.from, left: columns.from, rows: rows.count, columns: columns.count },
      ...{ below: rows.at, beside: columns.at },
    }))
  );

/** True where the patch has at least one of the points that `counts` says are there. */
function hasPoints(
  patch: Patch,
  [channels, height, width]: readonly number[],
  counts: (at: number) => boolean,
  draw: Draw,
): boolean {
  const windows = pieces(placeOf(patch, { height, width }, draw));
  for (let channel = 0; channel < channels; channel++) {
    for (const { top, left, rows, columns } of windows) {
      for (let row = top; row < top + rows; row++) {
        const from = (channel * height + row) * width + left;
        for (let at = from; at < from + columns; at++) if (counts(at)) return true;
      }
    }
  }
  return false;
}

/** Python's round(n / 2) rounds halves to even, as does torchvision's centre crop. */
function half(n: number): number {
  const low = Math.floor(n / 2);
  return n % 2 !== 0 && low % 2 !== 0 ? low + 1 : low;
}

const turnOf = ({ flip, rotate }: Geometry, draw: Draw): Turn => ({
  mirrored: flip !== "none" && draw(MIRROR) < 0.5,
  upsideDown: flip === "both" && draw(UPSIDE_DOWN) < 0.5,
  quarters: rotate ? Math.floor(draw(TURN) * 4) : 0,
});

/** Flips come first, then quarter turns against the clock. */
function turned([height, width]: ImageSize, plan: Geometry, draw: Draw | null): Target {
  // These are the first pixel's place, and the steps to the pixel below and the one beside.
  let origin = [0, 0], row = [1, 0], column = [0, 1];
  if (draw !== null) {
    const { mirrored, upsideDown, quarters } = turnOf(plan, draw);
    if (mirrored) [origin, column] = [[origin[0], width - 1], [0, -1]];
    if (upsideDown) [origin, row] = [[height - 1, origin[1]], [-1, 0]];
    for (let turns = quarters; turns > 0; turns--) {
      origin = [width - 1 - origin[1], origin[0]];
      [row, column] = [row, column].map(([r, c]) => [-c, r]);
    }
  }
  const at = ([r, c]: readonly number[]) => r * width + c;
  return { start: at(origin), plane: height * width, row: at(row), column: at(column) };
}

/** A sample has all that an image of these sides has, in whatever size: nothing was cut off. */
export function keepsWhole(plan: Geometry | null, stored: ImageSize): boolean {
  if (plan === null) return true;
  if (plan.patch) return false;
  const size = plan.resize ? resizedSize(stored, plan.resize) : stored;
  const isAll = (side: number) => side === 0 || size.every((length) => length === side);
  if (!isAll(plan.centreCrop) || !isAll(plan.randomCrop)) return false;
  let shape: Shape = [3, size[0], size[1]];
  return (plan.list?.steps ?? []).every((step) => {
    const [, height, width] = shape, after = shapeAfterSteps([step], shape);
    if (typeof after === "string") return false;
    shape = after;
    return step.kind === "resize" || after[1] === height && after[2] === width;
  });
}

export const patchOf = ({ height, width, wraps }: Patches): Patch => ({ height, width, wraps, unit: 1 });

/** The window of a map that is k times finer. */
export const finer = (plan: Geometry, k: number): Geometry =>
  plan.patch && k !== 1
    ? {
      ...plan,
      patch: { ...plan.patch, height: k * plan.patch.height, width: k * plan.patch.width, unit: k },
    }
    : plan;

/** Targets' maps go with inputs' through the geometry. */
export interface Beside {
  /** As stored: [channels, height, width]. */
  readonly map: readonly number[];
  readonly plan: Geometry;
  readonly dtype: DType;
  /** Points of this class do not count. */
  readonly ignored: number;
}

/** Draws for the first place of a few with a point that counts; without any, those for the first place. */
export function openPlaces(
  { map, plan: { patch }, dtype, ignored }: Beside,
): (target: SampleNumbers, draw: Draw | null) => Draw | null {
  if (!patch) return (_, draw) => draw;
  if (dtype === "f16" || dtype === "bf16") return (_, draw) => draw; // moved as bits
  const floating = dtype === "f32" || dtype === "f64";
  const none = dtype === "i64" ? BigInt(ignored) : ignored;
  return (target, draw) => {
    if (draw === null) return null;
    const counts = floating
      ? (at: number) => target[at] === target[at] // NaN alone differs from itself
      : (at: number) => target[at] !== none;
    for (let attempt = 0; attempt < PLACES; attempt++) {
      const again = drawAgain(draw, attempt);
      if (hasPoints(patch, map, counts, again)) return again;
    }
    return draw;
  };
}
