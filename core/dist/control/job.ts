// The job as rank 0's server sees it: who is here, how they are, and the one way to end it for all. May import errors,
// channel, hello, messages.
import { EXIT } from "../../errors.ts";
import { type Channel, encode } from "./channel.ts";
import type { Refusal } from "./hello.ts";
import { at } from "./hello.ts";
import type { Beat, FirstError, Hello, ToRank, ToServer } from "./messages.ts";

export interface Member {
  readonly hello: Hello;
  readonly channel: Channel;
  /** When the last message came, in milliseconds. */
  heard: number;
  beat: Beat | null;
  /** A step has ended since it came. */
  moved: boolean;
  /** It has said goodbye. */
  left: boolean;
}

/** Milliseconds until a wait is a failure. */
export interface Limits {
  /** For all to arrive. */
  readonly arrive: number;
  /** Without headway, and before the first step has ended. */
  readonly stall: number;
  readonly firstStall: number;
  /** Without a heartbeat. */
  readonly silence: number;
}

export interface Job {
  readonly world: number;
  readonly limits: Limits;
  readonly members: Map<number, Member>;
  error: FirstError | null;
  say(line: string): void;
  now(): number;
}

export type From<Is extends ToServer["is"]> = Extract<ToServer, { is: Is }>;

export const full = ({ members, world }: Job): boolean => members.size === world;

/** Those who are here and have not said goodbye. */
export const active = ({ members }: Job): Member[] => [...members.values()].filter(({ left }) => !left);

export function tell(job: Job, message: ToRank, to: Iterable<Member> = active(job)): void {
  const bytes = encode(message);
  for (const { channel } of to) channel.send(bytes);
}

/** A rank that listens to nothing must not keep the others from hearing. */
const FLUSH_MS = 1000;

export async function flushed(members: readonly Member[]): Promise<void> {
  let timer = 0;
  const late = new Promise<void>((resolve) => timer = setTimeout(resolve, FLUSH_MS));
  await Promise.race([Promise.all(members.map(({ channel }) => channel.flushed())), late]);
  clearTimeout(timer);
}

/**
 * The first failure counts; what fails later fails because of it. Rank 0 hears of it last: this server ends with it.
 */
export async function fail(job: Job, error: FirstError): Promise<void> {
  if (job.error) return;
  job.error = error;
  const [zero, others] = [active(job).filter(isZero), active(job).filter((member) => !isZero(member))];
  tell(job, { is: "error", error }, others);
  await flushed(others);
  tell(job, { is: "error", error }, zero);
}

const isZero = ({ hello }: Member) => hello.rank === 0;

/** Nobody has begun: all end in the same way. */
export const refused = (refusal: Refusal, { rank, host }: Hello): FirstError => ({
  rank,
  host,
  step: 0,
  sentence: refusal.sentence,
  code: refusal.code,
  told: refusal.sentence,
  others: refusal.code,
});

/** A rank that could still say what was wrong. */
export const failed = ({ hello }: Member, { sentence, step, code }: From<"failed">): FirstError => ({
  rank: hello.rank,
  host: hello.host,
  step,
  sentence,
  code,
  told: `${at(hello)} failed first, at step ${step}: ${sentence}`,
  others: EXIT.communication,
});

/** A rank that can't: `why` completes "Rank 3 on node07". */
export function lost({ hello, beat }: Pick<Member, "hello" | "beat">, why: string): FirstError {
  const last = beat ? ` It was in ${beat.phase}, at step ${beat.step}.` : "";
  const sentence = `${at(hello)} ${why}.${last}`;
  const { rank, host } = hello;
  const code = EXIT.communication;
  return { rank, host, step: beat?.step ?? 0, sentence, code, told: sentence, others: code };
}

/** Waits are told after 10 s, 20 s, 40 s, ... */
export const FIRST_WORD_MS = 10_000;
