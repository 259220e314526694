// Files that other programs write: zarr-python, pyarrow and xarray, in an environment of their own. Test helper.
import { forked } from "../../../peer.ts";

/** Runs Python in `folder` with numpy as np and r as its random numbers; what it prints, as JSON. */
export function writtenBy(folder: string, code: string) {
  const python = Deno.env.get("HPCTRAIN_FORMATS_PYTHON");
  if (!python) {
    throw new Error(
      "set HPCTRAIN_FORMATS_PYTHON to a Python with zarr, pyarrow and xarray (scripts/lib/environments.sh)",
    );
  }
  const head = "import json, os, sys, numpy as np\nr = np.random.default_rng(0)\n";
  const { success, stdout, stderr } = forked(python, ["-c", head + code], { cwd: folder }).outputSync();
  if (!success) throw new Error(`Python failed:\n${new TextDecoder().decode(stderr)}`);
  return JSON.parse(new TextDecoder().decode(stdout) || "null");
}
