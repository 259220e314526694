// A search in a folder of its own. Test helper.
import { join } from "paths";
import { writeSweep } from "../../../../core/cluster/sweep/runs.ts";
import { parseSearchFile } from "../../../../core/cluster/sweep/space.ts";
import type { SearchSweep } from "../../../../core/cluster/sweep/trials.ts";

const SPACE =
  "space: {lr: {log: [1e-5, 1e-1]}, hidden-size: {int: [8, 64]}, optimizer: {choice: [adamw, sgd]}}";

export async function inSweep(
  given: { kind?: string; maxRuns: number },
  body: (folder: string, sweep: SearchSweep) => Promise<void> | void,
): Promise<void> {
  const saveDir = Deno.makeTempDirSync(), folder = join(saveDir, "sweeps/s");
  const { kind = "random", maxRuns } = given;
  const sweep: SearchSweep = {
    ...{ format: 1, version: "0", name: "s", command: [], saveDir, metric: "val_loss", runs: [], fixed: [] },
    goal: "minimize",
    search: { kind, space: parseSearchFile(SPACE, "file").space, maxRuns, seed: 1, rungs: null },
  };
  writeSweep(folder, sweep);
  try {
    await body(folder, sweep);
  } finally {
    Deno.removeSync(saveDir, { recursive: true });
  }
}
