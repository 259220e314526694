// Named barriers: everyone comes, or those who don't are named. May import hang, hello, job, phases.
import { at, ranksIn } from "./hello.ts";
import { seconds } from "./hang.ts";
import { active, fail, FIRST_WORD_MS, type From, type Job, lost, type Member, tell } from "./job.ts";
import { PATIENT } from "./phases.ts";

interface Waiting {
  readonly name: string;
  since: number;
  readonly came: Map<number, Member>;
  /** What each says, where they say anything. */
  readonly values: Map<number, unknown>;
  nextWord: number;
}

export interface Barriers {
  came(member: Member, message: From<"barrier">): void;
  /** Tells who is missing, and ends the job when that takes too long or can't end well. */
  look(): void;
}

export function openBarriers(job: Job): Barriers {
  const open = new Map<number, Waiting>();
  const look = () => {
    for (const waiting of open.values()) lookAt(job, waiting);
  };
  return {
    came(member, { n, name, value }) {
      const now = job.now();
      const waiting = open.get(n) ??
        { name, since: now, came: new Map(), values: new Map(), nextWord: FIRST_WORD_MS };
      open.set(n, waiting);
      if (name !== waiting.name) {
        const first = waiting.came.values().next().value!;
        const why =
          `came to "${name}" while ${
            at(first.hello)
          } waits at "${waiting.name}": internal: ranks must meet ` +
          "in the same order";
        return void fail(job, lost(member, why));
      }
      waiting.came.set(member.hello.rank, member);
      if (value !== undefined) waiting.values.set(member.hello.rank, value);
      if (waiting.came.size < job.world) return look(); // somebody may have left for good
      open.delete(n);
      const values = waiting.values.size === 0
        ? null
        : Array.from({ length: job.world }, (_, rank) => waiting.values.get(rank));
      tell(job, { is: "passed", n, values });
    },
    look,
  };
}

function lookAt(job: Job, waiting: Waiting): void {
  const { name, came } = waiting;
  const missing = [...job.members.values()].filter(({ hello }) => !came.has(hello.rank));
  const gone = missing.find(({ left }) => left);
  if (gone) return void fail(job, lost(gone, `has ended, and the others wait for it at "${name}"`));
  const [first] = missing;
  // Who waits for a save waits for good reason.
  if (missing.some(({ beat }) => beat?.phase === PATIENT)) waiting.since = job.now();
  const waited = job.now() - waiting.since;
  if (
    waited > job.limits.stall && active(job).every(({ moved }) => moved) || waited > job.limits.firstStall
  ) {
    return void fail(job, lost(first, `did not come to "${name}" within ${seconds(waited)}`));
  }
  if (waited < waiting.nextWord) return;
  waiting.nextWord *= 2;
  const who = missing.length === 1
    ? at(first.hello).replace("Rank", "rank")
    : ranksIn(missing.map(({ hello }) => hello.rank));
  job.say(`Waiting at "${name}" for ${who}, for ${seconds(waited)} so far.`);
}
