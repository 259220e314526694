// Static variables, such as land or orography, are the same for all samples: they become features of each.
import { dtypeBytes } from "../../../ffi/dtype.ts";
import { product } from "./rows.ts";
import type { Variable, VariableColumn } from "./variables.ts";

interface Chosen {
  readonly features: readonly VariableColumn[];
  readonly targets: readonly VariableColumn[];
}

/**
 * Features that lie on some dimensions of the samples' maps, but not along the samples. A pointwise grid has
 * them at each of its points; maps have them as a channel.
 */
export function withStatic(
  { features, targets }: Chosen,
  path: string,
  pointwise: boolean,
): Chosen & { readonly spreads: readonly string[] } {
  const others = [...targets, ...features];
  const frame = others.reduce((a, b) => b.variable.shape.length > a.variable.shape.length ? b : a).variable;
  const [samples, ...map] = frame.dimensions;
  const isStatic = ({ variable: { dimensions, dtype }, unusable }: VariableColumn) =>
    !unusable && dtype !== null && dimensions.length > 0 && samples !== undefined &&
    !dimensions.includes(samples) && isPartOf(dimensions, map);
  const spreads = features.filter(isStatic);
  const moving = [...features.filter((column) => !spreads.includes(column)), ...targets];
  const whole = pointwise &&
    moving.every(({ variable }) => variable.dimensions.join() === frame.dimensions.join());
  // Samples whose inputs are all the same would teach nothing.
  const alone = spreads.length === features.length && !whole;
  if (spreads.length === 0 || alone) return { features, targets, spreads: [] };
  const spreadOne = (column: VariableColumn): VariableColumn => {
    const { variable } = column;
    const last = map.slice(-2), on = whole || !isPartOf(variable.dimensions, last) ? map : last;
    const sizes = frame.shape.slice(frame.shape.length - on.length);
    return column.of(spread(variable, path, [samples, ...on], [frame.shape[0], ...sizes]));
  };
  return {
    features: features.map((column) => spreads.includes(column) ? spreadOne(column) : column),
    targets,
    spreads: spreads.map(({ name }) => name),
  };
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
  const width = dtypeBytes(variable.dtype!);
  let held: Uint8Array | undefined;
  const sample = () => held ??= spreadOnce(variable, dimensions.slice(1), shape.slice(1), width);
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
