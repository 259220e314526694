// "Out of memory" as a sentence with what would fit. May import ffi/errors, core/errors, prepare (types).
import { NativeError } from "../../ffi/errors.ts";
import { UserError } from "../errors.ts";
import type { Prepared } from "./prepare.ts";

/** Other errors pass through. */
export function outOfMemory(error: unknown, { run, built }: Prepared): unknown {
  if (!(error instanceof NativeError) || !error.outOfMemory) return error;
  const { batch_size: batch, gradient_checkpointing: recomputes } = run.config.training;
  const half = Math.max(1, Math.floor(batch / 2));
  const ways = [
    batch > 1
      ? `--batch-size ${half} --global-batch-size ${run.plan.global} (the same training, by accumulation)`
      : "",
    recomputes ? "" : "--gradient-checkpointing",
    built.amp === "off" ? "--amp bf16" : "",
  ].filter((way) => way !== "");
  return new UserError(
    "memory",
    `Out of memory at step ${run.cursor.step + 1} with a batch of ${batch} (${
      error.native.slice(0, 300)
    }). ` +
      `Less memory is needed with: ${ways.join(", or ") || "a smaller model"}.`,
    { cause: error },
  );
}

/** The same of an evaluation, whose batches have a size of their own. */
export function evaluationOutOfMemory(error: unknown, batchSize: number): unknown {
  if (!(error instanceof NativeError) || !error.outOfMemory) return error;
  const half = Math.max(1, Math.floor(batchSize / 2));
  return new UserError(
    "memory",
    `Out of memory in an evaluation with a batch of ${batchSize} (${error.native.slice(0, 300)}). ` +
      (batchSize > 1
        ? `Less memory is needed with: --set training.eval_batch_size=${half}.`
        : "Take a smaller model."),
    { cause: error },
  );
}
