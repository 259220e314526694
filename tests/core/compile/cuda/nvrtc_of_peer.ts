// NVIDIA's own compiler, which comes with the peer's PyTorch and needs no GPU. Test helper.
import { join } from "@std/path";
import { existsSync } from "node:fs";

/** Its path, or null. */
export function nvrtcOfPeer(): string | null {
  const python = Deno.env.get("HPCTRAIN_PYTHON");
  if (!python) return null;
  const lib = join(python, "../../lib");
  const folders = entries(lib).filter((name) => /^python3/.test(name))
    .map((name) => join(lib, name, "site-packages/nvidia"));
  for (const folder of folders.flatMap((at) => entries(at).map((name) => join(at, name, "lib")))) {
    const name = entries(folder).find((one) => /^libnvrtc\.so\.\d+$/.test(one));
    if (name) return join(folder, name);
  }
  return null;
}

const entries = (folder: string): string[] =>
  existsSync(folder) ? [...Deno.readDirSync(folder)].map(({ name }) => name) : [];
