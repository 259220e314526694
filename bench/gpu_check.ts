// `scripts/gpu-check`: every check that needs a GPU, and the page of its results.
import {
  cudaCapability,
  cudaCapabilityMinor,
  cudaDevices,
  cudaMemory,
  cudaName,
  cudaVersions,
  setCudaDevice,
  whyNoCuda,
} from "../ffi/cuda.ts";
import type { Device } from "../ffi/tensor.ts";
import type { Check, Context, Outcome } from "./gpu_check/check.ts";
import { machine } from "./report.ts";
import { join } from "paths";
import { EXIT } from "../core/base/errors.ts";
import { VERSION } from "../core/base/version.ts";
import { findLibtorch, type Libtorch } from "../ffi/libraries/find.ts";
import { openLibtorch } from "../ffi/library.ts";
import { setThreads } from "../ffi/context.ts";
import { numbers } from "./gpu_check/numbers.ts";
import { program } from "./gpu_check/program.ts";
import { ranks } from "./gpu_check/ranks.ts";
import {
  type Results,
  type Row,
  summaryOf,
  tableOf,
  TRIES,
  unfinished,
  writeFound,
} from "./gpu_check/results.ts";
import { openProgram } from "./gpu_check/runs.ts";
import { speed } from "./gpu_check/speed.ts";
import { streams } from "./gpu_check/streams.ts";
import { trainings } from "./gpu_check/trainings.ts";
import { transfers } from "./gpu_check/transfers.ts";

const deviceName = (device: Device): string =>
  device === "cpu"
    ? "CPU"
    : cudaName() ?? `NVIDIA GPU of capability ${cudaCapability()}.${cudaCapabilityMinor()}`;

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

const USAGE =
  "Usage: scripts/gpu-check [--device cuda|cpu] [--quick] [--only WORDS|WORDS] [--slice MINUTES] [--jobs N] " +
  "[--afresh] [--out FOLDER]";
const root = new URL("..", import.meta.url).pathname;

interface CheckFlags {
  device: "cuda" | "cpu";
  quick: boolean;
  only: string;
  /** No check begins after so many minutes. */
  slice: number;
  /** So many checks run beside one another, where they measure nothing. */
  jobs: number;
  /** An earlier run's findings count no longer. */
  afresh: boolean;
  /** The folder of the results; a CPU's, a rehearsal's and a selection's are only written where one is named. */
  out: string | null;
}

function leave(code: number, sentence: string): never {
  console.error(sentence);
  Deno.exit(code);
}

function parse(args: readonly string[]): CheckFlags {
  const flags: CheckFlags = {
    device: "cuda",
    quick: false,
    only: "",
    slice: Infinity,
    jobs: 1,
    afresh: false,
    out: null,
  };
  const words = [...args];
  for (let word = words.shift(); word !== undefined; word = words.shift()) {
    if (word === "--quick") flags.quick = true;
    else if (word === "--afresh") flags.afresh = true;
    else if (word === "--help") leave(EXIT.done, USAGE);
    else {
      const value = words.shift();
      if (word === "--device" && (value === "cuda" || value === "cpu")) flags.device = value;
      else if (word === "--only" && value) flags.only = value;
      else if (word === "--slice" && Number(value) > 0) flags.slice = Number(value);
      else if (word === "--jobs" && Number.isInteger(Number(value)) && Number(value) > 0) {
        flags.jobs = Number(value);
      } else if (word === "--out" && value) flags.out = value;
      else leave(EXIT.usage, `gpu-check does not know ${[word, value].join(" ").trim()}. ${USAGE}`);
    }
  }
  const whole = flags.device === "cuda" && !flags.quick && flags.only === "";
  if (flags.out === null && whole) flags.out = join(root, "bench/results");
  return flags;
}

/** Where there is no GPU that is no failure, unless one was promised. */
function skip(why: string): never {
  const must = Deno.env.get("HPCTRAIN_REQUIRE_GPU") === "1";
  leave(must ? EXIT.environment : EXIT.done, `gpu-check: ${must ? "failed" : "skipped"}: ${why}.`);
}

function open({ device }: CheckFlags): { libtorch: Libtorch; device: Device } {
  const { usable } = findLibtorch({ all: true });
  const libtorch = usable.find((l) => device === "cpu" || l.gpu !== null);
  if (!libtorch) skip(device === "cpu" ? "there is no libtorch here" : "there is no libtorch with CUDA here");
  openLibtorch(libtorch);
  if (device === "cpu") return { libtorch, device };
  if (cudaDevices() === 0) skip(whyNoCuda());
  setCudaDevice(0);
  return { libtorch, device: "cuda:0" };
}

/** With the GPU, where there is one: its first use takes seconds, and nothing is downloaded. */
async function pythonWithTorch(device: Device): Promise<string | null> {
  const python = Deno.env.get("HPCTRAIN_PYTHON") || "python3";
  const program = `import sys, torch; sys.exit(${device === "cpu" ? 0 : "not torch.cuda.is_available()"})`;
  try {
    const { success } = await new Deno.Command(python, {
      args: ["-c", program],
      stdout: "null",
      stderr: "null",
    })
      .output();
    return success ? python : null;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw error;
  }
}

async function attempt(check: Check, context: Context): Promise<Row> {
  const began = context.elapsed();
  let outcome: Outcome;
  try {
    if (check.alone) await context.program.rest();
    outcome = await check.run(context);
  } catch (error) {
    const text = error instanceof Error ? error.stack ?? error.message : String(error);
    outcome = { ok: false, figure: text.split("\n")[0].slice(0, 160), detail: text };
  }
  return { name: check.name, ...outcome, seconds: context.elapsed() - began };
}

function tell({ ok, name, figure, seconds }: Row): void {
  console.log(
    `${ok === null ? "told  " : ok ? "ok    " : "FAILED"} ${name}: ${figure} [${seconds.toFixed(1)} s]`,
  );
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
  jobs: flags.jobs,
  left: () => checks.filter((check) => !isDone(check)).map(({ name }) => name),
  folder,
  program: openProgram(folder, libtorch),
  python: await pythonWithTorch(device),
  elapsed: () => (performance.now() - began) / 1000,
};
/** Training comes first, and speed, which takes the most time, last. */
const checks = [
  facts,
  ...streams,
  ...numbers,
  ...trainings(flags.quick),
  ...program,
  ...ranks,
  ...transfers,
  ...speed(flags.quick, device === "cpu" ? 0 : cudaMemory().total / 2 ** 30),
]
  .filter((check) =>
    !(check.gpuOnly && device === "cpu") && flags.only.split("|").some((words) => check.name.includes(words))
  );
if (checks.length === 0) leave(EXIT.usage, `gpu-check has no check whose name has "${flags.only}" in it.`);

// Others repeat the command, for which a slice and the folder of the results are nothing.
const said = [
  ...(device === "cpu" ? ["--device", "cpu"] : []),
  ...(flags.quick ? ["--quick"] : []),
  ...(flags.only === "" ? [] : ["--only", flags.only]),
];
const subject = {
  command: ["scripts/gpu-check", ...said].join(" "),
  device: deviceName(device),
  hpctrain: VERSION,
  libtorch: libtorch.versionText,
};
const earlier = flags.out === null || flags.afresh ? null : unfinished(flags.out, subject);
const rows: Row[] = [...(earlier?.rows ?? [])];
if (earlier !== null) console.log(`${rows.length} checks are done already; --afresh begins with the first.`);

const isDone = ({ name }: Check) => rows.some((row) => row.name === name);
function write(begun: Results["begun"] = null): Results {
  const left = context.left();
  const date = new Date().toISOString().slice(0, 10);
  const found = { ...subject, date, machine: machine(), rows, left, begun };
  if (flags.out !== null) writeFound(flags.out, found);
  return found;
}

/** Each of `jobs` turns takes the next check until none is left, with a process of its own for its runs. */
async function runBeside(queue: Check[]): Promise<void> {
  const turn = async (number: number) => {
    const own = openProgram(join(folder, `${number}`), libtorch);
    try {
      for (let check = queue.shift(); check !== undefined; check = queue.shift()) {
        if (context.elapsed() > 60 * flags.slice) return;
        rows.push(await attempt(check, { ...context, folder: own.folder, program: own }));
        tell(rows.at(-1)!);
        write();
      }
    } finally {
      await own.rest();
    }
  };
  await Promise.all(Array.from({ length: flags.jobs }, (_, number) => turn(number)));
}

let ran = false; // each slice has one check at least
try {
  if (flags.jobs > 1) {
    const left = checks.filter((check) => !isDone(check));
    // A comparison that has begun holds memory of the device, which other checks fill.
    const ahead = left.every(({ beside, ahead }) => beside || ahead)
      ? left.find(({ ahead }) => ahead)
      : undefined;
    ahead?.ahead?.(context);
    await runBeside(left.filter(({ beside }) => beside));
  }
  for (const check of checks) {
    if (isDone(check)) continue;
    if (ran && context.elapsed() > 60 * flags.slice) break;
    const { name } = check, begun = earlier?.begun, tried = begun?.name === name ? begun.times : 0;
    if (tried < TRIES) {
      write({ name, times: tried + 1 });
      rows.push(await attempt(check, context));
    } else rows.push({ name, ok: false, figure: `${tried} runs were cut off in it`, seconds: 0 });
    tell(rows.at(-1)!);
    ran = true;
  }
} finally {
  await context.program.rest();
  Deno.removeSync(folder, { recursive: true });
}
const found = write();
console.log(`\n${tableOf(rows)}\n\n${summaryOf(rows, subject.device)}`);
if (found.left.length > 0) {
  console.log(`${found.left.length} checks are left: the same command goes on.`);
  Deno.exit(EXIT.stopped);
}
Deno.exit(rows.some(({ ok }) => ok === false) ? 1 : 0);
