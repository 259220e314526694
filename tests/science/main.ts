// `./scripts/science [NAME...]`: cases of science at full size, all or those named; what was measured is the output.
import { type Case, met, sentence } from "./case.ts";
import { CASES } from "./cases.ts";

const names = Deno.args.length > 0 ? Deno.args : Object.keys(CASES);
const unknown = names.filter((name) => !Object.hasOwn(CASES, name));
if (unknown.length > 0) {
  console.error(`There is no case "${unknown[0]}". There are ${Object.keys(CASES).join(", ")}.`);
  Deno.exit(2);
}

async function measured(name: string, { promise, run }: Case): Promise<boolean> {
  const folder = await Deno.makeTempDir({ prefix: "hpctrain-science-" });
  const started = Date.now();
  console.log(`${name}: ${promise}`);
  try {
    const figures = await run(folder, "full");
    for (const figure of figures) console.log(`  ${sentence(figure)}`);
    console.log(`  in ${((Date.now() - started) / 60000).toFixed(1)} minutes`);
    return figures.every(met);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

const missed: string[] = [];
for (const name of names) {
  if (!await measured(name, CASES[name])) missed.push(name);
}
console.log(missed.length === 0 ? "Every figure is met." : `Not met: ${missed.join(", ")}.`);
Deno.exit(missed.length === 0 ? 0 : 1);
