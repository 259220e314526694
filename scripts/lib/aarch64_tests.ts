// Runs what ./scripts/test-aarch64 tests, where programs for aarch64 start: tests of the suite in an emulated Deno, and those of
// tests/aarch64, which start the executables for both architectures, in this machine's own. Ends with the line that counts them.
import { parseJunit, type TestResult } from "./junit.ts";

interface Part {
  readonly name: string;
  readonly files: readonly string[];
  /** In the emulated Deno, with the libtorch for aarch64. */
  readonly emulated: boolean;
}

/** Files of the suite that have nothing to do there, and single tests whose results do not count, with the reason. */
const LEFT_OUT: Readonly<Record<string, string>> = {
  "tests/ffi/cuda_test.ts": "a stand-in for a GPU, which is built for x86-64",
  "tests/ffi/machine_test.ts": "it asks this machine's own ldd, which is x86-64's",
  "tests/ffi/leaks_test.ts": "it measures memory of the process, which is QEMU's",
  "tests/ffi/freed_memory_test.ts": "it counts page faults of the process, which are QEMU's",
  "tests/ffi/nvml_test.ts": "a stand-in for NVIDIA's library, which is built for x86-64",
  "tests/ffi/staying_test.ts: they lie on large pages where the machine gives them to who asks":
    "QEMU does not show large pages",
  "tests/ffi/spin_test.ts: it is decided once, told to libgomp by its variable, and takes under 20 ms where nobody holds it up":
    "it bounds a time",
  "tests/core/settings/files_test.ts: brackets nested without end, many keys and large files are refused within seconds":
    "it bounds processor time",
};

const tests = (folder: string): string[] =>
  [...Deno.readDirSync(folder)].filter(({ name }) => name.endsWith("_test.ts"))
    .map(({ name }) => `${folder}/${name}`).filter((file) => !(file in LEFT_OUT)).sort();

const PARTS: readonly Part[] = [
  { name: "both architectures: training", files: ["tests/aarch64/training.ts"], emulated: false },
  { name: "native code", files: tests("tests/ffi"), emulated: true },
  { name: "both architectures: the program", files: ["tests/aarch64/programs.ts"], emulated: false },
  { name: "settings", files: tests("tests/core/settings"), emulated: true },
  {
    name: "checkpoints",
    files: ["pt", "safetensors", "state_dict", "training_state", "zip", "part"].map((name) =>
      `tests/core/checkpoint/${name}_test.ts`
    ),
    emulated: true,
  },
  {
    name: "libraries",
    files: ["libraries/bundle", "libraries/check", "libraries/find", "mpi/find"].map((name) =>
      `tests/ffi/${name}_test.ts`
    ),
    emulated: true,
  },
];
const AT_ONCE = navigator.hardwareConcurrency > 1 ? 2 : 1;

const [filter = ""] = Deno.args;
const began = performance.now();
const results: TestResult[] = [];
const parts = PARTS.filter(({ name, files }) =>
  name.includes(filter) || files.some((file) => file.includes(filter))
);
const next = parts.values();
await Promise.all(Array.from({ length: AT_ONCE }, async () => {
  for (const part of next) await runPart(part);
}));
Deno.exit(summary());

async function runPart({ name, files, emulated }: Part): Promise<void> {
  const start = performance.now();
  const junit = Deno.makeTempFileSync({ suffix: ".xml" });
  const own = Deno.env.get("HPCTRAIN_LIBTORCH")!, theirs = Deno.env.get("HPCTRAIN_LIBTORCH_AARCH64")!;
  const { HPCTRAIN_LIBTORCH_OLDEST: _, ...surroundings } = Deno.env.toObject(); // it is for this machine
  // Threads that wait for each other's part of an op would spin, on two cores that are slow enough.
  const env = {
    ...surroundings,
    ...{ OMP_WAIT_POLICY: "passive", NO_COLOR: "1", HPCTRAIN_TURBOJPEG: "none" },
    HPCTRAIN_LIBTORCH: emulated ? theirs : own,
  };
  const program = emulated ? Deno.env.get("ARM_DENO")! : Deno.execPath();
  const chosen = files.filter((file) => name.includes(filter) || file.includes(filter));
  const { success, code, signal } = await new Deno.Command(program, {
    args: ["test", "--allow-all", "--no-check", `--junit-path=${junit}`, ...chosen],
    env,
    clearEnv: true,
    stdin: "null",
  }).spawn().status;
  const minutes = ((performance.now() - start) / 60_000).toFixed(1);
  console.log(`\n== ${name}${emulated ? " (emulated)" : ""}: ${minutes} minutes`);
  const all = parseJunit(Deno.readTextFileSync(junit));
  Deno.removeSync(junit);
  // A step stands beside the test that it is a part of.
  results.push(
    ...all.filter(({ file, name }) =>
      !all.some((test) => test.file === file && name.startsWith(`${test.name} > `)) &&
      !(`${file.replace(/^\.\//, "")}: ${name}` in LEFT_OUT)
    ),
  );
  if (success || all.some(({ outcome }) => outcome === "failed")) return;
  const how = `the process of ${name}, which ended with ${signal ?? `code ${code}`}`;
  results.push({ file: "", name: how, outcome: "failed", seconds: 0 });
}

function summary(): number {
  const of = (outcome: TestResult["outcome"]) => results.filter((r) => r.outcome === outcome);
  const passed = of("passed"), failed = of("failed"), skipped = of("skipped");
  for (const [title, list] of [["Skipped", skipped], ["Failed", failed]] as const) {
    if (list.length > 0) console.log(`\n${title}:`);
    for (const { file, name } of list) console.log(`  ${file}  ${name}`);
  }
  console.log("\nLeft out:");
  for (const [file, reason] of Object.entries(LEFT_OUT)) console.log(`  ${file}: ${reason}`);
  console.log(
    `${((performance.now() - began) / 60_000).toFixed(1)} minutes, of which an emulated processor took most`,
  );
  const skips = skipped.length > 0 ? `, ${skipped.length} skipped` : "";
  console.log(`${passed.length} passed, ${failed.length} failed${skips}`);
  return failed.length > 0 || results.length === 0 ? 1 : 0;
}
