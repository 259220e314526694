// Steps whose gradient torch.export drops: which weights learn nothing, and what to write instead.
import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { join } from "paths";
import { exportedModel } from "../../../../core/models/exported/model.ts";
import { asUserError } from "../../../../core/models/user_error.ts";
import { UserError } from "../../../../core/base/errors.ts";
import type { Facts } from "../../../../core/models/model.ts";
import { toNumbers } from "../../../../ffi/make.ts";
import { randint, randn } from "../../../../ffi/ops.ts";
import { manualSeed } from "../../../../ffi/context.ts";
import { scope } from "../../../../ffi/tensor.ts";
import { askPeer } from "../../../peer.ts";
import { open, rig, run } from "../../train/rig.ts";
import { STEPS } from "./training.ts";
import { assertSentence } from "../../../sentences.ts";

open();
const folder = Deno.makeTempDirSync();
globalThis.addEventListener("unload", () => Deno.removeSync(folder, { recursive: true }));
const { answers } = await askPeer<{ answers: Record<string, number[]> }>("export_surrogates.py", {
  folder,
  steps: STEPS,
});
const facts: Facts = { task: "classification", input: { shape: [6], dtype: "f32" }, outputs: 4 };
const opened = (name: string) => exportedModel(join(folder, `${name}.pt2`), { facts });

/** The largest distance of a loss from Python's, and the first weights before and after. */
function train(name: string): { far: number; moved: boolean } {
  const model = opened(name);
  const r = rig(model, facts, { flags: ["--optimizer", "sgd", "--weight-decay", "0"], direct: true });
  const weights = () => [...toNumbers(model.root.namedParameters()[0][1])].join();
  const before = weights();
  const losses = Array.from({ length: STEPS }, (_, i) =>
    scope(() => {
      manualSeed(BigInt(1000 + i));
      const batch = { input: randn([8, 6]), target: randint(0, 4, [8], "i64") };
      return run(r, [batch], { number: i, lr: 1e-2 }).loss;
    }));
  const moved = weights() !== before;
  model.root.free();
  return { far: Math.max(...losses.map((loss, i) => Math.abs(loss - answers[name][i]))), moved };
}

train("written"); // what is opened once is opened here, and is no test's leak

const warned = (name: string): readonly string[] => {
  const model = opened(name);
  model.root.free();
  return model.warnings;
};

Deno.test("weights behind steps whose gradient the export dropped are warned of, with the line, and do not move", () => {
  const [warning, ...others] = warned("spiking");
  assertEquals(others, []);
  assertSentence("core/models/exported/surrogates: gradient reaches weight", warning);
  assertStringIncludes(warning, "(export_surrogates.py, line 16: return (v > 0).float())");
  const { far, moved } = train("spiking");
  assertEquals(moved, false);
  assert(far > 1e-3, "Python's surrogate trains them");
});

Deno.test("written as the warning says, a surrogate gradient has Python's losses and no warning", () => {
  assertEquals(warned("written"), []);
  const { far, moved } = train("written");
  assertEquals(moved, true);
  assert(far < 1e-6, `${far}`);
  const apart = answers.written.map((loss, i) => Math.abs(loss - answers.spiking[i]));
  assert(Math.max(...apart) < 1e-5, `${apart}: the same as of the Function itself`);
});

Deno.test("steps that choose, and what the user stops, are no reason to warn; a weight that is rounded is", () => {
  assertEquals(warned("masked"), []);
  assertSentence("core/models/exported/surrogates: gradient reaches weight since", warned("rounded")[0]);
});

Deno.test("a Function that writes over what its graph's backward needs is a sentence, and trains after run_decompositions()", () => {
  const error = asUserError(assertThrows(() => train("scanned")));
  assert(error instanceof UserError, `${error}`);
  assertStringIncludes(error.message, "Backward needs what forward has written over");
  assertStringIncludes(
    error.message,
    "torch.export.save(program.run_decompositions(), path) writes nothing over",
  );
  const { far } = train("decomposed");
  assert(far < 1e-6, `${far}`);
});
