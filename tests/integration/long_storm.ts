// `scripts/storm [KILLS]`: the kill storm of the tests for as long as one likes, and its table in docs/exactness.md.
// Ctrl-C ends it with the table of the kills until then.
import { join } from "@std/path";
import { machine, table, withSection } from "../../bench/report.ts";
import { inTemp, ROOT } from "./program.ts";
import { killsOf, storm, STORMS, type Tally } from "./storm.ts";
import { type Moment, MOMENTS } from "./storm_checks.ts";

const SHOWN: Record<Moment, string> = {
  starting: "before the first step (reading the checkpoint, setting up)",
  training: "between saves",
  writing: "in a save: the temporary file is half written",
  written: "in a save: the temporary file is whole, and not yet in place",
  renamed: "in a save: the file is in place, and the save not yet reported",
};
const TELL_EVERY = 50;

const asked = Number(Deno.args[0] ?? 2000);
if (!Number.isInteger(asked) || asked < 2) {
  console.error("How many kills? ./scripts/storm 2000");
  Deno.exit(2);
}
const began = performance.now();
const tallies: (Tally | null)[] = STORMS.map(() => null);
const all = () => tallies.filter((tally) => tally !== null);
const sum = (of: (tally: Tally) => number) => all().reduce((sum, tally) => sum + of(tally), 0);

function writeTable(): void {
  const path = join(ROOT, "docs/exactness.md");
  const about = machine();
  const rows = [
    ...MOMENTS.map((moment) => [SHOWN[moment], String(sum(({ kills }) => kills[moment]))]),
    ["kills in all", String(sum(killsOf))],
    ["checkpoints read back after a kill, every checksum compared", String(sum(({ read }) => read))],
    ["of them unreadable", String(sum(({ unreadable }) => unreadable.length))],
    ["saves that were reported as done", String(sum(({ saves }) => saves))],
    ["of them lost", String(sum(({ lost }) => lost.length))],
    ["runs that came to their end", String(sum(({ runs }) => runs))],
    [
      "of them with a bit that differs from the run that nobody killed",
      String(sum((t) => t.different.length)),
    ],
  ];
  const text = "## Kill storm\n\n" +
    `\`./scripts/storm ${asked}\`${ended ? `, stopped after ${sum(killsOf)} kills,` : ""} on ${
      new Date().toISOString().slice(0, 10)
    }, ${
      Math.round((performance.now() - began) / 60_000)
    } minutes on ${about.cpu}, ${about.cores} cores. Two runs with saves every few steps (AdamW with averages and ` +
    "dropout; SGD in bf16 with accumulation and clipping) are killed with SIGKILL at any moment, about half of them " +
    "aimed at saves by watching the folder of checkpoints from outside, and resumed with `--resume auto`. At the end " +
    "weights, optimizer, averages and every loss of the log are compared with the run that was left alone.\n\n" +
    table(["When the kill fell", "Kills"], rows.slice(0, MOMENTS.length + 1)) + "\n\n" +
    table(["What was left", "Count"], rows.slice(MOMENTS.length + 1));
  let page = "# Exactness\n";
  try {
    page = Deno.readTextFileSync(path);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  Deno.writeTextFileSync(path, withSection(page, "storm", text, "scripts/storm"));
  console.log(rows.map((row) => row.toReversed().join("\t")).join("\n"));
}

let ended = false;
for (const signal of ["SIGINT", "SIGTERM"] as const) Deno.addSignalListener(signal, () => ended = true);

await Promise.all(STORMS.map(({ flags, seed }, i) =>
  inTemp(async (folder) => {
    const told = (tally: Tally) => {
      tallies[i] = tally;
      const kills = sum(killsOf);
      if (kills % TELL_EVERY === 0) console.log(`${kills} kills`);
      if (ended) throw new Error("ended by a signal");
    };
    const kills = Math.ceil(asked / STORMS.length);
    await storm(folder, { flags, kills, seed: seed + 10, told }); // other moments than in the tests
  }).catch((error) => {
    if (!ended) throw error; // Ctrl-C reaches the runs as well
  })
));
const wrong = all().flatMap(({ unreadable, lost, different }) => [...unreadable, ...lost, ...different]);
for (const sentence of wrong) console.error(sentence);
writeTable();
Deno.exit(wrong.length > 0 ? 1 : 0);
