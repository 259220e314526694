// NCCL, or RCCL, whose functions have NCCL's names. Libraries are given by path, so that any thread can open them.
import { LibraryError } from "../errors.ts";
import { BACKENDS, type GpuKind, type GpuRuntime, namedBy } from "../gpu/backends.ts";

/** ncclUniqueId is 128 bytes, by value. */
const ID_BYTES = 128;
const uniqueId = { struct: Array<"u64">(ID_BYTES / 8).fill("u64") } as const;

/** Communicators, streams and buffers are addresses, as numbers. */
const ncclSymbols = {
  ncclGetVersion: { parameters: ["buffer"], result: "i32" },
  ncclGetUniqueId: { parameters: ["buffer"], result: "i32" },
  ncclCommInitRankConfig: { parameters: ["buffer", "i32", uniqueId, "i32", "buffer"], result: "i32" },
  ncclCommGetAsyncError: { parameters: ["u64", "buffer"], result: "i32" },
  ncclCommFinalize: { parameters: ["u64"], result: "i32" },
  ncclCommDestroy: { parameters: ["u64"], result: "i32" },
  ncclCommAbort: { parameters: ["u64"], result: "i32" },
  ncclGetErrorString: { parameters: ["i32"], result: "pointer" },
  ncclGetLastError: { parameters: ["u64"], result: "pointer" },
  ncclGroupStart: { parameters: [], result: "i32" },
  ncclGroupEnd: { parameters: [], result: "i32" },
  /** from, to, count, type, op, communicator, stream */
  ncclAllReduce: { parameters: ["u64", "u64", "usize", "i32", "i32", "u64", "u64"], result: "i32" },
  /** from, to, count, type, root, communicator, stream */
  ncclBroadcast: { parameters: ["u64", "u64", "usize", "i32", "i32", "u64", "u64"], result: "i32" },
  /** from, to, count a rank, type, communicator, stream */
  ncclAllGather: { parameters: ["u64", "u64", "usize", "i32", "u64", "u64"], result: "i32" },
  /** from, to, count a rank, type, op, communicator, stream */
  ncclReduceScatter: { parameters: ["u64", "u64", "usize", "i32", "i32", "u64", "u64"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

/**
 * ncclInProgress: the call goes on in a thread of NCCL's; the communicator may not be used before it is done.
 */
const IN_PROGRESS = 7;

/** The numbers are ncclDataType_t's. */
export const NCCL_TYPES = { u8: 1, i32: 2, i64: 4, f16: 6, f32: 7, f64: 8, bf16: 9 } as const;
export type NcclType = keyof typeof NCCL_TYPES;

const OPS = { sum: 0, max: 2, min: 3 } as const;
export type NcclOp = keyof typeof OPS;

const MAGIC = 0xcafebeef, UNDEFINED = -(2 ** 31);

/**
 * ncclConfig_t as NCCL 2.14 had it, which every later one reads: its size, a magic number, its version,
 * `blocking`. Not blocking: a rank that waits for one that never comes can still give up.
 */
export function notBlocking(): Uint8Array<ArrayBuffer> {
  const config = new DataView(new ArrayBuffer(24));
  config.setBigUint64(0, 24n, true);
  config.setUint32(8, MAGIC, true);
  config.setUint32(12, OLDEST_NCCL, true);
  config.setInt32(16, 0, true);
  config.setInt32(20, UNDEFINED, true); // padding then, a field since: "not said"
  return new Uint8Array(config.buffer);
}

/** 2.14.0, as NCCL writes versions. */
const OLDEST_NCCL = 21400;

export const versionText = (code: number): string =>
  [Math.floor(code / 10000), Math.floor(code / 100) % 100, code % 100].join(".");

interface Known {
  readonly before: number;
  readonly arch?: typeof Deno.build.arch;
  readonly what: string;
}

const KNOWN: readonly Known[] = [
  {
    before: 22903,
    arch: "aarch64",
    what: "its ranks can wait for one another for ever on ARM (fixed in 2.29.3)",
  },
];

/** The known fault of a version here, from NCCL's own notes; null where there is none. */
export const knownAgainst = (code: number, arch = Deno.build.arch): string | null =>
  KNOWN.find(({ before, arch: only = arch }) => code < before && only === arch)?.what ?? null;

export type Comm = bigint;

/** Every call but `text` and `failure` gives NCCL's code: 0, IN_PROGRESS, or an error for `text`. */
export interface Nccl {
  readonly version: string;
  readonly against: string | null;
  newId(): Uint8Array;
  /** Returns at once; the communicator is there when `state` is 0. Null where NCCL refused. */
  begin(world: number, id: Uint8Array, rank: number): { comm: Comm; code: number };
  state(comm: Comm): number;
  allReduce(at: bigint, count: number, type: NcclType, op: NcclOp, comm: Comm, stream: bigint): number;
  broadcast(at: bigint, count: number, type: NcclType, root: number, comm: Comm, stream: bigint): number;
  allGather(from: bigint, into: bigint, count: number, type: NcclType, comm: Comm, stream: bigint): number;
  reduceScatter(from: bigint, own: bigint, count: number, type: NcclType, comm: Comm, stream: bigint): number;
  /** Launches the calls of `body` as one. */
  group(body: () => void): number;
  finalize(comm: Comm): number;
  destroy(comm: Comm): number;
  /** Any thread may call it: queued work ends without a result. */
  abort(comm: Comm): number;
  text(code: number, comm?: Comm): string;
}

export function openNccl(path: string, kind: GpuKind = "cuda"): Nccl {
  const { symbols: c, version } = load(path, kind);
  const { collectives: name } = BACKENDS[kind].words;
  const word = new Int32Array(1);
  const text = (code: number, comm: Comm = 0n) => {
    const message = [c.ncclGetErrorString(code), c.ncclGetLastError(comm)]
      .map((at) => at ? new Deno.UnsafePointerView(at).getCString().trim() : "")
      .map((words) => words.replaceAll(/\s*\n\s*/g, "; ").replace(/\.$/, ""));
    return message.filter(Boolean).join(": ") || `error ${code}`;
  };
  return {
    version: kind === "cuda" ? `NCCL ${versionText(version)}` : `RCCL (NCCL ${versionText(version)})`,
    against: kind === "cuda" ? knownAgainst(version) : null,
    newId() {
      const id = new Uint8Array(ID_BYTES);
      const code = c.ncclGetUniqueId(id);
      if (code !== 0) throw new LibraryError(`${name} can't begin a communicator: ${text(code)}.`);
      return id;
    },
    begin(world, id, rank) {
      const comm = new BigUint64Array(1);
      const code = c.ncclCommInitRankConfig(
        comm,
        world,
        id as Uint8Array<ArrayBuffer>,
        rank,
        notBlocking(),
      );
      return { comm: comm[0], code };
    },
    state: (comm) => c.ncclCommGetAsyncError(comm, word) || word[0],
    allReduce: (at, count, type, op, comm, stream) =>
      c.ncclAllReduce(at, at, BigInt(count), NCCL_TYPES[type], OPS[op], comm, stream),
    broadcast: (at, count, type, root, comm, stream) =>
      c.ncclBroadcast(at, at, BigInt(count), NCCL_TYPES[type], root, comm, stream),
    allGather: (from, into, count, type, comm, stream) =>
      c.ncclAllGather(from, into, BigInt(count), NCCL_TYPES[type], comm, stream),
    reduceScatter: (from, own, count, type, comm, stream) =>
      c.ncclReduceScatter(from, own, BigInt(count), NCCL_TYPES[type], OPS.sum, comm, stream),
    group(body) {
      const code = c.ncclGroupStart();
      if (code !== 0) return code;
      try {
        body();
      } finally {
        word[0] = c.ncclGroupEnd();
      }
      return word[0];
    },
    finalize: (comm) => c.ncclCommFinalize(comm),
    destroy: (comm) => c.ncclCommDestroy(comm),
    abort: (comm) => c.ncclCommAbort(comm),
    text,
  };
}

/** The version comes first: an older NCCL lacks functions. */
function load(path: string, kind: GpuKind) {
  const { collectives: [file], words: { collectives: name } } = BACKENDS[kind];
  try {
    const { ncclGetVersion } = ncclSymbols;
    const first = Deno.dlopen(path, { ncclGetVersion });
    const code = new Int32Array(1);
    first.symbols.ncclGetVersion(code);
    const [version] = code;
    if (version < OLDEST_NCCL) {
      throw new Error(`it is version ${versionText(version)}, and 2.14 is the oldest to use`);
    }
    return { symbols: Deno.dlopen(path, ncclSymbols).symbols, version };
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new LibraryError(
      `${path} can't be used as ${name}: ${reason}. Name another with HPCTRAIN_NCCL=/path/to/${file}.`,
      { cause },
    );
  }
}

export const inProgress = (code: number): boolean => code === IN_PROGRESS;

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

/** Only ffi makes and reads this number. */
export type CudaEvent = bigint;

export interface CudaEvents {
  /** It acts on the calling thread: without it, CUDA would open device 0 there. */
  useDevice(index: number): void;
  create(timing: boolean): bigint;
  record(event: bigint, stream: bigint): void;
  /** Work that is queued on the stream from here on begins after the event. */
  wait(stream: bigint, event: bigint): void;
  done(event: bigint): boolean;
  /** Both events need timing and must be done. */
  seconds(from: bigint, to: bigint): number;
  /** Another thread may capture a graph meanwhile: this thread's calls shall not break its capture. */
  besideCapture(): void;
}

const NOT_READY = 600, DISABLE_TIMING = 2, RELAXED = 2;

export function openCudaEvents({ kind, path }: GpuRuntime): CudaEvents {
  const backend = BACKENDS[kind], { words: { runtime } } = backend;
  const { symbols: c } = Deno.dlopen(path, namedBy(backend, verbs));
  const made = new BigUint64Array(1), ms = new Float32Array(1), mode = new Int32Array(1);
  const check = (code: number, what: string) => {
    if (code === 0) return;
    const at = c.cudaGetErrorString(code);
    const text = at ? new Deno.UnsafePointerView(at).getCString() : `error ${code}`;
    throw new LibraryError(`${runtime} could not ${what}: ${text}.`);
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
