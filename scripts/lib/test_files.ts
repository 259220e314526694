// The test files: which a filter chooses, and what has to be set up for these. scripts/test asks this before it sets up.
import { dirname, join } from "node:path";
import { importsOf } from "../lint_floors.ts";

/** A file that takes longer, with others beside it, is no unit test. */
const SECONDS_A_UNIT = 8;
/** These run the program from outside, or need more set up than Deno, libtorch, MPI and Python. */
const NO_UNIT = /^tests\/(integration|bench|core\/outputs\/wandb\/sync)\//;
/** Not set up for unit tests, whatever they name: they run the sources, on the newest libtorch. */
const NOT_FOR_UNIT = ["build", "libtorch_oldest", "slurm", "chromium", "wandb"];
/** Their results may differ with libtorch; the others of ffi load none. */
const NATIVE =
  /^tests\/ffi\/(?!libraries\/|mpi\/|ranks\/|nccl\/|(jpeg|zstd|nvml|spin|process|write_behind|machine)_)/;

/** The steps of the set-up, each with the variables that tell tests of it, and with what needs it without one. */
const STEPS: Readonly<Record<string, readonly string[]>> = {
  build: ["HPCTRAIN_EXE"],
  libtorch: ["HPCTRAIN_LIBTORCH", "HPCTRAIN_EXE", "openDevice"], // the last two look for one
  libtorch_oldest: ["HPCTRAIN_LIBTORCH_OLDEST"],
  peer: ["HPCTRAIN_PYTHON", "HPCTRAIN_REAL_LIBRARIES"],
  formats: ["HPCTRAIN_FORMATS_PYTHON"],
  viewers: ["HPCTRAIN_VIEWERS_PYTHON"],
  real_libraries: ["HPCTRAIN_REAL_LIBRARIES"],
  turbojpeg: ["HPCTRAIN_TURBOJPEG"],
  shellcheck: ["HPCTRAIN_SHELLCHECK"],
  mpi: ["HPCTRAIN_OPENMPI", "HPCTRAIN_MPICH"],
  slurm: ["HPCTRAIN_SLURM"],
  chromium: ["HPCTRAIN_CHROMIUM", "HPCTRAIN_TMUX"],
  wandb: ["HPCTRAIN_WANDB_PYTHON", "HPCTRAIN_WANDB_PYTHON_OLD"],
};
/** Runs tests of all kinds. */
const RUNS_TESTS = "scripts/lib/deletable.ts";

export const isNative = (file: string): boolean => NATIVE.test(file);

/** The measured seconds of each file. */
export const TIMES = new URL("test_times.json", import.meta.url);
export const times: Record<string, number> = JSON.parse(Deno.readTextFileSync(TIMES));
export const secondsOf = (file: string): number => times[file] ?? 2;

/** A path's part picks files; anything else is a part of tests' names. */
export function selectTests(filter = ""): { files: string[]; names?: string } {
  const all = allTestFiles();
  if (filter === "unit") {
    return { files: all.filter((file) => !NO_UNIT.test(file) && secondsOf(file) <= SECONDS_A_UNIT) };
  }
  const chosen = all.filter((file) => file.includes(filter));
  return chosen.length > 0 ? { files: chosen } : { files: all, names: filter };
}

/** An extension has its tests with it. */
export function allTestFiles(): string[] {
  const folders = [...Deno.readDirSync(".")].map(({ name }) => name);
  return folders.filter((name) => name === "tests" || name === "extensions").flatMap(testFiles).sort();
}

function testFiles(folder: string): string[] {
  return [...Deno.readDirSync(folder)].flatMap((entry) => {
    const path = `${folder}/${entry.name}`;
    return entry.isDirectory ? testFiles(path) : /_test\.ts$/.test(entry.name) ? [path] : [];
  });
}

/** The steps of the set-up whose words these files have, or what they import has. */
export function stepsOf(files: readonly string[]): string[] {
  const reached = reachedFrom(files);
  if (reached.has(RUNS_TESTS)) return Object.keys(STEPS);
  const texts = [...reached.values()].join("\n");
  const named = new Set(texts.match(/\b\w+/g));
  const isNeeded = (step: string) =>
    STEPS[step].some((name) => named.has(name)) || step === "libtorch_oldest" && files.some(isNative);
  return Object.keys(STEPS).filter(isNeeded);
}

/** The texts of files and of all that they import, or start by its address, beside the program itself. */
function reachedFrom(files: readonly string[]): Map<string, string> {
  const texts = new Map<string, string>(), left = [...files];
  for (let file = left.pop(); file !== undefined; file = left.pop()) {
    if (texts.has(file) || !isBesideProgram(file)) continue;
    const text = read(file);
    if (text === null) continue;
    texts.set(file, text);
    const { atLoad, later } = importsOf(file, text);
    left.push(...[...atLoad, ...later].map(({ to }) => to), ...filesNamedIn(file, text));
  }
  return texts;
}

/** The files that a test may start, which it names from its own folder or from the root. */
const filesNamedIn = (file: string, text: string): string[] =>
  [...text.matchAll(/"([\w./-]+\.(?:ts|py|sh))"/g)].flatMap(([, name]) => [join(dirname(file), name), name]);

const isBesideProgram = (file: string): boolean =>
  /^(tests|bench|scripts)\/|^extensions\/[^/]+\/tests\//.test(file);

function read(file: string): string | null {
  try {
    return Deno.readTextFileSync(file);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null; // a made-up path of a test
    throw error;
  }
}

if (import.meta.main) {
  const filter = Deno.args.find((word) => word !== "--times");
  const { files, names } = selectTests(filter);
  const steps = names !== undefined ? Object.keys(STEPS) : stepsOf(files);
  console.log(steps.filter((step) => filter !== "unit" || !NOT_FOR_UNIT.includes(step)).join(" "));
}
