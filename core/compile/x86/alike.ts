// Kernels that differ only in where their memory lies, as those of a model's equal blocks: their code is written once and
// copied, with other numbers where addresses are made.
import type { GemmKernel, GroupKernel, Kernel, Place, Stage, Walk } from "../kernel.ts";
import type { Batch } from "../batches.ts";
import type { Nest } from "./nests.ts";

export type Item = Kernel | Batch | Nest;

/** Kernels with the same text have the same code but for their places, in this order. */
export interface Likeness {
  readonly text: string;
  readonly places: readonly Place[];
}

/** Elements that a number of four bytes reaches, whatever their type, and as many again. */
const FAR = 2 ** 27;

/** Null where an address does not fit into an instruction. */
export function likenessOf(item: Item): Likeness | null {
  const reader = new Reader();
  reader.item(item);
  return reader.far ? null : reader;
}

class Reader implements Likeness {
  text = "";
  far = false;
  readonly places: Place[] = [];

  item(item: Item): void {
    this.text += item.kernel;
    switch (item.kernel) {
      case "group":
        return this.#group(item);
      case "gemm":
        return this.#gemm(item);
      case "batch":
        this.#gemm(item.product);
        for (const { count, a, b, c } of item.repeats) this.text += `*${count},${a},${b},${c}`;
        return;
      case "nest":
        this.text += item.counts;
        for (const { kernel, starts } of item.bodies) {
          this.item(kernel);
          for (const { walk, steps } of starts) {
            this.#walk(walk);
            this.text += `+${steps}`;
          }
        }
        return;
      case "blas": {
        const { transA, transB, m, n, k, a, lda, b, ldb, c, ldc, beta } = item;
        this.text += `${transA},${transB},${m},${n},${k},${lda},${ldb},${ldc},${beta}`;
        for (const place of [a, b, c]) this.#place(place);
        return;
      }
      case "vector":
        this.text += `${item.function}${item.elements}`;
        this.#place(item.from);
        this.#place(item.to);
    }
  }

  #group({ exact, sizes, stages }: GroupKernel): void {
    this.text += `${exact === true}${sizes}`;
    for (const stage of stages) this.#stage(stage);
  }
  #gemm({ m, n, k, a, b, c, add, epilogue, chain }: GemmKernel): void {
    this.text += `${m},${n},${k},${add},${chain}`;
    for (const walk of [a, b, c]) this.#walk(walk);
    if (k * Math.max(a.strides[1], b.strides[0]) > FAR) this.far = true;
    if (epilogue) this.#stage(epilogue);
  }
  #stage({ instructions, stores, reductions }: Stage): void {
    this.text += "|";
    for (const one of instructions) {
      if ("from" in one) this.#walk(one.from);
      else if ("value" in one) this.text += `=${Object.is(one.value, -0) ? "-0" : one.value}`;
      else if ("reduction" in one) this.text += `#${one.reduction}`;
      else this.text += ` ${one.op}${one.args}`;
    }
    for (const { value, to } of stores) {
      this.text += `>${value}`;
      this.#walk(to);
    }
    for (const { op, over, value, to } of reductions) {
      this.text += ` ${op} ${over}${value}`;
      if (to) this.#walk(to);
    }
  }
  #walk(walk: Walk): void {
    this.#place(walk);
    this.text += `${walk.kind}${walk.strides}`;
  }
  /** The number of the place, and for a new one that of another place in its slot: pointers may be shared. */
  #place({ slot, offset }: Place): void {
    if (slot < 0) { // no slot of the table: it is the same in all of them
      this.text += `[${slot},${offset}]`;
      return;
    }
    const { places } = this;
    let beside = -1;
    for (let i = 0; i < places.length; i++) {
      if (places[i].slot !== slot) continue;
      if (places[i].offset === offset) {
        this.text += `[${i}]`;
        return;
      }
      if (beside < 0) beside = i;
    }
    if (Math.abs(offset) > FAR) this.far = true;
    this.text += `[${places.push({ slot, offset }) - 1} ${beside}]`;
  }
}

/** The kernel with its places' numbers at each of them. */
export function withSpots<I extends Item>(item: I, places: readonly Place[]): I;
export function withSpots(item: Item, places: readonly Place[]): Item {
  const at = <P extends Place>(place: P): P =>
    place.slot < 0 ? place : {
      ...place,
      spot: places.findIndex(({ slot, offset }) => slot === place.slot && offset === place.offset),
    };
  const stage = ({ instructions, stores, reductions }: Stage): Stage => ({
    instructions: instructions.map((one) => "from" in one ? { ...one, from: at(one.from) } : one),
    stores: stores.map(({ value, to }) => ({ value, to: at(to) })),
    reductions: reductions.map((one) => ({ ...one, to: one.to && at(one.to) })),
  });
  switch (item.kernel) {
    case "group":
      return { ...item, stages: item.stages.map(stage) };
    case "gemm":
      return {
        ...item,
        ...{ a: at(item.a), b: at(item.b), c: at(item.c) },
        epilogue: item.epilogue && stage(item.epilogue),
      };
    case "batch":
      return { ...item, product: withSpots(item.product, places) };
    case "nest":
      return {
        ...item,
        bodies: item.bodies.map((body) => ({
          ...body,
          starts: body.starts.map(({ walk, steps }) => ({ walk: at(walk), steps })),
        })),
      };
    case "blas":
      return { ...item, a: at(item.a), b: at(item.b), c: at(item.c) };
    case "vector":
      return { ...item, from: at(item.from), to: at(item.to) };
  }
}
