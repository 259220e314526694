// Code that a checkpoint names: a checkpoint may come from anywhere, and the path in it with it. It is run where somebody
// typed that path for this run, or where it lies in the folder one is in and is, byte by byte, what the run was made with.
import { resolve } from "../../deps/path.ts";
import { UserError } from "../errors.ts";
import type { Resolved } from "../config/resolve.ts";
import { programHash } from "../models/exported/archive.ts";
import { isExported } from "../models/exported/name.ts";
import { isCode } from "./export.ts";
import { hashOfFile } from "./load.ts";

/** The settings that may name code, and the flag that names it again. */
const NAMES = [
  { setting: "model.name", flag: "--model", of: ({ model }: Resolved["config"]) => model.name },
  { setting: "training.loss", flag: "--loss", of: ({ training }: Resolved["config"]) => training.loss },
  { setting: "training.metric", flag: "--metric", of: ({ training }: Resolved["config"]) => training.metric },
  { setting: "data.code", flag: "--data", of: ({ data }: Resolved["config"]) => data.code },
] as const;

/** How much of a hash the settings keep. */
export const HASH_LENGTH = 16;

/** The hash of a file of the user's own or of an exported program, as the settings keep it. */
export const codeHash = async (path: string): Promise<string> =>
  (isExported(path) ? programHash(path) : await hashOfFile(path)).slice(0, HASH_LENGTH);

/** Refuses what only a checkpoint names and nobody here has. Call it before any of it is opened. */
export async function refuseForeignCode({ config, layer }: Resolved): Promise<void> {
  const saved = layer("model.code") === "checkpoint" ? config.model.code.split("-") : [];
  for (const { setting, flag, of } of NAMES) {
    const path = of(config);
    if (layer(setting) === "checkpoint" && (isCode(path) || isExported(path))) {
      await refuseForeign(path, flag, saved);
    }
  }
}

/** `saved`: the hashes that the checkpoint has of its code. */
export async function refuseForeign(path: string, flag: string, saved: readonly string[]): Promise<void> {
  const refuse = (what: string): never => {
    throw new UserError(
      "usage",
      `The checkpoint names ${path}, which ${what}, so it is not run: a checkpoint from somebody else could name anything. ` +
        `If it is what you want, say so: ${flag} ${path}.`,
    );
  };
  const place = placeOf(path);
  if (place === null) return; // what opens it says so
  const here = Deno.realPathSync(".");
  if (place !== here && !place.startsWith(here === "/" ? here : `${here}/`)) {
    refuse("lies outside the folder you are in");
  }
  const known = saved.filter((hash) => hash !== "");
  if (isExported(path) && known.length === 0) return; // of a version that noted none; its operations are ours in any case
  if (!known.includes(await codeHash(path))) refuse("is not what the run was made with (its hash differs)");
}

function placeOf(path: string): string | null {
  try {
    return Deno.realPathSync(resolve(path));
  } catch {
    return null;
  }
}
