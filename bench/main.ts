// The benchmarks by name. Started by scripts/bench, which sets up what they compare. May import its siblings.
import { type Programs, stepBenchmark } from "./step.ts";

const benchmarks: Record<string, (programs: Programs) => Promise<void>> = { step: stepBenchmark };

function named(variable: string, what: string): string {
  const value = Deno.env.get(variable);
  if (!value) throw new Error(`${variable} is not set: it names ${what}. ./scripts/bench sets it.`);
  return value;
}

const wanted = Deno.args.length > 0 ? Deno.args : Object.keys(benchmarks);
const unknown = wanted.filter((name) => !Object.hasOwn(benchmarks, name));
if (unknown.length > 0) {
  console.error(`There is no benchmark "${unknown[0]}". There are: ${Object.keys(benchmarks).join(", ")}.`);
  Deno.exit(2);
}
const programs = {
  exe: named("HPCTRAIN_EXE", "the executable"),
  worker: named("HPCTRAIN_BENCH_WORKER", "the program compiled from bench/worker.ts"),
  python: named("HPCTRAIN_PYTHON", "a Python that has torch and torchvision"),
  libtorch: named("HPCTRAIN_LIBTORCH", "the folder of libtorch"),
};
for (const name of wanted) await benchmarks[name](programs);
