// Large pages for memory that is read here and there: a row of it is then found without a walk through page tables.
// Needs no libtorch.
import type { Place } from "./shared_memory.ts";

const MADV_HUGEPAGE = 14;
const HUGE = 2n << 20n;

/** To be asked for before the memory is first written; a machine that has none to give changes nothing. */
export function askForHugePages({ address, bytes }: Place): void {
  const from = (address + HUGE - 1n) / HUGE * HUGE, to = (address + BigInt(bytes)) / HUGE * HUGE;
  if (to <= from) return;
  const libc = Deno.dlopen("libc.so.6", {
    madvise: { parameters: ["usize", "usize", "i32"], result: "i32" },
  });
  try {
    libc.symbols.madvise(from, to - from, MADV_HUGEPAGE);
  } finally {
    libc.close();
  }
}
