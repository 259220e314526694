// What ./scripts/compile-fuzz runs: cases by their seed, until so many are done. A wrong one is printed.
import type { Isa } from "../../../ffi/machine.ts";
import { useLibtorch } from "../../libtorch.ts";
import { fuzzOnHost } from "./cuda/harness.ts";
import { fuzzGroup, fuzzProduct } from "./x86/fuzz.ts";
import { ISAS } from "./x86/harness.ts";

/** So many cases come between two looks at what is wrong. */
const TOGETHER = 50;

/** Each gives what is wrong with the cases of some seeds. */
const CASES: Record<string, (first: number, count: number) => string[]> = {
  groups: eachSeed((seed) => onEach((isa) => fuzzGroup(seed, isa))),
  products: eachSeed((seed) => onEach((isa) => fuzzProduct(seed, isa))),
  cuda: fuzzOnHost,
};

function eachSeed(fuzz: (seed: number) => string | null): (first: number, count: number) => string[] {
  return (first, count) =>
    Array.from({ length: count }, (_, i) => fuzz(first + i)).filter((problem) => problem !== null);
}

function onEach(fuzz: (isa: Isa) => string | null): string | null {
  for (const isa of ISAS) {
    const problem = fuzz(isa);
    if (problem) return `${isa}: ${problem}`;
  }
  return null;
}

if (import.meta.main) {
  const [name] = Deno.args, [count = 10_000, first = 0] = Deno.args.slice(1).map(Number);
  const fuzz = CASES[name];
  if (!fuzz) {
    console.error(`There is no ${name ?? "name"}: ${Object.keys(CASES).join(", ")}.`);
    Deno.exit(2);
  }
  useLibtorch();
  let wrong = 0;
  for (let seed = first; seed < first + count; seed += TOGETHER) {
    for (const problem of fuzz(seed, Math.min(TOGETHER, first + count - seed))) {
      wrong++;
      console.log(problem);
    }
  }
  console.log(`${name}: ${count} cases, ${wrong} differences`);
  Deno.exit(wrong > 0 ? 1 : 0);
}
