import { assert, assertEquals } from "@std/assert";
import { UserError } from "../../../core/base/errors.ts";
import { asUserError } from "../../../core/train/device.ts";
import { NativeError } from "../../../ffi/errors.ts";
import { open } from "../models/native.ts";

open(); // sentences have the words of its backend

/** What libtorch says of devices that fail, as seen on an H100 and in its sources. */
const FAILURES = [
  "CUDA error: device-side assert triggered",
  "CUDA error: unspecified launch failure",
  "CUDA error: an illegal memory access was encountered",
  "CUDA driver error: device not ready",
  "CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm(...)`",
  "cuDNN error: CUDNN_STATUS_MAPPING_ERROR",
];

Deno.test("a device that fails in a call of libtorch is the machine's fault, with a sentence and exit code 7", () => {
  for (const native of FAILURES) {
    const error = asUserError(new NativeError("linear", "input f32[3, 4]@cuda:0", native)) as UserError;
    assert(error instanceof UserError, native);
    assertEquals([error.kind, error.exitCode], ["environment", 7]);
    assert(error.message.startsWith(`The GPU failed in linear: ${native}. `), error.message);
  }
});

Deno.test("an index outside of its table is said to be one", () => {
  const error = asUserError(new NativeError("embedding", "", FAILURES[0])) as UserError;
  assert(
    error.message.includes("An index was outside of its table") && error.message.includes("--device cpu"),
  );
});

Deno.test("a device that has no memory left is out of memory, and shapes that do not fit stay an error of ours", () => {
  const out = asUserError(new NativeError("empty", "", "CUDA error: out of memory")) as UserError;
  assertEquals(out.kind, "memory");
  const wrong = new NativeError("mm", "", "mat1 and mat2 shapes cannot be multiplied");
  assertEquals(asUserError(wrong), wrong);
});
