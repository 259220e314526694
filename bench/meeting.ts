// `scripts/bench meeting`: thousands of simulated ranks meet rank 0's real control plane on this machine. What it takes of
// rank 0 must grow with the ranks and not with their square.
import { startContestant } from "./contestant.ts";
import { writePage } from "./page.ts";
import { machine, table, writeResults } from "./report.ts";

const PROCESSES = 2, A_NODE = 8;

/** The executable's own settings of V8. */
const engine = /^ENGINE=(\S+)$/m.exec(
  Deno.readTextFileSync(new URL("../scripts/lib/embedded.sh", import.meta.url)),
)![1];

/** The phases of a job's control plane, in the order in which a run has them. */
export const PHASES = ["meet", "gather", "barrier", "beats", "save", "index", "abort"] as const;
type Phase = typeof PHASES[number];

export interface Meeting {
  readonly ranks: number;
  /** Seconds until the last rank has what it waits for; of `beats`, the length of what was watched. */
  readonly seconds: Readonly<Record<Phase, number>>;
  /** Seconds of processor time of rank 0's process. */
  readonly processor: Readonly<Record<Phase, number>>;
  /** Bytes that rank 0's process had at the most, above what it had before. */
  readonly memory: number;
  readonly files: number;
  readonly indexBytes: number;
}

interface Told {
  readonly memory: number;
  readonly processor: number;
  readonly files: number;
}

/** `watched`: for how many seconds heartbeats are. */
export async function meeting(ranks: number, watched = 8): Promise<Meeting> {
  const folder = Deno.makeTempDirSync();
  const script = new URL("simulated_ranks.ts", import.meta.url).pathname;
  const start = (first: number, end: number) => {
    const args = [
      "run",
      engine,
      "--allow-all",
      "--no-check",
      "--quiet",
      script,
      `${first}`,
      `${end}`,
      `${ranks}`,
      `${A_NODE}`,
    ];
    return startContestant(Deno.execPath(), [...args, folder]);
  };
  Deno.mkdirSync(`${folder}/sharded`);
  const share = Math.ceil((ranks - 1) / PROCESSES);
  const zero = await start(0, 1);
  const others = await Promise.all(
    Array.from({ length: PROCESSES }, (_, i) => start(1 + i * share, Math.min(ranks, 1 + (i + 1) * share))),
  );
  const all = [zero, ...others];
  const seconds: Partial<Record<Phase, number>> = {}, processor: Partial<Record<Phase, number>> = {};
  let told = await zero.ask<Told>("told"), indexBytes = 0;
  const measure = async (phase: Phase, work: () => Promise<unknown>) => {
    const began = performance.now();
    await work();
    seconds[phase] = (performance.now() - began) / 1000;
    const now = await zero.ask<Told>("told");
    processor[phase] = now.processor - told.processor;
    told = now;
  };
  const everyone = (word: string) => Promise.all(all.map((process) => process.ask<unknown>(word)));
  try {
    for (const phase of ["meet", "gather", "barrier"] as const) await measure(phase, () => everyone(phase));
    const { files } = told;
    await everyone("beat");
    await measure("beats", () => new Promise((resolve) => setTimeout(resolve, 1000 * watched)));
    await measure("save", () => everyone("save"));
    await everyone("shards");
    told = await zero.ask<Told>("told");
    await measure("index", async () => indexBytes = (await zero.ask<{ bytes: number }>("index")).bytes);
    await measure("abort", () => everyone("abort"));
    await everyone("leave");
    const whole = <T>(of: Partial<Record<Phase, T>>) => of as Record<Phase, T>;
    return {
      ranks,
      seconds: whole(seconds),
      processor: whole(processor),
      memory: told.memory,
      files,
      indexBytes,
    };
  } finally {
    await Promise.all(all.map((process) => process.end().catch(() => {})));
    Deno.removeSync(folder, { recursive: true });
  }
}

const WORLDS = [512, 1024, 2048, 4096];
/** The largest must meet within these seconds and cost rank 0 no more than these bytes. */
const MOST_SECONDS = 10, MOST_MEMORY = 200e6;

/** The power of the number of ranks with which something grows: 1 in proportion, 2 with the square. */
export function growth(of: readonly (readonly [ranks: number, what: number])[]): number {
  const points = of.map(([ranks, what]) => [Math.log(ranks), Math.log(what)] as const);
  const mean = (i: 0 | 1) => points.reduce((sum, point) => sum + point[i], 0) / points.length;
  const x = mean(0), y = mean(1);
  return points.reduce((sum, [px, py]) => sum + (px - x) * (py - y), 0) /
    points.reduce((sum, [px]) => sum + (px - x) ** 2, 0);
}

const ENDED: readonly Phase[] = PHASES.filter((phase) => phase !== "beats");
const processorOf = (m: Meeting) => ENDED.reduce((sum, phase) => sum + m.processor[phase], 0);

export async function meetingBenchmark(quick = false): Promise<void> {
  const about = machine();
  const found: Meeting[] = [];
  for (const ranks of quick ? [64] : WORLDS) {
    const one = await meeting(ranks, quick ? 2 : 10);
    found.push(one);
    console.log(rowOf(one).join("  "));
  }
  if (quick) return;
  const powers = {
    memory: growth(found.map((m) => [m.ranks, m.memory])),
    processor: growth(found.map((m) => [m.ranks, processorOf(m)])),
  };
  const date = new Date().toISOString().slice(0, 10);
  writeResults("meeting", { command: "./scripts/bench meeting", date, machine: about, found, powers });
  const last = found[found.length - 1];
  const met = last.seconds.meet <= MOST_SECONDS && last.memory <= MOST_MEMORY ? "holds" : "does not hold";
  writePage(
    "meeting",
    [
      "# Thousands of ranks at rank 0",
      `\`./scripts/bench meeting\` on ${date}: ${about.cpu}, ${about.cores} cores, load ${about.load} before; Deno ` +
      `${Deno.version.deno}. Simulated ranks, ${A_NODE} a node: each is a real client of the control plane with a connection of ` +
      `its own over loopback, and trains nothing. ${PROCESSES} processes have them all and share the cores with rank 0's, whose ` +
      "server is the real one. Seconds until the last rank has its answer, and in brackets the processor time of rank 0's process: " +
      "until all have met, each has told all others its host (gather), a barrier, an agreement to save, the index of a sharded " +
      "save of one part a rank, and a failure that all hear. Heartbeats are the share of a core that they take of rank 0. Memory is " +
      "the most of its process above what it had before. Asked for of " +
      `${last.ranks} ranks are ${MOST_SECONDS} s until they have met and 200 MB, which ${met}. From ${
        WORLDS[0]
      } to ${last.ranks} ranks memory ` +
      `grows with the power ${powers.memory.toFixed(2)} of their number, and processor time with ${
        powers.processor.toFixed(2)
      }: 1 is in proportion, 2 would be the square.`,
      table(
        [
          "Ranks",
          "Meet",
          "Gather",
          "Barrier",
          "Save agreed",
          "Index",
          "Failure told",
          "Heartbeats",
          "Memory",
          "Open files",
        ],
        found.map(rowOf),
      ),
    ].join("\n\n"),
  );
}

function rowOf({ ranks, seconds, processor, memory, files }: Meeting): string[] {
  const cell = (phase: Phase) => `${seconds[phase].toFixed(2)} s (${processor[phase].toFixed(2)})`;
  return [
    `${ranks}`,
    ...ENDED.map(cell),
    `${(100 * processor.beats / seconds.beats).toFixed(0)}%`,
    `${(memory / 1e6).toFixed(0)} MB`,
    `${files}`,
  ];
}
