// What the programs that people look with make of a folder of logs: TensorBoard, pandas and others. Test helper.
import { forked } from "../../../peer.ts";

export interface Seen {
  /** Of each run, the steps and values of each tag. */
  readonly scalars: Readonly<Record<string, Readonly<Record<string, readonly [number, number][]>>>>;
  readonly histograms: Readonly<
    Record<string, Readonly<Record<string, readonly [number, number, number][]>>>
  >;
  /** Step, width, height as a decoder of PNG has them. */
  readonly images: Readonly<Record<string, Readonly<Record<string, readonly [number, number, number][]>>>>;
  /** What the plugin's own backend says of each run. */
  readonly hparams: readonly {
    readonly name: string;
    readonly status: number;
    readonly hparams: Readonly<Record<string, string | number | boolean>>;
    readonly metrics: Readonly<Record<string, number>>;
  }[];
  /** Of each run, its CSV as pandas reads it; NaN is null. */
  readonly csv: Readonly<Record<string, Readonly<Record<string, readonly (number | null)[]>>>>;
}

/** One process reads everything below `logs`. Infinities and NaN come as texts. */
export const seenBelow = (logs: string): Seen => viewed(new URL("./viewers.py", import.meta.url), logs);

/** The JSON that a program in Python prints of these logs. */
export function viewed<T>(script: URL, logs: string, env: Record<string, string> = {}): T {
  const python = Deno.env.get("HPCTRAIN_VIEWERS_PYTHON");
  if (!python) {
    throw new Error(
      "set HPCTRAIN_VIEWERS_PYTHON to a Python with tensorboard, mlflow and pandas (scripts/lib/environments.sh)",
    );
  }
  const { success, stdout, stderr } = forked(python, [script.pathname, logs], { env }).outputSync();
  if (!success) throw new Error(`Python failed:\n${new TextDecoder().decode(stderr)}`);
  return JSON.parse(new TextDecoder().decode(stdout).split("\n").findLast((line) => /^[{[]/.test(line))!);
}
