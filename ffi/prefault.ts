// Gives memory its pages before it is first written, from a thread that has time. Needs no libtorch.
import type { Place } from "./shared_memory.ts";

const MADV_POPULATE_WRITE = 23; // Linux 5.14; an older one refuses it, and the pages come when they are written
const PAGE = 4096n;

/** Changes no byte, so the memory may be in use. */
export function prefault({ address, bytes }: Place): void {
  const from = (address + PAGE - 1n) / PAGE * PAGE, to = (address + BigInt(bytes)) / PAGE * PAGE;
  if (to <= from) return;
  const libc = Deno.dlopen("libc.so.6", {
    madvise: { parameters: ["usize", "usize", "i32"], result: "i32" },
  });
  try {
    libc.symbols.madvise(from, to - from, MADV_POPULATE_WRITE);
  } finally {
    libc.close();
  }
}
