// `scripts/storm`: the kill storm of the tests for as long as one likes, in one part or in many. Each part's findings
// are kept in bench/results/storm.json, and the table in docs/exactness.md is of all of them.
import { parseArgs } from "node:util";
import { join } from "paths";
import { machine, writeResults, writeSection } from "../../bench/report.ts";
import { VERSION } from "../../core/base/version.ts";
import { inTemp, ROOT } from "./program.ts";
import { killsOf, storm, STORMS, type Tally } from "./storm.ts";
import { nextSeed, type Part, rowsOf, sectionOf, withPart, wrongIn } from "./storm_parts.ts";

const USAGE = `./scripts/storm [KILLS] [--minutes M] [--seed S] [--fresh]
  KILLS      of this part, 2000 unless told (--kills does the same)
  --minutes  end the part after so long; the runs under way are let through to their ends, and count
  --seed     of the moments to kill at; the next that no part had, unless told
  --fresh    forget the parts from before`;
const TELL_EVERY = 25;
/** Seeds of the tests' own storms are below this. */
const SEEDS_A_PART = 10;

const options = read();

function read() {
  const text = { type: "string" } as const;
  try {
    const { values, positionals: [kills, ...more] } = parseArgs({
      args: Deno.args,
      options: { kills: text, minutes: text, seed: text, fresh: { type: "boolean" } },
      allowPositionals: true,
    });
    return more.length > 0 ? refuse(`${more[0]} is not known here.`) : { kills, ...values };
  } catch (error) {
    return refuse((error as Error).message);
  }
}

function refuse(sentence: string): never {
  console.error(`${sentence}\n${USAGE}`);
  Deno.exit(2);
}

function number(name: "kills" | "minutes" | "seed", least: number): number | undefined {
  const text = options[name];
  if (text === undefined) return undefined;
  if (Number.isInteger(Number(text)) && Number(text) >= least) return Number(text);
  return refuse(`--${name} is a whole number of at least ${least}.`);
}

function readParts(): Part[] {
  try {
    return JSON.parse(Deno.readTextFileSync(join(ROOT, "bench/results/storm.json"))).parts;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
}

const asked = number("kills", 2) ?? 2000, minutes = number("minutes", 1);
const before = options.fresh ? [] : readParts();
const seed = number("seed", 1) ?? nextSeed(before);
if (before.some((part) => part.seed === seed)) {
  refuse(`There is a part with --seed ${seed} already: take another, or --fresh.`);
}
const began = performance.now(), about = machine(), date = new Date().toISOString().slice(0, 10);
const tallies: (Tally | null)[] = STORMS.map(() => null);
const passed = () => (performance.now() - began) / 60_000;
const all = () => tallies.filter((tally) => tally !== null);
const kills = () => all().reduce((sum, tally) => sum + killsOf(tally), 0);

/** At any moment of the part: what it has found so far is never lost. */
function keep(): Part[] {
  const part = { seed, version: VERSION, date, minutes: passed(), machine: about, tallies: all() };
  const parts = withPart(before, part);
  writeResults("storm", { command: "./scripts/storm", parts });
  writeSection("storm", sectionOf(parts), "docs/exactness.md", "scripts/storm");
  return parts;
}

// Ctrl-C reaches the runs as well, so theirs end here; SIGTERM lets them come to their ends.
let broken = false, enough = false;
Deno.addSignalListener("SIGINT", () => broken = true);
Deno.addSignalListener("SIGTERM", () => enough = true);
const end = () => enough || kills() >= asked || minutes !== undefined && passed() >= minutes;

console.log(`--seed ${seed}: ${asked} kills${minutes === undefined ? "" : ` or ${minutes} minutes`}`);
await Promise.all(STORMS.map(({ flags, seed: own }, i) =>
  inTemp(async (folder) => {
    const told = (tally: Tally) => {
      tallies[i] = tally;
      if (broken) throw new Error("ended by a signal");
      if (kills() % TELL_EVERY > 0) return;
      console.log(`${kills()} kills, ${passed().toFixed(1)} minutes, ${wrongIn(keep()).length} findings`);
    };
    // Whoever is faster deals more of them.
    tallies[i] = await storm(folder, { flags, kills: asked, seed: SEEDS_A_PART * seed + own, told, end });
  }).catch((error) => {
    if (!broken) throw error;
  })
));
const parts = keep();
console.log(rowsOf(parts).map(([label, count]) => `${count}\t${label}`).join("\n"));
const wrong = wrongIn(parts);
for (const sentence of wrong) console.error(sentence);
Deno.exit(wrong.length > 0 ? 1 : 0);
