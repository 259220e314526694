// Samples a second that are read from one set by each side, and whether both read the same. May import its siblings.
import { type Contestant, startContestant } from "./contestant.ts";
import type { Host } from "./host.ts";
import type { DataSet } from "./loader_sets.ts";
import { answerOf, ours, pytorch, type Sides } from "./loader_sides.ts";

export const WORKERS = [0, 2, 4];

export interface Speed {
  /** Samples a second with each number of PyTorch's workers; the best is who competes. */
  readonly sweep: Readonly<Record<string, number>>;
  readonly workers: number;
  /** Samples a second in each round. */
  readonly rounds: { readonly hpctrain: number[]; readonly pytorch: number[] };
}

export interface Effort {
  readonly rounds: number;
  /** How long a round is at least; whole epochs, each begun with nothing read ahead. */
  readonly seconds: number;
}

export async function measureSpeed(sides: Sides, set: DataSet, effort: Effort, host: Host): Promise<Speed> {
  await sameSamples(sides, set);
  const mine = await startContestant(...ours(sides, set, "rounds"));
  const sweep: Record<string, number> = {};
  let best: { workers: number; contestant: Contestant } | null = null;
  for (const workers of WORKERS) {
    const contestant = await startContestant(...pytorch(sides, set, "rounds", workers));
    await contestant.round(1); // workers start, files come into the page cache
    sweep[workers] = await host.turn(() => speedOf(contestant, 1));
    const better = best === null || sweep[workers] > sweep[best.workers];
    await (better ? best?.contestant : contestant)?.end();
    if (better) best = { workers, contestant };
  }
  const { workers, contestant } = best!;
  const racers = [
    { side: "hpctrain", contestant: mine, epochs: await epochsFor(mine, effort) },
    { side: "pytorch", contestant, epochs: await epochsFor(contestant, effort) },
  ] as const;
  const rounds: Speed["rounds"] = { hpctrain: [], pytorch: [] };
  for (let round = 0; round < effort.rounds; round++) {
    for (const { side, contestant, epochs } of round % 2 === 0 ? racers : racers.toReversed()) {
      rounds[side].push(await host.turn(() => speedOf(contestant, epochs)));
    }
  }
  for (const { contestant } of racers) await contestant.end();
  return { sweep, workers, rounds };
}

async function speedOf(contestant: Contestant, epochs: number): Promise<number> {
  const { loss: samples, seconds } = await contestant.round(epochs);
  return Math.round(samples / seconds);
}

/** Whole epochs that take about as long as a round should. */
async function epochsFor(contestant: Contestant, { seconds }: Effort): Promise<number> {
  await contestant.round(1);
  return Math.max(1, Math.ceil(seconds / (await contestant.round(1)).seconds));
}

interface Moments {
  readonly samples: number;
  readonly shape: readonly number[];
  readonly types: readonly string[];
  readonly input: number;
  readonly square: number;
  readonly target: number;
}

/** A comparison is one only if both read the same: every sample once, with the same values in the same layout. */
export async function sameSamples(sides: Sides, set: DataSet): Promise<void> {
  const { said: mine } = await answerOf<Moments>(ours(sides, set, "moments"));
  const { said: theirs } = await answerOf<Moments>(pytorch(sides, set, "moments", 2));
  const layout = ({ samples, shape, types }: Moments) => JSON.stringify({ samples, shape, types });
  const near = (name: "input" | "square" | "target") => Math.abs(mine[name] - theirs[name]) <= 1e-4;
  if (layout(mine) === layout(theirs) && near("input") && near("square") && near("target")) return;
  throw new Error(
    `${set.title}: the sides read different samples: ${JSON.stringify(mine)}, ${JSON.stringify(theirs)}`,
  );
}
