// A run's part in a group of ranks: shares of a batch, reports, a common start, shared cores.
import { type DType, isFloating } from "../../ffi/dtype.ts";
import { type Device, keep, scope, type Tensor } from "../../ffi/tensor.ts";
import type { Control } from "../ranks/control/control.ts";
import type { Team } from "../ranks/team.ts";
import type { RunningMetrics } from "./running_metrics.ts";
import type { Requests } from "./stop.ts";
import { fill_, readBytes, scalar, toNumbers, zeros } from "../../ffi/make.ts";
import { clone, copy_, div, reshape, square, sum, toDtype } from "../../ffi/ops.ts";
import type { Loss } from "../models/losses.ts";
import { itemsOf, type MicroBatch, type Share } from "./micro_batch.ts";
import { type Account, byPart, ownWork, type Spent, spentBetween, type TimeMark } from "../run/account.ts";
import type { RanksEvent } from "../run/events.ts";
import type { Arena } from "./arena.ts";
import { numbersBeside } from "../checkpoint/optimizer_state.ts";
import { type Cursor, type StateParts, tensorsOf } from "../checkpoint/training_state.ts";
import { digest } from "../data/arrays/remembered.ts";
import { UserError } from "../base/errors.ts";
import type { Zero } from "./gradients/zero.ts";
import type { Saver } from "./save.ts";
import { setThreads } from "../../ffi/context.ts";
import { allowedCores, usableCores } from "../base/topology.ts";
import type { Run } from "./launch.ts";

/** The parts of a run that reports are of. */
interface Reported extends Pick<Run, "trained" | "cursor" | "events" | "warn"> {
  readonly account: Pick<Account, "markTime">;
  readonly gradients: { readonly arena: Arena };
  readonly thaw: unknown;
}

export interface RankGroup {
  readonly team: Team;
  readonly control: Control;
  readonly shares: Shares;
  /** `save` and `evaluate` are due by the clock. */
  request(requests: Requests, save: boolean, evaluate?: boolean): void;
  /** Called after each step; reports the ranks' times now and then. */
  stepped(run: Reported): void;
  /** A save has rank 0's running statistics. */
  shareBuffers(): void;
  /** The same for as long as an evaluation takes: the function gives each rank its own back. */
  lendBuffers(): () => void;
  /** `running` itself keeps this rank's sums. */
  sumsOf(running: RunningMetrics): number[];
}

export function openRankGroup(
  team: Team,
  control: Control,
  buffers: readonly Tensor[],
  { device, dtype }: Pick<Tensor, "device" | "dtype">,
): RankGroup {
  const statistics = buffers.filter((t) => isFloating(t.dtype));
  const shareBuffers = () => {
    for (const t of statistics) team.broadcast(t, "running statistics");
  };
  let stopping = false;
  return {
    team,
    control,
    shares: openShares(team, device, dtype),
    request(requests, save, evaluate = false) {
      const stop = requests.stop();
      if (stop !== null && !stopping) control.request("stop", stop);
      stopping ||= stop !== null;
      if (requests.takeSave()) control.request("save", "request");
      else if (save) control.request("save", "interval");
      if (evaluate) control.request("evaluate", "interval");
    },
    stepped: openReports(team),
    shareBuffers,
    lendBuffers() {
      const own = statistics.map((t) => keep(clone(t)));
      shareBuffers();
      return () =>
        own.forEach((t, i) => {
          scope(() => copy_(statistics[i], t));
          t.free();
        });
    },
    sumsOf: (running) => team.reduce(running.sums(), "sum", "metrics"),
  };
}

/** The caller's scope has the shares. Rank 0 calls `onEmpty` where no rank has an item, if the host knows it. */
type Shares = (batches: readonly MicroBatch[], loss: Loss, onEmpty?: () => void) => readonly Share[];

function openShares({ collectives, rank, world }: Team, device: Device, dtype: DType): Shares {
  const total = keep(zeros([1], { dtype: "f64", device }));
  return (batches, loss, onEmpty) => {
    if (world > 1 || batches.length > 1) { for (const { target } of batches) loss.refuseUneven?.(target); }
    const items = batches.map((batch) => itemsOf(batch, loss));
    fill_(total, items.reduce((sum, count) => sum + count, 0));
    collectives.wait(collectives.allReduce(total, "sum", "items of the step"));
    if (device === "cpu") {
      const [all] = toNumbers(total);
      if (all === 0 && rank === 0) onEmpty?.();
      return items.map((count) => all === 0 ? 0 : count / all);
    }
    // Reading it on the host would wait for the device.
    const all = reshape(total, []);
    return items.map((count) =>
      count === 0 ? 0 : scope(() => toDtype(div(scalar(count, "f64", device), all), dtype))
    );
  };
}

/** Steps between two reports of times. */
const EVERY = 100;

/** A layer of zeros may hold the gradient back in the first steps. */
const SETTLED = 10;

const NAMED = 5;

/** Every rank calls it after each step. */
function openReports(team: Team): (run: Reported) => void {
  let before: TimeMark | null = null, done = 0, steps = 0;
  return (run) => {
    if (++done === SETTLED && team.rank === 0) warnUnused(run);
    if (before === null) before = run.account.markTime(); // the first step is like no other
    else if (++steps === EVERY) {
      const ranks = team.gather(spentBetween(before, run.account.markTime()).spent, "times of ranks");
      run.events.emit(ranksEvent(run.cursor.step, steps, ranks));
      before = run.account.markTime();
      steps = 0;
    }
  };
}

export function ranksEvent(step: number, steps: number, ranks: readonly Spent[]): RanksEvent {
  const own = ranks.map(ownWork);
  const most = Math.max(...own);
  return {
    kind: "ranks",
    step,
    steps,
    slowest: own.indexOf(most),
    spread: most > 0 ? (most - Math.min(...own)) / most : 0,
    ...byPart((name) => ranks.map((spent) => spent[`${name}_s`])),
  };
}

function warnUnused({ gradients: { arena }, trained, thaw, cursor, warn }: Reported): void {
  const learns = (_: unknown, i: number) => thaw === null || !trained.waiting.has(i);
  const { names, gradients } = arena;
  const message = unusedSentence(
    { names: names.filter(learns), gradients: gradients.filter(learns) },
    cursor.step,
  );
  if (message !== null) warn(message, cursor.step);
}

/** A gradient that is zero everywhere is as good as none. */
export function unusedSentence(
  { names, gradients }: Pick<Arena, "names" | "gradients">,
  step: number,
): string | null {
  const unused = names.filter((_, i) => scope(() => sum(square(gradients[i])).item() === 0));
  if (unused.length === 0) return null;
  const named = unused.slice(0, NAMED).join(", ");
  const more = unused.length > NAMED ? ` and ${unused.length - NAMED} more` : "";
  return `No gradient reached ${named}${more} at step ${step}: the model does not use them, or what comes after them ` +
    "passes nothing back.";
}

const scaleOf = ({ scale, goodSteps, skipped }: NonNullable<StateParts["scaler"]>) => ({
  scale,
  goodSteps,
  skipped,
});

/** Every rank begins with rank 0's state, and gets its cursor. */
export function startAsFirst(
  team: Team,
  parts: StateParts,
  arena: Arena,
  averages: readonly Tensor[],
  cursor: Cursor,
  zero: Zero | null = null,
): Cursor {
  const { optimizer, scaler, swa } = parts;
  const [first] = team.gather(
    team.rank === 0
      ? {
        cursor,
        steps: optimizer.steps,
        groups: optimizer.groups?.steps,
        numbers: numbersBeside(optimizer),
        scaler: scaler && scaleOf(scaler),
        averaged: swa?.averaged ?? 0,
      }
      : null,
    "start",
  );
  if (first === null) throw new Error("internal: rank 0 sent no start.");
  optimizer.steps = first.steps;
  if (optimizer.groups && first.groups) optimizer.groups.steps = first.groups;
  numbersBeside(optimizer).forEach((numbers, i) => Object.assign(numbers, first.numbers[i]));
  if (scaler) Object.assign(scaler, first.scaler);
  if (swa) swa.averaged = first.averaged;
  const flat = new Set(arena.parameters); // these are views of the arena
  const state = { ...optimizer, ...zero ? { slots: new Map() } : {} };
  const rest = [...new Set(tensorsOf({ ...parts, optimizer: state, ema: null }))].filter((t) =>
    t.numel > 0 && !flat.has(t)
  );
  for (const t of [arena.flat, ...averages, ...rest]) team.broadcast(t, "start");
  zero?.scatter();
  refuseDifference(team, arena);
  return first.cursor;
}

/** Without this a changed bit would make ranks train different models. */
function refuseDifference(team: Team, arena: Arena): void {
  const sums = team.gather(digest(readBytes(arena.flat)), "checksum of the weights");
  const other = sums.findIndex((sum) => sum !== sums[0]);
  if (other < 0) return;
  throw new UserError(
    "communication",
    `Rank ${other} has other weights than rank 0 after they were sent to it: the network or its library changes data. ` +
      "Run hpctrain doctor --full, and try another node or --distributed-backend.",
  );
}

export const noSaver = (gather?: () => void): Saver => ({
  ready() {},
  save: () => Promise.resolve(gather?.()),
  hold() {},
  settle: () => Promise.resolve(),
  putOff: () => Promise.resolve(false),
  lend: () => null,
  stats: { saves: 0, stallSeconds: 0, longest: 0 },
  close: () => Promise.resolve(),
});

/** 1 where a launcher has bound each rank to its own cores. */
export function ranksSharingCores(team: Team): number {
  const all = team.gather(`${Deno.hostname()} ${allowedCores()}`, "cores");
  return all.filter((where) => where === all[team.rank]).length;
}

/** A given number of threads stays. */
export function shareThreads(sharing: number, wanted: number, env: Record<string, string>): void {
  if (wanted > 0 || env.OMP_NUM_THREADS) return;
  setThreads(Math.max(1, Math.floor(usableCores() / sharing)));
}
