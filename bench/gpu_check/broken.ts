// Looks up an index outside of its table, as a class or a token that a model has no place for does: the device then fails
// for good. Ends as a training would, with the sentence and its exit code.
import { UserError } from "../../core/base/errors.ts";
import { asUserError } from "../../core/train/device.ts";
import { setCudaDevice } from "../../ffi/cuda.ts";
import { findLibtorch } from "../../ffi/libraries/find.ts";
import { openLibtorch } from "../../ffi/library.ts";
import { tensor, toDevice, toNumbers, zeros } from "../../ffi/make.ts";
import { embedding, toDtype } from "../../ffi/ops.ts";
import { scope } from "../../ffi/tensor.ts";

openLibtorch(findLibtorch({ all: true }).usable.find((l) => l.gpu !== null)!);
setCudaDevice(0);
try {
  scope(() => {
    const table = zeros([4, 8], { device: "cuda:0" });
    toNumbers(embedding(table, toDevice(toDtype(tensor([1000]), "i64"), "cuda:0")));
  });
} catch (cause) {
  const error = asUserError(cause);
  if (!(error instanceof UserError)) throw cause;
  console.error(`hpctrain: ${error.message}`);
  Deno.exit(error.exitCode);
}
