// Checks which of CUDA's libraries a run would compute with: the loader takes the first on its path, which may be an older one than
// PyTorch came with.
import { type AttentionKernel, attentionKernel } from "../../../ffi/attention.ts";
import { gpuLibraries, type GpuLibrary } from "../../../ffi/gpu/libraries.ts";
import type { Libtorch } from "../../../ffi/libraries/find.ts";
import { cudnnOf } from "../../../ffi/libraries/releases.ts";
import { dirname } from "../../../deps/path.ts";
import { type Finding, good, olderVersion, warn } from "./check.ts";

interface LoadedLibrary extends GpuLibrary {
  /** "beside libtorch", "LD_LIBRARY_PATH", "HPCTRAIN_NVRTC"; null where the system's loader found it. */
  readonly from: string | null;
}

export interface GpuLibraryFacts {
  /** Those of CUDA; none where libtorch has no half for NVIDIA's GPUs. */
  readonly libraries: readonly LoadedLibrary[];
  /** As libtorch chooses it for a transformer in bf16; null without a GPU. */
  readonly attention: AttentionKernel | null;
  /** The compute capability's first number; null without a GPU. */
  readonly generation: number | null;
  readonly torch: string | null;
  /** The cuDNN that this PyTorch is released with, where that is known. */
  readonly cudnn: string | null;
}

const NONE: GpuLibraryFacts = {
  libraries: [],
  attention: null,
  generation: null,
  torch: null,
  cudnn: null,
};

/** A head of GPT-2, which every kernel can take. */
const USUAL = { heads: 12, width: 64, causal: true, dropout: 0 };

/** Call it after libtorch was opened; `capabilities` are those of the GPUs that it can use. */
function gatherGpuLibraries(
  libtorch: Pick<Libtorch, "dir" | "gpu" | "version"> | null,
  capabilities: readonly string[],
  env: Readonly<Record<string, string>>,
): GpuLibraryFacts {
  if (libtorch?.gpu !== "cuda") return NONE;
  const torch = libtorch.version.join(".");
  return {
    libraries: gpuLibraries().map((one) => ({
      ...one,
      from: one.path && sourceOf(one.path, libtorch.dir, env),
    })),
    attention: capabilities.length === 0 ? null : attentionKernel(USUAL, "bf16", "cuda:0"),
    generation: capabilities.length === 0 ? null : Number.parseInt(capabilities[0]),
    torch,
    cudnn: cudnnOf(torch),
  };
}

/** The loader's memory has real paths, whatever links led there. */
export function sourceOf(
  path: string,
  libtorch: string,
  env: Readonly<Record<string, string>>,
): string | null {
  if (path === env.HPCTRAIN_NVRTC) return "HPCTRAIN_NVRTC";
  const real = realPath(path), own = realPath(libtorch);
  // PyTorch's wheels lie beside each other: site-packages/torch/lib, site-packages/nvidia/cudnn/lib.
  const home = own.endsWith("/torch/lib") ? dirname(dirname(own)) : own;
  if (real.startsWith(`${home}/`)) return "beside libtorch";
  const named = (env.LD_LIBRARY_PATH ?? "").split(":").filter((at) => at.startsWith("/")).map(realPath);
  return named.some((folder) => dirname(real) === folder) ? "LD_LIBRARY_PATH" : null;
}

function realPath(path: string): string {
  try {
    return Deno.realPathSync(path);
  } catch {
    return path;
  }
}

/** From this generation on libtorch computes attention by cuDNN, where that is new enough. */
const HOPPER = 9;

export function judgeGpuLibraries(
  { libraries, attention, generation, torch, cudnn }: GpuLibraryFacts,
): Finding[] {
  if (libraries.length === 0) return [];
  const all = libraries.map(shown).join("; ");
  const lines = [
    good("GPU libraries", attention === null ? all : `${all}; attention in bf16 by ${attention}`),
  ];
  const own = libraries.find(({ name }) => name === "cuDNN");
  if (!own?.version || cudnn === null || !olderVersion(own.version, cudnn)) return lines;
  const slow = generation !== null && generation >= HOPPER;
  return [
    ...lines,
    warn(
      "cuDNN",
      `${shown(own)} is older than ${cudnn}, which PyTorch ${torch} is released with${
        slow ? `: attention${attention ? `, now by ${attention},` : ""} takes 1.7 to 2.3 times as long` : ""
      }`,
      own.from === "LD_LIBRARY_PATH"
        ? `Take ${dirname(own.path!)} off LD_LIBRARY_PATH, or unload the module that put it there.`
        : "`hpctrain libtorch install --cuda` brings a libtorch with its own.",
    ),
  ];
}

const shown = ({ name, path, version, from }: LoadedLibrary): string =>
  path === null
    ? `no ${name} of its own`
    : `${name} ${version ?? "of unknown version"}, ${path}${from === null ? "" : ` (${from})`}`;

export const gpuLibraryCheck = { gather: gatherGpuLibraries, judge: judgeGpuLibraries };
