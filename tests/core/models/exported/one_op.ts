// Models of one operation each, as PyTorch exported them, run here against what PyTorch gave. Test helper.
import { UserError } from "../../../../core/base/errors.ts";
import { exportedModel } from "../../../../core/models/exported/model.ts";
import { forward } from "../../../../core/models/model.ts";
import { autocast } from "../../../../ffi/context.ts";
import { backward, gradOf } from "../../../../ffi/autograd.ts";
import { tensor, toNumbers } from "../../../../ffi/make.ts";
import { mean, square } from "../../../../ffi/ops.ts";
import { scope, type Tensor } from "../../../../ffi/tensor.ts";

type Told = (number | string)[];

/** What tests/peers/export_ops.py says of one. */
export interface OneOp {
  readonly op: string;
  readonly path: string;
  /** Run in bf16's mixed precision; decomposed before it was saved. */
  readonly how: "" | "mixed" | "decomposed";
  readonly output?: Told;
  readonly gradients?: Record<string, Told>;
  /** Why PyTorch itself did not export it. */
  readonly failed?: string;
}

const told = (t: Tensor): Told =>
  [...toNumbers(t)].map((v) => Number.isFinite(v) ? v : Number.isNaN(v) ? "nan" : v > 0 ? "inf" : "-inf");

const differs = (a: Told, b: Told) => a.length !== b.length || a.some((v, i) => v !== b[i]);

/** "" where output and gradients are PyTorch's, bit by bit; else what is wrong. */
export function difference(asked: OneOp, input: readonly number[][]): string {
  let model;
  try {
    model = exportedModel(asked.path);
  } catch (error) {
    if (error instanceof UserError) return `refused: ${error.message.split("\n").slice(1).join(" ").trim()}`;
    throw error;
  }
  try {
    return scope(() => {
      const x = tensor(input.flat(), [4, 6]);
      const y = autocast(asked.how === "mixed" ? "bf16" : null, false, () => forward(model, x)) as Tensor;
      if (differs(told(y), asked.output!)) return `output differs: ${first(told(y), asked.output!)}`;
      if (!asked.gradients) return "";
      backward(mean(square(y)));
      for (const [name, p] of model.root.namedParameters()) {
        const wanted = asked.gradients[name], given = gradOf(p);
        if (!wanted) continue;
        if (!given) return `no gradient of ${name}`;
        if (differs(told(given), wanted)) {
          return `gradient of ${name} differs: ${first(told(given), wanted)}`;
        }
      }
      return "";
    });
  } catch (error) {
    return `${(error as Error).name}: ${(error as Error).message}`;
  } finally {
    model.root.free();
  }
}

function first(ours: Told, theirs: Told): string {
  const at = ours.findIndex((v, i) => v !== theirs[i]);
  return `${ours[at]} for ${theirs[at]}, of ${ours.length} and ${theirs.length}`;
}
