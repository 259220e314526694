// The GPU backends. The program names CUDA's libraries and functions; here is what each backend calls them, and the
// words of its users. Which one there is shows by the file beside libtorch_cpu.so. PyTorch's devices are "cuda:0" with both.

import { AMD_VARIABLES, NVIDIA_VARIABLE } from "../../core/base/gpus.ts";

/** A libtorch is for NVIDIA's GPUs (CUDA) or AMD's (HIP). */
export type GpuKind = "cuda" | "hip";

export interface GpuBackend {
  readonly kind: GpuKind;
  /** Its half of libtorch. */
  readonly torch: string;
  /** The beginnings of its libraries' names: some distributions put a hash or a version behind it. */
  readonly runtime: string;
  readonly compiler: string;
  /** Its driver's interface, opened by this name. */
  readonly driver: string;
  /** By the first of these names that is there. */
  readonly collectives: readonly string[];
  readonly management: readonly string[];
  /**
   * The architecture is "sm_90", "gfx942". A product and a sum are rounded one after the other, so that a GPU has the
   * numbers of the same text on a host.
   */
  readonly compilerOptions: (architecture: string) => readonly string[];
  /** Its name for what is called so in CUDA. */
  readonly symbol: (cuda: string) => string;
  /** Its runtime has these numbers for the two halves of a device's compute capability. */
  readonly attributes: { readonly major: number; readonly minor: number };
  /** The first generation that computes products of f32 in TensorFloat-32 when it may; null where none does by itself. */
  readonly tf32Since: number | null;
  /** "13.2", of its runtime's number. */
  readonly version: (number: number) => string;
  /** The oldest libtorch that this program can use with it. */
  readonly oldestLibtorch: readonly [number, number, number];
  /** Variables that hide devices. core/base/gpus.ts knows how they go together. */
  readonly visible: readonly string[];
  readonly words: GpuWords;
}

export interface GpuWords {
  readonly vendor: "NVIDIA" | "AMD";
  /** A libtorch is built for it: "built for CUDA 13.2". */
  readonly platform: "CUDA" | "ROCm";
  /** It refuses a call: "CUDA could not wait". */
  readonly runtime: "CUDA" | "HIP";
  readonly collectives: "NCCL" | "RCCL";
  /** Compiles CUDA C, or what HIP reads of it. */
  readonly compiler: "NVRTC" | "HIPRTC";
  readonly driver: string;
  /** Shows devices, their processes and their state. */
  readonly tool: "nvidia-smi" | "rocm-smi";
  /** Lists the names by which a device can be chosen. */
  readonly list: string;
  /** In the system's log, beside a failure. */
  readonly log: string;
  /** The variable by which users choose devices. */
  readonly choose: string;
  /** With this set a launch waits for its end, so that the first one to fail is named. */
  readonly blocking: string;
}

/** From this architecture on a GPU rounds to bf16 by itself, and has the greater of two numbers of which one is NaN. */
const AMPERE = 80;

const CUDA: GpuBackend = {
  kind: "cuda",
  torch: "libtorch_cuda.so",
  runtime: "libcudart",
  compiler: "libnvrtc",
  driver: "libcuda.so.1",
  collectives: ["libnccl.so.2"],
  management: ["libnvidia-ml.so.1"],
  compilerOptions: (architecture) => [
    `--gpu-architecture=${architecture}`,
    ...["--std=c++17", "--fmad=false"],
    ...(Number(/\d+/.exec(architecture)![0]) >= AMPERE ? ["--define-macro=SINCE_AMPERE"] : []),
  ],
  symbol: (name) => name,
  attributes: { major: 75, minor: 76 },
  tf32Since: 8, // Ampere
  version: (number) => `${Math.floor(number / 1000)}.${Math.floor(number % 1000 / 10)}`,
  oldestLibtorch: [2, 10, 0],
  visible: [NVIDIA_VARIABLE],
  words: {
    vendor: "NVIDIA",
    platform: "CUDA",
    runtime: "CUDA",
    collectives: "NCCL",
    compiler: "NVRTC",
    driver: "the NVIDIA driver",
    tool: "nvidia-smi",
    list: "`nvidia-smi -L` lists (0, GPU-..., MIG-...)",
    log: "dmesg: Xid",
    choose: "CUDA_VISIBLE_DEVICES",
    blocking: "CUDA_LAUNCH_BLOCKING=1",
  },
};

/** HIP's names where more than the beginning differs. */
const HIP_NAMES: Readonly<Record<string, string>> = {
  cuDeviceGetUuid_v2: "hipDeviceGetUuid",
  cuLaunchKernel: "hipModuleLaunchKernel",
  cuGetErrorString: "hipDrvGetErrorString",
  nvrtcGetCUBINSize: "hiprtcGetCodeSize",
  nvrtcGetCUBIN: "hiprtcGetCode",
};

/** A type of CUDA's runtime in the names of libtorch's C++ functions, which have its length before it. */
const HIP_TYPES: readonly (readonly [cuda: string, hip: string])[] = [
  ["21cudaStreamCaptureMode", "20hipStreamCaptureMode"],
];

function hipName(cuda: string): string {
  if (cuda.startsWith("_Z")) return HIP_TYPES.reduce((name, [from, to]) => name.replace(from, to), cuda);
  return HIP_NAMES[cuda] ?? cuda.replace(/^(cuda|cu)(?=[A-Z])/, "hip").replace(/^nvrtc/, "hiprtc");
}

const HIP: GpuBackend = {
  kind: "hip",
  torch: "libtorch_hip.so",
  runtime: "libamdhip64",
  compiler: "libhiprtc.so",
  driver: "libamdhip64",
  collectives: ["librccl.so.1", "librccl.so"],
  management: ["librocm_smi64.so.1", "librocm_smi64.so.7", "librocm_smi64.so"],
  compilerOptions: (
    architecture,
  ) => [`--gpu-architecture=${architecture}`, "-std=c++17", "-ffp-contract=off"],
  symbol: hipName,
  attributes: { major: 23, minor: 61 },
  tf32Since: null, // libtorch has it where a variable of hipBLASLt's allows it
  version: (number) => `${Math.floor(number / 10_000_000)}.${Math.floor(number % 10_000_000 / 100_000)}`,
  oldestLibtorch: [2, 11, 0],
  visible: AMD_VARIABLES,
  words: {
    vendor: "AMD",
    platform: "ROCm",
    runtime: "HIP",
    collectives: "RCCL",
    compiler: "HIPRTC",
    driver: "the AMD driver (amdgpu)",
    tool: "rocm-smi",
    list: "`rocm-smi` lists (0, 1, ...)",
    log: "dmesg: amdgpu",
    choose: "ROCR_VISIBLE_DEVICES",
    blocking: "AMD_SERIALIZE_KERNEL=3",
  },
};

export const BACKENDS: Readonly<Record<GpuKind, GpuBackend>> = { cuda: CUDA, hip: HIP };

/** A runtime's library, by its path, so that any thread can open it. */
export interface GpuRuntime {
  readonly kind: GpuKind;
  readonly path: string;
}

/** The same functions under a backend's names. */
export function namedBy<I extends Deno.ForeignLibraryInterface>({ symbol }: GpuBackend, functions: I): I {
  const entries = Object.entries(functions).map((
    [key, one],
  ) => [key, { ...one, name: symbol(one.name ?? key) }]);
  return Object.fromEntries(entries) as I;
}

/** Opens the first of these that is there; throws what the last one says. */
export function openFirst<I extends Deno.ForeignLibraryInterface>(
  paths: readonly string[],
  functions: I,
): Deno.DynamicLibrary<I> {
  let failure: unknown;
  for (const path of paths) {
    try {
      return Deno.dlopen(path, functions);
    } catch (error) {
      failure = error;
    }
  }
  throw failure;
}
