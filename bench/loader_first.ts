// How long the first batch takes, from a program's start and from where its data begins to be opened. May import its siblings.
import type { Host } from "./host.ts";
import type { DataSet } from "./loader_sets.ts";
import { answerOf, ours, pytorch, type Sides } from "./loader_sides.ts";
import { WORKERS } from "./loader_speed.ts";
import { median } from "./report.ts";

export interface First {
  /** Seconds from the start of the program, and from the construction of data set and loader, of each round. */
  readonly start: number[];
  readonly construction: number[];
}

export interface Firsts {
  readonly hpctrain: First;
  /** By the number of workers. */
  readonly pytorch: Readonly<Record<string, First>>;
}

export async function measureFirst(sides: Sides, set: DataSet, rounds: number, host: Host): Promise<Firsts> {
  const found: Firsts = {
    hpctrain: { start: [], construction: [] },
    pytorch: Object.fromEntries(WORKERS.map((workers) => [workers, { start: [], construction: [] }])),
  };
  const starters = [
    { command: ours(sides, set, "first"), first: found.hpctrain },
    ...WORKERS.map((n) => ({ command: pytorch(sides, set, "first", n), first: found.pytorch[n] })),
  ];
  for (const { command } of starters) await answerOf(command); // everything is in the page cache then
  for (let round = 0; round < rounds; round++) {
    for (const { command, first } of starters) {
      const { said, seconds } = await host.turn(() => answerOf<{ seconds: number }>(command));
      first.start.push(seconds);
      first.construction.push(said.seconds);
    }
  }
  return found;
}

/** The median with the number of workers that serves PyTorch best. */
export function bestOfPytorch({ pytorch }: Firsts, from: keyof First): number {
  return Math.min(...Object.values(pytorch).map((first) => median(first[from])));
}
