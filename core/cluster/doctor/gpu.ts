import { BACKENDS, type GpuKind } from "../../../ffi/gpu/backends.ts";
import { openNvrtc } from "../../../ffi/nvrtc.ts";
import { type GpuState, openGpuMonitor } from "../../../ffi/gpu/monitor.ts";
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
  gpuName,
  isMig,
  setCudaDevice,
  takenByOthers,
  whyNoCuda,
} from "../../../ffi/cuda.ts";
import { driversCuda } from "../../../ffi/machine.ts";
import {
  AMD_VARIABLES,
  type Contradiction,
  gpuCount,
  machineGpus,
  NVIDIA_VARIABLE,
  visibleAmd,
} from "../../base/gpus.ts";
import { formatBytes, formatPlural } from "../../base/format.ts";
import { remedyOf } from "../../train/device.ts";
import { bad, type Finding, good, olderVersion, textIn, warn } from "./check.ts";

interface GpuDevice {
  readonly name: string;
  readonly capability: string;
  readonly memory: number;
  /** Bytes that other processes hold; 0 for little. */
  readonly taken: number;
  /** It tells this of itself; null without its vendor's library. */
  readonly state: GpuState | null;
}

export interface GpuFacts {
  readonly asked: "auto" | "cpu" | "cuda";
  /** The vendor's whose GPUs the machine has; where it shows none, libtorch's. */
  readonly kind: GpuKind;
  /** The driver makes these, whatever the variables say. */
  readonly files: number;
  /** The variables that are set. */
  readonly visible: Readonly<Record<string, string>>;
  readonly contradiction: Contradiction | null;
  readonly shown: number;
  readonly driver: string | null;
  readonly driverCuda: string | null;
  /** It is null where there is no libtorch. */
  readonly libtorchCuda: boolean | null;
  readonly builtFor: string | null;
  /** The version of the compiler for kernels of our own; null where there is none, or no device. */
  readonly compiler: string | null;
  readonly devices: readonly GpuDevice[];
  readonly absence: CudaAbsence | null;
  readonly why: string | null;
}

/** Call it after libtorch was opened, where there is one: `libtorch` is its half for GPUs, undefined where there is none. */
function gatherGpu(
  asked: GpuFacts["asked"],
  libtorch: GpuKind | null | undefined,
  env: Readonly<Record<string, string>>,
): GpuFacts {
  const libtorchCuda = libtorch === undefined ? null : libtorch !== null;
  const machine = machineGpus(), count = libtorchCuda === null ? 0 : cudaDevices();
  const kind = machine.amd > 0 && machine.nvidia === 0
    ? "hip"
    : machine.nvidia > 0
    ? "cuda"
    : libtorch ?? "cuda";
  const variables = kind === "hip" ? AMD_VARIABLES : [NVIDIA_VARIABLE];
  const devices = Array.from({ length: count }, (_, index) => {
    setCudaDevice(index);
    const memory = cudaMemory();
    return {
      name: cudaName(index) ?? "unknown",
      capability: `${cudaCapability(index)}.${cudaCapabilityMinor(index)}`,
      memory: memory.total,
      taken: takenByOthers(memory),
      state: stateOf(index),
    };
  });
  if (count > 0) setCudaDevice(0);
  return {
    asked,
    kind,
    files: kind === "hip" ? machine.amd : machine.nvidia,
    visible: Object.fromEntries(variables.flatMap((name) => name in env ? [[name, env[name]]] : [])),
    contradiction: kind === "hip"
      ? visibleAmd(env, machine.amd > 0 ? machine.amdOpen : null).contradiction
      : null,
    shown: gpuCount(env, machine),
    driver: kind === "hip"
      ? textIn("/sys/module/amdgpu/version").trim() || null
      : driverIn(textIn("/proc/driver/nvidia/version")),
    driverCuda: driversCuda(),
    libtorchCuda,
    builtFor: count > 0 ? cudaVersions().runtime : null,
    compiler: count > 0 ? openNvrtc(BACKENDS[libtorch ?? kind])?.version ?? null : null,
    devices,
    absence: libtorchCuda === null ? null : cudaAbsence(),
    why: libtorchCuda === null || count > 0 ? null : whyNoCuda(),
  };
}

function stateOf(index: number): GpuState | null {
  const name = gpuName(index), monitor = name && openGpuMonitor(name);
  if (!monitor) return null;
  try {
    return monitor.read();
  } finally {
    monitor.close();
  }
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
  const { files, asked, kind, driver, driverCuda, devices, contradiction } = facts;
  const { words } = BACKENDS[kind];
  if (devices.length > 0) {
    return [
      good(NAME, devicesIn(facts)),
      ...(contradiction === null ? [] : [warn("GPU variables", contradiction.what, `${contradiction.fix}.`)]),
      ...judgeDevices(facts),
      ...judgeStates(devices, kind),
      ...judgeDriver(facts),
      ...judgeCompiler(facts),
    ];
  }
  const worse = asked === "cuda" ? bad : warn;
  if (facts.absence === "no permission") return [worse(NAME, facts.why ?? "", fixOf(facts))];
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
  const serving = kind === "hip" ? "" : `, serving CUDA ${driverCuda ?? "unknown"}`;
  const found = `${formatPlural(files, `${words.vendor === "AMD" ? "AMD " : ""}GPU`)} here (driver ${
    driver ?? "unknown"
  }${serving})`;
  if (contradiction !== null) {
    return [worse(NAME, `${found}, but ${contradiction.what}`, `${contradiction.fix}.`)];
  }
  if (facts.shown === 0 || facts.absence === "hidden") {
    return [worse(
      NAME,
      `${found}, but ${variablesIn(facts)}, which shows none to this process`,
      `Name one that ${words.list}, ask the scheduler for GPUs (--gres=gpu:1, ngpus=1), or ` +
        "unset it outside of a job.",
    )];
  }
  if (facts.libtorchCuda === null) {
    return [good(NAME, `${found}; what libtorch makes of them shows when there is one`)];
  }
  if (!facts.libtorchCuda) return [worse(NAME, ...forCpus(facts, found))];
  return [worse(NAME, `${found}, but ${facts.why}`, fixOf(facts))];
}

function forCpus({ kind, absence, why, driverCuda }: GpuFacts, found: string): [what: string, fix: string] {
  if (absence === "old libtorch") {
    return [`${found}, but ${why}`, "Load your site's newer PyTorch module, or name it with --libtorch DIR."];
  }
  const what = `${found}, but libtorch was built for CPUs: training would not use them`;
  if (kind === "hip") {
    return [what, "Take one for ROCm, PyTorch 2.11 or newer: your site's PyTorch module, or --libtorch DIR."];
  }
  return [
    what,
    `Take one with CUDA: your site's PyTorch module, --libtorch DIR, or \`hpctrain libtorch install --cuda\`${
      newestLibtorch(driverCuda)
    }.`,
  ];
}

const variablesIn = ({ visible }: GpuFacts): string =>
  Object.entries(visible).map(([name, value]) => `${name} is "${value}"`).join(" and ");

function devicesIn({ kind, devices, driver, builtFor, files, visible }: GpuFacts): string {
  const kinds = Map.groupBy(
    devices,
    ({ name, capability, memory }) => `${name} of ${formatBytes(memory)}, capability ${capability}`,
  );
  const each = [...kinds].map(([kind, of]) => `${of.length} x ${kind}`).join("; ");
  const hidden = files > devices.length ? ` (of ${files} on the machine)` : "";
  const by = Object.entries(visible).map(([name, value]) => `; ${name}=${value}`).join("");
  return `${formatPlural(devices.length, "GPU")}${hidden}: ${each}; driver ${
    driver ?? "unknown"
  }, libtorch for ${BACKENDS[kind].words.platform} ${builtFor}${by}`;
}

/** A GPU that is held back, or whose memory fails, and what each does now. */
function judgeStates(devices: readonly GpuDevice[], kind: GpuKind): Finding[] {
  const known = devices.flatMap(({ state }, i) => state === null ? [] : [{ ...state, i }]);
  const faulty = known.filter(({ gpu_memory_errors: errors = 0 }) => errors > 0);
  const slow = known.filter(({ gpu_throttle: why = [] }) => why.length > 0);
  const now = known.map(({ i, ...state }) => `GPU ${i} ${stateIn(state)}`);
  return [
    ...(now.length === 0 ? [] : [good("GPU now", now.join("; "))]),
    ...(faulty.length === 0 ? [] : [warn(
      "GPU errors",
      faulty.map(({ i, gpu_memory_errors: n }) =>
        `the memory of GPU ${i} has had ${n} errors that were not corrected`
      )
        .join("; "),
      "It is faulty: tell the site, and take another node (--exclude).",
    )]),
    ...(slow.length === 0 ? [] : [warn(
      "GPU speed",
      slow.map(({ i, gpu_throttle: why }) => `GPU ${i} is held back (${why?.join(", ")})`).join("; "),
      `\`${BACKENDS[kind].words.tool}\` shows power and temperature; tell the site if it stays so.`,
    )]),
  ];
}

/** "3% busy, 95 W, 41 °C" */
function stateIn(state: GpuState): string {
  const { gpu_percent: busy, gpu_memory_bytes: used, gpu_power_w: watts, gpu_temperature_c: degrees } = state;
  return [
    ...(busy === undefined ? [] : [`${busy}% busy`]),
    ...(used === undefined ? [] : [`${formatBytes(used)} in use`]),
    ...(watts === undefined ? [] : [`${watts.toFixed(0)} W`]),
    ...(degrees === undefined ? [] : [`${degrees.toFixed(0)} °C`]),
  ].join(", ") || "tells nothing";
}

function judgeDevices({ devices, kind }: GpuFacts): Finding[] {
  const { words } = BACKENDS[kind];
  const kinds = [...new Set(devices.map(({ name, capability }) => `${name} (${capability})`))];
  const taken = devices.flatMap(({ taken, memory }, i) =>
    taken === 0 ? [] : [`${formatBytes(taken)} of the ${formatBytes(memory)} of GPU ${i}`]
  );
  return [
    ...(taken.length === 0 ? [] : [warn(
      "GPU memory",
      `other processes hold ${taken.join(", ")}`,
      `\`${words.tool}\` names them; take other GPUs (${words.choose}), or another node.`,
    )]),
    ...(kinds.length === 1 ? [] : [warn(
      "GPU kinds",
      `there are ${kinds.length} kinds: ${
        kinds.join(", ")
      }; in a run on all of them the slowest sets the pace`,
      `Name those of one kind with ${words.choose}, or ask the scheduler for one kind (--gres=gpu:KIND:N).`,
    )]),
    ...(devices.some(({ name }) => isMig(name))
      ? [good("GPU", "this is a MIG device: a process sees one, so a run has one rank on this node")]
      : []),
  ];
}

function judgeCompiler({ kind, compiler: version }: GpuFacts): Finding[] {
  const { compiler } = BACKENDS[kind].words;
  if (version !== null) return [];
  return [warn(
    "GPU compiler",
    `there is no ${compiler} beside libtorch, so steps are not compiled on a GPU`,
    "`hpctrain libtorch install --cuda` brings one along, and HPCTRAIN_NVRTC=/path/to/its/library names another.",
  )];
}

function judgeDriver({ kind, driver, builtFor }: GpuFacts): Finding[] {
  if (driver === null || kind === "hip") return [];
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

function fixOf(facts: GpuFacts): string {
  const { absence, driver, driverCuda, kind } = facts, { tool } = BACKENDS[kind].words;
  if (absence === "no permission") return `${remedyOf(absence, kind)}.`;
  if (absence === "other vendor") return `${remedyOf(absence, kind === "hip" ? "cuda" : "hip")}.`; // by libtorch's
  if (absence === "old driver") {
    return `Take a libtorch that was built for CUDA ${
      driverCuda ?? "of this driver"
    } or older (\`hpctrain libtorch ` +
      `install --cuda\`${newestLibtorch(driverCuda)}), or ask the site for a newer driver.`;
  }
  if (driver === null && kind === "cuda") {
    return "The driver's kernel module is not loaded (/proc/driver/nvidia): ask the site, or take another node.";
  }
  if (absence === "no device" && kind === "cuda") {
    return "Where `nvidia-smi` shows MIG on, ask for a MIG device; else the node is at fault: take another (--exclude).";
  }
  return `Try \`${tool}\` on this node; if it fails too, the node is at fault: take another (--exclude).`;
}

export const gpuCheck = { gather: gatherGpu, judge: judgeGpu };
