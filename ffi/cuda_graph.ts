// Work of a stream captured as a CUDA graph, which one call replays. libtorch's own class captures: its
// allocator gives captured work memory of its own, and its generators draw anew in each replay.
import { out, outAt, outI32 } from "./abi.ts";
import { currentStream } from "./cuda.ts";
import { LibraryError } from "./errors.ts";
import { libraryNamed } from "./libraries/elf.ts";
import { openedLibtorch } from "./library.ts";

/** C++ symbols of libtorch_cuda.so. Seen in 2.10 and 2.15 (x86-64, wheels of PyPI). */
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
  end: {
    name: "_ZN2at4cuda9CUDAGraph11capture_endEv",
    parameters: ["buffer"],
    result: "void",
    optional: true,
  },
  replay: { name: "_ZN2at4cuda9CUDAGraph6replayEv", parameters: ["buffer"], result: "void", optional: true },
  reset: { name: "_ZN2at4cuda9CUDAGraph5resetEv", parameters: ["buffer"], result: "void", optional: true },
  /** The graph that the driver launches. */
  executable: {
    name: "_ZN2at4cuda9CUDAGraph19raw_cuda_graph_execEv",
    parameters: ["buffer"],
    result: "u64",
    optional: true,
  },
} as const satisfies Deno.ForeignLibraryInterface;

const runtimeCalls = {
  captureStatus: { name: "cudaStreamIsCapturing", parameters: ["u64", "pointer"], result: "i32" },
  endCapture: { name: "cudaStreamEndCapture", parameters: ["u64", "pointer"], result: "i32" },
  destroyGraph: { name: "cudaGraphDestroy", parameters: ["u64"], result: "i32" },
  launch: { name: "cudaGraphLaunch", parameters: ["u64", "u64"], result: "i32" },
  lastError: { name: "cudaGetLastError", parameters: [], result: "i32" },
  errorText: { name: "cudaGetErrorString", parameters: ["i32"], result: "pointer" },
} as const satisfies Deno.ForeignLibraryInterface;

type Calls<I extends Deno.ForeignLibraryInterface> = Deno.DynamicLibrary<I>["symbols"];
type Graphs = { readonly [K in keyof Calls<typeof graphCalls>]: NonNullable<Calls<typeof graphCalls>[K]> };
interface Library {
  readonly graphs: Omit<Graphs, "executable"> & Pick<Calls<typeof graphCalls>, "executable">;
  readonly runtime: Calls<typeof runtimeCalls>;
}

let library: Library | null | undefined;

/** Null where this libtorch has no graphs. */
function opened(): Library | null {
  if (library !== undefined) return library;
  const found = Deno.dlopen(`${openedLibtorch().dir}/libtorch_cuda.so`, graphCalls).symbols;
  const { create, begin, end, replay, reset, executable } = found;
  if (!create || !begin || !end || !replay || !reset) return library = null;
  const runtime = Deno.dlopen(libraryNamed("libcudart"), runtimeCalls).symbols;
  return library = { graphs: { create, begin, end, replay, reset, executable }, runtime };
}

export const hasCudaGraphs = (): boolean => opened() !== null;

export interface CudaGraph {
  /** Queues all that was captured, on the current stream. */
  replay(): void;
  /** Its work must be over. */
  free(): void;
}

/** A CUDAGraph takes 480 bytes in 2.15. */
const OBJECT_BYTES = 4096;
/** Other threads may call CUDA meanwhile: loaders pin memory, saves wait for events. */
const THREAD_LOCAL = 1;
const INVALIDATED = 2;

/**
 * Captures what `body` queues on the current stream, which is not the default one. Nothing of it runs before the
 * first replay. `draws`: it draws random numbers. Throws what `body` throws; the stream is usable then.
 */
export function captureGraph(body: () => void, draws: boolean): CudaGraph {
  const { graphs, runtime } = opened()!;
  const object = new Uint8Array(new ArrayBuffer(OBJECT_BYTES));
  const stream = currentStream();
  graphs.create(object, false);
  graphs.begin(object, 0n, 0n, THREAD_LOCAL);
  let failed = true;
  try {
    body();
    runtime.captureStatus(stream, outAt);
    failed = outI32[0] === INVALIDATED;
    if (failed) {
      throw new LibraryError("CUDA could not capture its work as a graph: a call in it can't be captured.");
    }
  } finally {
    if (failed) abandon(object, stream);
  }
  graphs.end(object); // would end the process where the capture is not valid
  const { executable } = graphs;
  // libtorch's replay ends the process where the device has failed; it is needed where generators are to be set.
  const launched = !draws && executable !== null ? executable(object) : null;
  return {
    replay: launched === null ? () => graphs.replay(object) : () => {
      const code = runtime.launch(launched, currentStream());
      if (code !== 0) throw new LibraryError(`CUDA could not replay its graph: ${textOf(runtime, code)}.`);
    },
    free: () => graphs.reset(object),
  };
}

/** The capture's graph is dropped, and its memory given back. */
function abandon(object: Uint8Array<ArrayBuffer>, stream: bigint): void {
  const { graphs, runtime } = opened()!;
  out[0] = 0n;
  runtime.endCapture(stream, outAt);
  if (out[0] !== 0n) runtime.destroyGraph(out[0]);
  runtime.lastError(); // the capture's error is no error of what comes
  graphs.reset(object);
}

function textOf({ errorText }: Library["runtime"], code: number): string {
  const at = errorText(code);
  return at ? new Deno.UnsafePointerView(at).getCString() : `error ${code}`;
}
