// What the thread that tracks a run is told at its start, and what it answers. Plain data; types alone. May import ring.ts,
// system (types).
import type { SystemSetup } from "../system/sampler.ts";
import type { Shared } from "./ring.ts";

export interface ThreadSetup {
  readonly shared: Shared;
  /** Path of events.jsonl; null on ranks other than the first. */
  readonly events: string | null;
  /** The file of what this rank prints; null where nobody else keeps it. */
  readonly log: string | null;
  /** Null where machine metrics are off. */
  readonly system: SystemSetup | null;
  /** What core/track/wandb opens a run with; null without one. */
  readonly wandb: unknown;
  /** Wants the lines that the thread adds by itself. */
  readonly mirror: boolean;
}

export type Said =
  | { readonly warning: string }
  /** A line of events.jsonl that the thread has added. */
  | { readonly line: string }
  | { readonly ended: true };
