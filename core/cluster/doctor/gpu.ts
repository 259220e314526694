import { newestReleaseFor } from "../../../ffi/libraries/releases.ts";
import {
  type CudaAbsence,
  cudaAbsence,
  cudaCapability,
  cudaCapabilityMinor,
  cudaDevices,
  cudaMemory,
  cudaName,
  cudaVersions,
  isMig,
  setCudaDevice,
  takenByOthers,
  whyNoCuda,
} from "../../../ffi/cuda.ts";
import { driversCuda } from "../../../ffi/machine.ts";
import { gpusHere } from "../../base/cores.ts";
import { formatBytes, formatPlural } from "../../base/format.ts";
import { bad, type Finding, good, namesIn, olderVersion, textOf, warn } from "./check.ts";

interface GpuDevice {
  readonly name: string;
  readonly capability: string;
  readonly memory: number;
  /** Bytes that other processes hold; 0 for little. */
  readonly taken: number;
}

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
  readonly devices: readonly GpuDevice[];
  readonly absence: CudaAbsence | null;
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
    const memory = cudaMemory();
    return {
      name: cudaName(index) ?? "unknown",
      capability: `${cudaCapability(index)}.${cudaCapabilityMinor(index)}`,
      memory: memory.total,
      taken: takenByOthers(memory),
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
    absence: libtorchCuda === null ? null : cudaAbsence(),
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
  if (devices.length > 0) {
    return [good(NAME, devicesIn(facts)), ...judgeDevices(devices), ...judgeDriver(facts)];
  }
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
  if (facts.shown === 0 || facts.absence === "hidden") {
    return [worse(
      NAME,
      `${there}, but CUDA_VISIBLE_DEVICES is "${visible}", which shows none to this process`,
      "Name one that `nvidia-smi -L` lists (0, GPU-..., MIG-...), ask the scheduler for GPUs (--gres=gpu:1, ngpus=1), or " +
        "unset it outside of a job.",
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
    ({ name, capability, memory }) => `${name} of ${formatBytes(memory)}, capability ${capability}`,
  );
  const each = [...kinds].map(([kind, of]) => `${of.length} x ${kind}`).join("; ");
  const hidden = files > devices.length ? ` (of ${files} on the machine)` : "";
  return `${formatPlural(devices.length, "GPU")}${hidden}: ${each}; driver ${
    driver ?? "unknown"
  }, libtorch for CUDA ${builtFor}`;
}

function judgeDevices(devices: readonly GpuDevice[]): Finding[] {
  const kinds = [...new Set(devices.map(({ name, capability }) => `${name} (${capability})`))];
  const taken = devices.flatMap(({ taken, memory }, i) =>
    taken === 0 ? [] : [`${formatBytes(taken)} of the ${formatBytes(memory)} of GPU ${i}`]
  );
  return [
    ...(taken.length === 0 ? [] : [warn(
      "GPU memory",
      `other processes hold ${taken.join(", ")}`,
      "`nvidia-smi` names them; take other GPUs (CUDA_VISIBLE_DEVICES), or another node.",
    )]),
    ...(kinds.length === 1 ? [] : [warn(
      "GPU kinds",
      `there are ${kinds.length} kinds: ${
        kinds.join(", ")
      }; in a run on all of them the slowest sets the pace`,
      "Name those of one kind with CUDA_VISIBLE_DEVICES, or ask the scheduler for one kind (--gres=gpu:KIND:N).",
    )]),
    ...(devices.some(({ name }) => isMig(name))
      ? [good("GPU", "this is a MIG device: a process sees one, so a run has one rank on this node")]
      : []),
  ];
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

function fixOf({ absence, driver, driverCuda }: GpuFacts): string {
  if (absence === "old driver") {
    return `Take a libtorch that was built for CUDA ${
      driverCuda ?? "of this driver"
    } or older (\`hpctrain libtorch ` +
      `install --cuda\`${newestLibtorch(driverCuda)}), or ask the site for a newer driver.`;
  }
  if (driver === null) {
    return "The driver's kernel module is not loaded (/proc/driver/nvidia): ask the site, or take another node.";
  }
  if (absence === "no device") {
    return "Where `nvidia-smi` shows MIG on, ask for a MIG device; else the node is at fault: take another (--exclude).";
  }
  return "Try `nvidia-smi` on this node; if it fails too, the node is at fault: take another (--exclude).";
}
