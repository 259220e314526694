// Every rank begins with what rank 0 has: weights, statistics, optimizer, averages, and the place in the run.
// May import ffi, checkpoint, dist, errors.
import { readBytes } from "../../../ffi/make.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import { type Cursor, type Parts, tensorsOf } from "../../checkpoint/training_state.ts";
import { digest } from "../../data/statistics/cache.ts";
import type { Team } from "../../dist/team.ts";
import { UserError } from "../../errors.ts";
import type { Arena } from "../arena.ts";
import type { Zero } from "./zero.ts";

/** Returns rank 0's cursor. */
export function startTogether(
  team: Team,
  parts: Parts,
  arena: Arena,
  average: Tensor | null,
  cursor: Cursor,
  zero: Zero | null = null,
): Cursor {
  const { optimizer, scaler } = parts;
  const [first] = team.hear(
    team.rank === 0 ? { cursor, steps: optimizer.steps, scaler: { ...scaler } } : null,
    "start",
  );
  optimizer.steps = first!.steps;
  if (scaler) Object.assign(scaler, first!.scaler);
  const flat = new Set(arena.parameters); // views of the arena, which goes as a whole
  const state = { ...optimizer, ...zero ? { slots: new Map() } : {} };
  const rest = [...new Set(tensorsOf({ ...parts, optimizer: state, ema: null }))].filter((t) => !flat.has(t));
  for (const t of [arena.flat, ...(average ? [average] : []), ...rest]) team.copyFromFirst(t, "start");
  zero?.scatter();
  refuseDifference(team, arena);
  return first!.cursor;
}

/** A collective that changed a bit would make ranks train different models, without a word. */
function refuseDifference(team: Team, arena: Arena): void {
  const sums = team.hear(digest(readBytes(arena.flat)), "checksum of the weights");
  const other = sums.findIndex((sum) => sum !== sums[0]);
  if (other < 0) return;
  throw new UserError(
    "communication",
    `Rank ${other} has other weights than rank 0 after they were sent to it: the network or its library changes data. ` +
      "Run hpctrain doctor --full, and try another node or --distributed-backend.",
  );
}
