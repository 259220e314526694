// Opens NCCL and makes its calls. Collectives are queued on a CUDA stream. May import symbols, ffi errors.
import { LibraryError } from "../errors.ts";
import {
  ID_BYTES,
  IN_PROGRESS,
  knownAgainst,
  type NcclOp,
  type NcclType,
  notBlocking,
  OLDEST,
  OPS,
  symbols,
  TYPES,
  versionText,
} from "./symbols.ts";

/** A communicator, by address. */
export type Comm = bigint;

/** Every call but `text` and `failure` gives NCCL's code: 0, IN_PROGRESS, or what `text` says in words. */
export interface Nccl {
  /** "NCCL 2.30.7". */
  readonly version: string;
  /** What is known against this version, or null. */
  readonly against: string | null;
  newId(): Uint8Array;
  /** Comes back at once; the communicator is there when `state` says 0. Null where NCCL refused. */
  begin(world: number, id: Uint8Array, rank: number): { comm: Comm; code: number };
  /** 0, IN_PROGRESS, or the error that happened meanwhile. */
  state(comm: Comm): number;
  allReduce(at: bigint, count: number, type: NcclType, op: NcclOp, comm: Comm, stream: bigint): number;
  broadcast(at: bigint, count: number, type: NcclType, root: number, comm: Comm, stream: bigint): number;
  allGather(from: bigint, into: bigint, count: number, type: NcclType, comm: Comm, stream: bigint): number;
  reduceScatter(from: bigint, own: bigint, count: number, type: NcclType, comm: Comm, stream: bigint): number;
  /** What is queued inside is launched as one. */
  group(body: () => void): number;
  finalize(comm: Comm): number;
  destroy(comm: Comm): number;
  /** From any thread: what is queued ends without a result. */
  abort(comm: Comm): number;
  /** A code in NCCL's words, with what it noted last. */
  text(code: number, comm?: Comm): string;
}

export function openNccl(path: string): Nccl {
  const { symbols: c, version } = load(path);
  const word = new Int32Array(1);
  const text = (code: number, comm: Comm = 0n) => {
    const said = [c.ncclGetErrorString(code), c.ncclGetLastError(comm)]
      .map((at) => at ? new Deno.UnsafePointerView(at).getCString().trim() : "")
      .map((words) => words.replaceAll(/\s*\n\s*/g, "; ").replace(/\.$/, ""));
    return said.filter(Boolean).join(": ") || `error ${code}`;
  };
  return {
    version: `NCCL ${versionText(version)}`,
    against: knownAgainst(version),
    newId() {
      const id = new Uint8Array(ID_BYTES);
      const code = c.ncclGetUniqueId(id);
      if (code !== 0) throw new LibraryError(`NCCL can't begin a communicator: ${text(code)}.`);
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
      c.ncclAllReduce(at, at, BigInt(count), TYPES[type], OPS[op], comm, stream),
    broadcast: (at, count, type, root, comm, stream) =>
      c.ncclBroadcast(at, at, BigInt(count), TYPES[type], root, comm, stream),
    allGather: (from, into, count, type, comm, stream) =>
      c.ncclAllGather(from, into, BigInt(count), TYPES[type], comm, stream),
    reduceScatter: (from, own, count, type, comm, stream) =>
      c.ncclReduceScatter(from, own, BigInt(count), TYPES[type], OPS.sum, comm, stream),
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

/** Asked before the rest is bound: an older one lacks functions. */
function load(path: string) {
  try {
    const { ncclGetVersion } = symbols;
    const first = Deno.dlopen(path, { ncclGetVersion });
    const code = new Int32Array(1);
    first.symbols.ncclGetVersion(code);
    const [version] = code;
    if (version < OLDEST) {
      throw new Error(`it is version ${versionText(version)}, and 2.14 is the oldest to use`);
    }
    return { symbols: Deno.dlopen(path, symbols).symbols, version };
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new LibraryError(
      `${path} can't be used as NCCL: ${reason}. Name another with HPCTRAIN_NCCL=/path/to/libnccl.so.2.`,
      { cause },
    );
  }
}

export const inProgress = (code: number): boolean => code === IN_PROGRESS;
