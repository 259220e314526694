// libtorch's own vmap (functorch), as Python's torch.vmap uses it: while a level is entered, an op on a
// tensor that hides a dimension from it is done for all of that dimension at once. An exception of these
// functions would end the process, so all arguments are checked before.
import { check, native, out, outAt } from "./abi.ts";
import { NativeError } from "./errors.ts";
import { expand, permute } from "./ops.ts";
import { tape } from "./tape.ts";
import { alive, describe, Tensor } from "./tensor.ts";

export const hasVmap = (): boolean =>
  [
    native.initAndPushLevel ?? native.initAndPushLevel210,
    native.pushLevel,
    native.popLevel,
    native.addBatchDim,
    native.unwrapAtLevel,
  ].every((symbol) => symbol !== null && symbol !== undefined);

/** functorch's RandomnessType: how random ops behave inside. */
const RANDOMNESS = { error: 0n, same: 1n } as const;

const TRANSFORM_VMAP = 1, GIVEN = 1n << 32n;
/** A level's C++ object takes about 80 bytes and is never read here. */
const LEVEL_BYTES = 512;

const batchSize = new BigInt64Array(2); // std::optional<c10::SymInt>: the number, and whether there is one
batchSize[1] = 1n;

let entered = 0;

/** One torch.vmap of a program; the outermost is level 1. */
export class VmapLevel {
  readonly #objects = new Map<number, Uint8Array<ArrayBuffer>>();
  #object: Uint8Array<ArrayBuffer> | undefined;
  #batch = -1;

  constructor(readonly level: number, readonly randomness: keyof typeof RANDOMNESS) {}

  get batch(): number {
    return this.#batch;
  }

  enter(batch: number): void {
    tape.recorder?.refuse("vmap", "mode");
    if (entered !== this.level - 1 || !Number.isSafeInteger(batch) || batch < 0) {
      throw new NativeError("vmap", `level ${this.level}, batch ${batch}`, "it can't be entered here");
    }
    if (batch !== this.#batch) this.#object = this.#objects.get(batch);
    this.#batch = batch;
    if (this.#object) native.pushLevel!(this.#object);
    else {
      this.#object = new Uint8Array(new ArrayBuffer(LEVEL_BYTES));
      this.#objects.set(batch, this.#object);
      this.#make(batch);
    }
    entered++;
  }

  #make(batch: number): void {
    native.silenceVmap?.(false); // that an op is done slice by slice is nothing that its user can change
    batchSize[0] = BigInt(batch);
    const randomness = GIVEN | RANDOMNESS[this.randomness], none = 0n;
    if (native.initAndPushLevel) {
      native.initAndPushLevel(TRANSFORM_VMAP, batchSize, randomness, none, none, none, none);
    } else native.initAndPushLevel210!(TRANSFORM_VMAP, batchSize, randomness, none, none, none);
  }

  leave(): void {
    entered--;
    native.popLevel!(this.#object!);
  }

  /** Gives `x` without this dimension, for the ops inside. `x` itself comes from outside. */
  hide(x: Tensor, dim: number): Tensor {
    const hidden = entered === this.level ? this.#unwrap(x) : null;
    if (hidden || entered !== this.level || x.shape[dim] !== this.#batch) {
      hidden?.whole.free();
      throw new NativeError(
        "vmap",
        `${describe(x)}, dim ${dim}`,
        `no dimension of ${this.#batch} is there to map over`,
      );
    }
    check(native.newHandle(alive(x, "vmap"), outAt), "vmap");
    const argument = out[0]; // libtorch may move it away
    const handle = native.operatorNew(8n);
    native.addBatchDim!(handle, argument, BigInt(dim), BigInt(this.level));
    native.deleteTensor(argument);
    return new Tensor(handle);
  }

  /** Puts the dimension back, at `dim` of the result; a tensor that hid none is stretched. */
  show(x: Tensor, dim: number): Tensor {
    const dims = x.shape.length + 1, to = dim < 0 ? dim + dims : dim;
    if (!(to >= 0 && to < dims) || entered !== this.level) {
      throw new NativeError("vmap", `${describe(x)}, dim ${dim}`, "its result has no such dimension");
    }
    const hidden = this.#unwrap(x);
    if (!hidden) return expand(x, x.shape.toSpliced(to, 0, this.#batch));
    if (dims === 1) return hidden.whole;
    const order = Array.from({ length: dims }, (_, i) => i);
    order.splice(to, 0, ...order.splice(hidden.dim, 1));
    const shown = permute(hidden.whole, order);
    hidden.whole.free();
    return shown;
  }

  #unwrap(x: Tensor): { whole: Tensor; dim: number } | null {
    native.unwrapAtLevel!(unwrapped, alive(x, "vmap"), BigInt(this.level));
    const handle = native.operatorNew(8n);
    native.copyOut(handle, unwrappedTensorAt, 8n);
    const whole = new Tensor(handle);
    if ((unwrapped[1] & 0xffn) !== 0n) return { whole, dim: Number(unwrapped[0]) };
    whole.free();
    return null;
  }
}

// std::tuple<at::Tensor, std::optional<int64_t>> lies in memory from its end: number, flag, tensor.
const unwrapped = new BigUint64Array(3);
const unwrappedTensorAt = Deno.UnsafePointer.of(unwrapped.subarray(2));
