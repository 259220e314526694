// DALI and FFCV beside our loader, where the environment names a Python that has one: hpctrain installs neither.
import { basename } from "paths";
import type { Host } from "./contestant.ts";
import { type DataSet, type Effort, measureSpeed, type Sides, type Speed } from "./loader_sides.ts";

export interface Other {
  readonly title: string;
  /** The variable that names its Python. */
  readonly variable: string;
  /** It is in bench/peers, and says how it reads. */
  readonly program: string;
  /** It prints its version. */
  readonly version: string;
  /** The data sets in which it competes. */
  readonly sets: readonly string[];
  /** The best competes: they are threads, or how pictures lie in the file and threads. */
  readonly ways: readonly string[];
  /** The rest of a sentence says where it differs from the other sides. */
  readonly lacks: string;
}

const ffcv = {
  variable: "HPCTRAIN_BENCH_FFCV",
  program: "loader_ffcv.py",
  version: "from importlib.metadata import version; print(version('ffcv'))",
  sets: ["crops"],
} as const;

export const OTHERS: Readonly<Record<string, Other>> = {
  dali: {
    title: "DALI's pipeline for CPUs",
    variable: "HPCTRAIN_BENCH_DALI",
    program: "loader_dali.py",
    version: "import nvidia.dali; print(nvidia.dali.__version__)",
    sets: ["recipe", "crops"],
    ways: ["2", "4"],
    lacks: "decodes no more of a JPEG than its crop, and erases with bytes near the mean",
  },
  ffcv: {
    ...ffcv,
    title: "FFCV, JPEGs in its file",
    ways: ["jpg-2"],
    lacks:
      "reads one file of its own, which its writer makes of the folder before; has no RandAugment, and no " +
      "erasing but a square of one size in every picture; resizes by the mean of areas, without Pillow's filter; leaves " +
      "batches channels last",
  },
  ffcv_raw: {
    ...ffcv,
    title: "FFCV, pixels in its file",
    ways: ["raw-2"],
    lacks: "does so with pictures that were decoded before, in ten times the room on disk",
  },
};

/** One of them was measured beside our side, in the same rounds. */
export interface Beside {
  readonly set: string;
  readonly other: string;
  readonly version: string;
  readonly speed: Speed;
}

/** Those that can be had here, and what to say of the others. */
export function othersHere(env: (name: string) => string | undefined): { here: string[]; missing: string[] } {
  const names = Object.keys(OTHERS), here = names.filter((name) => env(OTHERS[name].variable));
  const variables = new Set(
    names.filter((name) => !here.includes(name)).map((name) => OTHERS[name].variable),
  );
  return { here, missing: [...variables].map((name) => `${name} names no Python`) };
}

export async function measureOther(
  sides: Sides,
  sets: Readonly<Record<string, DataSet>>,
  { other, set }: { readonly other: string; readonly set: string },
  effort: Effort,
  host: Host,
  python: string,
): Promise<Beside> {
  const { program, version, ways } = OTHERS[other];
  const peer = { program: new URL(`peers/${program}`, import.meta.url).pathname, words: [] };
  const speed = await measureSpeed({ ...sides, python, peer }, { ...sets[set], ways }, effort, host);
  const { stdout, success } = new Deno.Command(python, { args: ["-W", "ignore", "-c", version] })
    .outputSync();
  return {
    set,
    other,
    version: success ? new TextDecoder().decode(stdout).trim().split("\n").at(-1)! : basename(python),
    speed,
  };
}
