// Whether packed shards are the files that were packed: every byte, against the sums in the index. May import errors,
// format, its siblings.
import { join } from "../../../deps/path.ts";
import { UserError } from "../../errors.ts";
import { formatBytes, formatPlural } from "../../format.ts";
import { readIndex } from "./index_file.ts";
import { sha256Of, sizeOf } from "./new_file.ts";
import { openProgress } from "./progress.ts";

/** One line for the user; throws, and names every shard that is wrong. */
export function verifyShards(folder: string, quiet: boolean): string {
  const { train, val } = readIndex(folder);
  const shards = [...train, ...val];
  const total = shards.reduce((sum, { samples }) => sum + samples, 0);
  const progress = openProgress("Verifying", { quiet });
  const wrong: string[] = [];
  let done = 0;
  for (const { name, bytes, sha256, samples } of shards) {
    const path = join(folder, name), size = sizeOf(path);
    if (size < 0) wrong.push(`${name} is not there`);
    else if (size !== bytes) wrong.push(`${name} has ${size} of ${bytes} bytes`);
    else if (sha256Of(path) !== sha256) wrong.push(`${name} has another checksum`);
    progress.update({ done: done += samples, kept: 0, total });
  }
  progress.clear();
  const size = formatBytes(shards.reduce((sum, { bytes }) => sum + bytes, 0));
  if (wrong.length === 0) {
    return `verified: every checksum is right (${formatPlural(shards.length, "shard")}, ${size})`;
  }
  throw new UserError(
    "data",
    `${folder} is damaged: ${wrong.slice(0, MOST).join(", ")}${wrong.length > MOST ? ", ..." : ""} ` +
      `(${wrong.length} of ${
        formatPlural(shards.length, "shard")
      }). Copy these again, or delete them and run the ` +
      "same pack command again: it writes what is missing.",
  );
}

const MOST = 10;
