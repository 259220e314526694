// Zlib data unpacked: by libdeflate where the machine has it (it takes half the time), by the runtime otherwise.
// Needs no libtorch. Imports nothing.
import { inflateSync } from "node:zlib";

const SYMBOLS = {
  libdeflate_alloc_decompressor: { parameters: [], result: "pointer" },
  libdeflate_zlib_decompress: {
    parameters: ["pointer", "buffer", "usize", "buffer", "usize", "pointer"],
    result: "i32",
  },
} as const;

export type Inflate = (packed: Uint8Array<ArrayBuffer>, into: Uint8Array<ArrayBuffer>) => boolean;

let usual: Inflate | undefined;

/** This thread's: what it gives fills `into` exactly, with true; with false the data does anything else. */
export const openInflate = (): Inflate => usual ??= byLibdeflate("libdeflate.so.0") ?? byRuntime;

function byLibdeflate(name: string): Inflate | null {
  let symbols: Deno.DynamicLibrary<typeof SYMBOLS>["symbols"];
  try {
    symbols = Deno.dlopen(name, SYMBOLS).symbols;
  } catch {
    return null; // not on this machine
  }
  const { libdeflate_alloc_decompressor: alloc, libdeflate_zlib_decompress: unpack } = symbols;
  const state = alloc(); // as long as the thread lives
  if (state === null) return null;
  // Without a place for the count it takes nothing but exactly as many bytes as there is room for.
  return (packed, into) =>
    unpack(state, packed, BigInt(packed.length), into, BigInt(into.length), null) === 0;
}

export const byRuntime: Inflate = (packed, into) => {
  try {
    // One byte above what is expected is enough to see more; all at once is twice as fast as in small pieces.
    const bytes = inflateSync(packed, { maxOutputLength: into.length + 1, chunkSize: into.length + 64 });
    if (bytes.length !== into.length) return false;
    into.set(bytes);
    return true;
  } catch {
    return false;
  }
};
