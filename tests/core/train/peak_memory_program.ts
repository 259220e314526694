// Prints the megabytes that a step of gpt 8 x 256 at sequence 512, batch 4, take beyond what was taken before.
// A program of its own, because a process has one peak. Started by checkpointing_test.ts with "straight" or "checkpointed".
import { gpt } from "../../../core/models/zoo/gpt.ts";
import { randint } from "../../../ffi/ops.ts";
import { open, rig, run } from "./rig.ts";

const CONTEXT = 512, VOCABULARY = 65;

function megabytes(field: "VmRSS" | "VmHWM"): number {
  const status = Deno.readTextFileSync("/proc/self/status");
  return Number(new RegExp(`${field}:\\s*(\\d+) kB`).exec(status)![1]) / 1024;
}

open();
const model = gpt({ vocabulary: VOCABULARY, context: CONTEXT, layers: 8, heads: 8, embed: 256 });
const facts = { task: "language", input: { shape: [CONTEXT], dtype: "i64" }, outputs: VOCABULARY } as const;
const made = rig(model, facts, { checkpointing: Deno.args[0] === "checkpointed" });
const tokens = () => randint(0, VOCABULARY, [4, CONTEXT], "i64");
const batch = { input: tokens(), target: tokens() };
const before = megabytes("VmRSS");
run(made, [batch]);
console.log(Math.round(megabytes("VmHWM") - before));
