// What a kill has left in a run's folder: where it fell, and whether all that was promised is there. Test helper.
import { join } from "paths";
import type { Cursor } from "../../core/checkpoint/training_state.ts";
import { readPt } from "../../core/checkpoint/pt.ts";
import type { Key, Value } from "../../core/checkpoint/value.ts";
import { eventsOf } from "./program.ts";

/** When a kill fell, told by what it left. The last three are in a save: a file is half, whole, or in place and not yet reported. */
export const MOMENTS = ["starting", "training", "writing", "written", "renamed"] as const;
export type Moment = typeof MOMENTS[number];
export const IN_A_SAVE: readonly Moment[] = ["writing", "written", "renamed"];

export interface Found {
  readonly moment: Moment;
  /** Checkpoints that were read back whole. */
  readonly read: number;
  readonly unreadable: string[];
  readonly lost: string[];
}

/** Looks at all that is there; `pid` is the process that was killed. */
export function lookAt(cwd: string, run: string, pid: number): Found {
  const folder = join(cwd, "checkpoints");
  const names = [...Deno.readDirSync(folder)].map(({ name }) => name);
  const checkpoints = names.filter((name) => name.endsWith(".pt"));
  const unreadable: string[] = [], lost: string[] = [];
  const steps = new Map<string, number>();
  for (const name of checkpoints) {
    try {
      steps.set(name, stepOf(join(folder, name)));
    } catch (error) {
      unreadable.push(`${name} after the kill of ${pid}: ${(error as Error).message}`);
    }
  }
  const saves = eventsOf(cwd, run).filter(({ kind }) => kind === "save");
  const promised = (name: string, step: unknown) => {
    const there = steps.get(name) ?? -1;
    if (there < Number(step)) {
      lost.push(`${name} is of step ${there}, and step ${step} was reported as saved`);
    }
  };
  const reported = Number(saves.at(-1)?.step ?? -1);
  if (saves.length > 0) promised(`${run}_latest.pt`, reported);
  const best = saves.findLast(({ reason }) => reason === "best");
  if (best) promised(`${run}_best.pt`, best.step);
  return { moment: momentOf(), read: steps.size, unreadable, lost };

  function momentOf(): Moment {
    const left = names.find((name) => name.startsWith(`.${run}_latest.pt.tmp-`) && name.includes(`-${pid}-`));
    if (left !== undefined) return isWhole(join(folder, left)) ? "written" : "writing";
    if ((steps.get(`${run}_latest.pt`) ?? -1) > reported) return "renamed";
    return eventsOf(cwd, run).some((event) => event.kind === "run" && event.pid === pid)
      ? "training"
      : "starting";
  }
}

/** The step a checkpoint is of, when every checksum in it was compared. */
function stepOf(path: string): number {
  using file = readPt(path);
  file.verify();
  const field = (value: Value | undefined, key: Key) => (value as Map<Key, Value>).get(key);
  return (field(field(file.root, "hpctrain"), "cursor") as unknown as Map<keyof Cursor, number>).get("step")!;
}

function isWhole(path: string): boolean {
  try {
    readPt(path).close();
    return true;
  } catch {
    return false;
  }
}

/** How the ends of two runs differ: files to the last bit, and the losses of all steps. */
export function different(calm: string, storm: string, run: string): string[] {
  const found: string[] = [];
  const files = (cwd: string) =>
    [...Deno.readDirSync(join(cwd, "checkpoints"))].map(({ name }) => name).filter((name) =>
      name.endsWith(".pt")
    )
      .sort();
  const [expected, there] = [files(calm), files(storm)];
  if (expected.join() !== there.join()) found.push(`there are ${there}, and should be ${expected}`);
  for (const name of expected.filter((name) => there.includes(name))) {
    const [a, b] = [calm, storm].map((cwd) => Deno.readFileSync(join(cwd, "checkpoints", name)));
    if (a.length !== b.length || a.some((byte, i) => byte !== b[i])) found.push(`${name} has other bits`);
  }
  const told = (cwd: string) =>
    eventsOf(cwd, run).flatMap(({ kind, step, loss, lr, val_loss }) =>
      kind === "step" || kind === "epoch" || kind === "eval"
        ? [JSON.stringify({ kind, step, loss, lr, val_loss })]
        : []
    );
  const [first, second] = [told(calm), told(storm)];
  const at = first.findIndex((line, i) => line !== second[i]);
  if (at >= 0) found.push(`record ${at} is ${second[at]}, and should be ${first[at]}`);
  else if (second.length > first.length) found.push(`records from ${second[first.length]} on are too many`);
  return found;
}

export function isThere(path: string): boolean {
  try {
    return Deno.statSync(path).isFile;
  } catch {
    return false;
  }
}
