// Every real model of tests/peers/real, tried: bench/results/real-models.json, and the page beside it.
// Started by scripts/exported, which installs the libraries. Models that are named are tried alone, and come in the place of
// what was known of them.
import { tryModel } from "./trial.ts";
import { openRecorder, said, writePage } from "./page.ts";
import { MODULES, startPython } from "./python.ts";

const AT_ONCE = 2;

const recorder = openRecorder();
{
  await using python = startPython(MODULES, Deno.env.get("HPCTRAIN_REAL_LIBRARIES") ?? null);
  const all = await python.names();
  const unknown = Deno.args.find((name) => !all.some(([known]) => known === name));
  if (unknown !== undefined) {
    console.error(`There is no model "${unknown}". There are: ${all.map(([name]) => name).join(", ")}.`);
    Deno.exit(2);
  }
  const wanted = all.filter(([name]) => Deno.args.length === 0 || Deno.args.includes(name));
  const next = wanted.values();
  // Python exports one while the program trains another.
  await Promise.all(Array.from({ length: AT_ONCE }, async () => {
    for (const named of next) {
      const folder = Deno.makeTempDirSync(); // one for each, since weights take room
      try {
        const row = await tryModel(python, named, folder);
        console.log(said(row));
        recorder.record(row, all.map(([name]) => name)); // what is known stays known, however this ends
      } finally {
        Deno.removeSync(folder, { recursive: true });
      }
    }
  }));
}
writePage();
