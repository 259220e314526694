// The table of `./scripts/exported compiled FOLDER [--exact] [NAMES]`: which real models' steps are compiled, and what keeps the
// others from it. FOLDER keeps the exported programs from one time to the next, since exporting takes longest.
import { join, resolve } from "@std/path";
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

const toldAt = (name: string): string => join(folder, `${name}.json`);

function known(name: string): Told | null {
  try {
    return JSON.parse(Deno.readTextFileSync(toldAt(name)));
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw error;
  }
}

/** "compiled", or why not: without figures, so that equal reasons are equal. */
async function outcomeOf(name: string, told: Exported): Promise<string> {
  const cwd = Deno.makeTempDirSync();
  try {
    const args = [...startOf(told, join(folder, name)), ...FLAGS.split(" "), "--max-steps", String(STEPS)];
    const { stdout, stderr, code } = await run(
      ["train", ...args, "--run-name", "compiled", `--compile=${mode}`],
      { cwd, timeout: 300 },
    );
    const text = stdout + stderr;
    if (code !== 0) return `**exit code ${code}**`;
    if (text.includes("Steps are compiled:")) return COMPILED;
    return /Steps are not compiled: (.*?)\. They run op by op/.exec(text)?.[1] ??
      /Compiled steps (give other|don't have the) (\w+)/.exec(text)?.[0] ?? "nothing was said";
  } finally {
    Deno.removeSync(cwd, { recursive: true });
  }
}

const COMPILED = "compiled";

const outcomes = new Map<string, string>();
{
  await using python = startPython(MODULES, Deno.env.get("HPCTRAIN_REAL_LIBRARIES") ?? null);
  const names = named.length > 0 ? named : (await python.names()).map(([name]) => name);
  const next = names.values();
  await Promise.all(Array.from({ length: AT_ONCE }, async () => {
    for (const name of next) {
      let told = known(name);
      if (told === null) {
        told = await python.export(name, folder, BATCHES) as Told;
        Deno.writeTextFileSync(toldAt(name), JSON.stringify(told));
      }
      const outcome = "error" in told ? "not exported" : await outcomeOf(name, told);
      outcomes.set(name, outcome);
      console.error(`${name}: ${outcome}`);
    }
  }));
}

const byOutcome = [...Map.groupBy(outcomes, ([, outcome]) => outcome)].sort(([, a], [, b]) =>
  b.length - a.length
);
const rows = byOutcome.map((
  [outcome, of],
) => [String(of.length), outcome, of.map(([name]) => name).sort().join(", ")]);
console.log(table(["Models", `Steps with --compile=${mode}`, ""], rows));
