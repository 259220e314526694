// Kernels that differ only in where their memory lies, as those of a model's equal blocks: their code is written once and
// copied, with other numbers where addresses are made.
import type { GemmKernel, GroupKernel, Kernel, SlotPlace, Stage, StridedAccess } from "../kernel.ts";
import type { ProductBatch } from "../batches.ts";
import type { LoopNest } from "./loop_fusion.ts";

export type KernelItem = Kernel | ProductBatch | LoopNest;

/** Kernels with the same text have the same code but for their places, in this order. */
export interface DeduplicationKey {
  readonly text: string;
  readonly places: readonly SlotPlace[];
}

/** Elements that a number of four bytes reaches, whatever their type, and as many again. */
const FAR = 2 ** 27;

/** Null where an address does not fit into an instruction. */
export function deduplicationKey(item: KernelItem): DeduplicationKey | null {
  const reader = new Reader();
  reader.item(item);
  return reader.far ? null : reader;
}

class Reader implements DeduplicationKey {
  text = "";
  far = false;
  readonly places: SlotPlace[] = [];

  item(item: KernelItem): void {
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
          for (const { access, steps } of starts) {
            this.#access(access);
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
    for (const access of [a, b, c]) this.#access(access);
    if (k * Math.max(a.strides[1], b.strides[0]) > FAR) this.far = true;
    if (epilogue) this.#stage(epilogue);
  }
  #stage({ instructions, stores, reductions }: Stage): void {
    this.text += "|";
    for (const one of instructions) {
      if ("from" in one) this.#access(one.from);
      else if ("value" in one) this.text += `=${Object.is(one.value, -0) ? "-0" : one.value}`;
      else if ("reduction" in one) this.text += `#${one.reduction}`;
      else this.text += ` ${one.op}${one.args}`;
    }
    for (const { value, to } of stores) {
      this.text += `>${value}`;
      this.#access(to);
    }
    for (const { op, over, value, to } of reductions) {
      this.text += ` ${op} ${over}${value}`;
      if (to) this.#access(to);
    }
  }
  #access(access: StridedAccess): void {
    this.#place(access);
    this.text += `${access.kind}${access.strides}`;
  }
  /** The number of the place, and for a new one that of another place in its slot: pointers may be shared. */
  #place({ slot, offset }: SlotPlace): void {
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
export function withSpots<I extends KernelItem>(item: I, places: readonly SlotPlace[]): I;
export function withSpots(item: KernelItem, places: readonly SlotPlace[]): KernelItem {
  const at = <P extends SlotPlace>(place: P): P =>
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
          starts: body.starts.map(({ access, steps }) => ({ access: at(access), steps })),
        })),
      };
    case "blas":
      return { ...item, a: at(item.a), b: at(item.b), c: at(item.c) };
    case "vector":
      return { ...item, from: at(item.from), to: at(item.to) };
  }
}
