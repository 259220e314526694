import type { RecordedCollective } from "../flight_recorder.ts";
import type { FailureCause, FirstError } from "./failure.ts";
import type { Phase } from "./shared.ts";

export interface Hello {
  readonly rank: number;
  readonly world: number;
  readonly localRank: number;
  readonly host: string;
  readonly pid: number;
  /** A GPU's name on its host, or its UUID. Null where ranks may share the device. */
  readonly device: string | null;
  readonly versions: Readonly<Record<string, string>>;
  readonly settings: string;
}

export type Settings = Readonly<Record<string, unknown>>;

export type Seat = Pick<Hello, "rank" | "localRank" | "host" | "pid" | "device">;

/** A seat by rank, in short form: a table of 1,000 ranks goes to 1,000 ranks. */
export type SeatRow = readonly [localRank: number, host: string, pid: number, device: string | null];

export interface Beat {
  readonly step: number;
  readonly phase: Phase;
  /** Milliseconds since anything changed. */
  readonly still: number;
  readonly queued: number;
  readonly begun: number;
  readonly ended: number;
}

export type Wish = "stop" | "save";

export interface Agreed {
  readonly at: number;
  readonly what: Wish;
  readonly reason: string;
}

export type ToServer =
  | { readonly is: "hello"; readonly hello: Hello }
  | { readonly is: "settings"; readonly settings: Settings }
  | { readonly is: "beat"; readonly beat: Beat }
  | {
    readonly is: "barrier";
    readonly n: number;
    readonly name: string;
    readonly value?: unknown;
  }
  | { readonly is: "value"; readonly n: number; readonly value: unknown }
  | {
    readonly is: "failed";
    readonly step: number;
    readonly cause: FailureCause;
    readonly sentence: string;
    readonly code: number;
  }
  | { readonly is: "wish"; readonly what: Wish; readonly reason: string }
  | { readonly is: "held"; readonly id: number; readonly count: number }
  | { readonly is: "flight"; readonly flight: readonly RecordedCollective[] }
  | { readonly is: "goodbye" };

export type ToRank =
  | { readonly is: "settings?" }
  | { readonly is: "table"; readonly seats: readonly SeatRow[] }
  | { readonly is: "beat" }
  | { readonly is: "passed"; readonly n: number; readonly values: readonly unknown[] | null }
  | { readonly is: "value"; readonly n: number; readonly value: unknown }
  | { readonly is: "error"; readonly error: FirstError }
  | { readonly is: "noted" }
  | { readonly is: "hold"; readonly id: number }
  | { readonly is: "agreed"; readonly agreed: Agreed }
  | { readonly is: "flight?" }
  | { readonly is: "goodbye" };
