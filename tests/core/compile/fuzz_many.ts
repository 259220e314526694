// What ./scripts/compile-fuzz runs: cases by their seed, until so many are done. A wrong one is printed.
import type { Isa } from "../../../core/compile/kernel.ts";
import { useLibtorch } from "../../libtorch.ts";
import { fuzzGroup, fuzzProduct } from "./x86/fuzz.ts";
import { ISAS } from "./x86/harness.ts";

/** Each gives what is wrong with the case of a seed, or null. */
const CASES: Record<string, (seed: number) => string | null> = {
  groups: (seed) => onEach((isa) => fuzzGroup(seed, isa)),
  products: (seed) => onEach((isa) => fuzzProduct(seed, isa)),
};

function onEach(fuzz: (isa: Isa) => string | null): string | null {
  for (const isa of ISAS) {
    const problem = fuzz(isa);
    if (problem) return `${isa}: ${problem}`;
  }
  return null;
}

if (import.meta.main) {
  const [name, count = "10000", first = "0"] = Deno.args;
  const fuzz = CASES[name];
  if (!fuzz) {
    console.error(`There is no ${name ?? "name"}: ${Object.keys(CASES).join(", ")}.`);
    Deno.exit(2);
  }
  useLibtorch();
  let wrong = 0;
  for (let seed = Number(first); seed < Number(first) + Number(count); seed++) {
    const problem = fuzz(seed);
    if (problem) {
      wrong++;
      console.log(problem);
    }
  }
  console.log(`${name}: ${count} cases, ${wrong} differences`);
  Deno.exit(wrong > 0 ? 1 : 0);
}
