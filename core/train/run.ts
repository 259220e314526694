// A run: everything the loop works with, put together once. Types only, so that every part may import it.
import type { Config } from "../settings/settings.ts";
import type { Cursor } from "../checkpoint/training_state.ts";
import type { Source } from "../data/source.ts";
import type { Console } from "../run/console.ts";
import type { EventLog } from "../run/event_log.ts";
import type { Output } from "../run/output.ts";
import type { LineageWriter } from "../run/lineage.ts";
import type { Flops } from "./throughput.ts";
import type { Account, Times } from "../run/account.ts";
import type { Profile } from "./profile.ts";
import type { BatchPlan } from "./batches.ts";
import type { Pass } from "./blocks.ts";
import type { Ema } from "./optimizers.ts";
import type { Feed } from "./feed.ts";
import type { GoBack, Guard } from "./guards/spikes.ts";
import type { RankGroup } from "./rank_group.ts";
import type { Saver } from "./save.ts";
import type { Schedule } from "./schedule.ts";
import type { StepParts } from "./step.ts";
import type { Requests } from "./stop.ts";

export interface Run extends StepParts {
  readonly name: string;
  readonly config: Config;
  readonly train: Source;
  readonly val: Source | null;
  readonly feed: Feed;
  readonly plan: BatchPlan;
  readonly schedule: Schedule;
  readonly ema: Ema | null;
  /** Shows samples in the outputs, after an evaluation; null where none are wanted. */
  readonly pictures: ((pass: Pass, step: number) => void) | null;
  readonly cursor: Cursor;
  readonly events: EventLog;
  readonly lineage: LineageWriter;
  readonly outputs: readonly Output[];
  readonly console: Console;
  readonly requests: Requests;
  readonly saver: Saver;
  /** Where this thread's time goes. */
  readonly account: Account;
  readonly times: Times;
  readonly flops: Flops;
  /** Set with --profile-training. */
  readonly profile: Profile | null;
  /** Against a loss that jumps. */
  readonly guard: Guard;
  readonly goBack: GoBack;
  /** Set where there are other ranks. */
  readonly together: RankGroup | null;
  /** Ranks on this machine, this one included. */
  readonly ranksHere: number;
  /** Bytes in use: resident on a CPU, on the device on a GPU. */
  memory(): number;
}

export interface Ending {
  /** Why it ended, as the summary's first words. */
  readonly outcome: string;
  /** True when it was asked to stop and can go on. */
  readonly stopped: boolean;
}
