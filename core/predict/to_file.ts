// Predictions of all samples, by this rank or by several, to one file. May import data, errors, dist's team, its siblings.
import { temporaryFor } from "../checkpoint/atomic.ts";
import { writing } from "../data/packed/faults.ts";
import type { Source } from "../data/source.ts";
import type { Team } from "../dist/team.ts";
import { UserError } from "../errors.ts";
import { isThere } from "../there.ts";
import { type Column, columnsOf, type Names, type Order, outlineOf } from "./columns.ts";
import { checkRoomFor, writePredictions } from "./file.ts";
import { type Job, predict, shareOf } from "./predict.ts";
import { type Kept, openNamedSpool, openSpool, readSpool, type Spool } from "./spool.ts";

export interface Role {
  /** "train" or "val". */
  readonly role: string;
  readonly source: Source;
}

export interface ToFile {
  readonly out: string;
  readonly roles: readonly Role[];
  readonly order: Order;
  readonly names: Names;
  readonly job: Omit<Job, "take">;
  /** Null for one rank. */
  readonly team: Team | null;
  /** Of the command that was given. */
  readonly command: string;
}

/** What the file has in it, on the rank that wrote it; null on the others. */
export async function predictToFile(given: ToFile): Promise<readonly Column[] | null> {
  const { team } = given;
  const folder = team ? meetingPlace(team, given.out) : null;
  const rank = team?.rank ?? 0, world = team?.world ?? 1;
  const open = ({ role }: Role, rank: number) =>
    folder ? openNamedSpool(folder, `${role}-${rank}`) : openSpool(given.out);
  const own = given.roles.map((role) => ({ ...role, spool: open(role, rank) }));
  try {
    await predictShare(given, own, rank, world);
    if (!team) return write(given, own.map(({ role, spool }) => ({ role, spools: [spool] })));
    for (const { spool } of own) spool.close(); // a shared file system shows others what was closed
    const all = team.hear(
      own.map(({ spool }) => ({ rows: spool.rows(), columns: spool.columns() })),
      "predict",
    );
    return rank === 0 ? merge(given, folder!, all) : null;
  } finally {
    if (!team) { for (const { spool } of own) spool.close(); }
    else if (rank === 0) removeAll(folder!);
  }
}

async function predictShare(
  { out, roles, order, names, job }: ToFile,
  own: readonly { source: Source; spool: Spool }[],
  rank: number,
  world: number,
): Promise<void> {
  const samples = roles.reduce((sum, { source }) => sum + source.length, 0);
  let before = 0, looked = false;
  for (const { source, spool } of own) {
    const range = shareOf(source.length, job.batchSize, rank, world);
    await predict(source, range, {
      ...job,
      poll: (done) => job.poll(before + done),
      take(rows) {
        spool.add(rows);
        if (looked) return;
        looked = true;
        checkRoomFor(out, outlineOf(spool.columns(), samples, order.split && roles.length > 1, names));
      },
    });
    before += range.end - range.from;
  }
}

/** A folder beside the file, which rank 0 makes and all see. */
function meetingPlace(team: Team, out: string): string {
  const made = team.rank === 0 ? temporaryFor(out) : "";
  if (team.rank === 0) writing(out, () => Deno.mkdirSync(made, { recursive: true }));
  const [folder] = team.hear(made, "predict");
  if (isThere(folder)) return folder;
  throw new UserError(
    "usage",
    `Rank ${team.rank} (${Deno.hostname()}) does not see ${folder}, which rank 0 has made: ranks put their predictions together ` +
      "beside --out, so it must be on a file system that all nodes share.",
  );
}

type Told = readonly { readonly rows: number; readonly columns: readonly Kept[] }[];

function merge(given: ToFile, folder: string, all: readonly Told[]): readonly Column[] {
  const parts = given.roles.map(({ role }, i) => ({
    role,
    spools: all.map((told, rank) => readSpool(folder, `${role}-${rank}`, told[i].columns, told[i].rows)),
  }));
  try {
    return write(given, parts);
  } finally {
    for (const { spools } of parts) for (const spool of spools) spool.close();
  }
}

function write(
  { out, order, names, command }: ToFile,
  parts: Parameters<typeof columnsOf>[0],
): readonly Column[] {
  const columns = columnsOf(parts, order, names);
  writePredictions(out, columns, command);
  return columns;
}

function removeAll(folder: string): void {
  try {
    Deno.removeSync(folder, { recursive: true });
  } catch {
    // It is in nobody's way.
  }
}
