// Chooses libtorch and begins to load it early, as loading takes as long as the rest of the start; opens it, and chooses
// device, numerics and the number of loader threads.
import {
  type CudaAbsence,
  cudaAbsence,
  cudaDevices,
  cudaMemory,
  fixOfAbsence,
  gpuBackend,
  leaveDefaultStream,
  noteOthers,
  setCudaDevice,
  setNumerics,
  whyNoCuda,
} from "../../ffi/cuda.ts";
import { BACKENDS, type GpuKind } from "../../ffi/gpu/backends.ts";
import { findLibtorch, type Libtorch, noLibtorchSentence } from "../../ffi/libraries/find.ts";
import { openLibtorch } from "../../ffi/library.ts";
import { setThreads } from "../../ffi/context.ts";
import type { Device } from "../../ffi/tensor.ts";
import { loadBeside } from "../../ffi/preload.ts";
import type { Config } from "../settings/settings.ts";
import { UserError } from "../base/errors.ts";
import type { Resolved } from "../settings/resolve.ts";
import { cpuCount, workersFor } from "../base/topology.ts";
import { gpuCount } from "../base/gpus.ts";
import { usableCores } from "../base/topology.ts";
import { nearMemory } from "./near_memory.ts";

export { asUserError } from "../models/user_error.ts";

export { whyNoCuda };

/** Finds and opens libtorch; the settings of threads and numerics hold from here on. */
export function openDevice(
  config: Config,
  localRank = 0,
  chosen: Libtorch = libtorchOfRun(config),
): { device: Device; libtorch: Libtorch } {
  const { training } = config;
  nearMemory();
  openLibtorch(chosen);
  if (training.threads > 0) setThreads(training.threads);
  else if (usableCores() < cpuCount() && !Deno.env.get("OMP_NUM_THREADS")) setThreads(usableCores());
  const device = chooseDevice(training, localRank);
  setNumerics({
    tf32: training.tf32,
    deterministic: training.deterministic !== "off",
  });
  return { device, libtorch: chosen };
}

/** A failure is found again where it matters. */
export async function openDeviceBeside(config: Config, meanwhile: () => Promise<unknown>, localRank = 0) {
  beginLoading(config);
  await meanwhile().catch(() => {});
  await loaded();
  return openDevice(config, localRank);
}

/** Says what to do about it, without a full stop. `kind` is the libtorch's. */
export function remedyOf(absence: CudaAbsence, kind: GpuKind = gpuBackend().kind): string {
  const { words } = BACKENDS[kind], amd = kind === "hip";
  switch (absence) {
    case "build":
      return "Take a libtorch with CUDA (your site's PyTorch module, --libtorch DIR, `hpctrain libtorch install --cuda`)";
    case "old libtorch":
      return "Take a newer one (your site's PyTorch module for its GPUs, --libtorch DIR)";
    case "other vendor":
      return amd
        ? "Take a libtorch for CUDA (your site's PyTorch module, --libtorch DIR, `hpctrain libtorch install --cuda`)"
        : "Take a libtorch for ROCm, PyTorch 2.11 or newer (your site's PyTorch module for AMD's GPUs, --libtorch DIR)";
    case "no driver":
      return amd
        ? "Take a node with GPUs (--gpus-per-node=8; a container needs --rocm, or --device /dev/kfd --device /dev/dri)"
        : "Take a node with GPUs (--gres=gpu:1, ngpus=1; a container needs --nv, or --gpus all)";
    case "no permission":
      return "Ask the site to put you into the groups render and video (`id` shows yours); in a job, ask for GPUs " +
        "(--gpus-per-node), since SLURM keeps them from jobs without; a container needs --rocm, or --group-add render";
    case "old driver":
      return "Take a libtorch that this driver serves (`hpctrain libtorch install --cuda` chooses one)";
    case "hidden":
      return `Name one that ${words.list}, or unset it`;
    case "no device":
      return amd
        ? "Take another node, and see what `rocm-smi` and `dmesg | grep amdgpu` say"
        : "Take another node; where `nvidia-smi` shows MIG on, ask for a MIG device";
    case "failed":
      return "See what `hpctrain doctor` says";
  }
}

/** A GPU that nobody asked for and that can't be used is no error, and is said. */
export function unusedGpus(
  { training }: Config,
  device: Device,
  env: Readonly<Record<string, string>>,
): string[] {
  if (device !== "cpu" || training.device !== "auto" || gpuCount(env) === 0) return []; // hidden on purpose, too
  const why = cudaAbsence();
  if (why === null || why === "no driver") return [];
  return [`The GPUs of this machine are not used: ${whyNoCuda()}. ${fixOfAbsence() ?? remedyOf(why)}.`];
}

function chooseDevice({ device: wanted, compile }: Config["training"], localRank: number): Device {
  if (wanted === "cpu") return "cpu";
  const count = cudaDevices();
  if (wanted === "cuda" && count === 0) {
    throw new UserError(
      "environment",
      `--device cuda, but ${whyNoCuda()}. ${
        fixOfAbsence() ?? remedyOf(cudaAbsence()!)
      }, or train with --device cpu.`,
    );
  }
  if (count === 0) return "cpu";
  // A launcher may show each rank its own device only, number 0 then.
  const index = count === 1 ? 0 : localRank;
  if (index >= count) {
    throw new UserError(
      "usage",
      `This is local rank ${localRank} (counted from 0), and there are ${count} GPUs here: start as many ranks on a node as ` +
        `it has GPUs, with #SBATCH --ntasks-per-node=${count} or hpctrain launch -n ${count}.`,
    );
  }
  setCudaDevice(index);
  noteOthers();
  if (compile !== "off") leaveDefaultStream(); // steps can be captured
  return `cuda:${index}`;
}

/** Resident memory on a CPU; allocated memory on a GPU. */
export function memoryInUse(device: Device): number {
  if (device !== "cpu") return cudaMemory().used;
  return Deno.memoryUsage().rss;
}

const MEMORY_MS = 250;

/** Resident memory is looked at now and then, since a look costs as much as twenty small ops. */
export function openMemory(device: Device): () => number {
  if (device !== "cpu") return () => memoryInUse(device);
  let lookedAt = -Infinity, bytes = 0;
  return () => {
    const now = performance.now();
    if (now - lookedAt < MEMORY_MS) return bytes;
    lookedAt = now;
    return bytes = memoryInUse(device);
  };
}

/** `sharing`: ranks that use the same cores. */
export function loaderThreads(
  { config, origin }: Pick<Resolved, "config" | "origin">,
  device: Device,
  sharing = 1,
): { loaders: number; notes: string[] } {
  const cpus = Math.max(1, Math.floor(cpuCount() / sharing));
  const cores = Math.max(1, Math.floor(usableCores() / sharing));
  const training = device === "cpu" ? config.training.threads || cores : 1;
  const mentioned = !["default", "preset"].includes(origin("data.num_workers").kind);
  const { workers, note } = workersFor(config.data.num_workers, cpus, training, mentioned);
  return { loaders: workers, notes: note ? [note] : [] };
}

type Chosen = Pick<Config, "environment">;

let begun: { readonly wanted: string; readonly libtorch: Libtorch; readonly loaded: Promise<void> } | null =
  null;

function libtorchOfRun({ environment }: Chosen): Libtorch {
  if (begun?.wanted === environment.libtorch) return begun.libtorch;
  // The finder reads HPCTRAIN_LIBTORCH by itself, and names it.
  const explicit = environment.libtorch === Deno.env.get("HPCTRAIN_LIBTORCH") ? "" : environment.libtorch;
  const { chosen, rejected } = findLibtorch({ explicit: explicit || undefined });
  if (!chosen) throw new UserError("environment", noLibtorchSentence(rejected));
  return chosen;
}

/** A failure is found again where it matters. */
export function beginLoading(config: Chosen): void {
  if (begun) return;
  try {
    const libtorch = libtorchOfRun(config);
    begun = { wanted: config.environment.libtorch, libtorch, loaded: loadBeside(libtorch).catch(() => {}) };
  } catch {
    // Whoever opens libtorch reports that there is none.
  }
}

/** A process must not end before. */
export async function loaded(): Promise<void> {
  await begun?.loaded;
}
