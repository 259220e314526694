// The runs of a sweep, as `sweep status --json` and `sweep best --json` have them. Test helper.
import { succeed } from "./program.ts";

interface Row {
  readonly run: string;
  readonly state: string;
  readonly metric: number | null;
  readonly values: Record<string, string>;
}

export async function rowsIn(cwd: string, verb = "status"): Promise<Row[]> {
  return JSON.parse((await succeed(["sweep", verb, "--json"], { cwd })).stdout).runs;
}
