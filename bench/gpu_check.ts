// `scripts/gpu-check`: everything that needs a GPU, each check a row. May import core, ffi, its folder, report.
import { join } from "@std/path";
import { EXIT } from "../core/errors.ts";
import { VERSION } from "../core/version.ts";
import { cudaDevices, setCudaDevice, whyNoCuda } from "../ffi/cuda.ts";
import { findLibtorch } from "../ffi/libraries/find.ts";
import type { Libtorch } from "../ffi/libraries/types.ts";
import { openLibtorch } from "../ffi/library.ts";
import { setThreads } from "../ffi/random.ts";
import type { Device } from "../ffi/tensor.ts";
import type { Check, Context, Outcome } from "./gpu_check/check.ts";
import { deviceName, facts } from "./gpu_check/facts.ts";
import { numbers } from "./gpu_check/numbers.ts";
import { gpuSection, slugOf } from "./gpu_check/page.ts";
import { program } from "./gpu_check/program.ts";
import { ranks } from "./gpu_check/ranks.ts";
import { speed } from "./gpu_check/speed.ts";
import { streams } from "./gpu_check/streams.ts";
import { machine, table, writeSection } from "./report.ts";

const USAGE = "Usage: scripts/gpu-check [--device cuda|cpu] [--quick] [--only WORDS] [--out FOLDER]";
const root = new URL("..", import.meta.url).pathname;

interface Asked {
  device: "cuda" | "cpu";
  quick: boolean;
  only: string;
  /** Where the results go; a CPU's are only written where one is named. */
  out: string | null;
}

function leave(code: number, sentence: string): never {
  console.error(sentence);
  Deno.exit(code);
}

function parse(args: readonly string[]): Asked {
  const asked: Asked = { device: "cuda", quick: false, only: "", out: null };
  const words = [...args];
  for (let word = words.shift(); word !== undefined; word = words.shift()) {
    if (word === "--quick") asked.quick = true;
    else if (word === "--help") leave(EXIT.done, USAGE);
    else {
      const value = words.shift();
      if (word === "--device" && (value === "cuda" || value === "cpu")) asked.device = value;
      else if (word === "--only" && value) asked.only = value;
      else if (word === "--out" && value) asked.out = value;
      else leave(EXIT.usage, `gpu-check does not know ${[word, value].join(" ").trim()}. ${USAGE}`);
    }
  }
  if (asked.out === null && asked.device === "cuda") asked.out = join(root, "bench/results");
  return asked;
}

/** Where there is no GPU that is no failure, unless one was promised. */
function skip(why: string): never {
  const must = Deno.env.get("HPCTRAIN_REQUIRE_GPU") === "1";
  leave(must ? EXIT.environment : EXIT.done, `gpu-check: ${must ? "failed" : "skipped"}: ${why}.`);
}

function open({ device }: Asked): { libtorch: Libtorch; device: Device } {
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

const asked = parse(Deno.args);
const began = performance.now();
const { libtorch, device } = open(asked);
if (device === "cpu") setThreads(Math.min(2, navigator.hardwareConcurrency));
const folder = Deno.makeTempDirSync({ prefix: "hpctrain-gpu-check-" });
const context: Context = {
  device,
  libtorch,
  quick: asked.quick,
  folder,
  python: await pythonWithTorch(),
  elapsed: () => (performance.now() - began) / 1000,
};
const checks = [facts, ...streams, ...numbers, ...speed(asked.quick), ...program, ...ranks]
  .filter((check) => !(check.gpuOnly && device === "cpu") && check.name.includes(asked.only));
if (checks.length === 0) leave(EXIT.usage, `gpu-check has no check whose name has "${asked.only}" in it.`);
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
// Where the results go says nothing of them.
const said = Deno.args.filter((word, i) => word !== "--out" && Deno.args[i - 1] !== "--out");
const command = ["scripts/gpu-check", ...said].join(" ");
console.log(`\n${text}\n\n${rows.length - failures} passed, ${failures} failed on ${name}`);
if (asked.out !== null) {
  Deno.mkdirSync(asked.out, { recursive: true });
  const file = join(asked.out, `gpu-check-${slugOf(name)}`);
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
