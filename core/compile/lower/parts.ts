// A part of a tensor that was written through a view: the whole with other numbers in the part's places, and another view of it.
import { numelOf, sameShape, type Shape } from "../builder.ts";
import { rowMajor } from "../access.ts";
import type { Ref } from "../graph.ts";
import type { Lowering, Rules } from "./lowering.ts";

/** A part has these places of the whole, some of whose dimensions are divided into two: [rows, each `step`th]. */
interface Places {
  readonly shape: Shape;
  readonly from: readonly number[];
  readonly sizes: readonly number[];
  /** The dimensions of the whole in the order in which the part has them; those of one place come last. */
  readonly order: readonly number[];
}

/** Null where the part is no grid of places. */
function placesOf(whole: Shape, size: Shape, stride: Shape, offset: number): Places | null {
  const strides = rowMajor(whole), from: number[] = [], sizes: number[] = [], shape: number[] = [];
  const at = new Map<number, number>();
  let rest = offset;
  for (const [d, length] of whole.entries()) {
    const step = strides[d], above = d === 0 ? Infinity : strides[d - 1];
    const start = length === 1 ? 0 : Math.floor(rest / step);
    rest -= start * step;
    const own = [...size.keys()].filter((i) =>
      size[i] > 1 && !at.has(i) && length > 1 && stride[i] % step === 0 && stride[i] < above
    );
    if (own.length > 1) return null;
    const [i] = own, every = i === undefined ? 1 : stride[i] / step;
    if (i === undefined || every === 1) {
      const count = i === undefined ? 1 : size[i];
      if (start + count > length) return null;
      if (i !== undefined) at.set(i, shape.length);
      shape.push(length), from.push(start), sizes.push(count);
      continue;
    }
    const first = Math.floor(start / every);
    if (every === 0 || length % every !== 0 || first + size[i] > length / every) return null;
    at.set(i, shape.length);
    shape.push(length / every, every), from.push(first, start % every), sizes.push(size[i], 1);
  }
  const long = [...size.keys()].filter((i) => size[i] > 1);
  if (rest !== 0 || long.some((i) => !at.has(i))) return null;
  const order = long.map((i) => at.get(i)!);
  return {
    shape,
    from,
    sizes,
    order: [...order, ...shape.keys()].filter((d, i, all) => all.indexOf(d) === i),
  };
}

/** The whole once more in other dimensions. */
const isReshaped = (whole: Shape, size: Shape, stride: Shape): boolean =>
  numelOf(whole) === numelOf(size) && rowMajor(size).every((step, i) => size[i] === 1 || stride[i] === step);

function part(g: Lowering, whole: Ref, size: Shape, stride: Shape, offset: number): Ref {
  if (isReshaped(g.shape(whole), size, stride)) return g.b.reshape(whole, size);
  const places = placesOf(g.shape(whole), size, stride, offset) ?? g.refuse("writes");
  let y = g.b.reshape(whole, places.shape);
  places.shape.forEach((_, d) => y = g.b.slice(y, d, places.from[d], places.from[d] + places.sizes[d]));
  return g.b.reshape(g.b.permute(y, places.order), size);
}

/** `whole` is below 0 where nothing was written to it yet: then it may hold anything. */
function written(g: Lowering, whole: Ref, own: Ref, size: Shape, stride: Shape, offset: number): Ref {
  const { shape } = g.results[0];
  if (isReshaped(shape, size, stride)) return g.b.reshape(own, shape);
  const places = placesOf(shape, size, stride, offset) ?? g.refuse("writes");
  const { order, sizes } = places, turned = order.map((d) => sizes[d]);
  const block = g.b.permute(g.b.reshape(own, turned), order.map((_, d) => order.indexOf(d)));
  const before = whole < 0 ? g.b.expand(g.b.number(0, g.kind(own)), shape) : whole;
  return g.b.reshape(put(g, g.b.reshape(before, places.shape), block, places, 0), shape);
}

/** From dimension d on. */
function put(g: Lowering, whole: Ref, block: Ref, places: Places, d: number): Ref {
  const { from, sizes } = places, shape = g.shape(whole);
  if (sameShape(shape, g.shape(block))) return block;
  if (g.b.numberOf(whole) === 0) {
    return shape.reduceRight((y, size, dim) => g.b.embed(y, dim, dim < d ? 0 : from[dim], size), block);
  }
  const end = from[d] + sizes[d], piece = (a: number, b: number) => a < b ? [g.b.slice(whole, d, a, b)] : [];
  const inner = put(g, g.b.slice(whole, d, from[d], end), block, places, d + 1);
  return g.b.cat([...piece(0, from[d]), inner, ...piece(end, shape[d])], d);
}

export const PART_RULES: Rules = { written_through: written, seen_through: part };
