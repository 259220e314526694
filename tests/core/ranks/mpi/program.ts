// One rank for the tests of MPI: CASE[,CASE...] DIR. What it saw in each case goes to DIR/RANK.json.
import { type Collectives, openCollectives } from "../../../../core/ranks/collectives.ts";
import { lastRecorded, openFlightRecorder } from "../../../../core/ranks/flight_recorder.ts";
import { rankContext } from "../../../../core/ranks/context.ts";
import { UserError } from "../../../../core/base/errors.ts";
import { fill_, tensor, toNumbers } from "../../../../ffi/make.ts";
import { copy_, narrow } from "../../../../ffi/ops.ts";
import { keep, scope, type Tensor } from "../../../../ffi/tensor.ts";
import { useLibtorch } from "../../../libtorch.ts";

const [name, folder] = Deno.args;
useLibtorch();
const env = Deno.env.toObject();
// Case swapped: each takes itself for the other.
const flags = name === "swapped" ? { rank: 1 - rankContext(env).rank, world: 2 } : {};
const where = rankContext(env, flags);
const flight = openFlightRecorder();
const { rank, world } = where;

/** Seconds of processor time of this process and its threads so far. */
function processorTime(): number {
  const ticks = Deno.readTextFileSync("/proc/self/stat").split(") ")[1].split(" ");
  return (Number(ticks[11]) + Number(ticks[12])) / 100;
}

const cases: Record<string, (c: Collectives) => unknown> = {
  verbs(c) {
    const from = (values: number[]) => tensor(Float64Array.from(values));
    const types = [Float32Array, Float64Array, Int32Array, BigInt64Array, Uint8Array].map((Type) => {
      const values = [1, 2, 3 + rank];
      const t = tensor(
        Type === BigInt64Array
          ? Type.from(values.map(BigInt))
          : (Type as Float32ArrayConstructor).from(values),
      );
      c.wait(c.allReduce(t, "sum", "sums"));
      return [...toNumbers(t)];
    });
    const max = from([rank, -rank]), min = from([rank, -rank]), said = from([rank + 10, rank + 20]);
    const own = from([rank, rank + 0.5]), all = from(Array(2 * world).fill(-1));
    const wide = from(Array.from({ length: 2 * world }, (_, i) => i + rank)), part = from([-1, -1]);
    const tickets = [
      c.allReduce(max, "max", "largest"),
      c.allReduce(min, "min", "smallest"),
      c.broadcast(said, world - 1, "the last one's"),
      c.allGather(all, own, "everybody's"),
      c.reduceScatter(part, wide, "my part"),
      c.barrier("all here"),
    ];
    c.wait(tickets.at(-1)!);
    const early = tickets.map((ticket) => c.done(ticket));
    const numbers = [max, min, said, all, part].map((t) => [...toNumbers(t)]);
    return { types, tickets, early, numbers, flown: lastRecorded(flight), times: c.times() };
  },
  split(c) {
    const sum = () => {
      const t = tensor(Float64Array.of(10 ** rank));
      c.wait(c.allReduce(t, "sum", "a part's sum"));
      c.wait(c.barrier("a part is here"));
      return toNumbers(t)[0];
    };
    // Two parts at a time, another cut without all between, and all again.
    return [rank % 2, rank < 2 ? 7 : 3, -1, rank, -1].map((part) => {
      c.wait(c.split!(part, "parts"));
      return sum();
    });
  },
  /** In memory that all see, and beside it; and what this thread's process computes while it waits for the last rank. */
  async shared(c) {
    const t = c.shared?.(100_003) ?? null;
    const sums = (all: Tensor) => {
      const numbers = toNumbers(all);
      return [numbers[0], numbers[numbers.length >> 1], numbers.at(-1)];
    };
    const seen = [1, 2].map((round) => {
      const values = tensor(Float32Array.from({ length: 100_003 }, (_, i) => round * (i % 1000 + rank)));
      if (t) copy_(t, values);
      return [t ?? values, values].map((all) => {
        c.wait(c.allReduce(all, "sum", "gradient"));
        return sums(all);
      });
    });
    const part = t && scope(() => keep(narrow(t, 0, 70_000, 30_000)));
    if (part) {
      fill_(part, rank);
      c.wait(c.allReduce(part, "max", "a part"));
    }
    const small = tensor(Float64Array.of(rank, -rank));
    const before = processorTime();
    if (rank === world - 1) await new Promise((resolve) => setTimeout(resolve, 2000));
    c.wait(c.barrier("the last one sleeps"));
    const computed = processorTime() - before;
    c.wait(c.allReduce(small, "min", "small"));
    return { there: t !== null, seen, part: part && sums(part), small: [...toNumbers(small)], computed };
  },
  /** More than the ring has room for, queued while this thread has other things to do than to wait. */
  queued(c) {
    const many = Array.from({ length: 600 }, (_, i) => tensor([i, rank]));
    const tickets = many.map((t) => c.allReduce(t, "sum", "one of many")), last = tickets.at(-1)!;
    // Busy, and without a word to the engine; for long on a busy machine.
    for (const end = performance.now() + 20_000; !c.done(last) && performance.now() < end;);
    const done = c.done(last);
    return {
      done,
      first: tickets[0],
      last,
      sums: many.map((t) => [...toNumbers(t)]),
      waited: c.times().waited,
    };
  },
  throws(c) {
    if (rank === 1) throw new UserError("data", "This rank's file is damaged.");
    c.wait(c.allReduce(tensor([1]), "sum", "without rank 1"));
  },
  leaves(c) {
    if (rank === 1) Deno.exit(0);
    c.wait(c.allReduce(tensor([1]), "sum", "without rank 1"));
  },
  mistaken(c) {
    c.wait(c.broadcast(tensor([1]), 99, "from nobody"));
  },
  aborts(c) {
    c.wait(c.barrier("all here"));
    c.abort("Rank 3 was lost.");
    c.wait(c.allReduce(tensor([1]), "sum", "after the end"));
  },
  async endless(c) {
    const t = tensor(new Float32Array(1 << 18));
    for (let i = 0;; i++) {
      c.wait(c.allReduce(t, "sum", "gradient"));
      if (i === 10) await write({ pid: Deno.pid });
    }
  },
};

async function write(value: unknown): Promise<void> {
  const path = `${folder}/${rank}.json`;
  await Deno.writeTextFile(`${path}.part`, JSON.stringify(value));
  await Deno.rename(`${path}.part`, path);
}

try {
  if (name === "absent" && rank === 1) throw new UserError("data", "This rank's file is missing.");
  const timeout = name === "absent" ? 2 : 60;
  const { collectives, notes } = await openCollectives({
    where,
    device: "cpu",
    backend: "auto",
    requested: { by: "auto", undo: "leave it out" },
    env,
    flight,
    timeout,
  });
  const saw: Record<string, unknown> = {};
  for (const one of name.split(",")) saw[one] = await cases[one](collectives);
  await collectives.close();
  await write({ said: notes.join("\n"), saw });
  Deno.exit(0);
} catch (error) {
  if (!(error instanceof UserError)) throw error;
  console.error(`hpctrain: ${error.message}`);
  Deno.exit(error.exitCode);
}
