// Opens the libtorch under test, the one that HPCTRAIN_LIBTORCH names. Test helper: may import ffi.
import { checkLibtorch, isLibtorch } from "../ffi/libraries/check.ts";
import type { Libtorch } from "../ffi/libraries/types.ts";
import { openLibtorch } from "../ffi/library.ts";

/** Opens libtorch if it is not open yet, and says which it is. */
export function useLibtorch(): Libtorch {
  const dir = Deno.env.get("HPCTRAIN_LIBTORCH");
  if (!dir) throw new Error("set HPCTRAIN_LIBTORCH to a folder with libtorch_cpu.so; ./scripts/test sets it");
  const found = checkLibtorch(dir, "HPCTRAIN_LIBTORCH");
  if (!isLibtorch(found)) throw new Error(`${dir} can't be used: ${found.reason}`);
  openLibtorch(found);
  return found;
}
