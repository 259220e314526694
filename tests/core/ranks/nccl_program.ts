// One rank for the tests of NCCL's engine, on the double: CASE DIR RANK WORLD. What it saw goes to DIR/RANK.json.
import { aloneCollectives, type Collectives } from "../../../core/ranks/collectives.ts";
import { lastRecorded, openFlightRecorder } from "../../../core/ranks/flight_recorder.ts";
import { openNcclEngine } from "../../../core/ranks/nccl/engine.ts";
import { openTeam } from "../../../core/ranks/team.ts";
import { UserError } from "../../../core/base/errors.ts";
import { openAccount } from "../../../core/run/account.ts";
import { openReducer, overlappedGradients } from "../../../core/train/gradients/overlapped.ts";
import { add, fill_, ones, tensor, toNumbers, zeros } from "../../../ffi/make.ts";
import { copy_ } from "../../../ffi/ops.ts";
import { scope, type Tensor } from "../../../ffi/tensor.ts";
import { useLibtorch } from "../../libtorch.ts";
import type { Rig } from "../train/rig.ts";
import { CASES, train } from "../train/zoo_cases.ts";

const [name, folder, ...place] = Deno.args;
const [rank, world] = place.map(Number);
const path = `${folder}/libnccl.so.2`;
useLibtorch();
const flight = openFlightRecorder();

/** Through a file, in place of the control plane. */
function share(bytes?: Uint8Array): Uint8Array {
  const file = `${folder}/id`;
  if (bytes) {
    Deno.writeFileSync(`${file}.part`, bytes);
    Deno.renameSync(`${file}.part`, file);
    return bytes;
  }
  for (;;) {
    try {
      return Deno.readFileSync(file);
    } catch {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10);
    }
  }
}

const cases: Record<string, (c: Collectives) => unknown> = {
  verbs(c) {
    const from = (values: number[]) => tensor(Float64Array.from(values));
    const types = [Float32Array, Float64Array, Int32Array, BigInt64Array, Uint8Array].map((Type) => {
      const values = [1, 2, 3 + rank];
      const big = Type === BigInt64Array ? Type.from(values.map(BigInt)) : null;
      const t = tensor(big ?? (Type as Float32ArrayConstructor).from(values));
      c.wait(c.allReduce(t, "sum", "sums"));
      return [...toNumbers(t)];
    });
    const max = from([rank, -rank]), min = from([rank, -rank]), said = from([rank + 10, rank + 20]);
    const own = from([rank, rank + 0.5]), all = from(Array(2 * world).fill(-1));
    const wide = from(Array.from({ length: 2 * world }, (_, i) => i + rank)), part = from([-1, -1]);
    const nothing = zeros([0]);
    const tickets = [
      c.allReduce(max, "max", "largest"),
      c.allReduce(min, "min", "smallest"),
      c.broadcast(said, world - 1, "the last one's"),
      c.allGather(all, own, "everybody's"),
      c.reduceScatter(part, wide, "my part"),
      c.allReduce(nothing, "sum", "nothing"),
      c.barrier("all here"),
    ];
    c.wait(tickets.at(-1)!);
    const early = tickets.map((ticket) => c.done(ticket));
    const numbers = [max, min, said, all, part].map((t) => [...toNumbers(t)]);
    const large = ones([700_001]); // more than one piece
    c.wait(c.allReduce(large, "sum", "large"));
    const { 0: first, [700_000]: last } = toNumbers(large);
    const heard = openTeam(c, "cpu").gather(`rank ${rank}`, "who");
    return { types, tickets, early, numbers, large: [first, last], heard };
  },
  /** More than there are slots, before the first is waited for. */
  queued(c) {
    const many = Array.from({ length: 600 }, (_, i) => tensor([i, rank]));
    let last = 0;
    for (const t of many) last = c.allReduce(t, "sum", "one of many");
    const early = c.done(last);
    c.wait(last);
    return { early, sums: many.map((t) => [...toNumbers(t)]) };
  },
  /** The double takes its time; what computes waits, and only there. */
  slow(c) {
    const t = tensor([rank + 1]);
    const began = performance.now();
    const ticket = c.allReduce(t, "sum", "slow");
    const queued = performance.now() - began;
    const before = c.done(ticket);
    c.wait(ticket);
    return { queued, before, after: c.done(ticket), sum: [...toNumbers(t)] };
  },
  differ(c) {
    const t = tensor([1, 2]);
    c.wait(rank === 0 ? c.allReduce(t, "sum", "gradients") : c.broadcast(t, 0, "weights"));
  },
  /** What was given away is written to. */
  careless(c) {
    const t = ones([1000]);
    c.wait(c.barrier("all here"));
    const ticket = c.allReduce(t, "sum", "gradients");
    fill_(t, 7);
    c.wait(ticket);
    c.wait(c.barrier("after it"));
  },
  third(c) {
    for (let i = 0; i < 5; i++) c.wait(c.allReduce(tensor([i]), "sum", `gradients, bucket ${i + 1}`));
  },
  /** Gradients that are added up while backward goes on: the double would see one that is written to too early. */
  async training(c) {
    const trained = async (collectives: Collectives) => {
      const all = [];
      for (const zooCase of CASES) {
        const reduced = ({ model, arena, step }: Rig) => {
          const reducer = openReducer(arena, model, collectives, 40_000 / 2 ** 20);
          return { gradients: overlappedGradients(step, reducer, null, openAccount()) };
        };
        all.push(await train(zooCase, {}, reduced));
      }
      return all;
    };
    const double = (t: Tensor) => (scope(() => void copy_(t, add(t, t))), 1);
    const together = await trained(c), twice = await trained({ ...aloneCollectives(), allReduce: double });
    return { cases: CASES.length, same: JSON.stringify(together) === JSON.stringify(twice) };
  },
  /** As the control plane would, when another rank has failed. */
  aborts(c) {
    c.wait(c.barrier("all here"));
    if (rank === 1) return;
    const ticket = c.allReduce(tensor([1]), "sum", "without rank 1");
    c.abort("Rank 1 was lost.");
    c.wait(ticket);
  },
};

try {
  const one = zeros([1]);
  const c = await openNcclEngine({
    path,
    runtime: { kind: "cuda", path },
    device: 0,
    rank,
    world,
    flight,
    timeout: name === "absent" ? 1 : 30,
    share,
    stream: 2n,
    computing: () => 1n,
    one,
  });
  const { version, against } = c;
  const saw = await cases[name](c);
  if (name === "aborts") Deno.exit(0);
  await c.close();
  const after = attempt(() => c.barrier("after the end"));
  const found = { version, against, saw, after, flown: lastRecorded(flight), times: c.times() };
  Deno.writeTextFileSync(`${folder}/${rank}.json`, JSON.stringify(found));
  Deno.exit(0);
} catch (error) {
  if (!(error instanceof UserError)) throw error;
  console.error(`hpctrain: ${error.message}`);
  Deno.exit(error.exitCode);
}

function attempt(body: () => unknown): string {
  try {
    body();
    return "nothing was said";
  } catch (error) {
    return (error as Error).message;
  }
}
