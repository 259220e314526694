// Opens the code that settings name. A checkpoint may come from anywhere: the code that only it names runs
// where the user typed that path for this run, or where the file lies in the current folder and is, byte by
// byte, what the run was made with.
import type { Config } from "../../settings/settings.ts";
import {
  DATA_EXAMPLE,
  hashOfFile,
  isCode,
  isExported,
  isUserFileOpen,
  type LibraryContext,
  noteUserFile,
  openUserFile,
  userFile,
} from "./file.ts";
import { isPython } from "../../base/files.ts";
import { hashOfPython, openPythonFile } from "./python.ts";
import { codeFilesIn } from "../../settings/sections/schedule.ts";
import { LOSS_EXAMPLE, METRICS_EXAMPLE, MODEL_EXAMPLE, OPTIMIZER_EXAMPLE, SCHEDULE_EXAMPLE } from "./made.ts";
import { resolve } from "../../../deps/path.ts";
import { UserError } from "../../base/errors.ts";
import type { Resolved } from "../../settings/resolve.ts";
import { programHash } from "../exported/archive.ts";

type Named = Pick<Config, "model" | "training" | "data">;

/** A file that only a run needs which trains, and not one that answers. */
export interface TrainingCode {
  readonly path: string;
  readonly what: "optimizer" | "schedule";
}

const OF_TRAINING = {
  optimizer: { setting: "training.optimizer.type", flag: "--optimizer", like: OPTIMIZER_EXAMPLE },
  schedule: { setting: "training.scheduler.type", flag: "--scheduler", like: SCHEDULE_EXAMPLE },
} as const;

/** Those of its optimizer and its schedule. */
export const trainingCode = (
  { training: { optimizer, scheduler } }: Pick<Config, "training">,
): readonly TrainingCode[] => [
  ...(isCode(optimizer.type) ? [{ path: optimizer.type, what: "optimizer" } as const] : []),
  ...codeFilesIn(scheduler.type).map((path) => ({ path, what: "schedule" }) as const),
];

/**
 * The files' functions are given `library`; the module at `reader` gives it in other threads. Returns the
 * hash that the settings note.
 */
export async function openUserCode(
  { model, training, data }: Named,
  library: LibraryContext,
  reader: string,
  more: readonly TrainingCode[] = [],
): Promise<string> {
  const wanted = [
    [model.name, "model", MODEL_EXAMPLE],
    [training.loss, "loss", LOSS_EXAMPLE],
    [training.metric, "metrics", METRICS_EXAMPLE],
    [data.code, "data", DATA_EXAMPLE],
    ...more.map(({ path, what }) => [path, what, OF_TRAINING[what].like] as const),
  ] as const;
  const hashes: string[] = [];
  for (const [path, what, like] of wanted) {
    const ofPython = what === "data" && isPython(path);
    if (!isCode(path) && !ofPython) continue;
    if (!isUserFileOpen(path)) {
      const file = ofPython ? await openPythonFile(path) : await openUserFile(path, what, library, like);
      noteUserFile({ ...file, reader });
    }
    hashes.push(userFile(path).hash.slice(0, 16));
  }
  return hashes.join("-");
}

/** The flag names the code of a setting again. */
const NAMES = [
  { setting: "model.name", flag: "--model", of: ({ model }: Resolved["config"]) => model.name },
  { setting: "training.loss", flag: "--loss", of: ({ training }: Resolved["config"]) => training.loss },
  { setting: "training.metric", flag: "--metric", of: ({ training }: Resolved["config"]) => training.metric },
  { setting: "data.code", flag: "--data", of: ({ data }: Resolved["config"]) => data.code },
] as const;

/** The settings keep this much of a hash. */
const HASH_LENGTH = 16;

export const codeHash = async (path: string): Promise<string> =>
  (isExported(path) ? programHash(path) : await (isPython(path) ? hashOfPython : hashOfFile)(path))
    .slice(0, HASH_LENGTH);

/** Refuses what only a checkpoint names and this machine lacks. Call it before any code is opened. */
export async function refuseForeignCode(
  { config, origin }: Resolved,
  more: readonly TrainingCode[] = [],
): Promise<void> {
  const saved = origin("model.code").kind === "checkpoint" ? config.model.code.split("-") : [];
  for (const { setting, flag, of } of NAMES) {
    const path = of(config);
    if (origin(setting).kind === "checkpoint" && (isCode(path) || isPython(path) || isExported(path))) {
      await refuseForeign(path, flag, saved);
    }
  }
  for (const { path, what } of more) {
    const { setting, flag } = OF_TRAINING[what];
    if (origin(setting).kind === "checkpoint") await refuseForeign(path, flag, saved);
  }
  refuseForeignPython(config.data, origin);
}

/** The checkpoint's Python runs the checkpoint's file, which was looked at, or is a program on PATH. */
function refuseForeignPython({ code, python }: Config["data"], origin: Resolved["origin"]): void {
  if (!isPython(code) || !python.includes("/")) return;
  if (origin("data.python").kind !== "checkpoint" || origin("data.code").kind === "checkpoint") return;
  throw new UserError(
    "usage",
    `The checkpoint names the Python ${python} for its own file and not for ${code}, so it is not run: a checkpoint from ` +
      `somebody else could name anything. If it is what you want, say so: --data-python ${python}.`,
  );
}

/** The checkpoint has the hashes `saved` of its code. */
export async function refuseForeign(path: string, flag: string, saved: readonly string[]): Promise<void> {
  const refuse = (what: string): never => {
    throw new UserError(
      "usage",
      `The checkpoint names ${path}, which ${what}, so it is not run: a checkpoint from somebody else could name anything. ` +
        `If it is what you want, say so: ${flag} ${path}.`,
    );
  };
  const place = realPathOf(path);
  if (place === null) return; // Opening it reports the fault.
  const workingFolder = Deno.realPathSync(".");
  if (
    place !== workingFolder && !place.startsWith(workingFolder === "/" ? workingFolder : `${workingFolder}/`)
  ) {
    refuse("lies outside the folder you are in");
  }
  const known = saved.filter((hash) => hash !== "");
  if (isExported(path) && known.length === 0) return; // An older version noted no hash; the operations are ours in any case.
  if (!known.includes(await codeHash(path))) refuse("is not what the run was made with (its hash differs)");
}

function realPathOf(path: string): string | null {
  try {
    return Deno.realPathSync(resolve(path));
  } catch {
    return null;
  }
}
