// Exported models and what Python made of the same ones.
import { noGrad } from "../../../../ffi/autograd.ts";
import { randint, randn, sum, toDtype } from "../../../../ffi/ops.ts";
import { manualSeed } from "../../../../ffi/context.ts";
import { scope, type Tensor } from "../../../../ffi/tensor.ts";
import { type ExportedModel, exportedModel } from "../../../../core/models/exported/model.ts";
import { type Facts, forward } from "../../../../core/models/model.ts";
import { askPeer } from "../../../peer.ts";
import { rig, run } from "../../train/rig.ts";

interface Numbers {
  readonly shape: readonly number[];
  readonly below?: number;
}

/** What tests/peers/export_train.py says of one model. */
export interface Trained {
  readonly path: string;
  readonly losses: readonly string[];
  readonly evaluated: string;
  readonly task: Facts["task"];
  readonly input: Numbers;
  readonly target: Numbers;
  readonly outputs: number;
  readonly ms: number;
}

export const STEPS = 10;

/** Exports the models into `folder` and trains them in Python, unless they are there. */
export async function trainedInPython(
  names: readonly string[],
  folder: string,
  steps = STEPS,
): Promise<Trained[]> {
  const asked = { what: "train", names, folder, steps };
  return (await askPeer<{ answers: Trained[] }>("export_train.py", asked)).answers;
}

/** Loads weights into the Python modules, strictly; the largest difference to those that Python trained. */
export async function loadedInPython(
  cases: readonly (readonly [string, string, string])[],
): Promise<number[]> {
  return (await askPeer<{ answers: number[] }>("export_train.py", { what: "load", cases })).answers;
}

const made = (m: Numbers): Tensor => m.below ? randint(0, m.below, m.shape, "i64") : randn(m.shape);

/** The bits of an f32, as 8 hex digits. */
export function bits(value: number): string {
  const view = new DataView(new ArrayBuffer(4));
  view.setFloat32(0, value);
  return view.getUint32(0).toString(16).padStart(8, "0");
}

/** The same steps here: the bits of each loss. The model is the caller's to free. */
export function train(t: Trained, model: ExportedModel, checkpointing = false): string[] {
  const facts: Facts = {
    task: t.task,
    input: { shape: t.input.shape.slice(1), dtype: t.input.below ? "i64" : "f32" },
    outputs: t.outputs,
  };
  const r = rig(model, facts, {
    flags: ["--optimizer", "sgd", "--weight-decay", "0"],
    direct: true,
    checkpointing,
  });
  // What is dropped is compared too, so the generator is seeded a step at a time on both sides.
  const step = { ...r.step, pass: { ...r.step.pass, seeds: null } };
  return Array.from({ length: STEPS }, (_, i) =>
    scope(() => {
      manualSeed(BigInt(1000 + i));
      const batch = { input: made(t.input), target: made(t.target) };
      manualSeed(BigInt(2000 + i));
      return bits(run({ ...r, step }, [batch], { number: i, lr: 1e-2 }).loss);
    }));
}

/** The sum of the outputs in evaluation mode, in bits. */
export function evaluated(t: Trained, model: ExportedModel): string {
  model.root.train(false);
  const total = scope(() =>
    noGrad(() => {
      manualSeed(3000n);
      return sum(toDtype(forward(model, made(t.input)) as Tensor, "f64")).item();
    })
  );
  model.root.train(true);
  return bits(total);
}

export const opened = (t: Trained): ExportedModel => exportedModel(t.path);
