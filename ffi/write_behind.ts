// Has the disk begin with a file while it is still being written, so that its fsync has little left to wait for.
// Needs no libtorch. Imports nothing.

const SYMBOLS = {
  open: { parameters: ["buffer", "i32"], result: "i32" },
  fallocate: { parameters: ["i32", "i32", "i64", "i64"], result: "i32" },
  sync_file_range: { parameters: ["i32", "i64", "i64", "u32"], result: "i32" },
  close: { parameters: ["i32"], result: "i32" },
} as const;

const O_WRONLY_CLOEXEC = 0o2000001, KEEP_SIZE = 1, SYNC_FILE_RANGE_WRITE = 2;
/** Asked for in pieces of this: many small ones would cost more than they give. */
const PIECE_BYTES = 16 << 20;

export interface WriteBehind {
  /** All before this place is written, and may go to the disk. */
  until(position: number): void;
  close(): void;
}

/**
 * Of a file that is open elsewhere, and gets about so many bytes: their space is asked for at once, which makes writing
 * cheaper. Nothing here can fail: a file system that refuses any of it is told, or tells, by the writes and the fsync.
 */
export function writeBehind(path: string, bytes: number): WriteBehind {
  const libc = Deno.dlopen("libc.so.6", SYMBOLS);
  const { open, fallocate, sync_file_range, close } = libc.symbols;
  const descriptor = open(new TextEncoder().encode(`${path}\0`), O_WRONLY_CLOEXEC);
  fallocate(descriptor, KEEP_SIZE, 0n, BigInt(bytes));
  let begun = 0;
  return {
    until(position) {
      if (position - begun < PIECE_BYTES) return;
      sync_file_range(descriptor, BigInt(begun), BigInt(position - begun), SYNC_FILE_RANGE_WRITE);
      begun = position;
    },
    close() {
      close(descriptor);
      libc.close();
    },
  };
}
