// The benchmarks by name. Started by scripts/bench, which sets up what they compare.
import { runAge } from "./age.ts";
import { allreduceBenchmark } from "./allreduce.ts";
import { compileBenchmark } from "./compile.ts";
import { curvesBenchmark } from "./curves.ts";
import { ddpBenchmark } from "./ddp.ts";
import { exportedBenchmark } from "./exported.ts";
import { generateBenchmark } from "./generate.ts";
import { gpuBenchmark } from "./gpu.ts";
import { filesBenchmark } from "./files.ts";
import { jobsBenchmark } from "./jobs.ts";
import { loaderBenchmark } from "./loader.ts";
import { mapsBenchmark } from "./maps.ts";
import { meetingBenchmark } from "./meeting.ts";
import { writeHeadlines } from "./page.ts";
import { overlapBenchmark } from "./overlap.ts";
import { predictBenchmark } from "./predict.ts";
import { type Programs, stepBenchmark } from "./step.ts";
import { shardsBenchmark } from "./shards.ts";
import { saveBenchmark } from "./save.ts";
import { trackBenchmark } from "./track.ts";

const benchmarks: Record<string, (programs: Programs) => Promise<void>> = {
  jobs: (programs) => jobsBenchmark(programs, Deno.env.get("HPCTRAIN_BENCH_LIGHTNING") || null, cases, quick),
  step: (programs) => stepBenchmark(programs, quick),
  compile: (programs) => compileBenchmark(programs, quick),
  curves: (programs) => curvesBenchmark(programs, quick),
  exported: exportedBenchmark,
  loader: (programs) => loaderBenchmark(programs, quick, cases),
  maps: (programs) =>
    mapsBenchmark(
      programs,
      named("HPCTRAIN_BENCH_PACKAGES", "folders with xbatcher and zarr-python"),
      quick,
      cases,
    ),
  save: saveBenchmark,
  ddp: (programs) => ddpBenchmark(programs, named("HPCTRAIN_MPICH", "a folder with MPICH"), quick),
  overlap: (programs) => overlapBenchmark(programs, named("HPCTRAIN_MPICH", "a folder with MPICH"), quick),
  predict: (programs) => predictBenchmark(programs, quick),
  meeting: () => meetingBenchmark(quick),
  files: (programs) => filesBenchmark(programs, named("HPCTRAIN_MPICH", "a folder with MPICH"), quick),
  allreduce: (programs) =>
    allreduceBenchmark(
      programs,
      named("HPCTRAIN_OPENMPI", "a folder with Open MPI"),
      named("HPCTRAIN_MPICH", "a folder with MPICH"),
    ),
  shards: shardsBenchmark,
  track: trackBenchmark,
  generate: generateBenchmark,
  gpu: (programs) => gpuBenchmark(programs, cases),
};

function named(variable: string, what: string): string {
  const value = Deno.env.get(variable);
  if (!value) throw new Error(`${variable} is not set: it names ${what}. ./scripts/bench sets it.`);
  return value;
}

/** With little data or few steps, and nothing is written: to see that it runs. */
const quick = Deno.args.includes("--quick");
if (Deno.args[0] === "age") {
  const check = Deno.args[1] === "--check";
  if (!check) writeHeadlines();
  Deno.exit(runAge(check));
}
const words = Deno.args.filter((word) => word !== "--quick");
/** `jobs`, `loader`, `maps` and `gpu` may be followed by the names of their cases. */
const cases = ["jobs", "loader", "maps", "gpu"].includes(words[0]) ? words.slice(1) : [];
const names = cases.length > 0 ? words.slice(0, 1) : words;
const wanted = names.length > 0 ? names : Object.keys(benchmarks);
const unknown = wanted.filter((name) => !Object.hasOwn(benchmarks, name));
if (unknown.length > 0) {
  console.error(`There is no benchmark "${unknown[0]}". There are: ${Object.keys(benchmarks).join(", ")}.`);
  Deno.exit(2);
}
const hasQuick = [
  "jobs",
  "step",
  "compile",
  "curves",
  "loader",
  "maps",
  "ddp",
  "overlap",
  "predict",
  "meeting",
  "files",
];
if (quick && wanted.some((name) => !hasQuick.includes(name))) {
  console.error(`Only ${hasQuick.join(", ")} have --quick: ./scripts/bench loader --quick.`);
  Deno.exit(2);
}
/** Asked for when it is needed: `jobs` and some others need no worker. */
const programs: Programs = {
  get exe() {
    return named("HPCTRAIN_EXE", "the executable");
  },
  get worker() {
    return named("HPCTRAIN_BENCH_WORKER", "the program compiled from bench/worker.ts");
  },
  get loader() {
    return named("HPCTRAIN_BENCH_LOADER", "the program compiled from bench/loader_worker.ts");
  },
  get save() {
    return named("HPCTRAIN_BENCH_SAVE", "the program compiled from bench/save_worker.ts");
  },
  get python() {
    return named("HPCTRAIN_PYTHON", "a Python that has torch and torchvision");
  },
  get libtorch() {
    return named("HPCTRAIN_LIBTORCH", "the folder of libtorch");
  },
  get data() {
    return named("HPCTRAIN_BENCH_DATA", "a folder for the benchmarks' files");
  },
};
for (const name of wanted) await benchmarks[name](programs);
