// The head of gpt in parts of tokens: what the whole head gives, in less memory.
import { assert, assertEquals } from "@std/assert";
import { gpt } from "../../../../core/models/zoo/gpt.ts";
import { tokensAtOnce } from "../../../../core/train/blocks.ts";
import { segmented } from "../../../../core/train/gradients/overlapped.ts";
import { constant, toNumbers } from "../../../../ffi/make.ts";
import { manualSeed } from "../../../../ffi/context.ts";
import { lt, randint, where } from "../../../../ffi/ops.ts";
import { scope } from "../../../../ffi/tensor.ts";
import { open, rig, run } from "../rig.ts";

const CONTEXT = 24, VOCABULARY = 65;
const facts = { task: "language", input: { shape: [CONTEXT], dtype: "i64" }, outputs: VOCABULARY } as const;

open();

/** A step's loss, norm and gradients. */
function step(
  tokens: number,
  { checkpointing = false, ranks = false, smoothing = "0", ignored = false } = {},
) {
  manualSeed(3n);
  const model = gpt({ vocabulary: VOCABULARY, context: CONTEXT, layers: 2, heads: 2, embed: 16 });
  const made = rig(model, facts, { checkpointing, flags: ["--label-smoothing", smoothing] });
  const pass = { ...made.step.pass, tokensAtOnce: tokens };
  const input = randint(0, VOCABULARY, [3, CONTEXT], "i64");
  let target = randint(0, VOCABULARY, [3, CONTEXT], "i64");
  // The first tokens count nowhere: whole parts of them don't.
  if (ignored) {
    target = where(lt(target, constant(40, "i64")), constant(-100, "i64"), target);
  }
  if (ranks) {
    const { loss } = scope(() => segmented(pass, input, target, null, () => {}));
    return { loss: loss.item(), gradient: toNumbers(made.arena.gradient) };
  }
  const { loss } = run({ ...made, step: { ...made.step, pass } }, [{ input, target }], { norm: true });
  return { loss, gradient: toNumbers(made.arena.gradient) };
}

function assertClose(a: ReturnType<typeof step>, b: ReturnType<typeof step>) {
  assert(Math.abs(a.loss - b.loss) < 1e-6 * b.loss, `${a.loss} against ${b.loss}`);
  const scale = Math.max(...b.gradient.map(Math.abs));
  const most = Math.max(...a.gradient.map((value, i) => Math.abs(value - b.gradient[i])));
  assert(most < 1e-6 * scale && scale > 0, `gradients differ by ${most} of ${scale}`);
}

Deno.test("the head in parts gives the whole head's loss and gradients, a short last part included", () => {
  for (const tokens of [1, 7, 24, 71]) assertClose(step(tokens), step(0));
});

Deno.test("so it does with gradient checkpointing, over ranks, with ignored tokens and smoothed labels", () => {
  for (const more of [{ checkpointing: true }, { ranks: true }, { ignored: true }, { smoothing: "0.1" }]) {
    assertClose(step(10, more), step(0, more));
  }
});

Deno.test("a head that fits is computed whole, with the bits of before", () => {
  assertEquals(step(3 * CONTEXT), step(0));
});

Deno.test("the setting is mebibytes of logits: 512 are 2670 tokens of GPT-2's vocabulary, and 0 is no limit", () => {
  assertEquals([tokensAtOnce(512, 50257), tokensAtOnce(0, 50257), tokensAtOnce(1, 50257)], [2670, 0, 256]);
});
