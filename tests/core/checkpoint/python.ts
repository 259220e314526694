// Runs a Python program beside the code under test: the peer that must agree with us. Test helper.

import { peer } from "../../peer.ts";

/** Runs `source` with `args`; its standard output. HPCTRAIN_PYTHON names a Python that has torch. */
export function python(source: string, ...args: string[]): string {
  const result = peer(["-c", source, ...args]).outputSync();
  if (!result.success) throw new Error(`the Python peer failed:\n${new TextDecoder().decode(result.stderr)}`);
  return new TextDecoder().decode(result.stdout);
}

/** A folder that is gone when the test ends. */
export function inFolder(test: (folder: string) => void | Promise<void>): () => Promise<void> {
  return async () => {
    const folder = await Deno.makeTempDir();
    try {
      await test(folder);
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  };
}
