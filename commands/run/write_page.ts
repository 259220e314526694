// Writes a page where the user wants it, and says where and how large it is.
import { writeAll, writeAtomically } from "../../core/base/atomic.ts";
import { messageOf, UserError } from "../../core/base/errors.ts";
import { formatBytes } from "../../core/base/format.ts";

/** `flag` is the one that names the file. */
export function writePage(path: string, page: string, flag = "--out"): void {
  const bytes = new TextEncoder().encode(page);
  try {
    writeAtomically(path, (file) => writeAll(file, bytes), { sync: false });
  } catch (error) {
    const why = messageOf(error).replace(/\.$/, "");
    throw new UserError("usage", `${path} can't be written: ${why}. Name another file with ${flag} FILE.`, {
      cause: error,
    });
  }
  console.log(`${path} (${formatBytes(bytes.length)})`);
}
