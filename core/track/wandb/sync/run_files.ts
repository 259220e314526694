// The files of a run: those that its records name, and those that are made from the records. May import api, contents,
// made_files, core/errors, core/format and @std/path.
import { isAbsolute, join, normalize } from "../../../../deps/path.ts";
import { UserError } from "../../../errors.ts";
import { formatBytes } from "../../../format.ts";
import type { Api, Place } from "./api.ts";
import type { Contents } from "./contents.ts";
import { madeFiles } from "./made_files.ts";

/** What is larger is left out: it would have to lie in memory. */
const MAX_FILE = 2 ** 31 - 1;
const AT_ONCE = 4, NAMES_AT_ONCE = 200;

export interface RunFiles {
  /** Uploads what was not yet; `all` also what changes up to the run's end. Paths that are at the server now. */
  upload(contents: Contents, place: Place, all: boolean): Promise<readonly string[]>;
}

export function openRunFiles(api: Api, folder: string, say: (sentence: string) => void): RunFiles {
  const there = new Set<string>();
  const told = new Set<string>();
  const tell = (path: string, sentence: string) => {
    if (!told.has(path)) say(sentence);
    told.add(path);
  };

  return {
    async upload(contents, place, all) {
      const made = all ? madeFiles(contents) : new Map<string, Uint8Array<ArrayBuffer>>();
      const named = [...contents.files.values()]
        .filter(({ path, policy }) => !there.has(path) && !made.has(path) && (all || policy === "now"))
        .map(({ path }) => path);
      const found = named.filter((path) => isReadable(folder, path, all ? tell : () => {}));
      const paths = [...made.keys(), ...found];
      for (let i = 0; i < paths.length; i += NAMES_AT_ONCE) {
        const some = paths.slice(i, i + NAMES_AT_ONCE);
        const { urls, headers } = await api.uploadUrls(place, some);
        await inTurns(some, async (path) => {
          const bytes = made.get(path) ?? read(folder, path);
          if (bytes === null) {
            return tell(path, `The file ${path} can't be read any more; the run goes without.`);
          }
          await api.put(urls.get(path)!, headers, bytes, path);
          there.add(path);
        });
      }
      return [...there];
    },
  };
}

/** Below the run's own folder, and a file: a damaged or hostile .wandb file may name any other. */
function isReadable(folder: string, path: string, tell: (path: string, sentence: string) => void): boolean {
  const shown = JSON.stringify(path.slice(0, 200));
  if (path === "" || isAbsolute(path) || normalize(path).startsWith("..") || path.includes("\0")) {
    tell(path, `The file ${shown} lies outside of the run's folder; it is not uploaded.`);
    return false;
  }
  try {
    const place = join(folder, path);
    if (!isInside(folder, place)) {
      tell(path, `The file ${shown} is a link out of the run's folder; it is not uploaded.`);
      return false;
    }
    const { isFile, size } = Deno.statSync(place);
    if (!isFile) return false;
    if (size <= MAX_FILE) return true;
    tell(path, `The file ${shown} has ${formatBytes(size)}, more than can be uploaded; it is left out.`);
  } catch {
    tell(path, `The file ${shown} is not there (any more); the run goes without.`);
  }
  return false;
}

/** Where all links end: on the way to a file, too, a folder may be one. */
function isInside(folder: string, path: string): boolean {
  return Deno.realPathSync(path).startsWith(`${Deno.realPathSync(folder)}/`);
}

function read(folder: string, path: string): Uint8Array<ArrayBuffer> | null {
  try {
    const place = join(folder, path);
    return isInside(folder, place) ? Deno.readFileSync(Deno.realPathSync(place)) : null;
  } catch {
    return null;
  }
}

/** A few at once; the first failure is told when the others have ended. */
async function inTurns<T>(list: readonly T[], each: (one: T) => Promise<void>): Promise<void> {
  const rest = [...list];
  const turn = async () => {
    for (let one = rest.shift(); one !== undefined; one = rest.shift()) await each(one);
  };
  const ended = await Promise.allSettled(Array.from({ length: AT_ONCE }, turn));
  const failed = ended.find((end) => end.status === "rejected");
  if (failed) {
    throw failed.reason instanceof Error
      ? failed.reason
      : new UserError("communication", String(failed.reason));
  }
}
