// Reads back what the server has of a run, and tells what differs from the file. May import its siblings.
import { dirname, join } from "../../../../deps/path.ts";
import type { Api } from "./api.ts";
import { type Contents, openContents, type Row } from "./contents.ts";
import { openReading } from "./follow.ts";
import { parseJson, textOfJson, type Tree } from "./json_text.ts";
import { madeFiles, wrapped } from "./made_files.ts";
import { readStart } from "./state.ts";

export interface Verdict {
  readonly rows: number;
  readonly files: number;
  /** Sentences; none where all that can be read back is as it should be. */
  readonly differences: readonly string[];
}

/** The files of one run, in their order: the last one tells how the run stands. */
export async function verifyRun(
  paths: readonly string[],
  { api, version, entity, project }: { api: Api; version: string; entity?: string; project?: string },
): Promise<Verdict> {
  const all = paths.map((path) => readThrough(path, version));
  const rows = all.reduce((sum, { contents }) => sum + contents.counts.rows, 0);
  const { contents, lastRow } = all.at(-1)!;
  const path = paths.at(-1)!;
  const { run } = contents;
  if (run === null) return { rows: 0, files: 0, differences: ["The file has no run in it."] };
  const asked = {
    entity: entity ?? (run.entity || null),
    project: project ?? (run.project || null),
    name: run.id,
  };
  const status = await api.status(asked);
  if (status === null) return { rows: 0, files: 0, differences: [`The server has no run ${run.id}.`] };

  const differences: string[] = [];
  if (status.history < rows) differences.push(`The server has ${status.history} rows of ${rows}.`);
  if (lastRow !== null && status.lastRow !== null) {
    const ours = parseJson(lastRow.text);
    if (ours === null || textOfJson(ours, true) !== textOfJson(status.lastRow, true)) {
      differences.push(`The server's last row is another one than that of step ${lastRow.step}.`);
    }
  }
  differences.push(...differing("summary", contents.summary, status.summary));
  const config = unwrapped(wrapped(contents.config));
  differences.push(...differing("configuration", config, status.config));
  const wanted = filesOf(path, contents);
  const there = await api.files(asked);
  for (const [name, size] of wanted) {
    if (!there.has(name)) differences.push(`The server lacks the file ${name}.`);
    else if (there.get(name) !== size) {
      differences.push(`The server's file ${name} has ${there.get(name)} bytes and not ${size}.`);
    }
  }
  return { rows, files: wanted.size, differences };
}

const MANY = 4 * 2 ** 20;

/** Its rows are counted and let go, but for the last one. */
function readThrough(path: string, version: string): { contents: Contents; lastRow: Row | null } {
  const contents = openContents(version);
  const reading = openReading(path, false);
  let lastRow: Row | null = null;
  let begun = false;
  try {
    for (let all = false; !all;) {
      all = reading.read(contents, () => (!begun && contents.run !== null) || contents.pending >= MANY);
      if (!begun && contents.run !== null) {
        contents.startAt(readStart(path)?.step ?? contents.run.startingStep ?? 0);
        begun = true;
      }
      lastRow = contents.history.rows.at(-1) ?? lastRow;
      contents.history.rows = [];
      contents.events.texts = [];
      contents.output.texts = [];
      contents.pending = 0;
    }
  } finally {
    reading.close();
  }
  contents.end();
  return { contents, lastRow };
}

/** "_wandb" and what the server adds are its own. */
const unwrapped = (config: Tree): Tree =>
  new Map(
    [...config].filter(([key]) => key !== "_wandb").map((
      [key, value],
    ) => [key, (value as Tree).get("value")!]),
  );

function differing(what: string, ours: Tree, theirs: Tree): string[] {
  return [...ours].flatMap(([key, value]) => {
    const found = theirs.get(key);
    if (found !== undefined && textOfJson(found, true) === textOfJson(value, true)) return [];
    return [`The ${what} has another ${JSON.stringify(key.slice(0, 80))} at the server.`];
  });
}

function filesOf(path: string, contents: Contents): Map<string, number> {
  const sizes = new Map<string, number>();
  for (const [name, bytes] of madeFiles(contents)) sizes.set(name, bytes.length);
  for (const name of contents.files.keys()) {
    try {
      const { isFile, size } = Deno.statSync(join(dirname(path), "files", name));
      if (isFile && !sizes.has(name)) sizes.set(name, size);
    } catch {
      // It was never there.
    }
  }
  // The configuration's file also tells which program sent it.
  sizes.delete("config.yaml");
  return sizes;
}
