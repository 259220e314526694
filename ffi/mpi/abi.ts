// The three ways in which MPI libraries spell their handles and constants.
import type { ReduceOp } from "../ranks/transport.ts";

/** Open MPI; MPICH and what keeps to its interface (Intel, Cray, MVAPICH); the interface that MPI 5 fixes for all. */
export type MpiAbi = "openmpi" | "mpich" | "standard";

/** Passed by value: a number in MPICH's interface, as wide as a pointer in the others. */
export type Handle = number | bigint;

export interface Constants {
  readonly world: Handle;
  readonly errorsReturn: Handle;
  readonly types: Readonly<Record<MpiType, Handle>>;
  readonly ops: Readonly<Record<ReduceOp, Handle>>;
  /** In place of the address of what is sent. */
  readonly inPlace: bigint;
  /** In place of the address of a status. */
  readonly noStatus: bigint;
  /** For MPI_Comm_split_type: ranks that can share memory. */
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

/** `addressOf` is asked of Open MPI's symbols only. */
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
