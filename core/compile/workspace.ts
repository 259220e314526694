// The memory that plans take turns in. None of them leaves anything there for its next run, so a step's first and later
// micro-batches, and a short last one, share it.
import { forgetMemory } from "../../ffi/libc.ts";
import { memoryBlockOf, uninitialised } from "../../ffi/make.ts";
import { type Device, keep, type Tensor } from "../../ffi/tensor.ts";
import { freeMemory } from "../base/memory.ts";

const F32 = 4;

/** The system takes a while to give back the pages of more than so many bytes. */
const LARGE = 256 * 2 ** 20;

export class Workspace {
  /** How many plans work in each piece. */
  readonly #pieces = new Map<Tensor, number>();

  /** `free` gives the bytes that the machine and this process's limits leave; a GPU's allocator refuses by itself. */
  constructor(readonly device: Device = "cpu", readonly free: () => number = freeMemory) {}

  #known(elements: number): Tensor | undefined {
    return [...this.#pieces.keys()].find((piece) => piece.numel >= elements);
  }
  /** False where the machine would have to give more than it has. */
  holds(elements: number): boolean {
    if (this.device !== "cpu") return true;
    return this.#known(elements) !== undefined || F32 * elements <= this.free();
  }
  take(elements: number): Tensor {
    const piece = this.#known(elements) ??
      keep(uninitialised([Math.max(1, elements)], { device: this.device }));
    this.#pieces.set(piece, (this.#pieces.get(piece) ?? 0) + 1);
    return piece;
  }
  leave(piece: Tensor): void {
    const plans = this.#pieces.get(piece)! - 1;
    if (plans > 0) return void this.#pieces.set(piece, plans);
    this.#pieces.delete(piece);
    piece.free();
  }
  /** Between two runs its pages are the system's, for a step that runs op by op. */
  rest(): void {
    if (this.device !== "cpu") return;
    for (const piece of this.#pieces.keys()) forgetMemory(memoryBlockOf(piece));
  }
  /** Between runs that follow each other, too: few pages would not be worth their time. */
  get isLarge(): boolean {
    return this.device === "cpu" &&
      F32 * [...this.#pieces.keys()].reduce((sum, { numel }) => sum + numel, 0) >= LARGE;
  }
}
