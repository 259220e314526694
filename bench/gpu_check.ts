// `scripts/gpu-check`: every check that needs a GPU, and the page of its results.
import {
  cudaCapability,
  cudaCapabilityMinor,
  cudaDevices,
  cudaMemory,
  cudaVersions,
  setCudaDevice,
  whyNoCuda,
} from "../ffi/cuda.ts";
import type { Device } from "../ffi/tensor.ts";
import type { Check, Context, Outcome } from "./gpu_check/check.ts";
import { machine, table, writeSection } from "./report.ts";
import { join } from "@std/path";
import { EXIT } from "../core/base/errors.ts";
import { VERSION } from "../core/base/version.ts";
import { findLibtorch, type Libtorch } from "../ffi/libraries/find.ts";
import { openLibtorch } from "../ffi/library.ts";
import { setThreads } from "../ffi/context.ts";
import { numbers } from "./gpu_check/numbers.ts";
import { program } from "./gpu_check/program.ts";
import { ranks } from "./gpu_check/ranks.ts";
import { speed } from "./gpu_check/speed.ts";
import { streams } from "./gpu_check/streams.ts";

/** The driver's own list names the model; without it the capability must do. */
function deviceName(device: Device): string {
  if (device === "cpu") return "CPU";
  try {
    const [first] = Deno.readDirSync("/proc/driver/nvidia/gpus");
    const text = Deno.readTextFileSync(`/proc/driver/nvidia/gpus/${first.name}/information`);
    const name = /^Model:\s*(.+)$/m.exec(text)?.[1].trim();
    if (name && !/unknown/i.test(name)) return name;
  } catch (error) {
    if (error instanceof RangeError) throw error; // a container may hide the list; anything else is ours
  }
  return `NVIDIA GPU of capability ${cudaCapability()}.${cudaCapabilityMinor()}`;
}

const facts: Check = {
  name: "device",
  run({ device, libtorch }) {
    const torch = `libtorch ${libtorch.versionText}`;
    if (device === "cpu") {
      return { ok: true, figure: `CPU, ${torch}`, detail: { libtorch: libtorch.versionText } };
    }
    const { driver, runtime } = cudaVersions();
    const capability = `${cudaCapability()}.${cudaCapabilityMinor()}`;
    const gib = Math.round(cudaMemory().total / 2 ** 30);
    return {
      ok: true,
      figure: `${deviceName(device)}, ${gib} GiB, capability ${capability}, driver for CUDA ${driver}, ` +
        `runtime ${runtime}, ${torch}, ${cudaDevices()} here`,
      detail: { capability, driver, runtime, libtorch: libtorch.versionText, gib },
    };
  },
};

interface Row {
  readonly name: string;
  readonly ok: boolean;
  readonly figure: string;
  readonly detail?: unknown;
}

export interface GpuResults {
  readonly command: string;
  readonly device: string;
  readonly libtorch: string;
  readonly date?: string;
  readonly rows: readonly Row[];
}

interface StepTime {
  readonly spec: { readonly title: string };
  readonly medians: Readonly<Record<string, number>>;
  readonly memory: Readonly<Record<string, number>>;
  readonly missing: Readonly<Record<string, string>>;
}

const SIDES = ["hpctrain", "eager", "compile"];

/** "nvidia-h100-80gb-hbm3": for files and marks. */
const slugOf = (device: string): string => device.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-");

function gpuSection({ command, device, libtorch, date, rows }: GpuResults): string {
  const passed = rows.filter(({ ok }) => ok).length;
  const steps = rows.filter(({ name }) => name.startsWith("step time: ")).map(({ detail }) =>
    detail as StepTime
  );
  const lines = steps.map(({ spec, medians, memory }) => [
    spec.title,
    ...SIDES.map((side) =>
      medians[side] === undefined
        ? ""
        : `${medians[side].toFixed(3)} ms (${(medians.eager / medians[side]).toFixed(2)}x), ${
          (memory[side] / 2 ** 30).toFixed(2)
        } GiB`
    ),
  ]);
  return `## On a GPU: ${device}

\`${command}\`${
    date ? ` on ${date}` : ""
  }, libtorch ${libtorch}: ${passed} of ${rows.length} checks passed; all of them and ` +
    `their figures are in bench/results/gpu-check-${
      slugOf(device)
    }.md. Step times beside PyTorch on the same machine, in ` +
    "rounds that take turns; in brackets the speed against eager. Dispatching takes most of a small model's step, on every " +
    `side.

${table(["Training step", "hpctrain", "PyTorch eager", "PyTorch torch.compile"], lines)}`;
}

const USAGE = "Usage: scripts/gpu-check [--device cuda|cpu] [--quick] [--only WORDS] [--out FOLDER]";
const root = new URL("..", import.meta.url).pathname;

interface CheckFlags {
  device: "cuda" | "cpu";
  quick: boolean;
  only: string;
  /** The folder of the results; a CPU's are only written where one is named. */
  out: string | null;
}

function leave(code: number, sentence: string): never {
  console.error(sentence);
  Deno.exit(code);
}

function parse(args: readonly string[]): CheckFlags {
  const flags: CheckFlags = { device: "cuda", quick: false, only: "", out: null };
  const words = [...args];
  for (let word = words.shift(); word !== undefined; word = words.shift()) {
    if (word === "--quick") flags.quick = true;
    else if (word === "--help") leave(EXIT.done, USAGE);
    else {
      const value = words.shift();
      if (word === "--device" && (value === "cuda" || value === "cpu")) flags.device = value;
      else if (word === "--only" && value) flags.only = value;
      else if (word === "--out" && value) flags.out = value;
      else leave(EXIT.usage, `gpu-check does not know ${[word, value].join(" ").trim()}. ${USAGE}`);
    }
  }
  if (flags.out === null && flags.device === "cuda") flags.out = join(root, "bench/results");
  return flags;
}

/** Where there is no GPU that is no failure, unless one was promised. */
function skip(why: string): never {
  const must = Deno.env.get("HPCTRAIN_REQUIRE_GPU") === "1";
  leave(must ? EXIT.environment : EXIT.done, `gpu-check: ${must ? "failed" : "skipped"}: ${why}.`);
}

function open({ device }: CheckFlags): { libtorch: Libtorch; device: Device } {
  const { usable } = findLibtorch({ all: true });
  const libtorch = usable.find((l) => device === "cpu" || l.cuda);
  if (!libtorch) skip(device === "cpu" ? "there is no libtorch here" : "there is no libtorch with CUDA here");
  openLibtorch(libtorch);
  if (device === "cpu") return { libtorch, device };
  if (cudaDevices() === 0) skip(whyNoCuda());
  setCudaDevice(0);
  return { libtorch, device: "cuda:0" };
}

async function pythonWithTorch(): Promise<string | null> {
  const python = Deno.env.get("HPCTRAIN_PYTHON") || "python3";
  try {
    const { success } = await new Deno.Command(python, { args: ["-c", "import torch"], stderr: "null" })
      .output();
    return success ? python : null;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw error;
  }
}

async function attempt(check: Check, context: Context): Promise<Outcome & { name: string; seconds: number }> {
  const began = context.elapsed();
  let outcome: Outcome;
  try {
    outcome = await check.run(context);
  } catch (error) {
    const text = error instanceof Error ? error.stack ?? error.message : String(error);
    outcome = { ok: false, figure: text.split("\n")[0].slice(0, 160), detail: text };
  }
  const row = { name: check.name, ...outcome, seconds: context.elapsed() - began };
  console.log(`${row.ok ? "ok    " : "FAILED"} ${row.name}: ${row.figure} [${row.seconds.toFixed(1)} s]`);
  return row;
}

const flags = parse(Deno.args);
const began = performance.now();
const { libtorch, device } = open(flags);
if (device === "cpu") setThreads(Math.min(2, navigator.hardwareConcurrency));
const folder = Deno.makeTempDirSync({ prefix: "hpctrain-gpu-check-" });
const context: Context = {
  device,
  libtorch,
  quick: flags.quick,
  folder,
  python: await pythonWithTorch(),
  elapsed: () => (performance.now() - began) / 1000,
};
const checks = [facts, ...streams, ...numbers, ...speed(flags.quick), ...program, ...ranks]
  .filter((check) => !(check.gpuOnly && device === "cpu") && check.name.includes(flags.only));
if (checks.length === 0) leave(EXIT.usage, `gpu-check has no check whose name has "${flags.only}" in it.`);
const rows = [];
try {
  for (const check of checks) rows.push(await attempt(check, context));
} finally {
  Deno.removeSync(folder, { recursive: true });
}
const name = deviceName(device);
const text = table(
  ["check", "figure", "ok"],
  rows.map((row) => [row.name, row.figure, row.ok ? "yes" : "NO"]),
);
const failures = rows.filter((row) => !row.ok).length;
// The folder of the results is no part of the command that others repeat.
const said = Deno.args.filter((word, i) => word !== "--out" && Deno.args[i - 1] !== "--out");
const command = ["scripts/gpu-check", ...said].join(" ");
console.log(`\n${text}\n\n${rows.length - failures} passed, ${failures} failed on ${name}`);
if (flags.out !== null) {
  Deno.mkdirSync(flags.out, { recursive: true });
  const file = join(flags.out, `gpu-check-${slugOf(name)}`);
  const about = {
    command,
    date: new Date().toISOString().slice(0, 10),
    device: name,
    hpctrain: VERSION,
    libtorch: libtorch.versionText,
    machine: machine(),
  };
  Deno.writeTextFileSync(`${file}.json`, JSON.stringify({ ...about, rows }, null, 2) + "\n");
  const head =
    `# GPU check: ${name}\n\n\`${command}\`, hpctrain ${VERSION}, libtorch ${libtorch.versionText}.\n\n`;
  Deno.writeTextFileSync(`${file}.md`, `${head}${text}\n`);
  if (said.length === 0 && device !== "cpu") {
    writeSection(`gpu-check-${slugOf(name)}`, gpuSection({ ...about, rows }), undefined, "scripts/gpu-check");
  }
}
Deno.exit(failures > 0 ? 1 : 0);
