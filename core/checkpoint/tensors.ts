// Between live tensors and what checkpoint files hold. May import ffi, value, tensor_bytes.
import { noGrad } from "../../ffi/autograd.ts";
import { borrowBytes, readBytes, toDevice, uninitialised, writeBytes } from "../../ffi/make.ts";
import { copy_ } from "../../ffi/ops.ts";
import { scope, type Tensor } from "../../ffi/tensor.ts";
import { tensorBytes } from "./tensor_bytes.ts";
import { memoryStorage, TensorData } from "./value.ts";

/** A live tensor as file data. On the CPU without a copy: write it before the tensor changes. */
export function toData(t: Tensor): TensorData {
  const bytes = t.device === "cpu" && t.contiguous ? borrowBytes(t) : readBytes(t);
  return new TensorData(t.dtype, [...t.shape], memoryStorage(bytes));
}

/** A number as the 0-dim f32 tensor that PyTorch's optimizers keep their step count in. */
export function scalarData(value: number): TensorData {
  return new TensorData("f32", [], memoryStorage(new Uint8Array(Float32Array.of(value).buffer)));
}

/** Copies file data into a live tensor of the same shape; the element type and device are the tensor's own. */
export function copyInto(t: Tensor, data: TensorData): void {
  const bytes = tensorBytes(data);
  if (t.device === "cpu" && t.contiguous && t.dtype === data.dtype) return writeBytes(t, bytes);
  scope(() => {
    const host = uninitialised(data.shape, { dtype: data.dtype });
    writeBytes(host, bytes);
    noGrad(() => copy_(t, t.device === "cpu" ? host : toDevice(host, t.device)));
  });
}
