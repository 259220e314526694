// Opens an MPI library and makes its calls, all of them in the thread that opened it. May import its siblings, errors,
// preload.
import { LibraryError } from "../errors.ts";
import { preload } from "../preload.ts";
import {
  type Constants,
  constantsOf,
  type Handle,
  type MpiAbi,
  type MpiType,
  OPEN_MPI_SYMBOLS,
} from "./abi.ts";
import { type Calls, openCalls } from "./calls.ts";
import { BYTES, type Transport } from "../ranks/transport.ts";
import { type MpiWindow, openWindow } from "./window.ts";

/** Of numbers of 16 bits it knows none: not every library has them. */
export interface Mpi extends Transport {
  readonly abi: MpiAbi;
}

/** The most elements that one call counts. */
const MOST = 2 ** 31 - 1;

/** Called between looks at a collective that goes on. */
export type Rest = (looks: number) => void;

/** Without `rest` MPI spins while it waits, which is fastest. `most` elements a call: fewer in tests only. */
export function openMpi(path: string, rest: Rest | null = null, most = MOST): Mpi {
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

/** Of Open MPI's ways to make a window UCX's has nothing to do with one host's memory, and complains without its network. */
function leaveUcxOut(): void {
  if (!Deno.env.has("OMPI_MCA_osc")) Deno.env.set("OMPI_MCA_osc", "^ucx");
}

interface Group {
  readonly comm: () => Handle;
  readonly split: (colour: number) => void;
  /** Where there is one, and all ranks are meant. */
  readonly window: () => MpiWindow | null;
  readonly open: (...all: Parameters<typeof openWindow>) => bigint;
}

/** The communicator of the moment: all ranks, or a part of them. It inherits that errors come back as codes. */
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
      window = openWindow(host, bytes);
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
    if (window?.takes(at, count * BYTES[type])) return window.allReduce(at, count, type, op);
    for (let done = 0; done < count; done += most) {
      const part = Math.min(count - done, most), to = at + BigInt(done * BYTES[type]);
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
    const kind = types[type as MpiType], bytes = BYTES[type];
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

function load(path: string, rest: Rest | null): { calls: Calls; abi: MpiAbi; constants: Constants } {
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
    // MPICH's own library knows the standard interface's functions too: only the name of the file tells.
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

/** Of more bytes than one call of MPI counts: rare enough to open the library for it. */
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

/** The first line, in few words: "Open MPI 5.0.11", "MPICH 5.0.2", "Intel(R) MPI Library 2021.9". */
export const shortVersion = (text: string): string =>
  text.replace(/\0[^]*/, "").split("\n")[0].split(/,| for | \(/)[0]
    .replace(/^MPI VERSION\s*:\s*/i, "").replace(/\bversion\s*:?\s*/i, "").replace(/\bv(?=\d)/, "")
    .replaceAll(/\s+/g, " ").trim();
