// One thread opens MPI and makes all its calls.
import {
  HEAD_BYTES,
  openHostMemory,
  openWindow as openOn,
  prepareHead,
  type Window,
} from "../ranks/window.ts";
import { type Combine, type Transport, TYPE_BYTES } from "../ranks/transport.ts";
import {
  type Calls,
  type Constants,
  constantsOf,
  type Handle,
  type MpiAbi,
  type MpiType,
  OPEN_MPI_SYMBOLS,
  openCalls,
} from "./abi.ts";
import { LibraryError } from "../errors.ts";
import { preload } from "../preload.ts";

interface MpiWindow extends Pick<Window, "takes" | "allReduce" | "barrier"> {
  /** The caller's part of this rank's memory begins here. */
  readonly address: bigint;
}

interface MpiForWindow {
  readonly calls: Calls;
  readonly constants: Constants;
  readonly wide: boolean;
  readonly rank: number;
  readonly size: number;
  readonly check: (code: number, verb: string) => void;
  readonly least: (value: number) => number;
}

const PAGE = 4096;
const CHUNK = 64 * 1024;

/**
 * Every rank calls it; null on all where they are not all on one host, or its shared memory has no room for
 * it.
 */
function openMpiWindow(host: MpiForWindow, bytes: number): MpiWindow | null {
  const { calls, constants, wide, rank, size, check, least } = host;
  const own = HEAD_BYTES + Math.ceil(bytes / PAGE) * PAGE;
  const memory = openHostMemory();
  if (least(memory?.hasFree(own * size) ? 1 : 0) === 0 || memory === null) return null;
  const word = () => wide ? new BigUint64Array(1) : new Int32Array(2);
  const node = word(), window = word(), count = new Int32Array(1);
  const { world, commShared, infoNull } = constants;
  check(calls.MPI_Comm_split_type(world, commShared, rank, infoNull, node), "Comm_split_type");
  const comm = node[0] as Handle;
  check(calls.MPI_Comm_size(comm, count), "Comm_size");
  if (least(count[0]) < size) return null;
  const at = new BigUint64Array(1);
  const failed = calls.MPI_Win_allocate_shared(BigInt(own), 1, infoNull, comm, at, window);
  if (least(failed === 0 ? 1 : 0) === 0) return null;
  const heads = Array.from({ length: size }, (_, of) => {
    const length = new BigInt64Array(1), unit = new Int32Array(1);
    check(calls.MPI_Win_shared_query(window[0] as Handle, of, length, unit, at), "Win_shared_query");
    return at[0];
  });
  prepareHead(heads[rank], memory);
  check(calls.MPI_Barrier(world), "Barrier");
  const data = heads.map((head) => head + BigInt(HEAD_BYTES));
  const combine = combineBy(host, memory.copy);
  return {
    ...openOn({ rank, heads, data, bytes: own - HEAD_BYTES, host: memory, combine, bank: 0 }),
    address: data[rank],
  };
}

/** MPI computes in the result's memory. */
function combineBy(
  { calls, constants: { types, ops }, check }: MpiForWindow,
  copy: (into: bigint, from: bigint, bytes: bigint) => void,
): Combine {
  return (sources, [into, ...copies], count, type, op) => {
    const wide = TYPE_BYTES[type], step = CHUNK / wide;
    for (let from = 0; from < count; from += step) {
      const part = Math.min(step, count - from), at = BigInt(from * wide), bytes = BigInt(part * wide);
      if (into !== sources[0]) copy(into + at, sources[0] + at, bytes);
      for (let i = 1; i < sources.length; i++) {
        const code = calls.MPI_Reduce_local(
          sources[i] + at,
          into + at,
          part,
          types[type as MpiType],
          ops[op],
        );
        check(code, "Reduce_local");
      }
      for (const to of copies) copy(to + at, into + at, bytes);
    }
  };
}

/** Not every MPI knows numbers of 16 bits, so it has none. */
interface Mpi extends Transport {
  readonly abi: MpiAbi;
}

const MOST = 2 ** 31 - 1;

type OnWait = (looks: number) => void;

/** Without `rest` MPI spins while it waits, which is fastest. `most` elements a call: fewer in tests only. */
export function openMpi(path: string, rest: OnWait | null = null, most = MOST): Mpi {
  preload(path);
  const { calls, abi, constants } = load(path, rest);
  const check = (code: number, verb: string) => {
    if (code !== 0) throw new LibraryError(`MPI_${verb}: ${errorText(calls, code)}`);
  };
  const number = new Int32Array(1);
  if (abi === "openmpi") leaveUcxOut();
  check(calls.MPI_Init_thread(0n, 0n, constants.funneled, number), "Init_thread");
  check(calls.MPI_Comm_set_errhandler(constants.world, constants.errorsReturn), "Comm_set_errhandler");
  check(calls.MPI_Comm_rank(constants.world, number), "Comm_rank");
  const [rank] = number;
  check(calls.MPI_Comm_size(constants.world, number), "Comm_size");
  const [size] = number;
  const group = openGroup(calls, constants, abi, check, rank);
  const wide = abi !== "mpich";
  const least = (value: number) => {
    number[0] = value;
    const at = Deno.UnsafePointer.value(Deno.UnsafePointer.of(number));
    const { inPlace, types, ops, world } = constants;
    check(calls.MPI_Allreduce(inPlace, at, 1, types.i32, ops.min, world), "Allreduce");
    return number[0];
  };
  return {
    ...verbs(calls, constants, check, most, rank, size, group),
    abi,
    version: versionText(calls),
    rank,
    size,
    barrier() {
      const window = group.window();
      if (window) window.barrier();
      else check(calls.MPI_Barrier(group.comm()), "Barrier");
    },
    split: group.split,
    share: (bytes) => group.open({ calls, constants, wide, rank, size, check, least }, bytes),
    finalize: () => check(calls.MPI_Finalize(), "Finalize"),
  };
}

/**
 * UCX is one of Open MPI's ways to make a window. It is no use for one host's memory, and complains without
 * its network.
 */
function leaveUcxOut(): void {
  if (!Deno.env.has("OMPI_MCA_osc")) Deno.env.set("OMPI_MCA_osc", "^ucx");
}

interface Group {
  readonly comm: () => Handle;
  readonly split: (colour: number) => void;
  /** Null without a window, or where only a part of the ranks is meant. */
  readonly window: () => MpiWindow | null;
  readonly open: (...all: Parameters<typeof openMpiWindow>) => bigint;
}

/** The current communicator: all ranks, or a part of them. It inherits that errors come back as codes. */
function openGroup(
  calls: Calls,
  { world }: Constants,
  abi: MpiAbi,
  check: (code: number, verb: string) => void,
  rank: number,
): Group {
  const own = abi === "mpich" ? new Int32Array(2) : new BigUint64Array(1);
  let comm: Handle = world, window: MpiWindow | null = null;
  return {
    comm: () => comm,
    window: () => comm === world ? window : null,
    open(host, bytes) {
      window = openMpiWindow(host, bytes);
      return window?.address ?? 0n;
    },
    split(colour) {
      if (comm !== world) check(calls.MPI_Comm_free(own), "Comm_free");
      comm = world;
      if (colour < 0) return;
      check(calls.MPI_Comm_split(world, colour, rank, own), "Comm_split");
      comm = own[0];
    },
  };
}

type Verbs = Pick<Mpi, "allReduce" | "broadcast" | "allGather" | "reduceScatter">;

function verbs(
  calls: Calls,
  { world, types, ops, inPlace }: Constants,
  check: (code: number, verb: string) => void,
  most: number,
  rank: number,
  size: number,
  group: Group,
): Verbs {
  const broadcast: Verbs["broadcast"] = (at, bytes, root) => {
    for (let done = 0; done < bytes; done += most) {
      const part = Math.min(bytes - done, most);
      check(calls.MPI_Bcast(at + BigInt(done), part, types.u8, root, world), "Bcast");
    }
  };
  const allReduce: Verbs["allReduce"] = (at, count, type, op) => {
    const window = group.window();
    if (window?.takes(at, count * TYPE_BYTES[type])) return window.allReduce(at, count, type, op);
    for (let done = 0; done < count; done += most) {
      const part = Math.min(count - done, most), to = at + BigInt(done * TYPE_BYTES[type]);
      check(
        calls.MPI_Allreduce(inPlace, to, part, types[type as MpiType], ops[op], group.comm()),
        "Allreduce",
      );
    }
  };
  // In pieces, the parts of the ranks are not beside each other: one rank after the other.
  const allGather: Verbs["allGather"] = (into, own, bytes) => {
    if (bytes <= most) {
      return check(calls.MPI_Allgather(own, bytes, types.u8, into, bytes, types.u8, world), "Allgather");
    }
    copy(into + BigInt(rank * bytes), own, bytes);
    for (let root = 0; root < size; root++) broadcast(into + BigInt(root * bytes), bytes, root);
  };
  const reduceScatter: Verbs["reduceScatter"] = (own, from, count, type) => {
    const kind = types[type as MpiType], bytes = TYPE_BYTES[type];
    if (count <= most) {
      const code = calls.MPI_Reduce_scatter_block(from, own, count, kind, ops.sum, world);
      return check(code, "Reduce_scatter_block");
    }
    for (let root = 0; root < size; root++) {
      for (let done = 0; done < count; done += most) {
        const part = Math.min(count - done, most);
        const of = from + BigInt((root * count + done) * bytes), to = own + BigInt(done * bytes);
        check(calls.MPI_Reduce(of, to, part, kind, ops.sum, root, world), "Reduce");
      }
    }
  };
  return { allReduce, broadcast, allGather, reduceScatter };
}

function load(path: string, rest: OnWait | null): { calls: Calls; abi: MpiAbi; constants: Constants } {
  try {
    const statics = Deno.dlopen(
      path,
      Object.fromEntries(
        OPEN_MPI_SYMBOLS.map((name) => [name, { type: "pointer", optional: true } as const]),
      ),
    ).symbols as Record<string, Deno.PointerValue>;
    const address = (symbol: string) => {
      const at = statics[symbol];
      if (!at) throw new Error(`it lacks the symbol ${symbol}`);
      return Deno.UnsafePointer.value(at);
    };
    // MPICH's own library knows the standard interface's functions too: only the name of the file decides.
    const abi = statics[OPEN_MPI_SYMBOLS[0]]
      ? "openmpi"
      : /\/?libmpi_abi[^/]*$/.test(path)
      ? "standard"
      : "mpich";
    const constants = constantsOf(abi, address);
    return {
      calls: openCalls(path, abi === "mpich" ? "i32" : "usize", constants.noStatus, rest),
      abi,
      constants,
    };
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new LibraryError(`${path} can't be used as an MPI library: ${reason}.`, { cause });
  }
}

/** Moves more bytes than one call of MPI counts: rare enough to open the library for it. */
function copy(into: bigint, from: bigint, bytes: number): void {
  const libc = Deno.dlopen("libc.so.6", {
    memcpy: { parameters: ["usize", "usize", "usize"], result: "usize" },
  });
  libc.symbols.memcpy(into, from, BigInt(bytes));
  libc.close();
}

const TEXT = 8192; // MPI_MAX_LIBRARY_VERSION_STRING of MPICH, the largest

function errorText(calls: Calls, code: number): string {
  const text = new Uint8Array(TEXT), length = new Int32Array(1);
  if (calls.MPI_Error_string(code, text, length) !== 0) return `error ${code}`;
  return new TextDecoder().decode(text.subarray(0, length[0])).trim().replaceAll(/\s*\n\s*/g, "; ");
}

/** MPICH prints its whole configuration, Open MPI who built it. */
function versionText(calls: Calls): string {
  const text = new Uint8Array(TEXT), length = new Int32Array(1);
  if (calls.MPI_Get_library_version(text, length) !== 0) return "an MPI of unknown version";
  return shortVersion(new TextDecoder().decode(text.subarray(0, length[0])));
}

/** "Open MPI 5.0.11", "MPICH 5.0.2", "Intel(R) MPI Library 2021.9". */
export const shortVersion = (text: string): string =>
  text.replace(/\0[^]*/, "").split("\n")[0].split(/,| for | \(/)[0]
    .replace(/^MPI VERSION\s*:\s*/i, "").replace(/\bversion\s*:?\s*/i, "").replace(/\bv(?=\d)/, "")
    .replaceAll(/\s+/g, " ").trim();

const VERSION_BYTES = 8192; // MPI_MAX_LIBRARY_VERSION_STRING of MPICH, the largest

/** "Open MPI 5.0.11"; or null where the library can't be loaded. */
export function mpiVersion(path: string): string | null {
  try {
    const { symbols, close } = libraryAt(path);
    const text = new Uint8Array(VERSION_BYTES), length = new Int32Array(1);
    const code = symbols.MPI_Get_library_version(text, length);
    if (code !== 0) close();
    return code === 0 ? shortVersion(new TextDecoder().decode(text.subarray(0, length[0]))) : null;
  } catch {
    return null;
  }
}

/** It stays open once it has answered: some MPI libraries don't survive being closed. */
function libraryAt(path: string) {
  const library = Deno.dlopen(path, {
    MPI_Get_library_version: { parameters: ["buffer", "buffer"], result: "i32" },
  });
  return { symbols: library.symbols, close: () => library.close() };
}
