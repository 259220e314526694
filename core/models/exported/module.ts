// The weights of an exported program as a module: parameters and buffers have the names that they have in Python.
import { borrowBytes, longLivedUninitialised } from "../../../ffi/make.ts";
import { detach, viewAsComplex, viewAsReal } from "../../../ffi/ops.ts";
import { keep, type Tensor } from "../../../ffi/tensor.ts";
import { UserError } from "../../base/errors.ts";
import { copyInto } from "../../checkpoint/training_state.ts";
import { isContiguous, type TensorData } from "../../checkpoint/value.ts";
import { Module } from "../nn/module.ts";
import type { Archive, EntryStorage } from "./archive.ts";
import type { LowRank } from "./lora.ts";

export class ExportedModule extends Module {
  readonly tensors = new Map<string, Tensor>();
  /** These are complex in Python. They are trained as pairs of real numbers, as PyTorch does. */
  readonly complex = new Set<Tensor>();
  readonly #order: [name: string, tensor: Tensor][] = [];
  readonly #unsaved: [name: string, tensor: Tensor][] = [];

  constructor(archive: Archive) {
    super();
    const { program, weights, constants, path } = archive;
    const trained = new Set(program.inputs.flatMap((i) => i.kind === "parameter" ? [i.of] : []));
    const loaded = new Map<string, Tensor>();
    const made = (data: TensorData): Tensor => {
      const key = placeIn(data);
      let tensor = loaded.get(key);
      if (!tensor) loaded.set(key, tensor = tensorOf(data));
      return tensor;
    };
    const pairs = (name: string, tensor: Tensor): Tensor => {
      const wanted = program.inputs.some((i) =>
        i.kind === "parameter" && i.of === name && program.tensors.get(i.name)?.requiresGrad !== false
      );
      if (tensor.dtype !== "c64" || !wanted) return tensor;
      const real = keep(viewAsReal(tensor));
      this.complex.add(real);
      return real;
    };
    for (const [name, data] of weights) {
      const meta = program.inputs.find((i) => i.kind === "parameter" && i.of === name);
      const known = loaded.has(placeIn(data));
      const tensor = pairs(name, made(data));
      loaded.set(placeIn(data), tensor);
      this.#order.push([name, tensor]);
      this.tensors.set(name, tensor);
      if (known) continue; // A tied parameter is trained under its first name.
      const needsGradient = meta?.kind === "parameter"
        ? program.tensors.get(meta.name)?.requiresGrad !== false
        : false;
      const tied = [...weights].some(([n, d]) =>
        n !== name && trained.has(n) && placeIn(d) === placeIn(data)
      );
      if ((trained.has(name) && needsGradient) || (tied && !trained.has(name))) {
        if (this.complex.has(tensor)) this.parameter(name, tensor);
        else if (tensor.dtype !== "f32" && tensor.dtype !== "f64") throw notFloat(path, name, tensor);
        else this.parameter(name, tensor);
      } else this.buffer(name, tensor);
    }
    for (const [name, data] of constants) {
      if (this.tensors.has(name)) continue;
      const tensor = keep(made(data));
      this.tensors.set(name, tensor);
      this.#unsaved.push([name, tensor]);
    }
    const missing = program.inputs.flatMap((i) =>
      i.kind !== "user" && i.kind !== "other" && !this.tensors.has(i.of) ? [i.of] : []
    );
    if (missing.length > 0) {
      throw new UserError(
        "checkpoint",
        `${path}: the values of ${missing.slice(0, 5).join(", ")} are missing.`,
      );
    }
  }

  /** Adapters are saved and trained beside the weights. */
  adapt(lowRank: readonly LowRank[]): void {
    for (const [name, tensor] of lowRank.flatMap(({ named }) => named)) {
      this.#order.push([name, this.parameter(name, tensor)]);
      this.tensors.set(name, tensor);
    }
  }

  /** Constants, and buffers that are not persistent. */
  protected override unsaved(): [string, Tensor][] {
    return this.#unsaved;
  }

  /** Tied tensors are listed under each of their names, in Python's order. */
  override stateDict(): [string, Tensor][] {
    return this.#order.map(([name, t]) => [name, this.complex.has(t) ? keep(detach(viewAsComplex(t))) : t]);
  }

  override free(): void {
    for (const tensor of this.tensors.values()) tensor.free();
  }
}

let next = 0;
const storages = new WeakMap<object, number>();

/** Equal places are the same memory in the same shape. */
function placeIn({ storage, offset, shape, strides, dtype }: TensorData): string {
  let id = storages.get(storage);
  if (id === undefined) storages.set(storage, id = next++);
  return `${id} ${offset} ${shape} ${strides} ${dtype}`;
}

/**
 * Large weights take most of the time to the first step: their bytes go from the file to their place at once.
 */
function tensorOf(data: TensorData): Tensor {
  const tensor = longLivedUninitialised(data.shape, { dtype: data.dtype });
  const { readInto } = data.storage as Partial<EntryStorage>;
  if (
    readInto && data.byteLength > SMALL && data.byteLength === data.storage.byteLength && isContiguous(data)
  ) {
    readInto(borrowBytes(tensor));
  } else copyInto(tensor, data);
  return keep(tensor);
}

const SMALL = 1 << 20;

const notFloat = (path: string, name: string, { dtype }: Tensor) =>
  new UserError(
    "usage",
    `${path}: its parameter ${name} is ${dtype}, and weights are trained in f32 or f64: call model.float() before ` +
      "torch.export.export (--amp bf16 computes in half precision).",
  );
