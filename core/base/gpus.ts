// The GPUs of this machine, NVIDIA's and AMD's, as Linux shows them; and which of them variables leave to this process. No
// library is asked, so this holds where none can be opened.
import { formatPlural } from "./format.ts";

type Env = Readonly<Record<string, string | undefined>>;

export interface MachineGpus {
  /** The driver makes a file for each, whatever the variables say. */
  readonly nvidia: number;
  /** A device of HIP: half of an MI250X, a partition of an MI300X. 0 where the driver is not loaded. */
  readonly amd: number;
  /** Those of AMD's that this process may open: a job's control group hides other jobs'. */
  readonly amdOpen: number;
  /** The file through which each process reaches AMD's driver. */
  readonly amdDriver: "none" | "denied" | "open";
  /** A file of AMD's GPUs, where none of them can be opened: "/dev/dri/renderD128". */
  readonly denied: string | null;
}

/** `root` is another machine's, for a test. */
export function machineGpus(root = ""): MachineGpus {
  const nodes = namesIn(`${root}/sys/class/kfd/kfd/topology/nodes`);
  const amd = nodes.filter((node) =>
    Number(text(`${root}/sys/class/kfd/kfd/topology/nodes/${node}/gpu_id`)) > 0
  );
  const render = amd.length === 0
    ? []
    : namesIn(`${root}/dev/dri`).filter((name) => /^renderD\d+$/.test(name));
  const files = render.map((name) => `${root}/dev/dri/${name}`);
  const denied = files.filter((path) => accessTo(path) === "denied");
  const amdOpen = Math.max(0, amd.length - denied.length);
  return {
    nvidia: namesIn(`${root}/dev`).filter((name) => /^nvidia\d+$/.test(name)).length,
    amd: amd.length,
    amdDriver: accessTo(`${root}/dev/kfd`),
    amdOpen,
    denied: amdOpen === 0 ? denied[0] ?? null : null,
  };
}

function accessTo(path: string): "none" | "denied" | "open" {
  try {
    Deno.openSync(path, { read: true, write: true }).close();
    return "open";
  } catch (error) {
    const noDevice = ["ENXIO", "ENODEV"].includes((error as { code?: string }).code ?? ""); // a file that no driver serves
    return error instanceof Deno.errors.NotFound || noDevice ? "none" : "denied";
  }
}

function namesIn(folder: string): string[] {
  try {
    return [...Deno.readDirSync(folder)].map(({ name }) => name);
  } catch {
    return [];
  }
}

function text(path: string): string {
  try {
    return Deno.readTextFileSync(path);
  } catch {
    return ""; // a job's cgroup may hide it
  }
}

/** The variables' names, in the order in which they hide devices. */
export const NVIDIA_VARIABLE = "CUDA_VISIBLE_DEVICES";
export const AMD_VARIABLES = ["ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"] as const;

interface Visible {
  /** Null where no variable says it and the machine shows none. */
  readonly count: number | null;
  /** The variables that are set, as a user would write them: `ROCR_VISIBLE_DEVICES=2,3`. */
  readonly set: readonly string[];
  /** Null where the variables go together. */
  readonly contradiction: Contradiction | null;
}

export interface Contradiction {
  /** A clause. */
  readonly what: string;
  /** It says what to do, without a full stop. */
  readonly fix: string;
}

/** ROCr hides devices from HIP, which numbers the rest from 0; HIP reads its own variable, or CUDA's where that is not set. */
export function visibleAmd(env: Env, present: number | null): Visible {
  const { ROCR_VISIBLE_DEVICES: outer, HIP_VISIBLE_DEVICES: hip, CUDA_VISIBLE_DEVICES: cuda } = env;
  const set = AMD_VARIABLES.filter((name) => env[name] !== undefined).map((name) => `${name}=${env[name]}`);
  const left = outer === undefined ? present : known(outer, present);
  const inner = hip ? "HIP_VISIBLE_DEVICES" : "CUDA_VISIBLE_DEVICES", names = env[inner];
  if (!names) return { count: left, set, contradiction: null }; // HIP takes "" for nothing said
  const count = known(names, left);
  return { count, set, contradiction: contradictionIn({ outer, hip, cuda, inner, names, left, count }) };
}

interface VisibleDevices {
  readonly outer: string | undefined;
  readonly hip: string | undefined;
  readonly cuda: string | undefined;
  readonly inner: string;
  readonly names: string;
  readonly left: number | null;
  readonly count: number;
}

function contradictionIn(
  { outer, hip, cuda, inner, names, left, count }: VisibleDevices,
): Contradiction | null {
  if (outer !== undefined && left !== null && count < listed(names).length && !hides(names)) {
    const finds = count === 0 ? "none" : `only ${count}`;
    const write = left === 0 ? "" : `, or ${inner}=${Array.from({ length: left }, (_, i) => i).join()}`;
    return {
      what: `ROCR_VISIBLE_DEVICES is "${outer}" and ${inner} is "${names}": HIP numbers the ${
        formatPlural(left, "GPU")
      } that the first leaves from 0, and so finds ${finds}`,
      fix: `Write \`unset ${inner}\` in the job script${write}`,
    };
  }
  if (!hip || !cuda || hip === cuda) return null;
  return {
    what:
      `HIP_VISIBLE_DEVICES is "${hip}" and CUDA_VISIBLE_DEVICES is "${cuda}": on AMD's GPUs the first counts and ` +
      "the second is left out",
    fix: "Unset one of them",
  };
}

const listed = (names: string): string[] => names.split(",").map((name) => name.trim());
const hides = (names: string): boolean => names.trim() === "-1";

/** Those before the first name that nobody has. */
function known(names: string, present: number | null): number {
  const all = listed(names);
  const wrong = all.findIndex((name) =>
    !/^\d+$/.test(name) ? !/^GPU-/.test(name) : present !== null && Number(name) >= present
  );
  return new Set(wrong < 0 ? all : all.slice(0, wrong)).size;
}

/** How many GPUs this process may use. */
export function gpuCount(env: Env, machine = machineGpus()): number {
  const ofAmd = machine.amd > 0 ||
    machine.nvidia === 0 && (env.ROCR_VISIBLE_DEVICES ?? env.HIP_VISIBLE_DEVICES) !== undefined;
  if (ofAmd) return visibleAmd(env, machine.amd > 0 ? machine.amdOpen : null).count ?? 0;
  const visible = env[NVIDIA_VARIABLE];
  if (visible === undefined) return machine.nvidia;
  return listed(visible).filter((id) => id && id !== "-1").length;
}

/** The variables that leave one GPU of those of this process, by its number among them. */
export function oneGpu(env: Env, number: number): Record<string, string> {
  const name = AMD_VARIABLES.find((name) => env[name]) ?? NVIDIA_VARIABLE;
  return { [name]: listed(env[name] ?? "")[number] || String(number) };
}

/** One of these variables may show fewer than there are. */
export const shownOf = (env: Env, gpus: number): number =>
  AMD_VARIABLES.some((name) => env[name] !== undefined) ? gpuCount(env) : gpus;
