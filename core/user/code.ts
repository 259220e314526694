// The user's own files that the settings name are opened, before anything is made of them.
// May import config (types), its siblings.
import type { Config } from "../config/settings.ts";
import { LIKE_DATA } from "./data.ts";
import { type Context, isCode, openUserFile } from "./export.ts";
import { LIKE_A_LOSS, LIKE_METRICS } from "./judging.ts";
import { LIKE_A_MODEL } from "./model.ts";
import { isOpen, note, userFile } from "./opened.ts";

type Named = Pick<Config, "model" | "training" | "data">;

/**
 * `library` is what the files' functions are given, and `reader` the address of the module that gives it in other
 * threads. Returns what the settings note of the files: one hash.
 */
export async function openUserCode(
  { model, training, data }: Named,
  library: Context,
  reader: string,
): Promise<string> {
  const wanted = [
    [model.name, "model", LIKE_A_MODEL],
    [training.loss, "loss", LIKE_A_LOSS],
    [training.metric, "metrics", LIKE_METRICS],
    [data.code, "data", LIKE_DATA],
  ] as const;
  const hashes: string[] = [];
  for (const [path, what, like] of wanted) {
    if (!isCode(path)) continue;
    if (!isOpen(path)) note({ ...await openUserFile(path, what, library, like), reader });
    hashes.push(userFile(path).hash.slice(0, 16));
  }
  return hashes.join("-");
}
