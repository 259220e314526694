// The table of `./scripts/exported compiled FOLDER [--exact] [--left] [NAMES]`: which real models' steps are compiled, what that
// gains and how long a plan takes, and what keeps the others from it. FOLDER keeps the exported programs, since exporting takes
// longest, and what was found: `--left` tries those alone of which nothing is known yet.
import { join, resolve } from "paths";
import { table } from "../../bench/report.ts";
import { run } from "../integration/program.ts";
import { type Exported, MODULES, startPython } from "./python.ts";
import { FLAGS, startOf } from "./trial.ts";

const STEPS = 3, BATCHES = 6, AT_ONCE = 2;

const [given, ...rest] = Deno.args, folder = resolve(given);
const mode = rest.includes("--exact") ? "exact" : "fast";
const named = rest.filter((arg) => !arg.startsWith("--"));
Deno.mkdirSync(folder, { recursive: true });

/** What was told of an exported model, or the sentence why it is none. */
type Told = Exported | { readonly error: string };

interface Outcome {
  /** "compiled", or why not: without figures, so that equal reasons are equal. */
  readonly outcome: string;
  /** The time of an ordinary forward and backward by that of a compiled one, and the plan's own. */
  readonly gain?: number;
  readonly milliseconds?: number;
}

function read<T>(name: string): T | null {
  try {
    return JSON.parse(Deno.readTextFileSync(join(folder, name)));
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw error;
  }
}

const number = (text: string, pattern: RegExp): number | undefined => {
  const found = pattern.exec(text);
  return found === null
    ? undefined
    : Number(found[1]) * (found[2] === "s" ? 1000 : found[2] === "us" ? 1e-3 : 1);
};

async function outcomeOf(name: string, told: Exported): Promise<Outcome> {
  const cwd = Deno.makeTempDirSync();
  try {
    const args = [...startOf(told, join(folder, name)), ...FLAGS.split(" "), "--max-steps", String(STEPS)];
    const { stdout, stderr, code } = await run(
      ["train", ...args, "--run-name", "compiled", `--compile=${mode}`],
      { cwd, timeout: 300 },
    );
    const text = stdout + stderr;
    if (code !== 0) return { outcome: `**exit code ${code}**` };
    if (!text.includes("Steps are compiled:")) {
      const why = /Steps are not compiled: (.*?)\. They run op by op/.exec(text)?.[1];
      const differ = /Compiled steps (give other|don't have the) (\w+)/.exec(text)?.[0];
      return { outcome: why ?? differ ?? "nothing was said" };
    }
    const compiled = number(text, /take ([\d.]+) (s|ms|us) compiled/);
    const ordinary = number(text, /compiled and ([\d.]+) (s|ms|us) op by op/);
    const gain = compiled === undefined || ordinary === undefined ? {} : { gain: ordinary / compiled };
    return { outcome: COMPILED, ...gain, milliseconds: number(text, /made in ([\d.]+) (s|ms|us)/) };
  } finally {
    Deno.removeSync(cwd, { recursive: true });
  }
}

const COMPILED = "compiled";

const results = `compiled-${mode}.json`;
const outcomes = new Map<string, Outcome>(Object.entries(read<Record<string, Outcome>>(results) ?? {}));
{
  await using python = startPython(MODULES, Deno.env.get("HPCTRAIN_REAL_LIBRARIES") ?? null);
  const all = named.length > 0 ? named : (await python.names()).map(([name]) => name);
  const next = all.filter((name) => !rest.includes("--left") || !outcomes.has(name)).values();
  await Promise.all(Array.from({ length: AT_ONCE }, async () => {
    for (const name of next) {
      let told = read<Told>(`${name}.json`);
      if (told === null) {
        told = await python.export(name, folder, BATCHES) as Told;
        Deno.writeTextFileSync(join(folder, `${name}.json`), JSON.stringify(told));
      }
      outcomes.set(name, "error" in told ? { outcome: "not exported" } : await outcomeOf(name, told));
      Deno.writeTextFileSync(join(folder, results), JSON.stringify(Object.fromEntries(outcomes), null, 1));
      console.error(`${name}: ${outcomes.get(name)!.outcome}`);
    }
  }));
}

const sorted = [...outcomes].sort(([a], [b]) => a < b ? -1 : 1);
const byOutcome = [...Map.groupBy(sorted, ([, { outcome }]) => outcome)].sort(([, a], [, b]) =>
  b.length - a.length
);
const rows = byOutcome.map((
  [outcome, of],
) => [String(of.length), outcome, of.map(([name]) => name).join(", ")]);
console.log(table(["Models", `Steps with --compile=${mode}`, ""], rows));
const compiled = sorted.filter(([, { outcome }]) => outcome === COMPILED).map((
  [name, { gain, milliseconds }],
) => [
  name,
  gain === undefined ? "" : gain.toFixed(2),
  milliseconds === undefined ? "" : (milliseconds / 1000).toFixed(2),
]);
console.log(`\n${table(["Model", "Gain", "Plan made in, s"], compiled)}`);
