// Reads what --scheduler says: a name, a name with arguments, several with lengths (`linear 500steps > cosine 10ep > constant`), or a
// file of the user's own.
import { type Call, parseCall } from "../../base/calls.ts";
import { UserError } from "../../base/errors.ts";
import { didYouMean, sameName } from "../../base/suggest.ts";
import { isCode } from "../../models/user/file.ts";
import { SCHEDULER_NAMES, SCHEDULER_WORDS, type SchedulerName } from "../../settings/sections/schedule.ts";
import { cycles } from "./cycles.ts";
import { falls } from "./falls.ts";
import type { Kind } from "./law.ts";
import { own } from "./own.ts";
import { plateaus } from "./plateau.ts";

export const KINDS: Readonly<Record<SchedulerName, Kind>> = { ...falls, ...cycles, ...plateaus, ...own };

/** A stretch of the schedule as it was written. */
export interface Written {
  readonly name: SchedulerName;
  readonly call: Call;
  /** "500steps"; null has the rest of the run. */
  readonly length: string | null;
  readonly text: string;
}

const LENGTH = /^(.*\S)\s+(\d[\d.]*(?:e[+-]?\d+)?\s*(?:[a-z]+|%)?)$/is;

export function stretchesOf(scheduler: string): readonly Written[] {
  const parts = partsOf(scheduler), stretches = parts.map((part) => stretchOf(part, scheduler));
  stretches.forEach(({ name, length, text }, i) => {
    const last = i === stretches.length - 1;
    if (length === null && !last) {
      throw wrong(
        scheduler,
        `"${text}" says no length, and only the last stretch has the rest of the run: ` +
          `give one such as "${text} 500steps", "${text} 10ep" or "${text} 20%".`,
      );
    }
    if (name === "plateau" && (!last || length !== null)) {
      throw wrong(
        scheduler,
        "plateau goes by evaluations to the end of the run: let it be the last stretch, without a length.",
      );
    }
  });
  return stretches;
}

const wrong = (scheduler: string, what: string): UserError =>
  new UserError("usage", `--scheduler "${scheduler}": ${what}`);

/** Between ">" that stand in no brackets. */
function partsOf(scheduler: string): string[] {
  const parts = [""];
  let depth = 0;
  for (const sign of scheduler) {
    if ("([".includes(sign)) depth++;
    if (")]".includes(sign)) depth--;
    if (sign === ">" && depth === 0) parts.push("");
    else parts[parts.length - 1] += sign;
  }
  const trimmed = parts.map((part) => part.trim());
  if (trimmed.includes("")) {
    throw wrong(scheduler, 'a stretch is missing beside ">", such as linear 500steps > cosine.');
  }
  return trimmed;
}

function stretchOf(part: string, scheduler: string): Written {
  const found = LENGTH.exec(part),
    [text, length] = found ? [found[1], found[2].replace(/\s/g, "")] : [part, null];
  if (isCode(text) && !text.includes("(")) {
    const call = { name: "lambda", values: [text], named: new Map(), text };
    return { name: "lambda", call, length, text };
  }
  const call = parseCall(text, "--scheduler"), name = kindOf(call.name);
  if (name === undefined) {
    const known = [...SCHEDULER_NAMES, ...Object.keys(SCHEDULER_WORDS)];
    throw wrong(
      scheduler,
      `there is no schedule ${call.name}.${didYouMean(call.name, known)} There are ${
        SCHEDULER_NAMES.join(", ")
      }.`,
    );
  }
  return { name, call, length, text };
}

const kindOf = (name: string): SchedulerName | undefined =>
  Object.hasOwn(SCHEDULER_WORDS, name)
    ? SCHEDULER_WORDS[name]
    : sameName(name, SCHEDULER_NAMES) as SchedulerName | undefined;
