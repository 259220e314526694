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

/**
 * Values by rank, in short form: neighbours often have the same, and what is known of 4,096 ranks goes to
 * 4,096 ranks.
 */
export type Runs<T> = readonly (readonly [value: T, ranks: number])[];

export function runLengths<T>(values: readonly T[]): Runs<T> {
  const runs: [T, number][] = [];
  let before: string | undefined;
  for (const value of values) {
    const text = JSON.stringify(value);
    if (text === before && runs.length > 0) runs[runs.length - 1][1]++;
    else runs.push([value, 1]);
    before = text;
  }
  return runs;
}

export const unrolled = <T>(runs: Runs<T>): T[] =>
  runs.flatMap(([value, ranks]) => Array.from({ length: ranks }, () => value));

export interface Beat {
  readonly step: number;
  readonly phase: Phase;
  /** Milliseconds since anything changed. */
  readonly still: number;
  readonly queued: number;
  readonly begun: number;
  readonly ended: number;
}

export type RequestKind = "stop" | "save" | "evaluate";

export interface Agreed {
  readonly at: number;
  readonly what: RequestKind;
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
  | { readonly is: "wish"; readonly what: RequestKind; readonly reason: string }
  | { readonly is: "held"; readonly id: number; readonly count: number }
  | { readonly is: "flight"; readonly flight: readonly RecordedCollective[] }
  | { readonly is: "goodbye" };

export type ToRank =
  | { readonly is: "settings?" }
  | { readonly is: "hosts"; readonly hosts: Runs<string> }
  | { readonly is: "beat" }
  | { readonly is: "passed"; readonly n: number; readonly values: Runs<unknown> | null }
  | { readonly is: "value"; readonly n: number; readonly value: unknown }
  | { readonly is: "error"; readonly error: FirstError }
  | { readonly is: "noted" }
  | { readonly is: "hold"; readonly id: number }
  | { readonly is: "agreed"; readonly agreed: Agreed }
  | { readonly is: "flight?" }
  | { readonly is: "goodbye" };
