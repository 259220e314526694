// Checks of time and memory, each side a process of its own: step times beside PyTorch, gradient checkpointing.
import { cudaMemory } from "../../ffi/cuda.ts";
import { type Contestant, type Round, startContestant, turns } from "../contestant.ts";
import { median } from "../report.ts";
import { type Check, type Context, DEEP, FULL, QUICK, type Spec } from "./check.ts";

const here = new URL(".", import.meta.url).pathname;
/** After this many seconds nothing is compiled any more: the whole stays under eight minutes. */
const TOO_LATE_TO_COMPILE = 300;

interface Side {
  readonly contestant: Contestant;
  readonly first: Round;
  /** Bytes that the process took: of the device, or resident on a CPU. */
  readonly memory: number;
}

/** Starts a process, lets it warm up, and sees how much memory that took. */
async function start(c: Context, program: string, args: readonly string[], steps: number): Promise<Side> {
  const used = () => c.device === "cpu" ? 0 : cudaMemory().used;
  const before = used();
  const contestant = await startContestant(program, args);
  const first = await contestant.round(steps);
  return { contestant, first, memory: c.device === "cpu" ? first.peak : used() - before };
}

const flagOf = (c: Context) => c.device === "cpu" ? "cpu" : "cuda";

function ours(c: Context, spec: Spec, deterministic: boolean): [string, string[]] {
  const run = ["run", "--allow-all", "--no-check", "--quiet", "--cached-only", `${here}worker.ts`];
  return [Deno.execPath(), [...run, JSON.stringify(spec), flagOf(c), deterministic ? "deterministic" : ""]];
}

/** The last lines of a failure are its reason. */
const reason = (error: unknown) => String(error).trim().split("\n").slice(-1).join().slice(0, 120);

/** Each side in turn, so that each one's memory is seen alone; why a side can't run goes to `missing`. */
async function startAll(
  c: Context,
  spec: Spec,
  running: Map<string, Side>,
  missing: Record<string, string>,
): Promise<void> {
  const warmUp = Math.max(5, Math.ceil(spec.steps / 5));
  running.set("hpctrain", await start(c, ...ours(c, spec, false), warmUp));
  for (const mode of ["eager", "compile"]) {
    if (c.python === null) missing[mode] = "no Python with torch";
    else if (mode === "compile" && (c.quick || c.elapsed() > TOO_LATE_TO_COMPILE)) missing[mode] = "no time";
    else {
      const args = [`${here}peer.py`, JSON.stringify(spec), flagOf(c), mode];
      try {
        running.set(mode, await start(c, c.python, args, warmUp));
      } catch (error) {
        missing[mode] = reason(error);
      }
    }
  }
}

const stepTime = (spec: Spec): Check => ({
  name: `step time: ${spec.title}`,
  async run(c) {
    const missing: Record<string, string> = {};
    const running = new Map<string, Side>();
    const milliseconds: Record<string, number[]> = {};
    try {
      await startAll(c, spec, running, missing);
      for (const [[side, { contestant }]] of turns(running, c.quick ? 2 : 5)) {
        const { seconds } = await contestant.round(spec.steps);
        (milliseconds[side] ??= []).push(seconds / spec.steps * 1e3);
      }
    } finally { // a process left behind would keep its memory of the device
      for (const { contestant } of running.values()) await contestant.end().catch(() => {});
    }
    const medians = Object.fromEntries(Object.entries(milliseconds).map(([side, ms]) => [side, median(ms)]));
    const words = [...running].map(([side, { memory }]) => {
      const ratio = side === "hpctrain" ? "" : ` (${(medians[side] / medians.hpctrain).toFixed(2)}x ours)`;
      return `${side} ${medians[side].toFixed(3)} ms${ratio}, ${(memory / 2 ** 30).toFixed(2)} GiB`;
    });
    const left = Object.entries(missing).map(([side, why]) => `${side}: ${why}`);
    const memory = Object.fromEntries([...running].map(([side, { memory }]) => [side, memory]));
    return {
      ok: Number.isFinite(running.get("hpctrain")?.first.loss),
      figure: [...words, ...left].join("; "),
      detail: { spec, milliseconds, medians, memory, missing },
    };
  },
});

const checkpointing: Check = {
  name: "gradient checkpointing: the same losses in less memory",
  async run(c) {
    const spec = c.quick ? { ...DEEP, batch: 2, size: 64, layers: 2, width: 64 } : DEEP;
    const found: Side[] = [];
    for (const checkpointing of [false, true]) {
      const side = await start(c, ...ours(c, { ...spec, checkpointing }, true), spec.steps);
      await side.contestant.end();
      found.push(side);
    }
    const [without, with_] = found;
    const same = without.first.loss === with_.first.loss;
    const [a, b] = [without.memory, with_.memory].map((bytes) => (bytes / 2 ** 20).toFixed(0));
    // So little is computed in the quick form that the memory says nothing.
    return {
      ok: same && (c.quick || (with_.memory > 0 && with_.memory < without.memory)),
      figure: `loss ${without.first.loss}${
        same ? " twice" : ` and ${with_.first.loss}`
      }; ${a} MiB, then ${b} MiB`,
    };
  },
};

export const speed = (quick: boolean): readonly Check[] => [
  checkpointing,
  ...(quick ? QUICK : FULL).map(stepTime),
];
