// Settings say whether steps are compiled, and which way; some models and settings can't be.
import { weightsDtype } from "../settings/precision.ts";
import type { Cursor } from "../checkpoint/training_state.ts";
import { formatMilliseconds } from "../base/format.ts";
import type { Team } from "../ranks/team.ts";
import type { Config } from "../settings/settings.ts";
import { scope } from "../../ffi/tensor.ts";
import { machineIsa, noIsa } from "../../ffi/machine.ts";
import { isCode, userFile } from "../models/user/file.ts";
import type { Pass } from "./blocks.ts";
import { neverPays, openAutoChoice } from "./compiled_auto.ts";
import { type Choice, type Compiler, type Mode, NO_COMPILER, type TimedWay } from "./compiler.ts";
import { thawing, type TrainedParameters } from "./trained_parameters.ts";

/** The way that these settings ask for on this device, or null. */
export function compiledMode({ compile, deterministic }: Config["training"], onGpu: boolean): Mode | null {
  if (compile === "off") return null;
  if (onGpu) return compile === "exact" || deterministic === "world" ? null : "fast"; // else steps are captured as they are
  if (compile === "auto") return "exact";
  return compile === "on" ? deterministic === "off" ? "fast" : "exact" : compile;
}

/** As it is in a run of so many micro-batches: the compiler takes time to load. */
export const modeOfRun = (training: Config["training"], onGpu: boolean, batches: number): Mode | null =>
  !onGpu && training.compile === "auto" && training.deterministic === "off" && neverPays(batches)
    ? null
    : compiledMode(training, onGpu);

/** Models and losses of ours and exported programs are the same in each step; a user's code may count its calls. */
export const keepsNothing = ({ model, training }: Config): boolean =>
  !isCode(model.name) && !isCode(training.loss);

/** Batches of its evaluations may be compiled: by the clock, with the ordinary bits. */
export const evaluatesCompiled = (pass: Pass, config: Config): boolean =>
  config.training.deterministic === "off" && keepsNothing(config) && pass.cast === null && !pass.onGpu &&
  !pass.begin && !pass.patches && !pass.rollout;

/** The reason why no step of this run can be compiled, or null. */
export function whyNotCompiled(
  { pass, trained }: { readonly pass: Pass; readonly trained: Pick<TrainedParameters, "waiting"> },
  compiler: Compiler | null,
  mode: Mode,
  config: Config,
  ranks: boolean,
): string | null {
  if (compiler === null) return NO_COMPILER;
  if (weightsDtype(config.training) === "f64") return DOUBLE;
  if (pass.model.turns) return TURNS;
  if (pass.model.afterStep) return FOLLOWS;
  if (trained.waiting.size > 0) return `${thawing(config.training)} trains other parameters in later epochs`;
  if (pass.cast !== null && mode === "exact") {
    return "--amp computes in half precision, whose bits are libtorch's own (--compile=fast rounds as it does)";
  }
  if (pass.onGpu && ranks && config.training.sync_bn) {
    return "--sync-bn gathers statistics in the middle of them";
  }
  if (pass.onGpu) return null;
  if (machineIsa() === null) return noIsa();
  const kept = config.training.compile === "auto" ? keptInCode(config) : null;
  return kept === null
    ? null
    : `${kept} may do something else in a later step (--compile=exact compiles them where two are alike)`;
}

/** A place in the user's code, which is open, by which a later step may be another; null where none is to be seen. */
const keptInCode = ({ model, training }: Config): string | null =>
  [model.name, training.loss].filter(isCode).map((path) => userFile(path).keeps ?? null).find((one) =>
    one !== null
  ) ??
    null;

const DOUBLE = "--amp fp64 is double precision, and compiled code is of single precision";
export const TURNS = "its losses take turns", FOLLOWS = "weights follow others behind each step";

// --compile alone takes the faster way. At the start some micro-batches are timed, compiled and op by op in turn, and the run
// keeps to what was faster: its checkpoints have the choice among their settings, and a run that goes on takes it from there.
// So no bit of a run depends on how busy the machine was when it went on.

const ROUNDS = 5;
/** Training waits for it. Where times are only told, and the plan is faster, less is sure enough. */
const MOST_MS = 1000, TOLD_MS = 250;
/** Two rounds are enough where one way was always so many times as fast. */
const CLEAR = 1.2;

/** Null where steps are compiled whatever the time says: `auto` with --deterministic. */
export function choiceFor(
  training: Config["training"],
  mode: Mode,
  { alone, batches }: { readonly alone: boolean; readonly batches: number },
  tell: (line: string) => void,
): Choice | null {
  if (training.compile !== "auto") return openChoice(training, mode, alone, tell);
  return training.deterministic === "off" ? openAutoChoice(batches, tell) : null;
}

/** Where `--compile=fast` or `exact` is asked for, and where ranks have to do the same, times are only told. */
export function openChoice(
  training: Config["training"],
  mode: Mode,
  alone: boolean,
  tell: (line: string) => void,
): Choice {
  const open = training.compile === "on" && alone;
  const choice = {
    compiled: true,
    compare(compiled: TimedWay, ordinary: TimedWay) {
      const [own, theirs] = timed(compiled, ordinary, open ? MOST_MS : TOLD_MS);
      const [mine, other] = [own, theirs].map(formatMilliseconds);
      const times = `forward and backward take ${mine} compiled and ${other} op by op`;
      if (own < theirs) tell(`With these batches ${times}.`);
      else if (!open) tell(`With these batches ${times}: --no-compile is faster.`);
      else {
        tell(`Steps run op by op: ${times} (--compile=${mode} compiles them all the same).`);
        choice.compiled = false;
      }
      if (open) training.compile = choice.compiled ? mode : "off";
    },
  };
  return choice;
}

/** The medians of milliseconds that these take in turn. They are done after `most` if the plan is faster so far. */
function timed(compiled: TimedWay, ordinary: TimedWay, most: number): number[] {
  const ways = [compiled, ordinary];
  const times: number[][] = ways.map(() => []);
  const began = performance.now();
  for (let round = 0; round <= ROUNDS; round++) {
    ways.forEach(({ prepare, run }, i) => {
      scope(prepare);
      const began = performance.now();
      scope(run);
      times[i].push(performance.now() - began);
    });
    const took = performance.now() - began, [own, theirs] = times.map((all) => all.at(-1)!);
    if (took > MOST_MS || took > most && own < theirs) break;
    if (round === 2 && isClear(times.map((all) => all.slice(1)))) break;
  }
  // The first round warms up, unless it was the only one.
  return times.map((all) => (all.length > 1 ? all.slice(1) : all).sort((a, b) => a - b))
    .map((all) => all[all.length >> 1]);
}

const isClear = ([one, other]: readonly (readonly number[])[]): boolean =>
  CLEAR * Math.max(...one) < Math.min(...other) || CLEAR * Math.max(...other) < Math.min(...one);

/** `--compile` goes on as the run has chosen; says so where it chose against it. */
export function keepChoice({ training }: Config, saved: unknown): string[] {
  const before = (saved as Partial<Config> | null)?.training?.compile;
  if (training.compile !== "on" || before === undefined) return [];
  const fits = training.deterministic === "off" ? "fast" : "exact";
  if (before === fits) training.compile = fits;
  if (before !== "off") return [];
  training.compile = "off";
  return [`Steps run op by op, as they did in this run before (--compile=${fits} compiles them)`];
}

/** `auto` has the same bits either way and chooses by the clock, of which a checkpoint says nothing. */
export const keepsRefusals = ({ compile, deterministic }: Config["training"], mode: Mode | null): boolean =>
  mode === "fast" || mode === "exact" && (compile !== "auto" || deterministic !== "off");

/** Nothing is kept where steps are not compiled, which is the same on all ranks. */
export function openRefusals(cursor: Cursor, team: Team | null, compiles = true) {
  const own = new Set(cursor.refused?.[team?.rank ?? 0] ?? []);
  return {
    /** Those of this rank, which judges its own micro-batches. */
    own,
    /** Puts those of all ranks into the cursor. Every rank calls it before a save. */
    keep(): void {
      if (!compiles) return;
      const all = team ? team.gather([...own], "refused steps") : [[...own]];
      if (all.some((one) => one.length > 0)) cursor.refused = all;
    },
  };
}
