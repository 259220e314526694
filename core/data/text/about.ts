// tokens.json stands beside packed tokens and says by what tokenizer they were made, and of how much text.
import { createHash } from "node:crypto";
import { join } from "../../../deps/path.ts";
import { UserError } from "../../base/errors.ts";
import type { Config } from "../../settings/settings.ts";
import { openTokenizer } from "./open.ts";
import type { Tokenizer } from "./tokenizer.ts";

export const ABOUT = "tokens.json";

export interface PartAbout {
  readonly documents: number;
  readonly tokens: number;
  /** The text has so many as UTF-8. */
  readonly bytes: number;
}

export interface About {
  readonly version: 1;
  /** "bytes", or the name of a file in the folder. */
  readonly tokenizer: string;
  readonly pattern?: string;
  readonly vocabulary: number;
  readonly end: number | null;
  readonly train: PartAbout;
  readonly val: PartAbout | null;
}

export const aboutText = (about: About): string => JSON.stringify(about, null, 2) + "\n";

/** Null where the folder has none. */
export function readAbout(folder: string): About | null {
  const path = join(folder, ABOUT);
  let text: string;
  try {
    text = Deno.readTextFileSync(path);
  } catch {
    return null;
  }
  try {
    const about = JSON.parse(text) as About;
    const counts = [about.vocabulary, about.train.tokens, about.train.bytes, about.val?.tokens ?? 0];
    if (about.version === 1 && counts.every(Number.isInteger) && typeof about.tokenizer === "string") {
      return about;
    }
  } catch {
    // It is refused below.
  }
  throw new UserError("data", `${path} is damaged, or of a newer version of hpctrain: pack the text again.`);
}

/** Another tokenizer, or another way to cut texts for it, has another mark; null where none is known. */
export function tokenizerMark({ data_path }: Pick<Config["data"], "data_path">): string | null {
  const about = data_path === "" ? null : readAbout(data_path);
  if (about === null) return null;
  if (about.tokenizer === "bytes") return "bytes";
  const file = Deno.readFileSync(join(data_path, about.tokenizer));
  return createHash("sha256").update(file).update(about.pattern ?? "").digest("hex").slice(0, 16);
}

/** The tokenizer that packed the tokens; null where none is known. */
export function tokenizerBeside({ data_path }: Pick<Config["data"], "data_path">): Tokenizer | null {
  const about = data_path === "" ? null : readAbout(data_path);
  if (about === null) return null;
  return openTokenizer(
    about.tokenizer === "bytes" ? "bytes" : join(data_path, about.tokenizer),
    about.pattern,
  );
}
