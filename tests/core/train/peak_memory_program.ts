// Prints the megabytes that a step of gpt takes beyond what was taken before. A program of its own, because a process has
// one peak. Arguments: layers, width, vocabulary, then "checkpointed" or tokens of the head at once (0: all).
import { gpt } from "../../../core/models/zoo/gpt.ts";
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
const tokens = () => randint(0, VOCABULARY, [4, CONTEXT], "i64");
const batch = { input: tokens(), target: tokens() };
const before = megabytes("VmRSS");
const pass = { ...made.step.pass, tokensAtOnce: checkpointing ? 0 : Number(Deno.args[3]) };
run({ ...made, step: { ...made.step, pass } }, [batch]);
console.log(Math.round(megabytes("VmHWM") - before));
