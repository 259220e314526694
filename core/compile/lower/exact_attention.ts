// Attention as libtorch computes it on a CPU: by one kernel where that takes the arguments, else by products and a softmax
// in the order of _scaled_dot_product_attention_math.
import { rowMajor } from "../access.ts";
import { attendedOnCpu } from "../attentions.ts";
import type { Ref } from "../graph.ts";
import { learns } from "./calls.ts";
import { type Lowering, num } from "./lowering.ts";
import { matrices } from "./products.ts";

export function exactAttention(
  g: Lowering,
  q: Ref,
  k: Ref,
  v: Ref,
  mask: Ref | null,
  dropout: number,
  causal: boolean,
  scale: number | null,
  grouped = false,
): Ref {
  if (grouped || scale !== null && scale < 0) g.refuse("arguments");
  if (mask === null && g.shape(q).length === 3) return ofOneSample(g, [q, k, v], dropout, causal, scale);
  const added = mask === null ? null : addedMask(g, mask);
  if (dropout === 0 && takesFlash(g, [q, k, v], added)) {
    return attendedOnCpu(g.b, [q, k, v], { causal, mask: added, scale });
  }
  const tokens = g.shape(q).at(-2)!, keys = g.shape(k).at(-2)!;
  const root = num(Math.sqrt(scale ?? 1 / Math.sqrt(g.shape(q).at(-1)!)));
  const query = g.mul(q, root), [ofQuery, ofKey, ofValue] = [q, k, v].map((r, i) => stridesOf(g, r, i));
  let scores = matrices(g, query, scaledAndTurned(g, k, root), [
    dense(g.shape(q), ofQuery),
    turned(dense(g.shape(k), ofKey)),
  ]);
  const whole = causal ? causalMask(g, tokens, keys) : added;
  if (whole !== null) scores = g.add(scores, whole);
  const shares = sharesOf(g, scores);
  const kept = dropout === 0 ? shares : g.mul(shares, g.mask(g.shape(shares), dropout));
  return matrices(g, kept, v, [rowMajor(g.shape(kept)), ofValue]);
}

/** Heads without a dimension of samples are those of one sample. */
function ofOneSample(
  g: Lowering,
  heads: readonly Ref[],
  dropout: number,
  causal: boolean,
  scale: number | null,
): Ref {
  const [q, k, v] = heads.map((r) => g.b.reshape(r, [1, ...g.shape(r)]));
  const y = exactAttention(g, q, k, v, null, dropout, causal, scale);
  return g.b.reshape(y, g.shape(y).slice(1));
}

const stridesOf = (g: Lowering, r: Ref, i: number): readonly number[] => {
  const strides = g.given[i]?.strides ?? [];
  return strides.length === g.shape(r).length ? strides : rowMajor(g.shape(r));
};

const turned = (
  strides: readonly number[],
): number[] => [...strides.slice(0, -2), strides.at(-1)!, strides.at(-2)!];

/** An op's result has its tensor's order of dimensions, without gaps. */
function dense(shape: readonly number[], strides: readonly number[]): number[] {
  const made = new Array<number>(shape.length);
  let step = 1;
  for (const d of shape.map((_, i) => i).sort((a, b) => strides[a] - strides[b] || b - a)) {
    made[d] = step;
    step *= shape[d];
  }
  return made;
}

/** A mask of truth values is one of zeros and infinities. */
const addedMask = (g: Lowering, mask: Ref): Ref =>
  g.kind(mask) === "bool" ? g.where(mask, num(0), num(-Infinity)) : mask;

function causalMask(g: Lowering, tokens: number, keys: number): Ref {
  const own = g.b.reshape(g.range(tokens), [tokens, 1]), other = g.range(keys);
  return g.where(g.compare("ge", own, other), num(0), num(-Infinity));
}

/** The kernel's conditions (sdp_utils_cpp.cpp). */
function takesFlash(g: Lowering, heads: readonly Ref[], mask: Ref | null): boolean {
  const [q, k, v] = heads.map((r) => g.shape(r));
  const alike = [q, k, v].every((shape) =>
    shape.length === 4 && shape.at(-1) === q.at(-1) && String(shape.slice(0, 2)) === String(q.slice(0, 2))
  );
  if (!alike || k[2] !== v[2]) return false;
  return mask === null || !learns(g.b, mask) && fits(g.shape(mask), [q[0], q[1], q[2], k[2]]);
}

const fits = (mask: readonly number[], whole: readonly number[]): boolean =>
  (mask.length === 2 || mask.length === 4) &&
  mask.every((size, d) => size === 1 || size === whole[d - mask.length + 4]);

/** libtorch turns the keys and then scales them, which leaves them as they lie. */
function scaledAndTurned(g: Lowering, k: Ref, root: ReturnType<typeof num>): Ref {
  const rank = g.shape(k).length, turned = [...g.all(k).slice(0, -2), rank - 1, rank - 2];
  return g.given[1]?.dense ? g.b.permute(g.mul(k, root), turned) : g.mul(g.b.permute(k, turned), root);
}

/** Rows that are masked wholly become zeros. */
const sharesOf = (g: Lowering, scores: Ref): Ref =>
  g.b.call(
    "_safe_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
    [{ ref: scores }, -1, null],
    g.shape(scores),
  );
