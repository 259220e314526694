// A model's buffers beside each other, as a step leaves them: running statistics, counts, sums of a metric. A micro-batch
// counts once, however often it is computed to compare a plan with ordinary steps.
import { Buffer as Bytes } from "node:buffer";
import { isFloating } from "../../ffi/dtype.ts";
import { noGrad } from "../../ffi/autograd.ts";
import { beginOf, borrowBytes, readBytes, sub } from "../../ffi/make.ts";
import { abs, cat, clone, copy_, reshape, sum, toCopy } from "../../ffi/ops.ts";
import { keep, scope, type Tensor } from "../../ffi/tensor.ts";
import { gradientDifferences, type Gradients } from "./compared_gradients.ts";
import type { Mode } from "./compiler.ts";

type Named = readonly [name: string, tensor: Tensor];

interface Buffer {
  readonly name: string;
  readonly tensor: Tensor;
  /** Its numbers before the micro-batch, and those that the ordinary step has left: one copy if they are the same. */
  readonly before: Tensor;
  left: Tensor | null;
  compared: boolean;
}

/**
 * Shares of a buffer's change, and of its own size, by which the change may differ. In half precision deep models round so
 * much that two right steps are far apart; a buffer that was forgotten, or moved twice, is off by its whole change.
 */
const BOUND = { change: 2e-2, size: 1e-5 }, HALF = { change: 0.2, size: 5e-3 };

/** `t` is a view of this tensor, or the tensor itself. */
function holds(tensor: Tensor, t: Tensor): boolean {
  const from = beginOf(tensor), begin = beginOf(t);
  return begin >= from && begin < from + BigInt(Math.max(1, tensor.byteLength));
}

/** Those that these tensors are views of. */
export const holding = (named: readonly Named[], written: readonly Tensor[]): Named[] =>
  named.filter(([, tensor]) => written.some((t) => holds(tensor, t)));

export class Buffers {
  #all: readonly Buffer[];

  /** Copies the numbers of all that a step might write to. */
  constructor(named: readonly Named[]) {
    this.#all = named.map(([name, tensor]) => ({
      ...{ name, tensor, left: null, compared: true },
      before: noGrad(() => keep(clone(tensor))),
    }));
  }

  /** An ordinary step has left the buffers as they are now. */
  note(): void {
    for (const one of this.#all) {
      if (one.left !== one.before) one.left?.free();
      one.left = haveSameBytes(one.tensor, one.before) ? one.before : noGrad(() => keep(clone(one.tensor)));
    }
  }

  /**
   * From now on only what this step wrote to counts: `written` are a plan's tensors, which may be views of buffers. `others`:
   * whether what the plan does not write to itself has to become what ordinary steps leave, too. False where the plan writes to
   * something else.
   */
  narrow(written: readonly Tensor[], others: boolean): boolean {
    const known = written.every((t) => this.#all.some(({ tensor }) => holds(tensor, t)));
    this.#all = this.#all.filter((one) => {
      const own = written.some((t) => holds(one.tensor, t));
      one.compared = own || others;
      if (own || one.left !== one.before) return true;
      free(one);
      return false;
    });
    return known;
  }

  /** An ordinary step at other weights leaves others, which are forgotten when `body` ends. It begins as before the micro-batch. */
  elsewhere<R>(body: () => R): R {
    const own = this.#all.map(({ left }) => left);
    for (const one of this.#all) one.left = null;
    this.putBack();
    try {
      return body();
    } finally {
      this.#all.forEach((one, i) => {
        if (one.left !== one.before) one.left?.free();
        one.left = own[i];
      });
    }
  }

  /** As they were before the micro-batch. */
  putBack(): void {
    noGrad(() => this.#all.forEach(({ tensor, before }) => copy_(tensor, before)));
  }

  /** As the ordinary step has left them. */
  putLeft(): void {
    noGrad(() => this.#all.forEach(({ tensor, left }) => copy_(tensor, left!)));
  }

  /** Computes the micro-batch once more, which does not count: afterwards they are as they are now. */
  uncounted<R>(body: () => R): R {
    const now = noGrad(() => this.#all.map(({ tensor }) => keep(clone(tensor))));
    this.putBack();
    try {
      return body();
    } finally {
      noGrad(() => this.#all.forEach(({ tensor }, i) => copy_(tensor, now[i])));
      for (const t of now) t.free();
    }
  }

  /** The first buffer that is not what ordinary steps leave ("norm.running_mean: 100%"), or null. */
  wrong(mode: Mode, half: boolean, bound = half ? HALF : BOUND): string | null {
    const differing = this.#all.filter(({ compared, tensor, left }) =>
      compared && !haveSameBytes(tensor, left!)
    );
    if (differing.length === 0) return null;
    const odd = differing.find(({ tensor }) => mode === "exact" || !isFloating(tensor.dtype));
    if (odd) return `${odd.name} has other numbers`;
    return scope(() => noGrad(() => this.#farOff(differing, bound)));
  }

  #farOff(buffers: readonly Buffer[], bound: typeof BOUND): string | null {
    const [before, left, now] = (["before", "left", "tensor"] as const).map((which) =>
      numbersOf(buffers.map((one) => one[which]!))
    );
    const changes = ({ values }: Gradients): Gradients => ({ ...before, values: sub(values, before.values) });
    const sizes = gradientDifferences(left, left), found = gradientDifferences(changes(now), changes(left));
    for (const [i, { error, size }] of found.entries()) {
      const own = Math.max(sizes[i].size, this.#spreadOf(buffers[i].name));
      if (error <= bound.change * size + bound.size * own) continue;
      return `${buffers[i].name}: ${Number((100 * error / size).toPrecision(2))}% of its change`;
    }
    return null;
  }

  /**
   * The size of the numbers that a running mean is one of, 0 of other buffers. Behind another norm each mean is 0, but for what
   * rounding leaves of it.
   */
  #spreadOf(name: string): number {
    const of = name.endsWith("running_mean") ? name.replace(/mean$/, "var") : null;
    const variance = this.#all.find((one) => one.name === of)?.left;
    return variance ? Math.sqrt(sum(abs(variance)).item()) : 0;
  }

  free(): void {
    for (const one of this.#all) free(one);
    this.#all = [];
  }
}

function free({ before, left }: Buffer): void {
  before.free();
  if (left !== before) left?.free();
}

const haveSameBytes = (one: Tensor, other: Tensor): boolean =>
  one.byteLength === 0 || Bytes.compare(bytesOf(one), bytesOf(other)) === 0;

/** Large tables are not copied for it. */
const bytesOf = (t: Tensor): Uint8Array => t.device === "cpu" && t.contiguous ? borrowBytes(t) : readBytes(t);

/** One behind the other, as f32 on the host. */
function numbersOf(tensors: readonly Tensor[]): Gradients {
  const counts = tensors.map(({ numel }) => numel);
  let at = 0;
  return {
    values: cat(tensors.map((t) => reshape(toCopy(t, "f32", null, "cpu"), [t.numel]))),
    counts,
    signs: null,
    starts: counts.map((count) => (at += count) - count),
  };
}
