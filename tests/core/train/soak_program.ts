// 10,000 steps of mlp 7-128-128-1 (batch 32) and 1,000 of gpt 2 x 64 (batch 4 x 32): counts tensors and watches
// memory. Prints one JSON object a model; exit code 1 where a tensor or memory leaks. HPCTRAIN_LIBTORCH names the
// libtorch.
import type { Facts, Model } from "../../../core/models/model.ts";
import { gpt } from "../../../core/models/zoo/gpt.ts";
import { mlp } from "../../../core/models/zoo/mlp.ts";
import type { MicroBatch } from "../../../core/train/micro_batch.ts";
import { randint, randn } from "../../../ffi/ops.ts";
import { manualSeed } from "../../../ffi/context.ts";
import { liveTensors, scope } from "../../../ffi/tensor.ts";
import { open, rig, rows, run } from "./rig.ts";

const GROWTH = 0.02;

interface Soak {
  model: string;
  steps: number;
  /** Steps until allocators and the compiler have what they keep. */
  warm: number;
  make: () => Model;
  facts: Facts;
  batch: () => MicroBatch;
}

const tokens = () => randint(0, 65, [4, 32], "i64");
const SOAKS: Soak[] = [
  {
    model: "mlp",
    steps: 10_000,
    warm: 2_000,
    make: () => mlp({ inputs: 7, hidden: 128, layers: 2, outputs: 1 }),
    facts: rows,
    batch: () => ({ input: randn([32, 7]), target: randn([32, 1]) }),
  },
  {
    model: "gpt",
    steps: 1_000,
    warm: 200,
    make: () => gpt({ vocabulary: 65, context: 32, layers: 2, heads: 4, embed: 64, dropout: 0.1 }),
    facts: { task: "language", input: { shape: [32], dtype: "i64" }, outputs: 65 },
    batch: () => ({ input: tokens(), target: tokens() }),
  },
];

function soak({ model, steps, warm, make, facts, batch }: Soak) {
  const made = rig(make(), facts, { direct: true });
  let settled = 0, leakedAt = 0, memory = 0, end = 0;
  const began = performance.now();
  const goOn = (from: number, to: number) => {
    for (let number = from; number < to; number++) {
      scope(() => run(made, [batch()], { number }));
      if (number === 2) settled = liveTensors();
      else if (number > 2 && leakedAt === 0 && liveTensors() !== settled) leakedAt = number;
      if (number === warm) memory = Deno.memoryUsage().rss;
    }
    end = Deno.memoryUsage().rss;
  };
  goOn(0, steps);
  // On a busy machine the collector's threads come late, once; a leak grows by as much again.
  for (let more = 1; end - memory >= GROWTH * memory && more <= 3; more++) {
    memory = end;
    goOn(steps + (more - 1) * (steps - warm), steps + more * (steps - warm));
  }
  return {
    model,
    steps,
    seconds: (performance.now() - began) / 1000,
    tensors_settled: settled,
    tensors_end: liveTensors(),
    leaked_at_step: leakedAt || null,
    memory_bytes: end,
    growth: (end - memory) / memory,
  };
}

open();
manualSeed(0n);
const results = SOAKS.map(soak);
console.log(JSON.stringify(results, null, 2));
if (results.some((r) => r.leaked_at_step !== null || r.growth >= GROWTH)) Deno.exit(1);
