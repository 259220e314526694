// The engines of ranks that are parts of the program: NCCL, or RCCL, is loaded where ranks have GPUs, and MPI where ranks on
// CPUs may be started by it.
import type { GpuKind } from "../../ffi/gpu/backends.ts";
import type { Device } from "../../ffi/tensor.ts";
import { UserError } from "../base/errors.ts";
import { PARTS, type Parts } from "../parts.ts";
import type { SettingChoice } from "../settings/values.ts";
import type { Rejected } from "../../ffi/libraries/find.ts";
import type { OpenedCollectives } from "./collectives.ts";
import type { RankContext } from "./context.ts";
import type { CpuOptions, OutOfBand } from "./cpu/backends.ts";
import type { FlightRecorder } from "./flight_recorder.ts";

export type Network = "auto" | "infiniband" | "ethernet";

export interface GpuNeeds {
  readonly share: (bytes?: Uint8Array) => Uint8Array;
  readonly network: Network;
  readonly logs: string;
}

export interface GpuEngineOptions extends GpuNeeds {
  readonly where: RankContext;
  readonly device: Device;
  readonly env: Record<string, string>;
  readonly flight: FlightRecorder;
  readonly timeout: number;
}

/** The engine's own service says it of a stall. */
export interface Ras {
  readonly text: string;
  readonly line: string;
}

/** The library that ranks here would take. */
export interface FoundEngine {
  readonly path: string | null;
  readonly from: string;
  /** It is null where the library can't be opened. */
  readonly version: string | null;
  readonly against: string | null;
  readonly why: string;
}

export interface GpuEngine {
  open(options: GpuEngineOptions): Promise<OpenedCollectives>;
  /** Null where nobody answers. It never waits for long, and never throws. */
  ask(env: Readonly<Record<string, string | undefined>>): Promise<Ras | null>;
  /** `torch` is libtorch's folder. */
  find(torch: string, kind: GpuKind, env: Record<string, string>): FoundEngine;
}

const GPU_ENGINES: Parts<{ readonly engine: GpuEngine }> = PARTS.gpuEngines;

export async function gpuEngine(): Promise<GpuEngine> {
  const [part] = Object.values(GPU_ENGINES);
  if (part) return (await part.load()).engine;
  throw new UserError(
    "environment",
    "This hpctrain is built without NCCL, so ranks on GPUs can't communicate: start one rank, or add --device cpu.",
  );
}

export interface MpiLibrary {
  readonly path: string;
  readonly abi: "openmpi" | "mpich" | "standard";
  /** The place where it was found. */
  readonly from: string;
}

export interface MpiLauncher {
  readonly library: MpiLibrary;
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

/** A library that fits what started the ranks. */
export interface MpiOffer {
  open(options: CpuOptions): Promise<OpenedCollectives>;
  /** Gives the reason where MPI can't be had, the same on every rank. */
  attempt(options: CpuOptions, meeting: OutOfBand): Promise<OpenedCollectives | string>;
}

export interface MpiEngine {
  /** With `all` it looks on after the first that fits best. */
  find(
    env: Record<string, string>,
    all?: boolean,
  ): { readonly chosen: MpiLibrary | null; readonly rejected: readonly Rejected[] };
  /** Null where the library can't be loaded. */
  version(path: string): string | null;
  launcher(env: Record<string, string>, requested: SettingChoice | null): MpiLauncher;
  /** Somebody has named MPI: without it ranks don't start. */
  open(options: CpuOptions): Promise<OpenedCollectives>;
  /** Or why there is none. */
  offer(where: RankContext, env: Record<string, string>): MpiOffer | string;
}

const CPU_ENGINES: Parts<{ readonly engine: MpiEngine }> = PARTS.cpuEngines;

export const hasMpi = Object.keys(CPU_ENGINES).length > 0;

export async function mpiEngine(): Promise<MpiEngine> {
  const [part] = Object.values(CPU_ENGINES);
  if (part) return (await part.load()).engine;
  throw new UserError(
    "environment",
    "This hpctrain is built without MPI: ranks on CPUs communicate by shared memory and TCP.",
  );
}
