// Says at the start of a run on a GPU what libtorch and its libraries choose for it.
import { type Attends, type AttentionKernel, attentionKernel } from "../../ffi/attention.ts";
import {
  cudaCapability,
  cudaCapabilityMinor,
  cudaMemory,
  cudaName,
  gpuBackend,
  heldByOthers,
  searchesKernels,
  searchKernels,
} from "../../ffi/cuda.ts";
import { cudnnVersion } from "../../ffi/gpu/libraries.ts";
import type { Device } from "../../ffi/tensor.ts";
import type { Model } from "../models/model.ts";
import type { RunGpuFacts } from "../run/events.ts";
import type { Config } from "../settings/settings.ts";
import { formatBytes } from "../base/format.ts";
import type { Team } from "../ranks/team.ts";
import { type BatchPlan, stepsInAll } from "./batches.ts";
import type { Built } from "./build.ts";
import { type Amp, chooseAmp } from "./precision.ts";

/** A search of cuDNN's fastest kernels takes 3 to 20 s, which shorter runs do not win back. */
const SEARCH_STEPS = 1000;

export function chooseKernelSearch({ training }: Config, device: Device, plan: BatchPlan): void {
  if (device === "cpu") return;
  searchKernels(training.deterministic === "off" && stepsInAll(training, plan) >= SEARCH_STEPS);
}

/** Null on a CPU. */
export function gpuFactsOf(
  { training }: Config,
  device: Device,
  { model, amp, channelsLast }: Pick<Built, "model" | "amp" | "channelsLast">,
): RunGpuFacts | null {
  if (device === "cpu") return null;
  const capability = cudaCapability(), { tf32Since } = gpuBackend();
  const images = model.convolutional || training.channels_last === "on";
  return {
    name: cudaName(numberOf(device)) ?? "unknown",
    capability: `${capability}.${cudaCapabilityMinor()}`,
    tf32: training.tf32 && tf32Since !== null && capability >= tf32Since,
    channels_last: images ? channelsLast : null,
    cudnn: model.convolutional ? cudnnVersion() : null,
    cudnn_searches: searchesKernels(),
    attention: kernelsFor(model, amp, device),
    held_by_others: heldByOthers(),
  };
}

const numberOf = (device: Device): number => Number(device.slice("cuda:".length));

const TYPES = { off: "f32", fp16: "f16", bf16: "bf16", fp64: "f64" } as const;

function kernelsFor(model: Model, amp: Amp, device: Device): AttentionKernel[] {
  const dtype = TYPES[amp];
  const distinct = new Map(attentionsIn(model).map((one) => [JSON.stringify(one), one]));
  const kernels = [...distinct.values()].map((one) => attentionKernel(one, dtype, device));
  return [...new Set(kernels.filter((kernel) => kernel !== null))];
}

/** The modules that say how they attend, or the exported graph's nodes. */
export function attentionsIn(model: Model): readonly Attends[] {
  if ("attends" in model) return model.attends as readonly Attends[];
  return model.root.modules().flatMap((module) => "attends" in module ? [module.attends as Attends] : []);
}

/** A line for memory that others hold, of which a run may be short later. */
export function othersNote({ held_by_others: held }: RunGpuFacts): string[] {
  if (held === 0) return [];
  return [
    `Other processes hold ${formatBytes(held)} of this GPU's ${
      formatBytes(cudaMemory().total)
    }: ${gpuBackend().words.tool} names them. ` +
    "A run that is alone on its GPU has more room and is faster.",
  ];
}

interface Kind {
  readonly name: string;
  readonly capability: number;
}

/**
 * Ranks may compute on GPUs of two kinds. What --amp auto means would differ between them, so it is what the
 * oldest of them computes in.
 */
export function inCommon(
  config: Config,
  device: Device,
  team: Team | null,
): { readonly config: Config; readonly notes: readonly string[] } {
  if (team === null || device === "cpu") return { config, notes: [] };
  const own: Kind = { name: cudaName(numberOf(device)) ?? "unknown", capability: cudaCapability() };
  const kinds = team.gather(own, "the kind of its GPU");
  const names = [...new Set(kinds.map(({ name, capability }) => `${name} (capability ${capability})`))];
  if (names.length === 1) return { config, notes: [] };
  const { training } = config;
  const oldest = Math.min(...kinds.map(({ capability }) => capability));
  const amp = training.amp === "auto" ? chooseAmp("auto", device, oldest) : training.amp;
  return {
    config: { ...config, training: { ...training, amp } },
    notes: [
      `The ranks compute on GPUs of ${names.length} kinds: ${names.join(", ")}. The slowest sets the pace` +
      (training.amp === "auto" ? `, and --amp auto is ${amp}, which all of them compute in.` : "."),
    ],
  };
}
