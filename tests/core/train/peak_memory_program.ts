// Prints the megabytes that a step of gpt takes beyond what was taken before. A program of its own, because a process has
// one peak. Arguments: layers, width, vocabulary, then "checkpointed" or tokens of the head at once (0: all).
import { gpt } from "../../../core/models/zoo/gpt.ts";
import { returnFreedMemory } from "../../../ffi/libc.ts";
import { randint } from "../../../ffi/ops.ts";
import { open, rig, run } from "./rig.ts";

const CONTEXT = 512;
const [layers, embed, VOCABULARY] = Deno.args.slice(0, 3).map(Number);
const checkpointing = Deno.args[3] === "checkpointed";

function megabytes(field: "VmRSS" | "VmHWM"): number {
  const status = Deno.readTextFileSync("/proc/self/status");
  return Number(new RegExp(`${field}:\\s*(\\d+) kB`).exec(status)![1]) / 1024;
}

open();
const model = gpt({ vocabulary: VOCABULARY, context: CONTEXT, layers, heads: 8, embed });
const facts = { task: "language", input: { shape: [CONTEXT], dtype: "i64" }, outputs: VOCABULARY } as const;
const made = rig(model, facts, { checkpointing });
const texts = (rows: number) => {
  const tokens = () => randint(0, VOCABULARY, [rows, CONTEXT], "i64");
  return { input: tokens(), target: tokens() };
};
const pass = { ...made.step.pass, tokensAtOnce: checkpointing ? 0 : Number(Deno.args[3]) };
const step = { ...made, step: { ...made.step, pass } };
// What only a first step makes, the optimizer's state and libtorch's own, is not counted; what it freed goes back.
run(step, [texts(1)]);
returnFreedMemory();
const batch = texts(4), before = megabytes("VmRSS");
run(step, [batch]);
console.log(Math.round(megabytes("VmHWM") - before));
