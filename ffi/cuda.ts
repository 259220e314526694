// A GPU by libtorch's C interface where it has the verb, else by the runtime's: CUDA's, or HIP's under its own names
// (gpu/backends.ts). A libtorch without its half for GPUs loads nothing.
import { native, out, outAt, outI32 } from "./abi.ts";
import { deviceHelp, LibraryError } from "./errors.ts";
import { openedLibtorch } from "./library.ts";
import { type Absence, absenceOf, type CudaAbsence, NO_DEVICE } from "./gpu/absence.ts";
import { BACKENDS, type GpuBackend, type GpuRuntime, namedBy } from "./gpu/backends.ts";
import type { GpuName } from "./gpu/monitor.ts";
import { libraryNamed } from "./libraries/elf.ts";
import type { Libtorch } from "./libraries/find.ts";
import { machineGpus } from "../core/base/gpus.ts";

export type { CudaAbsence };

const torchCuda = {
  currentStream: {
    name: "aoti_torch_get_current_cuda_stream",
    parameters: ["i32", "pointer"],
    result: "i32",
  },
  setCurrentStream: { name: "torch_set_current_cuda_stream", parameters: ["u64", "i32"], result: "i32" },
  streamFromPool: {
    name: "torch_get_cuda_stream_from_pool",
    parameters: ["bool", "i32", "pointer"],
    result: "i32",
  },
} as const satisfies Deno.ForeignLibraryInterface;

const cudart = {
  deviceCount: { name: "cudaGetDeviceCount", parameters: ["pointer"], result: "i32" },
  setDevice: { name: "cudaSetDevice", parameters: ["i32"], result: "i32" },
  memory: { name: "cudaMemGetInfo", parameters: ["pointer", "pointer"], result: "i32" },
  synchronise: { name: "cudaDeviceSynchronize", parameters: [], result: "i32" },
  synchroniseStream: { name: "cudaStreamSynchronize", parameters: ["u64"], result: "i32" },
  waitEvent: { name: "cudaStreamWaitEvent", parameters: ["u64", "u64", "u32"], result: "i32" },
  createEvent: { name: "cudaEventCreateWithFlags", parameters: ["pointer", "u32"], result: "i32" },
  recordEvent: { name: "cudaEventRecord", parameters: ["u64", "u64"], result: "i32" },
  synchroniseEvent: { name: "cudaEventSynchronize", parameters: ["u64"], result: "i32" },
  destroyEvent: { name: "cudaEventDestroy", parameters: ["u64"], result: "i32" },
  elapsed: { name: "cudaEventElapsedTime", parameters: ["pointer", "u64", "u64"], result: "i32" },
  attribute: { name: "cudaDeviceGetAttribute", parameters: ["pointer", "i32", "i32"], result: "i32" },
  errorName: { name: "cudaGetErrorString", parameters: ["i32"], result: "pointer" },
  driverVersion: { name: "cudaDriverGetVersion", parameters: ["pointer"], result: "i32" },
  runtimeVersion: { name: "cudaRuntimeGetVersion", parameters: ["pointer"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

type Calls<I extends Deno.ForeignLibraryInterface> = Deno.DynamicLibrary<I>["symbols"];
interface Cuda {
  torch: Calls<typeof torchCuda>;
  rt: Calls<typeof cudart>;
  count: number;
}

/** The runtime that libtorch has loaded, for a thread that has no libtorch. */
export const gpuRuntime = (): GpuRuntime => {
  const { kind, runtime } = gpuBackend();
  return { kind, path: libraryNamed(runtime) };
};

/** The open libtorch's; CUDA where it has no half for GPUs. */
export const gpuBackend = (): GpuBackend => BACKENDS[openedLibtorch().gpu ?? "cuda"];

let state: Cuda | null | undefined;

let absence: Absence | null = null;

function cuda(): Cuda | null {
  if (state !== undefined) return state;
  state = null;
  const lib = openedLibtorch();
  if (lib.gpu === null) {
    absence = noHalf(lib);
    return null;
  }
  const backend = BACKENDS[lib.gpu], { runtime } = backend;
  try {
    // Most builds of libtorch_cpu.so bring the CUDA runtime along; then a machine without a GPU never loads
    // the rest.
    const loadTorch = () => Deno.dlopen(`${lib.dir}/${backend.torch}`, namedBy(backend, torchCuda)).symbols;
    const early = libraryNamed(runtime) === runtime ? loadTorch() : null;
    const rt = Deno.dlopen(libraryNamed(runtime), namedBy(backend, cudart)).symbols;
    const answer = rt.deviceCount(outAt);
    if (answer !== 0) {
      absence = whyNoDevice(rt, answer);
      return null;
    }
    const count = outI32[0];
    if (count === 0) {
      absence = whyNoDevice(rt, NO_DEVICE);
      return null;
    }
    const torch = early ?? loadTorch();
    return state = { torch, rt, count };
  } catch (error) {
    absence = { kind: "failed", why: error instanceof Error ? error.message : String(error) };
    return null;
  }
}

function whyNoDevice(rt: Cuda["rt"], code: number): Absence {
  const backend = gpuBackend(), { dir: libtorch } = openedLibtorch();
  const answer = { backend, libtorch, code, message: cudaError(rt, code), ...versionsOf(rt) };
  return absenceOf(answer, machineGpus(), Deno.env.toObject());
}

function noHalf({ dir, gpuLacks }: Libtorch): Absence {
  if (gpuLacks !== undefined) return { kind: "old libtorch", why: gpuLacks };
  return { kind: "build", why: `libtorch in ${dir} was built without CUDA` };
}

function versionsOf(rt: Cuda["rt"]): { driver: string | null; runtime: string } {
  const { version } = gpuBackend();
  rt.driverVersion(outAt);
  const driver = outI32[0]; // 0 where there is none
  rt.runtimeVersion(outAt);
  return { driver: driver === 0 ? null : version(driver), runtime: version(outI32[0]) };
}

function cudaError(rt: Cuda["rt"], code: number): string {
  const at = rt.errorName(code);
  return at ? new Deno.UnsafePointerView(at).getCString() : `error ${code}`;
}

function must(): Cuda {
  const c = cuda();
  if (!c) {
    throw new LibraryError(`No GPU can be used here: ${whyNoCuda()}. Train on the CPU with --device cpu.`);
  }
  return c;
}

function ok(code: number, what: string): void {
  if (code === 0) return;
  const message = cudaError(must().rt, code), help = deviceHelp(message, gpuBackend().words);
  throw new LibraryError(
    `${gpuBackend().words.runtime} could not ${what}: ${message}.${help === null ? "" : ` ${help}`}`,
  );
}

export const cudaDevices = (): number => cuda()?.count ?? 0;
export const whyNoCuda = (): string => (cuda(), absence?.why ?? "");
/** Null where its kind alone says what to do. */
export const fixOfAbsence = (): string | null => (cuda(), absence?.fix ?? null);
export const cudaAbsence = (): CudaAbsence | null => (cuda(), absence?.kind ?? null);

export const cudaVersions = () => versionsOf(must().rt);

/** The current device of this process; streams are on it unless another is named. */
let current = 0;

export function setCudaDevice(index: number): void {
  ok(must().rt.setDevice(index), `use device ${index}`);
  current = index;
}

export const currentCuda = (): `cuda:${number}` => `cuda:${current}`;

/** 8 is Ampere, the first generation that computes in bf16. */
export const cudaCapability = (device = current): number => attribute("major", device);
export const cudaCapabilityMinor = (device = current): number => attribute("minor", device);

/** "sm_90", or HIP's own name of it: "gfx90a:sramecc+:xnack-". */
export function gpuArchitecture(device = current): string {
  return hipArchitecture(device) ?? `sm_${cudaCapability(device)}${cudaCapabilityMinor(device)}`;
}

/** HIP's record of a device's properties, as ROCm 6 made it; the name's place in it is no promise. */
const properties = {
  hipGetDevicePropertiesR0600: { parameters: ["buffer", "i32"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;
const PROPERTIES_BYTES = 8192;

function hipArchitecture(device: number): string | null {
  const { kind, runtime } = gpuBackend();
  if (kind !== "hip") return null;
  const library = Deno.dlopen(libraryNamed(runtime), properties), bytes = new Uint8Array(PROPERTIES_BYTES);
  ok(library.symbols.hipGetDevicePropertiesR0600(bytes, device), "say what device it is");
  library.close();
  const found = /gfx[0-9a-f]+(:[a-z]+[+-])*/.exec(new TextDecoder("latin1").decode(bytes));
  if (!found) {
    throw new LibraryError("HIP does not name the GPU's architecture (gfx...). Is its ROCm older than 6?");
  }
  return found[0];
}

function attribute(which: keyof GpuBackend["attributes"], device: number): number {
  ok(must().rt.attribute(outAt, gpuBackend().attributes[which], device), "say what device it is");
  return outI32[0];
}

const driver = {
  cuInit: { parameters: ["u32"], result: "i32" },
  cuDeviceGet: { parameters: ["buffer", "i32"], result: "i32" },
  cuDeviceGetUuid_v2: { parameters: ["buffer", "i32"], result: "i32" },
  cuDeviceGetName: { parameters: ["buffer", "i32", "i32"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

/**
 * A device's number differs between processes where a launcher hides devices. Null where the driver reports
 * none.
 */
export function cudaUuid(device = current): string | null {
  return fromDriver(device, (cu, handle) => {
    const bytes = new Uint8Array(16);
    if (cu.cuDeviceGetUuid_v2(bytes, handle) !== 0) return null;
    if (gpuBackend().kind === "hip") return hipUuid(bytes);
    const kind = isMig(nameOf(cu, handle)) ? "MIG" : "GPU"; // NVML finds a part of a GPU by its own name alone
    return `${kind}-${bytes.toHex().replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-")}`;
  });
}

/** HIP gives sixteen digits; where a GPU has no number of its own, zeros. */
function hipUuid(bytes: Uint8Array): string | null {
  const digits = new TextDecoder("latin1").decode(bytes);
  return /^[0-9a-f]{16}$/i.test(digits) ? `GPU-${digits}` : null;
}

/** For a thread that has no libtorch; null where the driver does not name it. */
export function gpuName(device = current): GpuName | null {
  const uuid = cudaUuid(device);
  return uuid === null ? null : { kind: gpuBackend().kind, uuid };
}

/** "NVIDIA H100 80GB HBM3"; "gfx942" where AMD's driver lacks the list of products. */
export const cudaName = (device = current): string | null =>
  fromDriver(device, nameOf) || (gpuBackend().kind === "hip" ? gpuArchitecture(device) : null);

/** "NVIDIA A100-SXM4-40GB MIG 1g.5gb" is a part of a GPU, of which a process sees one. */
export const isMig = (name: string | null): boolean => / MIG \d+g\./.test(name ?? "");

function nameOf(cu: Driver, handle: number): string | null {
  const bytes = new Uint8Array(256);
  if (cu.cuDeviceGetName(bytes, bytes.length, handle) !== 0) return null;
  return new TextDecoder().decode(bytes.subarray(0, bytes.indexOf(0)));
}

type Driver = Deno.DynamicLibrary<typeof driver>["symbols"];

function fromDriver(device: number, ask: (cu: Driver, handle: number) => string | null): string | null {
  try {
    const backend = gpuBackend();
    const library = Deno.dlopen(libraryNamed(backend.driver), namedBy(backend, driver)), cu = library.symbols;
    const handle = new Int32Array(1);
    const known = cu.cuInit(0) === 0 && cu.cuDeviceGet(handle, device) === 0;
    const reported = known ? ask(cu, handle[0]) : null;
    library.close();
    return reported;
  } catch {
    return null;
  }
}

export function seedCuda(seed: bigint): void {
  if (state) native.seedCudaGenerator?.(seed);
}

export function cudaMemory(): { used: number; total: number } {
  const both = new BigUint64Array(new ArrayBuffer(16));
  const at = Deno.UnsafePointer.of(both)!;
  ok(must().rt.memory(at, Deno.UnsafePointer.offset(at, 8)), "read the device's memory");
  return { used: Number(both[1] - both[0]), total: Number(both[1]) };
}

/** More than this of a device's memory, and than CUDA itself takes, is somebody's. */
const OTHERS_SHARE = 0.1, OTHERS_BYTES = 2 ** 30;

/** Bytes, or 0 for little. Asked before this process has taken any. */
export const takenByOthers = ({ used, total }: ReturnType<typeof cudaMemory>): number =>
  used > Math.max(OTHERS_SHARE * total, OTHERS_BYTES) ? used : 0;

let ofOthers: number | undefined;

/** Once: what a later run of this process finds taken may be its own. */
export function noteOthers(): void {
  ofOthers ??= takenByOthers(cudaMemory());
}

/** The bytes that other processes held of the device when this one began; 0 for little. */
export const heldByOthers = (): number => ofOthers ?? 0;

export function synchroniseCuda(): void {
  if (state) ok(state.rt.synchronise(), "finish its work");
}

/** None of these counts may grow with the length of a run. */
const held = { streams: 0, events: 0 };
export const cudaHeld = (): Readonly<typeof held> => ({ ...held });

export type Stream = bigint;
export type EventHandle = bigint;

export function currentStream(device = current): Stream {
  ok(must().torch.currentStream(device, outAt), "name its stream");
  return out[0];
}
export function poolStream(device = current, highPriority = false): Stream {
  ok(must().torch.streamFromPool(highPriority, device, outAt), "give a stream");
  held.streams++;
  return out[0];
}

export function onStream<R>(stream: Stream, body: () => R, device = current): R {
  const before = currentStream(device);
  ok(must().torch.setCurrentStream(stream, device), "change its stream");
  try {
    return body();
  } finally {
    ok(must().torch.setCurrentStream(before, device), "change its stream back");
  }
}

/** This thread's work goes to a stream of its own from here on: the default one can't be captured. */
export function leaveDefaultStream(): void {
  synchroniseCuda();
  ok(must().torch.setCurrentStream(poolStream(), current), "change its stream");
}

const DISABLE_TIMING = 2;

export function newEvent(timing = false): EventHandle {
  ok(must().rt.createEvent(outAt, timing ? 0 : DISABLE_TIMING), "make an event");
  held.events++;
  return out[0];
}

/** Events by number in the order of each stream, and the last of them that the host has waited for. */
const recorded = new Map<Stream, number>(), waited = new Map<Stream, number>();
const recordedAs = new Map<EventHandle, readonly [Stream, number]>();

/** A place in a stream's work: behind what is queued by now. */
export interface StreamMark {
  readonly stream: Stream;
  readonly events: number;
}
export const streamMark = (stream: Stream): StreamMark => ({ stream, events: recorded.get(stream) ?? 0 });

/** The host knows that the work before the mark is over, since it has waited for an event behind it. */
export const hasPassed = ({ stream, events }: StreamMark): boolean => (waited.get(stream) ?? 0) > events;

export function recordEvent(e: EventHandle, s: Stream): void {
  ok(must().rt.recordEvent(e, s), "record an event");
  const number = (recorded.get(s) ?? 0) + 1;
  recorded.set(s, number);
  recordedAs.set(e, [s, number]);
}
export const waitForEvent = (s: Stream, e: EventHandle): void => ok(must().rt.waitEvent(s, e, 0), "wait");
export function synchroniseEvent(e: EventHandle): void {
  ok(must().rt.synchroniseEvent(e), "wait for an event");
  const [stream, number] = recordedAs.get(e) ?? [];
  if (stream !== undefined && number! > (waited.get(stream) ?? 0)) waited.set(stream, number!);
}
export function destroyEvent(e: EventHandle): void {
  ok(must().rt.destroyEvent(e), "drop an event");
  recordedAs.delete(e);
  held.events--;
}

export function elapsedMs(from: EventHandle, to: EventHandle): number {
  const ms = new Float32Array(new ArrayBuffer(4));
  ok(must().rt.elapsed(Deno.UnsafePointer.of(ms), from, to), "time its work");
  return ms[0];
}

let tf32 = false, searches = false;

/** True where products and convolutions of fp32 take factors of TF32's ten bits. */
export const computesInTf32 = (): boolean => tf32;

/**
 * The switches are libtorch's global context. Deterministic is strict: an op that can't be refuses. With a
 * warning in its place attention would stay as it is.
 */
export function setNumerics(o: { tf32: boolean; deterministic: boolean }): void {
  const context = native.globalContext?.();
  if (!context) return; // a libtorch without these symbols keeps its own defaults
  setTf32(o.tf32);
  native.setDeterministic?.(context, o.deterministic, false);
  // cuBLAS gives the same bits only with a workspace of fixed size; it reads this when it is first used.
  if (o.deterministic && !Deno.env.has(WORKSPACE)) Deno.env.set(WORKSPACE, ":4096:8");
  searchKernels(false);
}

/** cuDNN times all its kernels for each new shape, which takes seconds, or else takes the one that it thinks best. */
export function searchKernels(wanted: boolean): void {
  const context = native.globalContext?.();
  if (!context) return;
  searches = wanted;
  native.setCuDnnBenchmark?.(context, wanted);
}

export const searchesKernels = (): boolean => searches;

/** A shape that comes seldom is not worth a search; one that was searched for keeps what was found. */
function setTf32(wanted: boolean): void {
  const context = native.globalContext?.();
  if (!context) return;
  tf32 = wanted;
  native.setTf32CuBlas?.(context, wanted);
  native.setTf32CuDnn?.(context, wanted);
}

/** Products of f32 are those of f32 while `body` runs. */
export function withoutTf32<R>(body: () => R): R {
  const before = tf32;
  setTf32(false);
  try {
    return body();
  } finally {
    setTf32(before);
  }
}

export function withoutKernelSearch<R>(body: () => R): R {
  const context = native.globalContext?.();
  if (!context || !searches) return body();
  native.setCuDnnBenchmark?.(context, false);
  try {
    return body();
  } finally {
    native.setCuDnnBenchmark?.(context, true);
  }
}

const WORKSPACE = "CUBLAS_WORKSPACE_CONFIG";
