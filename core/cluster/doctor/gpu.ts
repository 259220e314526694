import { newestReleaseFor } from "../../../ffi/libraries/releases.ts";
import {
  cudaCapability,
  cudaCapabilityMinor,
  cudaDevices,
  cudaMemory,
  cudaVersions,
  setCudaDevice,
  whyNoCuda,
} from "../../../ffi/cuda.ts";
import { driversCuda } from "../../../ffi/machine.ts";
import { gpusHere } from "../../base/cores.ts";
import { formatBytes, formatPlural } from "../../base/format.ts";
import { bad, type Finding, good, namesIn, olderVersion, textOf, warn } from "./check.ts";

export interface GpuFacts {
  readonly asked: "auto" | "cpu" | "cuda";
  /** The driver makes these, whatever CUDA_VISIBLE_DEVICES says. */
  readonly files: number;
  readonly visible: string | null;
  readonly shown: number;
  readonly driver: string | null;
  readonly driverCuda: string | null;
  /** It is null where there is no libtorch. */
  readonly libtorchCuda: boolean | null;
  readonly builtFor: string | null;
  readonly devices: readonly { readonly capability: string; readonly memory: number }[];
  readonly why: string | null;
}

/** Call it after libtorch was opened, where there is one. */
export function gatherGpu(
  asked: GpuFacts["asked"],
  libtorchCuda: boolean | null,
  env: Readonly<Record<string, string>>,
): GpuFacts {
  const count = libtorchCuda === null ? 0 : cudaDevices();
  const devices = Array.from({ length: count }, (_, index) => {
    setCudaDevice(index);
    return {
      capability: `${cudaCapability(index)}.${cudaCapabilityMinor(index)}`,
      memory: cudaMemory().total,
    };
  });
  if (count > 0) setCudaDevice(0);
  return {
    asked,
    files: namesIn("/dev").filter((name) => /^nvidia\d+$/.test(name)).length,
    visible: env.CUDA_VISIBLE_DEVICES ?? null,
    shown: gpusHere(env),
    driver: driverIn(textOf("/proc/driver/nvidia/version")),
    driverCuda: driversCuda(),
    libtorchCuda,
    builtFor: count > 0 ? cudaVersions().runtime : null,
    devices,
    why: libtorchCuda === null || count > 0 ? null : whyNoCuda(),
  };
}

/** "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu Feb ..." */
export const driverIn = (text: string): string | null =>
  /Kernel Module(?: for \S+)?\s+(\d+\.\d+(?:\.\d+)?)/.exec(text)?.[1] ?? null;

interface Known {
  readonly from: string;
  readonly before: string;
  readonly what: string;
}

const KNOWN: readonly Known[] = [
  { from: "560", before: "565", what: "NCCL's ranks of one node can hang with peer-to-peer copies" },
];

/** NVIDIA's table of compatibility: the oldest driver for each major version of CUDA. */
const LEAST: Readonly<Record<string, string>> = { "11": "450", "12": "525", "13": "580" };

const NAME = "GPU";

export function judgeGpu(facts: GpuFacts): Finding[] {
  const { files, asked, driver, driverCuda, devices, visible } = facts;
  if (devices.length > 0) return [good(NAME, devicesIn(facts)), ...judgeDriver(facts)];
  const worse = asked === "cuda" ? bad : warn;
  if (files === 0 && asked !== "cuda") {
    return [good(NAME, "none on this machine; training uses its CPU")];
  }
  if (files === 0) {
    return [
      bad(
        NAME,
        "--device cuda, but this machine shows no GPU",
        "Ask the scheduler for one (--gres=gpu:1, " +
          "ngpus=1), or train with --device cpu.",
      ),
    ];
  }
  if (asked === "cpu") return [good(NAME, `${formatPlural(files, "GPU")} here, left alone by --device cpu`)];
  const there = `${formatPlural(files, "GPU")} here (driver ${driver ?? "unknown"}, serving CUDA ${
    driverCuda ?? "unknown"
  })`;
  if (facts.shown === 0) {
    return [worse(
      NAME,
      `${there}, but CUDA_VISIBLE_DEVICES is "${visible}", which shows none to this process`,
      "Ask the scheduler for GPUs (--gres=gpu:1, ngpus=1), or unset it outside of a job.",
    )];
  }
  if (facts.libtorchCuda === null) {
    return [good(NAME, `${there}; what libtorch makes of them shows when there is one`)];
  }
  if (!facts.libtorchCuda) {
    return [worse(
      NAME,
      `${there}, but libtorch was built for CPUs: training would not use them`,
      `Take one with CUDA: your site's PyTorch module, --libtorch DIR, or \`hpctrain libtorch install --cuda\`${
        newestLibtorch(driverCuda)
      }.`,
    )];
  }
  return [worse(NAME, `${there}, but ${facts.why}`, fixOf(facts))];
}

function devicesIn({ devices, driver, builtFor, files }: GpuFacts): string {
  const kinds = Map.groupBy(
    devices,
    ({ capability, memory }) => `${formatBytes(memory)}, capability ${capability}`,
  );
  const each = [...kinds].map(([kind, of]) => `${of.length} of ${kind}`).join("; ");
  const hidden = files > devices.length ? ` (of ${files} on the machine)` : "";
  return `${formatPlural(devices.length, "GPU")}${hidden}: ${each}; driver ${
    driver ?? "unknown"
  }, libtorch for CUDA ${builtFor}`;
}

function judgeDriver({ driver, builtFor }: GpuFacts): Finding[] {
  if (driver === null) return [];
  const known = KNOWN.find(({ from, before }) => !olderVersion(driver, from) && olderVersion(driver, before));
  if (known) {
    return [warn(
      "driver",
      `${driver} is in a range with a known fault (${known.from} to before ${known.before}): ${known.what}`,
      "Ask the site for a newer driver; NCCL_P2P_DISABLE=1 avoids it and is slower.",
    )];
  }
  const least = builtFor === null ? undefined : LEAST[builtFor.split(".")[0]];
  if (least !== undefined && olderVersion(driver, least)) {
    return [warn(
      "driver",
      `${driver} is older than ${least}, the least that NVIDIA gives for CUDA ${builtFor}`,
      "Some kernels may be missing: ask the site for a newer driver, or take a libtorch for an older CUDA.",
    )];
  }
  return [];
}

/** It says what `install --cuda` would take here. */
function newestLibtorch(driverCuda: string | null): string {
  const version = driverCuda === null ? null : newestReleaseFor(driverCuda);
  return version === null ? "" : `, which takes PyTorch ${version} for this driver`;
}

function fixOf({ why, driver, driverCuda }: GpuFacts): string {
  if (/too old|insufficient/i.test(why ?? "")) {
    return `Take a libtorch that was built for CUDA ${
      driverCuda ?? "of this driver"
    } or older (\`hpctrain libtorch ` +
      `install --cuda\`${newestLibtorch(driverCuda)}), or ask the site for a newer driver.`;
  }
  if (driver === null) {
    return "The driver's kernel module is not loaded (/proc/driver/nvidia): ask the site, or take another node.";
  }
  return "Try `nvidia-smi` on this node; if it fails too, the node is at fault: take another (--exclude).";
}
