// Which libturbojpeg decodes JPEG, if any. May import errors, ffi.
import { join } from "../../../deps/path.ts";
import { findTurboJpeg } from "../../../ffi/jpeg.ts";
import { openedLibtorch } from "../../../ffi/library.ts";
import { UserError } from "../../errors.ts";

/** HPCTRAIN_TURBOJPEG names one, or says "none"; else the machine's, or that of the environment libtorch is in. */
export function turboJpeg(): string | null {
  const named = Deno.env.get("HPCTRAIN_TURBOJPEG");
  if (named === "none") return null;
  if (named) {
    const found = findTurboJpeg([named]);
    if (found) return found;
    throw new UserError(
      "environment",
      `HPCTRAIN_TURBOJPEG is ${named}, which can't be loaded as libturbojpeg. Give the path of libturbojpeg.so.0, ` +
        'or "none".',
    );
  }
  const conda = Deno.env.get("CONDA_PREFIX");
  const name = "libturbojpeg.so.0";
  return findTurboJpeg([
    name,
    ...(conda ? [join(conda, "lib", name)] : []),
    join(openedLibtorch().dir, "../../../..", name), // from lib/python3.*/site-packages/torch/lib
  ]);
}
