import type { ReduceOp } from "../ranks/transport.ts";

/** MPICH's interface is also Intel's, Cray's and MVAPICH's; MPI 5 fixes the standard one for all. */
export type MpiAbi = "openmpi" | "mpich" | "standard";

/** Passed by value: a number in MPICH's interface, as wide as a pointer in the others. */
export type Handle = number | bigint;

export interface Constants {
  readonly world: Handle;
  readonly errorsReturn: Handle;
  readonly types: Readonly<Record<MpiType, Handle>>;
  readonly ops: Readonly<Record<ReduceOp, Handle>>;
  readonly inPlace: bigint;
  readonly noStatus: bigint;
  readonly commShared: number;
  readonly infoNull: Handle;
  /** The level of threads at which one thread alone calls MPI. */
  readonly funneled: number;
}

export type MpiType = "f32" | "f64" | "i32" | "i64" | "u8";

const OPEN_MPI = {
  world: "ompi_mpi_comm_world",
  errorsReturn: "ompi_mpi_errors_return",
  infoNull: "ompi_mpi_info_null",
  types: {
    f32: "ompi_mpi_float",
    f64: "ompi_mpi_double",
    i32: "ompi_mpi_int32_t",
    i64: "ompi_mpi_int64_t",
    u8: "ompi_mpi_uint8_t",
  },
  ops: { sum: "ompi_mpi_op_sum", max: "ompi_mpi_op_max", min: "ompi_mpi_op_min" },
} as const;

/** Open MPI's handles are the addresses of these. */
export const OPEN_MPI_SYMBOLS: readonly string[] = [
  OPEN_MPI.world,
  OPEN_MPI.errorsReturn,
  OPEN_MPI.infoNull,
  ...Object.values(OPEN_MPI.types),
  ...Object.values(OPEN_MPI.ops),
];

const MPICH: Constants = {
  world: 0x44000000,
  errorsReturn: 0x54000001,
  types: { f32: 0x4c00040a, f64: 0x4c00080b, i32: 0x4c000439, i64: 0x4c00083a, u8: 0x4c00013b },
  ops: { sum: 0x58000003, max: 0x58000001, min: 0x58000002 },
  inPlace: 0xffffffffffffffffn, // (void *) -1
  noStatus: 1n,
  commShared: 1,
  infoNull: 0x1c000000,
  funneled: 1,
};

const STANDARD: Constants = {
  world: 0x101n,
  errorsReturn: 0x143n,
  types: { f32: 0x210n, f64: 0x214n, i32: 0x250n, i64: 0x258n, u8: 0x241n },
  ops: { sum: 0x21n, max: 0x23n, min: 0x22n },
  inPlace: 1n,
  noStatus: 0n,
  commShared: 221,
  infoNull: 0x130n,
  funneled: 1024,
};

export function constantsOf(abi: MpiAbi, addressOf: (symbol: string) => bigint): Constants {
  if (abi === "mpich") return MPICH;
  if (abi === "standard") return STANDARD;
  const all = <K extends string>(symbols: Record<K, string>) =>
    Object.fromEntries(
      Object.entries<string>(symbols).map(([name, symbol]) => [name, addressOf(symbol)]),
    ) as Record<K, bigint>;
  return {
    world: addressOf(OPEN_MPI.world),
    errorsReturn: addressOf(OPEN_MPI.errorsReturn),
    types: all(OPEN_MPI.types),
    ops: all(OPEN_MPI.ops),
    inPlace: 1n,
    noStatus: 0n,
    commShared: 0,
    infoNull: addressOf(OPEN_MPI.infoNull),
    funneled: 1,
  };
}

/**
 * `H` is the type of a handle. Counts of the plain functions are 32 bits wide, so large buffers go in pieces.
 */
const interfaceOf = <H extends "i32" | "usize">(H: H) => ({
  MPI_Init_thread: { parameters: ["usize", "usize", "i32", "buffer"], result: "i32" },
  MPI_Finalize: { parameters: [], result: "i32" },
  MPI_Comm_rank: { parameters: [H, "buffer"], result: "i32" },
  MPI_Comm_size: { parameters: [H, "buffer"], result: "i32" },
  MPI_Comm_set_errhandler: { parameters: [H, H], result: "i32" },
  MPI_Comm_split: { parameters: [H, "i32", "i32", "buffer"], result: "i32" },
  MPI_Comm_free: { parameters: ["buffer"], result: "i32" },
  MPI_Comm_split_type: { parameters: [H, "i32", "i32", H, "buffer"], result: "i32" },
  MPI_Win_allocate_shared: { parameters: ["usize", "i32", H, H, "buffer", "buffer"], result: "i32" },
  MPI_Win_shared_query: { parameters: [H, "i32", "buffer", "buffer", "buffer"], result: "i32" },
  MPI_Reduce_local: { parameters: ["usize", "usize", "i32", H, H], result: "i32" },
  MPI_Error_string: { parameters: ["i32", "buffer", "buffer"], result: "i32" },
  MPI_Get_library_version: { parameters: ["buffer", "buffer"], result: "i32" },
  MPI_Barrier: { parameters: [H], result: "i32" },
  MPI_Ibarrier: { parameters: [H, "buffer"], result: "i32" },
  MPI_Iallreduce: { parameters: ["usize", "usize", "i32", H, H, H, "buffer"], result: "i32" },
  MPI_Ireduce: { parameters: ["usize", "usize", "i32", H, H, "i32", H, "buffer"], result: "i32" },
  MPI_Ibcast: { parameters: ["usize", "i32", H, "i32", H, "buffer"], result: "i32" },
  MPI_Iallgather: { parameters: ["usize", "i32", H, "usize", "i32", H, H, "buffer"], result: "i32" },
  MPI_Ireduce_scatter_block: { parameters: ["usize", "usize", "i32", H, H, H, "buffer"], result: "i32" },
  MPI_Test: { parameters: ["buffer", "buffer", "usize"], result: "i32" },
  MPI_Allreduce: { parameters: ["usize", "usize", "i32", H, H, H], result: "i32" },
  MPI_Reduce: { parameters: ["usize", "usize", "i32", H, H, "i32", H], result: "i32" },
  MPI_Bcast: { parameters: ["usize", "i32", H, "i32", H], result: "i32" },
  MPI_Allgather: { parameters: ["usize", "i32", H, "usize", "i32", H, H], result: "i32" },
  MPI_Reduce_scatter_block: { parameters: ["usize", "usize", "i32", H, H, H], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface);

type Out =
  | Uint8Array<ArrayBuffer>
  | Int32Array<ArrayBuffer>
  | BigUint64Array<ArrayBuffer>
  | BigInt64Array<ArrayBuffer>;

/** Handles of either kind; each call gives 0, or a code that MPI_Error_string knows. */
export interface Calls {
  MPI_Init_thread(argc: bigint, argv: bigint, level: number, given: Out): number;
  MPI_Finalize(): number;
  MPI_Comm_rank(comm: Handle, rank: Out): number;
  MPI_Comm_size(comm: Handle, size: Out): number;
  MPI_Comm_set_errhandler(comm: Handle, handler: Handle): number;
  MPI_Comm_split(comm: Handle, colour: number, key: number, into: Out): number;
  MPI_Comm_free(comm: Out): number;
  MPI_Comm_split_type(comm: Handle, type: number, key: number, info: Handle, into: Out): number;
  MPI_Win_allocate_shared(
    bytes: bigint,
    unit: number,
    info: Handle,
    comm: Handle,
    at: Out,
    into: Out,
  ): number;
  MPI_Win_shared_query(window: Handle, rank: number, bytes: Out, unit: Out, at: Out): number;
  MPI_Reduce_local(from: bigint, into: bigint, count: number, type: Handle, op: Handle): number;
  MPI_Error_string(code: number, text: Out, length: Out): number;
  MPI_Get_library_version(text: Out, length: Out): number;
  MPI_Barrier(comm: Handle): number;
  MPI_Allreduce(from: bigint, into: bigint, count: number, type: Handle, op: Handle, comm: Handle): number;
  MPI_Reduce(
    from: bigint,
    into: bigint,
    count: number,
    type: Handle,
    op: Handle,
    root: number,
    comm: Handle,
  ): number;
  MPI_Bcast(at: bigint, count: number, type: Handle, root: number, comm: Handle): number;
  MPI_Allgather(
    from: bigint,
    count: number,
    type: Handle,
    into: bigint,
    intoCount: number,
    intoType: Handle,
    comm: Handle,
  ): number;
  MPI_Reduce_scatter_block(
    from: bigint,
    into: bigint,
    count: number,
    type: Handle,
    op: Handle,
    comm: Handle,
  ): number;
}

/** `rest` runs between looks at a collective that goes on; without it MPI spins. */
export function openCalls(
  path: string,
  handle: "i32" | "usize",
  noStatus: bigint,
  rest: ((polls: number) => void) | null,
): Calls {
  const calls = Deno.dlopen(path, interfaceOf(handle)).symbols as unknown as Calls & Begun;
  if (rest === null) return calls;
  const request = new Int32Array(2), flag = new Int32Array(1); // a request is one word or two
  const ended = (code: number) => {
    for (let polls = 1; code === 0; polls++) {
      code = calls.MPI_Test(request, flag, noStatus);
      if (flag[0] !== 0) break;
      rest(polls);
    }
    return code;
  };
  return {
    ...calls,
    MPI_Barrier: (comm) => ended(calls.MPI_Ibarrier(comm, request)),
    MPI_Allreduce: (from, into, count, type, op, comm) =>
      ended(calls.MPI_Iallreduce(from, into, count, type, op, comm, request)),
    MPI_Reduce: (from, into, count, type, op, root, comm) =>
      ended(calls.MPI_Ireduce(from, into, count, type, op, root, comm, request)),
    MPI_Bcast: (at, count, type, root, comm) => ended(calls.MPI_Ibcast(at, count, type, root, comm, request)),
    MPI_Allgather: (from, count, type, into, intoCount, intoType, comm) =>
      ended(calls.MPI_Iallgather(from, count, type, into, intoCount, intoType, comm, request)),
    MPI_Reduce_scatter_block: (from, into, count, type, op, comm) =>
      ended(calls.MPI_Ireduce_scatter_block(from, into, count, type, op, comm, request)),
  };
}

interface Begun {
  MPI_Ibarrier(...all: [...Parameters<Calls["MPI_Barrier"]>, Out]): number;
  MPI_Iallreduce(...all: [...Parameters<Calls["MPI_Allreduce"]>, Out]): number;
  MPI_Ireduce(...all: [...Parameters<Calls["MPI_Reduce"]>, Out]): number;
  MPI_Ibcast(...all: [...Parameters<Calls["MPI_Bcast"]>, Out]): number;
  MPI_Iallgather(...all: [...Parameters<Calls["MPI_Allgather"]>, Out]): number;
  MPI_Ireduce_scatter_block(...all: [...Parameters<Calls["MPI_Reduce_scatter_block"]>, Out]): number;
  MPI_Test(request: Out, flag: Out, status: bigint): number;
}
