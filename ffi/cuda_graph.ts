// Work of a stream captured as a CUDA graph, which one call replays. libtorch's own class captures: its
// allocator gives captured work memory of its own, and its generators draw anew in each replay. Its methods throw C++
// exceptions, which end a process that calls them from outside of C++: they are called where libtorch catches.
import { check, errorText, out, outAt, outI32 } from "./abi.ts";
import { currentCuda, currentStream, gpuBackend } from "./cuda.ts";
import { LibraryError, NativeError } from "./errors.ts";
import { namedBy } from "./gpu/backends.ts";
import { libraryNamed } from "./libraries/elf.ts";
import { pagesOfFile, pagesOfProcess } from "./machine_code.ts";
import { openedLibtorch } from "./library.ts";
import { zero_, zeros } from "./make.ts";
import { keep, type Tensor } from "./tensor.ts";

/** C++ symbols of libtorch's half for GPUs. Seen in 2.10 and 2.15 (x86-64, wheels of PyPI), and for HIP in none. */
const graphCalls = {
  create: {
    name: "_ZN2at4cuda9CUDAGraphC1Eb",
    parameters: ["buffer", "bool"],
    result: "void",
    optional: true,
  },
  begin: {
    name: "_ZN2at4cuda9CUDAGraph13capture_beginESt4pairIyyE21cudaStreamCaptureMode",
    parameters: ["buffer", "u64", "u64", "i32"],
    result: "void",
    optional: true,
  },
  // These throw C++ exceptions, so they are called in the midst of `guard`.
  beginAt: {
    name: "_ZN2at4cuda9CUDAGraph13capture_beginESt4pairIyyE21cudaStreamCaptureMode",
    type: "pointer",
    optional: true,
  },
  end: { name: "_ZN2at4cuda9CUDAGraph11capture_endEv", type: "pointer", optional: true },
  instantiate: { name: "_ZN2at4cuda9CUDAGraph11instantiateEv", type: "pointer", optional: true },
  replay: { name: "_ZN2at4cuda9CUDAGraph6replayEv", type: "pointer", optional: true },
  reset: { name: "_ZN2at4cuda9CUDAGraph5resetEv", type: "pointer", optional: true },
  /** The pool's name has two words, and the second is 0. */
  pool: { name: "_ZN2at4cuda9CUDAGraph4poolEv", parameters: ["buffer"], result: "u64", optional: true },
  /** The graph that the driver launches. */
  executable: {
    name: "_ZN2at4cuda9CUDAGraph19raw_cuda_graph_execEv",
    parameters: ["buffer"],
    result: "u64",
    optional: true,
  },
} as const satisfies Deno.ForeignLibraryInterface;

/**
 * libtorch's C verb for a loop over a range, which calls a function with its begin, its end and a pointer, and catches
 * what that throws. A method without arguments takes the begin for its object.
 */
const guardCall = {
  guard: {
    name: "torch_parallel_for",
    parameters: ["u64", "u64", "i64", "pointer", "pointer"],
    result: "i32",
    optional: true,
  },
} as const satisfies Deno.ForeignLibraryInterface;

const runtimeCalls = {
  beginCapture: { name: "cudaStreamBeginCapture", parameters: ["u64", "i32"], result: "i32" },
  captureStatus: { name: "cudaStreamIsCapturing", parameters: ["u64", "pointer"], result: "i32" },
  endCapture: { name: "cudaStreamEndCapture", parameters: ["u64", "pointer"], result: "i32" },
  destroyGraph: { name: "cudaGraphDestroy", parameters: ["u64"], result: "i32" },
  launch: { name: "cudaGraphLaunch", parameters: ["u64", "u64"], result: "i32" },
  lastError: { name: "cudaGetLastError", parameters: [], result: "i32" },
  errorText: { name: "cudaGetErrorString", parameters: ["i32"], result: "pointer" },
} as const satisfies Deno.ForeignLibraryInterface;

type Calls<I extends Deno.ForeignLibraryInterface> = Deno.DynamicLibrary<I>["symbols"];
type Found = Calls<typeof graphCalls>;
/** Graphs go without these. */
type Spare = "executable" | "pool";
type Methods =
  & { readonly [K in Exclude<keyof Found, Spare>]: NonNullable<Found[K]> }
  & Pick<Found, Spare>;
interface Library {
  readonly methods: Methods;
  readonly runtime: Calls<typeof runtimeCalls>;
  readonly guard: NonNullable<Calls<typeof guardCall>["guard"]>;
}

let library: Library | null | undefined;

/** Null where this libtorch has no graphs. */
function opened(): Library | null {
  if (library !== undefined) return library;
  const { dir } = openedLibtorch(), backend = gpuBackend();
  const calls = namedBy(backend, graphCalls);
  const { executable, pool, ...methods } = Deno.dlopen(`${dir}/${backend.torch}`, calls).symbols;
  const { guard } = Deno.dlopen(`${dir}/libtorch_cpu.so`, guardCall).symbols;
  if (guard === null || Object.values(methods).includes(null)) return library = null;
  const runtime = Deno.dlopen(libraryNamed(backend.runtime), namedBy(backend, runtimeCalls)).symbols;
  return library = {
    methods: { ...methods, executable, pool } as Methods,
    runtime,
    guard: errorText.around(guard),
  };
}

export const hasCudaGraphs = (): boolean => opened() !== null;

export interface CudaGraph {
  /** Names its memory. */
  readonly pool: bigint;
  /** Queues all that was captured, on the current stream. */
  replay(): void;
  /** Its work must be over. */
  free(): void;
}

/** A CUDAGraph takes 480 bytes in 2.15. */
const OBJECT_BYTES = 4096;
/** Other threads may call CUDA meanwhile: loaders pin memory, saves wait for events. */
const THREAD_LOCAL = 1;
const NOT_CAPTURING = 0, INVALIDATED = 2;

/**
 * Captures what `body` queues on the current stream, which is not the default one. Nothing of it runs before the
 * first replay. `draws`: it draws random numbers. `beside`: its replays may use the memory of that graph, but for tensors
 * that still live. Throws what `body` throws; the stream is usable then.
 */
export function captureGraph(
  body: () => void,
  { draws, beside }: { draws: boolean; beside?: CudaGraph },
): CudaGraph {
  const { methods, runtime } = opened()!;
  const stream = currentStream();
  tryToCapture(stream);
  const object = new Uint8Array(new ArrayBuffer(OBJECT_BYTES));
  methods.create(object, true);
  try {
    begin(object, beside?.pool ?? 0n);
    body();
    if (statusOf(stream) === INVALIDATED) {
      throw new LibraryError("CUDA could not capture its work as a graph: a call in it can't be captured.");
    }
    call(object, "end", "end the capture of a graph");
  } catch (error) {
    abandon(object, stream);
    throw error;
  }
  try {
    call(object, "instantiate", "make a graph of what was captured");
  } catch (error) {
    call(object, "reset", "drop a graph");
    runtime.lastError();
    throw error;
  }
  const executable = draws ? null : methods.executable?.(object) ?? null;
  return {
    pool: methods.pool?.(object) ?? 0n,
    // Where generators are to be set, libtorch does it.
    replay: executable === null
      ? () => call(object, "replay", "replay its graph")
      : () => ok(runtime.launch(executable, currentStream()), "replay its graph"),
    free: () => call(object, "reset", "drop a graph"),
  };
}

/**
 * Calls the function at the fourth word that its third argument points to, on the first argument and the three words
 * before: a guarded call of a method with arguments. x86-64, System V.
 */
const WITH_ARGUMENTS = new Uint8Array([
  ...[0x48, 0x8b, 0x42, 0x18], // mov rax, [rdx + 24]
  ...[0x48, 0x8b, 0x32], // mov rsi, [rdx]
  ...[0x8b, 0x4a, 0x10], // mov ecx, [rdx + 16]
  ...[0x48, 0x8b, 0x52, 0x08], // mov rdx, [rdx + 8]
  ...[0xff, 0xe0], // jmp rax
]);
let withArguments: bigint | null | undefined;

function begin(object: Uint8Array<ArrayBuffer>, pool: bigint): void {
  const { guard, methods } = opened()!;
  if (withArguments === undefined) {
    const pages = Deno.build.arch === "x86_64" ? [pagesOfProcess, pagesOfFile] : [];
    withArguments = pages.reduce<bigint | null>((at, way) => at ?? way(WITH_ARGUMENTS), null);
  }
  if (withArguments === null) return methods.begin(object, pool, 0n, THREAD_LOCAL);
  const words = new BigUint64Array(new ArrayBuffer(32));
  words.set([pool, 0n, BigInt(THREAD_LOCAL), Deno.UnsafePointer.value(methods.beginAt)]);
  const at = Deno.UnsafePointer.value(Deno.UnsafePointer.of(object));
  const code = Deno.UnsafePointer.create(withArguments);
  const failed = guard(at, at + 1n, 1n, code, Deno.UnsafePointer.of(words));
  check(failed, `CUDA graph`, () => "begin to capture a graph");
}

/** An empty capture shows that captures can begin: where no code can be loaded, libtorch's own call would end the process. */
function tryToCapture(stream: bigint): void {
  const { runtime } = opened()!;
  try {
    ok(runtime.beginCapture(stream, THREAD_LOCAL), "begin to capture a graph");
    ok(endCapture(stream), "end the capture of a graph");
  } finally {
    leaveCapture(stream);
  }
}

type Guarded = "end" | "instantiate" | "replay" | "reset";

/** Calls a method of libtorch's graph; an exception of C++ becomes an error with its text. */
function call(object: Uint8Array<ArrayBuffer>, method: Guarded, what: string): void {
  const { guard, methods } = opened()!;
  const at = Deno.UnsafePointer.value(Deno.UnsafePointer.of(object));
  check(guard(at, at + 1n, 1n, methods[method], null), `CUDA graph`, () => what);
}

function endCapture(stream: bigint): number {
  const { runtime } = opened()!;
  out[0] = 0n;
  const code = runtime.endCapture(stream, outAt);
  if (out[0] !== 0n) runtime.destroyGraph(out[0]);
  return code;
}

function statusOf(stream: bigint): number {
  outI32[0] = NOT_CAPTURING;
  opened()!.runtime.captureStatus(stream, outAt);
  return outI32[0];
}

/** Drops what was captured, and the error of a capture, which is no error of what comes. */
function leaveCapture(stream: bigint): void {
  if (statusOf(stream) !== NOT_CAPTURING) endCapture(stream);
  opened()!.runtime.lastError();
}

/** Graphs that libtorch's allocator still knows. */
const undead: Uint8Array[] = [];
/** A captured graph is not empty with this in it. */
let mark: Tensor | null = null;

/**
 * The allocator gives a capture's memory back only when libtorch has ended it, which it refuses to do with one that
 * failed. So it ends another one in its place.
 */
function abandon(object: Uint8Array<ArrayBuffer>, stream: bigint): void {
  const { runtime } = opened()!;
  leaveCapture(stream);
  try {
    const present = mark ??= keep(zeros([1], { device: currentCuda() }));
    ok(runtime.beginCapture(stream, THREAD_LOCAL), "begin to capture a graph");
    zero_(present);
    call(object, "end", "end the capture of a graph");
  } catch {
    undead.push(object);
    leaveCapture(stream);
  }
  call(object, "reset", "drop a graph");
}

function ok(code: number, what: string): void {
  if (code === 0) return;
  const at = opened()!.runtime.errorText(code);
  const text = at ? new Deno.UnsafePointerView(at).getCString() : `error ${code}`;
  throw new NativeError("CUDA graph", what, `${gpuBackend().words.runtime} error: ${text}`);
}
