// Barriers of the server: ranks wait until all have come, and hear what each of them said.
import { wholeSeconds } from "./hang.ts";
import {
  active,
  type ControlJob,
  endJob,
  FIRST_REPORT_MS,
  type From,
  type Member,
  ranksIn,
  send,
} from "./job.ts";
import { rankLost, rankOnHost } from "./failure.ts";
import { runLengths } from "./messages.ts";
import { PATIENT } from "./shared.ts";

interface WaitingBarrier {
  readonly name: string;
  since: number;
  readonly came: Map<number, Member>;
  readonly values: Map<number, unknown>;
  nextWord: number;
}

interface Barriers {
  came(member: Member, message: From<"barrier">): void;
  poll(): void;
}

export function openBarriers(job: ControlJob): Barriers {
  const open = new Map<number, WaitingBarrier>();
  const poll = () => {
    for (const waiting of open.values()) checkBarrier(job, waiting);
  };
  return {
    came(member, { n, name, value }) {
      const now = job.now();
      const waiting = open.get(n) ??
        { name, since: now, came: new Map(), values: new Map(), nextWord: FIRST_REPORT_MS };
      open.set(n, waiting);
      if (name !== waiting.name) {
        const first = waiting.came.values().next().value!;
        const why =
          `came to "${name}" while ${
            rankOnHost(first.hello)
          } waits at "${waiting.name}": internal: ranks must meet ` +
          "in the same order";
        return void endJob(job, rankLost(member, why));
      }
      waiting.came.set(member.hello.rank, member);
      if (value !== undefined) waiting.values.set(member.hello.rank, value);
      if (waiting.came.size < job.world) {
        if (job.ended > 0) poll(); // somebody may have left for good
        return;
      }
      open.delete(n);
      const values = waiting.values.size === 0
        ? null
        : runLengths(Array.from({ length: job.world }, (_, rank) => waiting.values.get(rank) ?? null));
      send(job, { is: "passed", n, values });
    },
    poll,
  };
}

function checkBarrier(job: ControlJob, waiting: WaitingBarrier): void {
  const { name, came } = waiting;
  const missing = [...job.members.values()].filter(({ hello }) => !came.has(hello.rank));
  const gone = missing.find(({ hasEnded }) => hasEnded);
  if (gone) return void endJob(job, rankLost(gone, `has ended, and the others wait for it at "${name}"`));
  const [first] = missing;
  if (missing.some(({ beat }) => beat?.phase === PATIENT)) waiting.since = job.now();
  const waited = job.now() - waiting.since;
  if (
    waited > job.limits.stall && active(job).every(({ moved }) => moved) || waited > job.limits.firstStall
  ) {
    return void endJob(job, rankLost(first, `did not come to "${name}" within ${wholeSeconds(waited)}`));
  }
  if (waited < waiting.nextWord) return;
  waiting.nextWord *= 2;
  const who = missing.length === 1
    ? rankOnHost(first.hello).replace("Rank", "rank")
    : ranksIn(missing.map(({ hello }) => hello.rank));
  job.say(`Waiting at "${name}" for ${who}, for ${wholeSeconds(waited)} so far.`);
}
