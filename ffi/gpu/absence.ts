// Why no GPU can be used, from what the runtime answered and what Linux shows.
import { AMD_VARIABLES, type MachineGpus, NVIDIA_VARIABLE, visibleAmd } from "../../core/base/gpus.ts";
import type { GpuBackend } from "./backends.ts";

/** Why no device can be used; each has another remedy. */
export type CudaAbsence =
  | "build"
  | "old libtorch"
  | "other vendor"
  | "no driver"
  | "no permission"
  | "old driver"
  | "hidden"
  | "no device"
  | "failed";

export interface Absence {
  readonly kind: CudaAbsence;
  /** A clause. */
  readonly why: string;
  /** It says what to do, where that is more than the kind tells; without a full stop. */
  readonly fix?: string;
}

export interface RuntimeAnswer {
  readonly backend: GpuBackend;
  /** The folder of the libtorch. */
  readonly libtorch: string;
  /** The runtime's error. */
  readonly code: number;
  /** Its own words for that. */
  readonly message: string;
  /** The platform's version that the driver serves; null without a driver. */
  readonly driver: string | null;
  /** The one that libtorch was built for. */
  readonly runtime: string;
}

type Env = Readonly<Record<string, string | undefined>>;

// HIP has CUDA's numbers here.
const NO_DRIVER = 35; // cudaErrorInsufficientDriver: too old, or not there at all
export const NO_DEVICE = 100; // cudaErrorNoDevice

export function absenceOf(answer: RuntimeAnswer, machine: MachineGpus, env: Env): Absence {
  return ofOtherVendor(answer, machine) ??
    (answer.backend.kind === "hip" ? ofAmd(answer, machine, env) : ofNvidia(answer, env));
}

function ofOtherVendor(
  { backend: { kind, words }, libtorch }: RuntimeAnswer,
  { nvidia, amd }: MachineGpus,
): Absence | null {
  const [own, other] = kind === "hip" ? [amd, nvidia] : [nvidia, amd];
  if (own > 0 || other === 0) return null;
  const theirs = kind === "hip" ? "NVIDIA" : "AMD";
  return {
    kind: "other vendor",
    why:
      `libtorch in ${libtorch} was built for ${words.platform}, and the GPUs of this machine are ${theirs}'s`,
  };
}

function ofNvidia({ code, message, driver, runtime }: RuntimeAnswer, env: Env): Absence {
  if (code === NO_DEVICE) return hiddenFromCuda(env[NVIDIA_VARIABLE]);
  if (code !== NO_DRIVER) return { kind: "failed", why: `the NVIDIA driver says: ${message}` };
  if (driver === null) return { kind: "no driver", why: "there is no NVIDIA driver on this machine" };
  return {
    kind: "old driver",
    why:
      `the NVIDIA driver is too old: it serves CUDA ${driver}, and this libtorch was built for CUDA ${runtime}`,
  };
}

/** The driver shows the devices that are named before the first name it does not know. */
function hiddenFromCuda(names: string | undefined): Absence {
  if (names === undefined) return { kind: "no device", why: "the NVIDIA driver sees no device" };
  const [first] = names.split(",").map((name) => name.trim());
  return {
    kind: "hidden",
    why: first === "" || first === "-1"
      ? `CUDA_VISIBLE_DEVICES is "${names}", which hides all devices`
      : `CUDA_VISIBLE_DEVICES is "${names}", and the NVIDIA driver knows no device ${first}`,
  };
}

/** HIP says the same, "no device", whatever is missing. */
function ofAmd(
  { code, message }: RuntimeAnswer,
  { amd, amdOpen, amdDriver, denied }: MachineGpus,
  env: Env,
): Absence {
  const all = AMD_VARIABLES.find((name) =>
    env[name] === "-1" || name === AMD_VARIABLES[0] && env[name] === ""
  );
  if (all !== undefined) return { kind: "hidden", why: `${all} is "${env[all]}", which hides all devices` };
  if (amdDriver === "none") {
    return { kind: "no driver", why: "there is no AMD driver on this machine (amdgpu makes /dev/kfd)" };
  }
  if (amdDriver === "denied") return noPermission("/dev/kfd");
  if (denied !== null) return noPermission(denied);
  const { set, contradiction, count } = visibleAmd(env, amd > 0 ? amdOpen : null);
  if (contradiction !== null) return { kind: "hidden", why: contradiction.what, fix: contradiction.fix };
  if (count === 0 && set.length > 0) {
    return { kind: "hidden", why: `${set.join(" and ")} names no device that the AMD driver has` };
  }
  if (code !== NO_DEVICE) return { kind: "failed", why: `HIP says: ${message}` };
  return { kind: "no device", why: "the AMD driver sees no device" };
}

const noPermission = (file: string): Absence => ({
  kind: "no permission",
  why: `this user may not open ${file}, through which programs reach AMD's GPUs`,
});
