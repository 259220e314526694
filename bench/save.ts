// `scripts/bench save`: a checkpoint of 500 MB, written beside training and with training waiting, and torch.save of
// the same tensors to the same disk.
import { join } from "paths";
import { type Contestant, type Host, openHost, startContestant, turns } from "./contestant.ts";
import { writePage } from "./page.ts";
import { keysOf, machine, median, table, versionsOf, writeResults } from "./report.ts";
import { SAVE_SIZES, type Saved } from "./workloads.ts";
import type { Programs } from "./step.ts";

const ROUNDS = 9;
const SIDES = {
  training: "hpctrain, beside training",
  waiting: "hpctrain, beside nothing",
  synchronous: "hpctrain, training waits",
  safe: "torch.save, fsync, rename",
  plain: "torch.save",
} as const;
type Side = keyof typeof SIDES;
const sides = keysOf(SIDES);

type Rounds = Record<Side, Saved[]>;

export async function saveBenchmark(p: Programs): Promise<void> {
  const about = machine(), host = openHost();
  if (about.load > 0.5) {
    console.log(`This machine is busy (load ${about.load}): the figures will not say much.`);
  }
  Deno.mkdirSync(p.data, { recursive: true });
  const folder = Deno.makeTempDirSync({ dir: p.data });
  try {
    const rounds = await measure(p, host, folder);
    for (const row of rows(rounds)) console.log(`  ${row.join("  ")}`);
    write(p, about, host, rounds);
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
}

/** Each side saves in turn, to a disk that has nothing else to write. */
async function measure(p: Programs, host: Host, folder: string): Promise<Rounds> {
  const { features, hidden, layers, batch } = SAVE_SIZES;
  const peer = join(new URL("peers/", import.meta.url).pathname, "save.py");
  const running = new Map<Side, Contestant>();
  const rounds = Object.fromEntries(sides.map((side) => [side, [] as Saved[]])) as Rounds;
  for (const side of sides) {
    const own = join(folder, side);
    Deno.mkdirSync(own);
    const sizes = [features, hidden, layers, batch].map(String);
    running.set(
      side,
      side === "safe" || side === "plain"
        ? await startContestant(p.python, ["-B", peer, side, own, ...sizes])
        : await startContestant(p.save, [side, own]),
    );
  }
  const used = new Map<Side, number>();
  const save = async (side: Side, contestant: Contestant): Promise<Saved> => {
    new Deno.Command("sync").outputSync();
    const saved = await contestant.round(1) as unknown as Saved;
    const cpu = saved.cpu - (used.get(side) ?? 0);
    used.set(side, saved.cpu);
    return { ...saved, cpu };
  };
  for (const [[side, contestant], round] of turns(running, ROUNDS, -1)) { // the first is not counted
    const once = () => save(side, contestant);
    const saved = round < 0 ? await once() : await host.turn(once);
    if (round >= 0) rounds[side].push(saved);
  }
  for (const contestant of running.values()) await contestant.end();
  return rounds;
}

const middle = (saves: readonly Saved[], of: (saved: Saved) => number) => median(saves.map(of));
const rateOf = ({ bytes, seconds }: Saved) => bytes / seconds;
const percent = (share: number) => `${(100 * share).toFixed(share < 0.1 ? 1 : 0)}%`;
const times = (ratio: number) => `${ratio.toFixed(2)}x`;

function rows(rounds: Rounds): string[][] {
  const whole = middle(rounds.synchronous, ({ stall }) => stall);
  return sides.map((side) => {
    const stalls = rounds[side].map(({ stall }) => stall), stall = median(stalls);
    const rate = middle(rounds[side], rateOf);
    return [
      SIDES[side],
      `${(1000 * stall).toFixed(0)} ms`,
      `${(1000 * Math.max(...stalls)).toFixed(0)} ms`,
      percent(stall / whole),
      `${middle(rounds[side], ({ seconds }) => seconds).toFixed(2)} s`,
      side === "training" ? "" : `${middle(rounds[side], ({ cpu }) => cpu).toFixed(2)} s`,
      `${(rate / 1e6).toFixed(0)} MB/s`,
      times(rate / middle(rounds.safe, rateOf)),
      times(rate / middle(rounds.plain, rateOf)),
    ];
  });
}

function write(p: Programs, about: ReturnType<typeof machine>, host: Host, rounds: Rounds): void {
  const versions = versionsOf(p), date = new Date().toISOString().slice(0, 10);
  writeResults("save", {
    date,
    command: "./scripts/bench save",
    machine: about,
    versions,
    sizes: SAVE_SIZES,
    taken: host.taken,
    rounds,
  });
  const { features, hidden, layers } = SAVE_SIZES;
  const head = [
    "Save",
    "Training held",
    "At most",
    "Against waiting",
    "Until in place",
    "Processor",
    "Speed",
  ];
  writePage(
    "save",
    [
      "# Saving a checkpoint",
      `\`./scripts/bench save\` on ${date}: ${about.cpu}, ${about.cores} cores, load ${about.load} before; libtorch ${versions.libtorch}, ` +
      `Python ${versions.python} with PyTorch ${versions.torch}. The state is ${
        (rounds.training[0].bytes / 1e6).toFixed(0)
      } MB: ${layers} linear layers of ${hidden} (${features} features) with AdamW. Medians of ${ROUNDS} rounds in which the programs take ` +
      "turns on one disk, which has written all before each. Ours is checked (CRC-32 and SHA-256 of each tensor), " +
      "synced, read back and renamed; torch.save by itself leaves the bytes to the system, and beside it is one that is " +
      "synced and renamed too. Beside training the writer shares the cores with it. Processor is the time that the processes had of all cores: " +
      `on a machine that does other things as well, what takes more of it takes longer. ${host.said()}`,
      table([...head, "torch.save, fsync", "torch.save"], rows(rounds)),
    ].join("\n\n"),
  );
}
