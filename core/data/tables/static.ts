// Static variables, such as land or orography, are the same for all samples: they become features of each.
import { dtypeBytes } from "../../../ffi/dtype.ts";
import { product } from "../arrays/numbers.ts";
import type { Variable, VariableColumn } from "../arrays/table.ts";

interface Chosen {
  readonly features: readonly VariableColumn[];
  readonly targets: readonly VariableColumn[];
}

interface Spread extends Chosen {
  readonly spreads: readonly string[];
  /** Those among them that are finer than the maps. */
  readonly folded: readonly string[];
}

/**
 * Features that lie on some dimensions of the samples' maps, but not along the samples. A pointwise grid has
 * them at each of its points; maps have them as a channel. Where the maps are k times coarser, as in downscaling,
 * the k * k points within a pixel are a channel each.
 */
export function withStatic({ features, targets }: Chosen, path: string, pointwise: boolean): Spread {
  const others = [...targets, ...features];
  const widest = others.reduce((a, b) => b.variable.shape.length > a.variable.shape.length ? b : a).variable;
  const coarse = pointwise
    ? undefined
    : features.find(({ variable }) =>
      variable.dimensions[0] === widest.dimensions[0] && variable.shape.length === widest.shape.length &&
      timesFiner(widest, variable) > 1
    );
  const frame = coarse?.variable ?? widest;
  const [samples, ...map] = frame.dimensions;
  const isFolded = ({ variable }: VariableColumn) =>
    !pointwise && variable.shape.length === 2 && frame.shape.length > 2 && timesFiner(variable, frame) > 1;
  const isStatic = (column: VariableColumn) => {
    const { variable: { dimensions, dtype }, unusable } = column;
    return !unusable && dtype !== null && dimensions.length > 0 && samples !== undefined &&
      !dimensions.includes(samples) && (isPartOf(dimensions, map) || isFolded(column));
  };
  const spreads = features.filter(isStatic);
  const moving = [...features.filter((column) => !spreads.includes(column)), ...targets];
  const whole = pointwise &&
    moving.every(({ variable }) => variable.dimensions.join() === frame.dimensions.join());
  // Samples whose inputs are all the same would teach nothing.
  const alone = spreads.length === features.length && !whole;
  if (spreads.length === 0 || alone) return { features, targets, spreads: [], folded: [] };
  const spreadOne = (column: VariableColumn): VariableColumn => {
    const { variable } = column;
    if (isFolded(column)) return column.of(folded(variable, path, frame));
    const last = map.slice(-2), on = whole || !isPartOf(variable.dimensions, last) ? map : last;
    const sizes = frame.shape.slice(frame.shape.length - on.length);
    return {
      ...column.of(spread(variable, path, [samples, ...on], [frame.shape[0], ...sizes])),
      still: true,
    };
  };
  return {
    features: features.map((column) => spreads.includes(column) ? spreadOne(column) : column),
    targets,
    spreads: spreads.map(({ name }) => name),
    folded: spreads.filter(isFolded).map(({ name }) => name),
  };
}

/** How many times finer the maps of one variable are; 1 on the same dimensions and where sides are no multiples. */
function timesFiner(fine: Variable, coarse: Variable): number {
  const [rows, columns] = fine.shape.slice(-2), [height, width] = coarse.shape.slice(-2);
  const named = fine.dimensions.slice(-2).join() === coarse.dimensions.slice(-2).join();
  return !named && rows % height === 0 && columns === rows / height * width ? rows / height : 1;
}

/** The points within each pixel lie in channels, row by row, as PyTorch's pixel_unshuffle has them. */
function folded(variable: Variable, path: string, frame: Variable): Variable {
  const k = timesFiner(variable, frame), [height, width] = frame.shape.slice(-2);
  const own = variable.dimensions, within = `${own.join(" x ")} in a pixel`;
  const fold = () => {
    const bytes = variable.read(), each = dtypeBytes(variable.dtype!);
    const made = new Uint8Array(new SharedArrayBuffer(bytes.length));
    for (let to = 0; to * each < made.length; to++) {
      const column = to % width,
        row = Math.floor(to / width) % height,
        inner = Math.floor(to / (width * height));
      const from = (row * k + Math.floor(inner / k)) * k * width + column * k + inner % k;
      made.set(bytes.subarray(from * each, (from + 1) * each), to * each);
    }
    return made;
  };
  const dimensions = [frame.dimensions[0], within, ...frame.dimensions.slice(-2)];
  return repeated(variable, path, dimensions, [frame.shape[0], k * k, height, width], fold);
}

/** They are some of the others, each once and in their order; those without names have to be all. */
function isPartOf(some: readonly string[], all: readonly string[]): boolean {
  if (new Set(all).size < all.length) return some.join() === all.join();
  let at = 0;
  for (const name of all) if (name === some[at]) at++;
  return at === some.length;
}

/** The variable along other dimensions, too, which have its own ones among them in their order. */
function spread(
  variable: Variable,
  path: string,
  dimensions: readonly string[],
  shape: readonly number[],
): Variable {
  const once = () => spreadOnce(variable, dimensions.slice(1), shape.slice(1), dtypeBytes(variable.dtype!));
  return repeated(variable, path, dimensions, shape, once);
}

/** Each sample has the same bytes. */
function repeated(
  variable: Variable,
  path: string,
  dimensions: readonly string[],
  shape: readonly number[],
  once: () => Uint8Array,
): Variable {
  const width = dtypeBytes(variable.dtype!);
  let held: Uint8Array | undefined;
  const sample = () => held ??= once();
  return {
    ...variable,
    dimensions,
    shape,
    read() {
      const one = sample(), all = new Uint8Array(shape[0] * one.length);
      for (let row = 0; row < shape[0]; row++) all.set(one, row * one.length);
      return all;
    },
    rows: (lead) => ({
      layout: "held",
      path,
      values: sample(),
      bytes: product(shape.slice(lead)) * width,
    }),
  };
}

/** Threads share it. */
function spreadOnce(
  variable: Variable,
  dimensions: readonly string[],
  shape: readonly number[],
  width: number,
): Uint8Array {
  const own = variable.read();
  const steps = variable.shape.map((_, d) => product(variable.shape.slice(d + 1)));
  const step = dimensions.map((name) => steps[variable.dimensions.indexOf(name)] ?? 0);
  const all = new Uint8Array(new SharedArrayBuffer(product(shape) * width));
  for (let i = 0, count = product(shape); i < count; i++) {
    let from = 0;
    for (let d = shape.length - 1, rest = i; d >= 0; d--) {
      from += rest % shape[d] * step[d];
      rest = Math.floor(rest / shape[d]);
    }
    for (let byte = 0; byte < width; byte++) all[i * width + byte] = own[from * width + byte];
  }
  return all;
}
