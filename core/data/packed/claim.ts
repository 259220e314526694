// A folder to pack into: one plan, one process a rank. May import errors, ffi's lock, its siblings.
import { join } from "../../../deps/path.ts";
import { holdFolder } from "../../../ffi/lock.ts";
import { UserError } from "../../errors.ts";
import { reading } from "./faults.ts";
import { INDEX } from "./format.ts";
import { planText, WORK } from "./index_file.ts";
import { makeFolder, sizeOf, tidy, writeFirst } from "./new_file.ts";
import type { Plan } from "./plan.ts";

export interface Who {
  readonly rank: number;
  readonly world: number;
}

/** Makes the folder this plan's and its rank this process's; gives the function that ends the claim. */
export function claim(plan: Plan, { rank, world }: Who): () => void {
  const { out } = plan;
  const work = join(out, WORK), mine = join(work, `rank-${rank}`);
  makeFolder(out);
  refuseForeign(out);
  makeFolder(mine);
  const release = holdFolder(mine);
  if (!release) {
    throw new UserError(
      "usage",
      `Another process is packing into ${out}${world > 1 ? ` as rank ${rank}` : ""}. ` +
        "Wait for it, or name another folder.",
    );
  }
  try {
    checkPlan(plan);
    tidy(out);
    tidy(work);
  } catch (error) {
    release();
    throw error;
  }
  return release;
}

function refuseForeign(out: string): void {
  const names = [...reading(out, () => Deno.readDirSync(out))].map(({ name }) => name).sort();
  if (names.length === 0 || names.includes(WORK) || names.includes(INDEX)) return;
  const found = names.slice(0, 3).join(", ") + (names.length > 3 ? ", ..." : "");
  throw new UserError("usage", `${out} is not empty (${found}): name a new folder for the packed data.`);
}

/** Whoever comes first says what is packed there; all others have to mean the same. */
export function checkPlan(plan: Plan): void {
  const mine = JSON.parse(planText(plan));
  const index = join(plan.out, INDEX), first = join(plan.out, WORK, "plan.json");
  if (sizeOf(index) < 0) writeFirst(first, planText(plan));
  const theirs = readPlan(sizeOf(index) < 0 ? first : index);
  const differing = [
    "version",
    "encoding",
    "input",
    "target",
    "task",
    "outputs",
    "samples",
    "samples_per_shard",
  ]
    .find((key) => JSON.stringify(theirs[key]) !== JSON.stringify(mine[key]));
  if (!differing && theirs.origin?.hash === mine.origin.hash) return;
  const short = (value: unknown) => String(JSON.stringify(value)).slice(0, 100);
  const what = differing
    ? `its ${differing.replaceAll("_", " ")} is ${short(theirs[differing])}, and now ${
      short(mine[differing])
    }`
    : theirs.origin?.said === mine.origin.said
    ? "its files or settings have changed since"
    : `it comes from ${theirs.origin?.said}, and now from ${mine.origin.said}`;
  throw new UserError(
    "usage",
    `${plan.out} holds other data, packed or half packed: ${what}. Name a new folder, or delete this one first.`,
  );
}

function readPlan(path: string): Record<string, any> {
  try {
    return JSON.parse(Deno.readTextFileSync(path)) ?? {};
  } catch (cause) {
    throw new UserError(
      "usage",
      `${path} can't be read, so what is packed there can't be told. Name a new folder, or delete this one first.`,
      { cause },
    );
  }
}
