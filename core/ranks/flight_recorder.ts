// This rank's last collectives, in memory that another thread reads while this one is inside a native call.

import { type CollectiveName, COLLECTIVES } from "../../ffi/ranks/ring.ts";

/** Times are milliseconds since 1970; 0 before the event. */
export interface RecordedCollective {
  readonly sequence: number;
  readonly op: CollectiveName;
  readonly bytes: number;
  readonly phase: string;
  readonly queued: number;
  readonly begun: number;
  readonly ended: number;
}

/** @internal */
export interface FlightRecorder {
  readonly shared: SharedArrayBuffer;
  readonly totals: Float64Array;
  readonly records: Float64Array;
  readonly texts: Uint8Array;
  readonly phases: Map<string, number>;
}

export const KEPT = 256;
const FIELDS = 8;
const PHASES = 1024, PHASE_BYTES = 64, OTHER = "other";

// The newest collective that was queued, begun, ended; seconds that the engine was busy; phases named.
const QUEUED = 0, BEGUN = 1, ENDED = 2, BUSY = 3, NAMED = 4, TOTALS = 8;
const SEQUENCE = 0, OP = 1, BYTES = 2, PHASE = 3, QUEUED_AT = 4, BEGUN_AT = 5, ENDED_AT = 6;

const RECORDS_AT = 8 * TOTALS, TEXTS_AT = RECORDS_AT + 8 * FIELDS * KEPT;
const SIZE = TEXTS_AT + PHASES * PHASE_BYTES;

export function openFlightRecorder(shared = new SharedArrayBuffer(SIZE)): FlightRecorder {
  return {
    shared,
    totals: new Float64Array(shared, 0, TOTALS),
    records: new Float64Array(shared, RECORDS_AT, FIELDS * KEPT),
    texts: new Uint8Array(shared, TEXTS_AT),
    phases: new Map(),
  };
}

/** Threads begin their own clocks at different times; they share this one. */
export const clock = (): number => performance.timeOrigin + performance.now();

/** Enters the next collective and gives its number. Only one thread calls it. */
export function enter(flight: FlightRecorder, op: number, bytes: number, phase: string): number {
  const { totals, records } = flight;
  const sequence = totals[QUEUED] + 1;
  const at = recordOffset(sequence);
  records[at + SEQUENCE] = 0; // whoever reads it now passes it over
  records[at + OP] = op;
  records[at + BYTES] = bytes;
  records[at + PHASE] = numberOf(flight, phase);
  records[at + QUEUED_AT] = clock();
  records[at + BEGUN_AT] = 0;
  records[at + ENDED_AT] = 0;
  records[at + SEQUENCE] = sequence;
  totals[QUEUED] = sequence;
  return sequence;
}

export function beginCollective({ totals, records }: FlightRecorder, sequence: number): void {
  totals[BEGUN] = sequence;
  records[recordOffset(sequence) + BEGUN_AT] = clock();
}

/** `took` is the measured time in seconds; without it the time counts from the begin. */
export function end({ totals, records }: FlightRecorder, sequence: number, took?: number): void {
  const at = recordOffset(sequence);
  const now = clock();
  totals[BUSY] += took ?? (now - records[at + BEGUN_AT]) / 1000;
  records[at + ENDED_AT] = now;
  totals[ENDED] = sequence;
}

export const progress = ({ totals }: FlightRecorder) => ({
  queued: totals[QUEUED],
  begun: totals[BEGUN],
  ended: totals[ENDED],
});

export const busy = ({ totals }: FlightRecorder): number => totals[BUSY];

export function recorded(flight: FlightRecorder, sequence: number): RecordedCollective | null {
  const { records } = flight;
  const at = recordOffset(sequence);
  const found = {
    sequence,
    op: COLLECTIVES[records[at + OP]],
    bytes: records[at + BYTES],
    phase: textOf(flight, records[at + PHASE]),
    queued: records[at + QUEUED_AT],
    begun: records[at + BEGUN_AT],
    ended: records[at + ENDED_AT],
  };
  return records[at + SEQUENCE] === sequence ? found : null;
}

export function lastRecorded(flight: FlightRecorder): RecordedCollective[] {
  const newest = flight.totals[QUEUED];
  const count = Math.min(newest, KEPT);
  return Array.from({ length: count }, (_, i) => recorded(flight, newest - count + 1 + i))
    .filter((found) => found !== null);
}

const recordOffset = (sequence: number): number => FIELDS * (sequence % KEPT);

function numberOf({ phases, totals, texts }: FlightRecorder, phase: string): number {
  const known = phases.get(phase);
  if (known !== undefined) return known;
  if (totals[NAMED] === PHASES) return PHASES - 1;
  if (totals[NAMED] === PHASES - 1) phase = OTHER;
  const number = totals[NAMED]++;
  const bytes = texts.subarray(number * PHASE_BYTES, (number + 1) * PHASE_BYTES);
  bytes.set(new TextEncoder().encode(phase).subarray(0, PHASE_BYTES));
  phases.set(phase, number);
  return number;
}

function textOf({ texts }: FlightRecorder, number: number): string {
  const bytes = texts.slice(number * PHASE_BYTES, (number + 1) * PHASE_BYTES);
  const end = bytes.indexOf(0);
  return new TextDecoder().decode(end < 0 ? bytes : bytes.subarray(0, end));
}
