// NCCL's C interface, as far as it is called: functions, numbers, the struct of settings. Imports nothing.

/** ncclUniqueId: 128 bytes, by value. */
export const ID_BYTES = 128;
const uniqueId = { struct: Array<"u64">(ID_BYTES / 8).fill("u64") } as const;

/** Communicators, streams and buffers are addresses, as numbers. */
export const symbols = {
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

/** ncclInProgress: the call goes on in a thread of NCCL's; the communicator may not be used before it is done. */
export const IN_PROGRESS = 7;

/** ncclDataType_t, by our names. */
export const TYPES = { u8: 1, i32: 2, i64: 4, f16: 6, f32: 7, f64: 8, bf16: 9 } as const;
export type NcclType = keyof typeof TYPES;

/** ncclRedOp_t. */
export const OPS = { sum: 0, max: 2, min: 3 } as const;
export type NcclOp = keyof typeof OPS;

const MAGIC = 0xcafebeef, UNDEFINED = -(2 ** 31);

/**
 * ncclConfig_t as NCCL 2.14 had it, which every later one reads: its size, a magic number, its version, `blocking`. Not
 * blocking: a rank that waits for one that never comes can still give up.
 */
export function notBlocking(): Uint8Array<ArrayBuffer> {
  const config = new DataView(new ArrayBuffer(24));
  config.setBigUint64(0, 24n, true);
  config.setUint32(8, MAGIC, true);
  config.setUint32(12, OLDEST, true);
  config.setInt32(16, 0, true);
  config.setInt32(20, UNDEFINED, true); // padding then, a field since: "not said"
  return new Uint8Array(config.buffer);
}

/** 2.14.0, as NCCL writes versions. */
export const OLDEST = 21400;

export const versionText = (code: number): string =>
  [Math.floor(code / 10000), Math.floor(code / 100) % 100, code % 100].join(".");

interface Known {
  /** The first version without it. */
  readonly before: number;
  readonly arch?: typeof Deno.build.arch;
  readonly what: string;
}

/** What is known of released versions, from their own notes. */
const KNOWN: readonly Known[] = [
  {
    before: 22903,
    arch: "aarch64",
    what: "its ranks can wait for one another for ever on ARM (fixed in 2.29.3)",
  },
];

/** Why a version may disappoint here; null where nothing is known against it. */
export const knownAgainst = (code: number, arch = Deno.build.arch): string | null =>
  KNOWN.find(({ before, arch: only = arch }) => code < before && only === arch)?.what ?? null;
