// Compiled steps with --amp bf16: a plan rounds where autocast does, so its gradients are far nearer to those of an
// ordinary step in bf16 than either is to f32.
import { assert, assertAlmostEquals, assertMatch } from "@std/assert";
import { openCompiledPass } from "../../../core/train/compiled_pass.ts";
import { compiledUpdate } from "../../../core/train/compiled_update.ts";
import type { Mode } from "../../../core/train/compiler.ts";
import { machineIsa } from "../../../ffi/machine.ts";
import { printCode } from "../../../core/compile/x86/print.ts";
import { loadCode } from "../../../ffi/machine_code.ts";
import { toNumbers } from "../../../ffi/make.ts";
import { randn } from "../../../ffi/ops.ts";
import { manualSeed, setThreads } from "../../../ffi/context.ts";
import { residual } from "./blocks_model.ts";
import { open, rig, rows, run, settings } from "./rig.ts";
import { CASES } from "./zoo_cases.ts";

open();
setThreads(1);
const isa = machineIsa();
if (isa) loadCode(printCode([], isa, 1)); // what it opens stays open

const [, gpt] = CASES;
const blocks = {
  title: "residual blocks with dropout",
  make: () => residual(3, 48, 0.1),
  facts: rows,
  input: () => randn([32, 7]),
  target: () => randn([32, 1]),
};

type Model = Pick<typeof gpt, "title" | "make" | "facts" | "input" | "target">;

/** Three steps that change no weight, then three that do. */
function trained(
  { make, facts, input, target }: Model,
  cast: "bf16" | null,
  mode: Mode | null,
  checkpointing = false,
) {
  manualSeed(7n);
  const plain = rig(make(), facts, { cast, checkpointing }), { arena } = plain, told: string[] = [];
  const tell = { line: (text: string) => told.push(text), warn: (text: string) => told.push(text) };
  const { optimizer } = settings("--optimizer=adamw").training;
  const step = {
    ...plain.step,
    compiled: mode && openCompiledPass(arena, mode, () => tell),
    optimizer: mode ? compiledUpdate(plain.step.optimizer, optimizer, arena) : plain.step.optimizer,
  };
  const losses: number[] = [];
  let gradient = new Float64Array();
  for (let number = 0; number < 6; number++) {
    manualSeed(BigInt(100 + number));
    const batch = { input: input(), target: target() };
    losses.push(run({ ...plain, step }, [batch], { number, lr: number < 3 ? 0 : 1e-3 }).loss);
    if (number === 2) gradient = Float64Array.from(toNumbers(arena.gradient));
    batch.input.free();
    batch.target.free();
  }
  return { losses, gradient, told: told.join("\n") };
}

const normOf = (numbers: Float64Array): number => Math.sqrt(numbers.reduce((sum, x) => sum + x * x, 0));
const apart = (a: Float64Array, b: Float64Array): number => normOf(a.map((x, i) => x - b[i])) / normOf(b);

for (
  const [made, checkpointing, nearer] of [[blocks, false, 4], [blocks, true, 4], [gpt, false, 3]] as const
) {
  Deno.test({
    name: `${made.title}: compiled steps round to bf16 as autocast does${
      checkpointing ? ", recomputed" : ""
    }`,
    ignore: isa === null,
    fn() {
      const f32 = trained(made, null, null), plain = trained(made, "bf16", null);
      const fast = trained(made, "bf16", "fast", checkpointing);
      assertMatch(fast.told, /^Steps are compiled: [^\n]* fast; gradients differ [^\n]* at most\.$/);
      const own = apart(fast.gradient, plain.gradient);
      assert(own < 1e-2, `${own} from an ordinary step`);
      assert(
        own * nearer < apart(plain.gradient, f32.gradient),
        `${own} from an ordinary step is as far as f32`,
      );
      fast.losses.forEach((loss, i) => assertAlmostEquals(loss, plain.losses[i], 2e-3));
    },
  });
}
