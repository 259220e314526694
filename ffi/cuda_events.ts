// CUDA's events, for any thread: a library is given by path, and nothing here is of the process. May import errors.
import { LibraryError } from "./errors.ts";

const verbs = {
  cudaSetDevice: { parameters: ["i32"], result: "i32" },
  cudaEventCreateWithFlags: { parameters: ["buffer", "u32"], result: "i32" },
  cudaEventRecord: { parameters: ["u64", "u64"], result: "i32" },
  cudaStreamWaitEvent: { parameters: ["u64", "u64", "u32"], result: "i32" },
  cudaEventQuery: { parameters: ["u64"], result: "i32" },
  cudaEventElapsedTime: { parameters: ["buffer", "u64", "u64"], result: "i32" },
  cudaThreadExchangeStreamCaptureMode: { parameters: ["buffer"], result: "i32" },
  cudaGetErrorString: { parameters: ["i32"], result: "pointer" },
} as const satisfies Deno.ForeignLibraryInterface;

export interface CudaEvents {
  /** For the calling thread: without it, CUDA would open device 0 for it. */
  useDevice(index: number): void;
  create(timing: boolean): bigint;
  record(event: bigint, stream: bigint): void;
  /** What is queued on the stream from here on begins after the event. */
  wait(stream: bigint, event: bigint): void;
  done(event: bigint): boolean;
  /** Seconds between two events that were made with timing and are done. */
  seconds(from: bigint, to: bigint): number;
  /** Another thread may capture a graph meanwhile: its capture shall not break by what this one asks. */
  besideCapture(): void;
}

const NOT_READY = 600, DISABLE_TIMING = 2, RELAXED = 2;

/** `path` of libcudart. */
export function openCudaEvents(path: string): CudaEvents {
  const { symbols: c } = Deno.dlopen(path, verbs);
  const made = new BigUint64Array(1), ms = new Float32Array(1), mode = new Int32Array(1);
  const check = (code: number, what: string) => {
    if (code === 0) return;
    const at = c.cudaGetErrorString(code);
    const text = at ? new Deno.UnsafePointerView(at).getCString() : `error ${code}`;
    throw new LibraryError(`CUDA could not ${what}: ${text}.`);
  };
  return {
    useDevice: (index) => check(c.cudaSetDevice(index), `use device ${index}`),
    create(timing) {
      check(c.cudaEventCreateWithFlags(made, timing ? 0 : DISABLE_TIMING), "make an event");
      return made[0];
    },
    record: (event, stream) => check(c.cudaEventRecord(event, stream), "record an event"),
    wait: (stream, event) => check(c.cudaStreamWaitEvent(stream, event, 0), "wait for an event"),
    done(event) {
      const code = c.cudaEventQuery(event);
      if (code !== NOT_READY) check(code, "finish what was queued");
      return code === 0;
    },
    seconds(from, to) {
      check(c.cudaEventElapsedTime(ms, from, to), "time its work");
      return ms[0] / 1000;
    },
    besideCapture() {
      mode[0] = RELAXED;
      check(c.cudaThreadExchangeStreamCaptureMode(mode), "leave a capture alone");
    },
  };
}
