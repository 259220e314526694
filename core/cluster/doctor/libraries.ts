// Checks the libraries that a run here would take, why others were rejected, and known faults of versions.
import { BACKENDS, type GpuKind } from "../../../ffi/gpu/backends.ts";
import {
  findLibtorch,
  type FoundLibtorch,
  type Libtorch,
  type Rejected,
  versionOfUse,
} from "../../../ffi/libraries/find.ts";
import { openLibtorch } from "../../../ffi/library.ts";
import { ones, toNumbers } from "../../../ffi/make.ts";
import { matmul } from "../../../ffi/ops.ts";
import { scope } from "../../../ffi/tensor.ts";
import { bad, type Finding, good, olderVersion, onPath, warn } from "./check.ts";
import { messageOf } from "../../base/errors.ts";
import { type FoundEngine, gpuEngine, hasMpi, type MpiEngine, mpiEngine } from "../../ranks/engines.ts";

export interface LibtorchFacts extends FoundLibtorch {
  readonly broken: string | null;
}

export function gatherLibtorch(explicit: string): LibtorchFacts {
  const found = findLibtorch({ explicit: explicit || undefined, all: true });
  return { ...found, broken: found.chosen && whyBroken(found.chosen) };
}

const MATRIX_SIDE = 64;

function whyBroken(chosen: NonNullable<FoundLibtorch["chosen"]>): string | null {
  try {
    openLibtorch(chosen);
    const [sum] = scope(() => toNumbers(matmul(ones([1, MATRIX_SIDE]), ones([MATRIX_SIDE, 1]))));
    return sum === MATRIX_SIDE ? null : `a sum of ${MATRIX_SIDE} ones comes to ${sum}`;
  } catch (error) {
    return messageOf(error).replace(/\.$/, "");
  }
}

const LIBTORCH = "libtorch";
const GET_LIBTORCH =
  "Run `hpctrain libtorch install`, load your site's PyTorch module, or name one with --libtorch DIR";

export function judgeLibtorch({ chosen, usable, rejected, broken }: LibtorchFacts): Finding[] {
  const reasons = rejected.map(({ dir, from, reason }) => `${dir} (${from}): ${reason}`);
  const passed = reasons.map((why) => good(LIBTORCH, `not used: ${why}`));
  if (chosen === null) {
    const [other] = usable;
    const fix = other
      ? `Unset what names it, and ${other.versionText} in ${other.dir} (${other.from}) is used.`
      : `${GET_LIBTORCH}.`;
    const what = reasons.length > 0
      ? `no usable one: ${reasons.join("; ")}`
      : "none was found on this machine";
    return [bad(LIBTORCH, what, fix)];
  }
  const which = `${versionOfUse(chosen)}${
    chosen.gpu === null ? " for CPUs" : ` with ${BACKENDS[chosen.gpu].words.platform}`
  }, ${chosen.dir} (${chosen.from})`;
  const lacking = chosen.gpuLacks === undefined
    ? []
    : [warn(LIBTORCH, `its half for GPUs can't be used: ${chosen.gpuLacks}`, `${GET_LIBTORCH}.`)];
  if (broken !== null) {
    return [bad(LIBTORCH, `${which} does not work: ${broken}`, `${GET_LIBTORCH}.`), ...passed];
  }
  return [good(LIBTORCH, which), ...lacking, ...passed];
}

export interface MpiFacts {
  readonly chosen: { readonly path: string; readonly from: string; readonly version: string | null } | null;
  readonly rejected: readonly Rejected[];
  readonly named: string | null;
  /** `hpctrain launch` starts ranks with it. */
  readonly launcher: string | null;
  readonly programs: readonly string[];
  readonly needed: boolean;
}

const PROGRAMS = ["mpirun", "mpiexec", "srun", "aprun", "palsrun"];

export async function gatherMpi(needed: boolean, env: Record<string, string>): Promise<MpiFacts> {
  const programs = PROGRAMS.map((name) => onPath(name, env)).filter((path) => path !== null);
  const none = { chosen: null, rejected: [], named: null, launcher: null, programs, needed };
  if (!hasMpi) return none;
  const mpi = await mpiEngine();
  try {
    const { chosen, rejected } = mpi.find(env, true);
    const library = chosen &&
      { path: chosen.path, from: chosen.from, version: mpi.version(chosen.path) };
    return { ...none, chosen: library, rejected, launcher: chosen && launcherOf(mpi, env) };
  } catch (error) {
    return { ...none, named: messageOf(error) };
  }
}

function launcherOf(mpi: MpiEngine, env: Record<string, string>): string | null {
  try {
    return mpi.launcher(env, null).command[0];
  } catch {
    return null; // srun may start ranks without it
  }
}

const MPI = "MPI";
const GET_MPI =
  "Load your site's MPI module (`module load openmpi`), or run `hpctrain libtorch install mpich`.";

export function judgeMpi({ chosen, rejected, named, launcher, programs, needed }: MpiFacts): Finding[] {
  if (named !== null) {
    return [(needed ? bad : warn)(MPI, named.replace(/\.$/, ""), "Or unset HPCTRAIN_MPI.")];
  }
  const passed = rejected.map(({ dir, from, reason }) => good(MPI, `not used: ${dir} (${from}): ${reason}`));
  if (chosen === null) {
    const none = "none found: ranks on CPUs communicate by shared memory on one node, by TCP between nodes";
    return [needed ? warn(MPI, `${none}, which is slower`, GET_MPI) : good(MPI, none), ...passed];
  }
  const which = `${chosen.version ?? "of unknown version"}, ${chosen.path} (${chosen.from})`;
  if (chosen.version === null) {
    return [
      (needed ? bad : warn)(MPI, `${chosen.path} (${chosen.from}) can't be loaded`, GET_MPI),
      ...passed,
    ];
  }
  const srun = programs.find((path) => path.endsWith("/srun"));
  if (launcher !== null) return [good(MPI, `${which}; ranks are started by ${launcher}`), ...passed];
  if (srun) return [good(MPI, `${which}; ranks are started by ${srun}`), ...passed];
  return [
    warn(
      MPI,
      `${which}, but nothing that starts its ranks: no mpirun or mpiexec of it beside it or on PATH`,
      GET_MPI,
    ),
    ...passed,
  ];
}

interface NcclFacts {
  /** RCCL's for HIP. */
  readonly kind: GpuKind;
  /** Null means that libtorch can use no GPU here. */
  readonly found: FoundEngine | null;
}

async function gatherNccl(
  libtorch: Pick<Libtorch, "dir" | "gpu"> | null,
  gpus: number,
  env: Record<string, string>,
): Promise<NcclFacts> {
  if (libtorch === null || gpus === 0) return { kind: "cuda", found: null };
  const kind = libtorch.gpu ?? "cuda";
  try {
    return { kind, found: (await gpuEngine()).find(libtorch.dir, kind, env) };
  } catch (error) {
    return { kind, found: { path: null, from: "", version: null, against: null, why: messageOf(error) } };
  }
}

/** These ranges come from NCCL's release notes. */
const KNOWN_NCCL = [
  {
    from: "2.18.1",
    before: "2.18.3",
    what: "its Tree algorithm can corrupt data where one network card serves one GPU",
    instead: "NCCL_PROTO=^LL128 avoids it",
  },
  {
    from: "2.28.3",
    before: "2.28.9",
    what: "ranks that restart within their process hang",
    instead: "2.28.9 mends it",
  },
  {
    from: "2.29.2",
    before: "2.29.3",
    what: "its ranks can wait for one another for ever",
    instead: "2.29.3 mends it",
  },
];

export function judgeNccl({ kind, found }: NcclFacts): Finding[] {
  if (found === null) return [];
  const { collectives: [file], words: { collectives: NCCL } } = BACKENDS[kind];
  const ANOTHER_NCCL = `name another with HPCTRAIN_NCCL=/path/to/${file}`;
  const { path, from, version, against, why } = found;
  if (path === null) {
    const reasons = why ? ` (${why})` : "";
    return [warn(
      NCCL,
      `none was found${reasons}: several ranks on GPUs could not communicate, one rank can train`,
      `Load the site's ${kind === "hip" ? "ROCm" : "NCCL"} module, or ${ANOTHER_NCCL}.`,
    )];
  }
  if (version === null) return [bad(NCCL, `${path} can't be used: ${why}`, `To get on, ${ANOTHER_NCCL}.`)];
  const which = `${version}${kind === "hip" ? " as NCCL counts" : ""}, ${path} (${from})`;
  const known = kind === "hip"
    ? undefined
    : KNOWN_NCCL.find(({ from, before }) => !olderVersion(version, from) && olderVersion(version, before));
  if (against !== null) return [warn(NCCL, `${which}: ${against}`, `Take a newer one: ${ANOTHER_NCCL}.`)];
  if (known) {
    return [warn(
      NCCL,
      `${which} has a known fault (${known.from} to before ${known.before}): ${known.what}`,
      `Take a newer one: ${ANOTHER_NCCL}; ${known.instead}.`,
    )];
  }
  return [good(NCCL, which)];
}

export const libraryChecks = {
  libtorch: { gather: gatherLibtorch, judge: judgeLibtorch },
  nccl: { gather: gatherNccl, judge: judgeNccl },
  mpi: { gather: gatherMpi, judge: judgeMpi },
};
