// einsum of one or two tensors: a permutation, sums, and a product.
import type { Ref } from "../graph.ts";
import type { Lowering, Rules } from "./lowering.ts";

/** A value whose dimensions have letters. */
interface Lettered {
  readonly ref: Ref;
  readonly letters: readonly string[];
}

const times = (sizes: readonly number[]): number => sizes.reduce((all, size) => all * size, 1);

/** Without the letters that nobody asks for. */
function summed(g: Lowering, { ref, letters }: Lettered, wanted: readonly string[]): Lettered {
  const dims = letters.flatMap((letter, d) => wanted.includes(letter) ? [] : [d]);
  if (dims.length === 0) return { ref, letters };
  const kept = letters.filter((letter) => wanted.includes(letter));
  const shape = g.shape(ref).filter((_, d) => !dims.includes(d));
  return { ref: g.b.reshape(g.sum(ref, dims), shape), letters: kept };
}

const ordered = (g: Lowering, { ref, letters }: Lettered, order: readonly string[]): Ref =>
  g.b.permute(ref, order.map((letter) => letters.indexOf(letter)));

function product(g: Lowering, x: Lettered, y: Lettered, out: readonly string[]): Lettered {
  const a = summed(g, x, [...y.letters, ...out]), b = summed(g, y, [...x.letters, ...out]);
  const both = a.letters.filter((letter) => b.letters.includes(letter));
  const batch = both.filter((letter) => out.includes(letter));
  const over = both.filter((letter) => !out.includes(letter));
  const rows = a.letters.filter((letter) => !both.includes(letter));
  const columns = b.letters.filter((letter) => !both.includes(letter));
  const sizesOf = (of: Lettered, letters: readonly string[]) =>
    letters.map((letter) => g.shape(of.ref)[of.letters.indexOf(letter)]);
  const [n, k] = [batch, over].map((letters) => times(sizesOf(a, letters)));
  const [m, l] = [times(sizesOf(a, rows)), times(sizesOf(b, columns))];
  const left = g.b.reshape(ordered(g, a, [...batch, ...rows, ...over]), [n, m, k]);
  const right = g.b.reshape(ordered(g, b, [...batch, ...over, ...columns]), [n, k, l]);
  const made = n === 1
    ? g.b.gemm(g.b.reshape(left, [m, k]), g.b.reshape(right, [k, l]))
    : g.b.gemm(left, right);
  const sizes = [...sizesOf(a, batch), ...sizesOf(a, rows), ...sizesOf(b, columns)];
  return { ref: g.b.reshape(made, sizes), letters: [...batch, ...rows, ...columns] };
}

export const EINSUM_RULES: Rules = {
  einsum: (g, equation: string, tensors: readonly Ref[]) => {
    const [given, output] = equation.replaceAll(" ", "").split("->");
    const letters = given.split(",").map((text) => [...text]);
    const plain = output !== undefined && !equation.includes(".") && tensors.length <= 2 &&
      letters.every((one, i) =>
        new Set(one).size === one.length && one.length === g.shape(tensors[i]).length
      );
    // A size of 1 that is stretched to another's.
    const size = new Map<string, number>();
    const same = letters.every((one, i) =>
      one.every((letter, d) => {
        const is = g.shape(tensors[i])[d], was = size.get(letter) ?? is;
        size.set(letter, is);
        return is === was;
      })
    );
    if (!plain || !same) g.refuse("arguments");
    const [x, y] = tensors.map((ref, i): Lettered => ({ ref: g.float(ref), letters: letters[i] }));
    const out = [...output], made = y === undefined ? summed(g, x, out) : product(g, x, y, out);
    return ordered(g, made, out);
  },
};
