// A run is started with a launch: its settings, device and ranks, and the checkpoint that it goes on from; and what it is then.
import type { Libtorch } from "../../ffi/libraries/find.ts";
import type { Device } from "../../ffi/tensor.ts";
import type { SavedScale } from "../data/transforms/scale_choice.ts";
import type { Control } from "../ranks/control/control.ts";
import type { Team } from "../ranks/team.ts";
import type { OpenOutput } from "../run/output.ts";
import type { Resolved } from "../settings/resolve.ts";
import type { Config } from "../settings/settings.ts";
import type { Cursor } from "../checkpoint/training_state.ts";
import type { Console } from "../run/console.ts";
import type { EventLog, Warn } from "../run/event_log.ts";
import type { BatchPlan } from "./batches.ts";
import type { Built } from "./build.ts";
import type { Requests } from "./stop.ts";
import type { Resume } from "./resume.ts";

export interface Launch {
  readonly config: Config;
  readonly preset: string | null;
  readonly device: Device;
  readonly libtorch: Libtorch;
  /** Null starts afresh. */
  readonly resume: Resume | null;
  /** The run that begins again under its name, without a checkpoint. */
  readonly again?: string | null;
  /** So scaled the run its data whose checkpoint begins this one. */
  readonly scale?: SavedScale | null;
  readonly loaders: number;
  /** Null where this rank is alone. */
  readonly team?: Team | null;
  readonly control?: Control | null;
  /** Ranks on this machine, this one included; by default all. */
  readonly localRanks?: number;
  readonly outputs: readonly OpenOutput[];
  /** They come before the trainer's own. */
  readonly notes: readonly string[];
  /** They say where each setting comes from; they are absent where no command gave them. */
  readonly resolved?: Pick<Resolved, "config" | "origin" | "originText">;
  /** Unix seconds at which the process was started; by default now. */
  readonly began?: number;
}

/** The parts of a run that its helpers ask for by name. */
export interface Run extends Built {
  readonly config: Config;
  readonly cursor: Cursor;
  readonly plan: BatchPlan;
  readonly ranksHere: number;
  readonly requests: Requests;
  readonly console: Console;
  readonly events: EventLog;
  readonly warn: Warn;
}
