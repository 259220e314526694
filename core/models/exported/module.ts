// The module of an exported program: parameters and buffers under the names they have in Python. May import ffi,
// core/checkpoint, nn/module, its siblings.
import { borrowBytes } from "../../../ffi/make.ts";
import { detach, viewAsComplex, viewAsReal } from "../../../ffi/ops.ts";
import { stayingUninitialised } from "../../../ffi/staying.ts";
import { keep, type Tensor } from "../../../ffi/tensor.ts";
import { isContiguous } from "../../checkpoint/tensor_bytes.ts";
import { copyInto } from "../../checkpoint/tensors.ts";
import type { TensorData } from "../../checkpoint/value.ts";
import { UserError } from "../../errors.ts";
import { Module } from "../nn/module.ts";
import type { Archive, EntryStorage } from "./archive.ts";

export class ExportedModule extends Module {
  /** By the names of the graph's signature. */
  readonly tensors = new Map<string, Tensor>();
  /** Of these parameters: the ones that are complex in Python. They are trained as pairs of real numbers, as PyTorch does. */
  readonly complex = new Set<Tensor>();
  readonly #order: [name: string, tensor: Tensor][] = [];

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
      if (known) continue; // tied: trained under its first name
      const asks = meta?.kind === "parameter"
        ? program.tensors.get(meta.name)?.requiresGrad !== false
        : false;
      const tied = [...weights].some(([n, d]) =>
        n !== name && trained.has(n) && placeIn(d) === placeIn(data)
      );
      if ((trained.has(name) && asks) || (tied && !trained.has(name))) {
        if (this.complex.has(tensor)) this.parameter(name, tensor);
        else if (tensor.dtype !== "f32") throw notFloat(path, name, tensor);
        else this.parameter(name, tensor);
      } else this.buffer(name, tensor);
    }
    for (const [name, data] of constants) {
      if (!this.tensors.has(name)) this.tensors.set(name, keep(made(data)));
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

  /** In Python's order, tied tensors under each of their names. */
  override stateDict(): [string, Tensor][] {
    return this.#order.map(([name, t]) => [name, this.complex.has(t) ? keep(detach(viewAsComplex(t))) : t]);
  }

  override free(): void {
    for (const tensor of this.tensors.values()) tensor.free();
  }
}

/** The part of the parameters that one block uses. */
export class Part extends Module {
  constructor(named: readonly (readonly [string, Tensor])[]) {
    super();
    for (const [name, tensor] of named) this.parameter(name, tensor);
  }
}

let next = 0;
const storages = new WeakMap<object, number>();

/** Equal for tensors that are the same memory in the same shape. */
function placeIn({ storage, offset, shape, strides, dtype }: TensorData): string {
  let id = storages.get(storage);
  if (id === undefined) storages.set(storage, id = next++);
  return `${id} ${offset} ${shape} ${strides} ${dtype}`;
}

/** Large weights take most of the time to the first step: their bytes go from the file to their place at once. */
function tensorOf(data: TensorData): Tensor {
  const tensor = stayingUninitialised(data.shape, { dtype: data.dtype });
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
    `${path}: its parameter ${name} is ${dtype}, and weights are trained in f32: call model.float() before ` +
      "torch.export.export (--amp bf16 computes in half precision).",
  );
