// NVIDIA's own compiler, which comes with the peer's PyTorch and needs no GPU. Test helper.
import { join } from "paths";
import { existsSync } from "node:fs";

/** The path of NVRTC, or null. */
export function nvrtcOfPeer(): string | null {
  for (const folder of packages("nvidia").flatMap((at) => entries(at).map((name) => join(at, name, "lib")))) {
    const name = entries(folder).find((one) => /^libnvrtc\.so\.\d+$/.test(one));
    if (name) return join(folder, name);
  }
  return null;
}

/** The folders of a package. */
function packages(name: string): string[] {
  const python = Deno.env.get("HPCTRAIN_PYTHON");
  if (!python) return [];
  const lib = join(python, "../../lib");
  return entries(lib).filter((one) => /^python3/.test(one)).map((one) =>
    join(lib, one, "site-packages", name)
  );
}

const entries = (folder: string): string[] =>
  existsSync(folder) ? [...Deno.readDirSync(folder)].map(({ name }) => name) : [];
