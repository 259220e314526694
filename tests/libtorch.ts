// Opens the libtorch under test, the one that HPCTRAIN_LIBTORCH names.
import { closeFile, openForReading } from "../ffi/libc.ts";
import { openInflate, openLz4, openTurboJpeg, openZstd } from "../ffi/codecs.ts";
import { checkLibtorch, isLibtorch, type Libtorch } from "../ffi/libraries/find.ts";
import { turboJpeg } from "../core/data/images/stored.ts";
import { openLibtorch } from "../ffi/library.ts";
import { pagesOfProcess } from "../ffi/machine_code.ts";

/** Opens libtorch if it is not open yet, and says which it is. */
export function useLibtorch(): Libtorch {
  const dir = Deno.env.get("HPCTRAIN_LIBTORCH");
  if (!dir) throw new Error("set HPCTRAIN_LIBTORCH to a folder with libtorch_cpu.so; ./scripts/test sets it");
  const found = checkLibtorch(dir, "HPCTRAIN_LIBTORCH");
  if (!isLibtorch(found)) throw new Error(`${dir} can't be used: ${found.reason}`);
  openLibtorch(found);
  // What data is read with and code is loaded with stays open, too: opened by a test, it would count as left behind by it.
  closeFile(openForReading("/"));
  pagesOfProcess(Uint8Array.of(0));
  openInflate();
  openZstd();
  openLz4();
  const turbo = turboJpeg();
  if (turbo) openTurboJpeg(turbo);
  return found;
}
