// One life of the ranks: started, watched, and ended together. May import its siblings.
import { join } from "../../../deps/path.ts";
import { endOf, FILES, pidOf, rankFolder, runOf, type RunPlaces } from "./notes.ts";
import { type Output, readLines } from "./output.ts";
import { type Job, type Started, startRanks } from "./start.ts";
import { killsForMemory } from "../../memory.ts";
import { lastEvents } from "../../track/lineage.ts";
import { killedFor, lastShortage } from "../../track/memory_end.ts";
import { judge, type Memory, type RankEnd, type Verdict } from "./verdict.ts";

export type Stop = "SIGINT" | "SIGTERM" | "SIGHUP";

/** What a supervisor was told from outside. */
export interface Requests {
  /** The first request to stop. */
  stop: Stop | null;
  /** A second one: at once. */
  atOnce: boolean;
  /** Others, to be passed on: each is taken by whoever does so. */
  passOn: Deno.Signal[];
}

/** How long ranks have to end by themselves when one of them has failed. */
const GRACE_MS = 5000;
const LOOK_MS = 50;

interface Watched {
  readonly rank: number;
  at: number | null;
  /** Signals that it was sent. */
  readonly sent: Set<Deno.Signal>;
}

export async function attempt(
  job: Job,
  args: readonly string[],
  output: Output,
  requests: Requests,
): Promise<{ verdict: Verdict; run: RunPlaces | null }> {
  const killsBefore = killsForMemory();
  const started = startRanks(job, args);
  const { folder } = started;
  try {
    const ranks: Watched[] = job.ranks.map((rank) => ({ rank, at: null, sent: new Set() }));
    const launcher = { text: "" };
    const statuses = started.processes.map(async (process, i) => {
      const [status] = await Promise.all([
        process.status,
        collect(process.stdout, launcher),
        collect(process.stderr, launcher),
      ]);
      (job.mpi ? ranks : [ranks[i]]).forEach(({ rank }) => release(folder, rank));
      return status;
    });
    const read = ranks.map(async (watched) => {
      const { rank } = watched;
      const own = rankFolder(folder, rank);
      await Promise.all(
        (["out", "err"] as const).map((stream) =>
          readLines(join(own, FILES[stream]), (text) => output.line(rank, stream, text))
        ),
      );
      watched.at = Date.now();
    });
    const watch = watchOver(started, ranks, output, requests);
    await Promise.all(read);
    watch.allGone();
    const codes = await Promise.all(statuses);
    watch.close();
    await sweep(folder, ranks);
    const run = runOf(folder, job.ranks[0]);
    const ends = ranks.map(({ rank, at, sent }, i): RankEnd => ({
      rank,
      note: endOf(folder, rank),
      at: pidOf(folder, rank) === null ? null : at,
      pid: pidOf(folder, rank),
      signal: job.mpi ? null : codes[i].signal,
      code: job.mpi ? null : codes[i].code,
      ended: sent.size > 0,
    }));
    const { stop } = requests;
    const verdict = judge({
      ends,
      host: Deno.hostname(),
      launcher: launcher.text,
      stop,
      step: run && lastStep(run.logs),
      memory: memoryOf(run, killsBefore),
    });
    return { verdict, run };
  } finally {
    started.leash.close(); // whoever is left ends here
    started.pmi?.close();
    Deno.removeSync(folder, { recursive: true });
  }
}

/** Looks at the ranks until they are gone: passes signals on, and ends all when one has failed. */
function watchOver({ folder, processes }: Started, ranks: Watched[], output: Output, requests: Requests) {
  let known = false, failedAt: number | null = null, goneAt: number | null = null;
  const send = (signal: Deno.Signal) => {
    for (const watched of ranks) {
      const pid = pidOf(folder, watched.rank);
      if (watched.at !== null || pid === null || watched.sent.has(signal)) continue;
      watched.sent.add(signal);
      kill(pid, signal);
    }
  };
  const look = () => {
    if (!known) {
      const run = runOf(folder, ranks[0].rank);
      if (run) output.keepIn(run.logs);
      known = run !== null;
    }
    if (failedAt === null && ranks.some((watched) => hasFailed(folder, watched))) failedAt = Date.now();
    for (const signal of requests.passOn.splice(0)) {
      send(signal);
      for (const { sent } of ranks) sent.delete(signal); // may come again
    }
    if (requests.stop) send(requests.stop === "SIGHUP" ? "SIGTERM" : requests.stop);
    if (failedAt !== null) send("SIGTERM");
    if (requests.atOnce || (failedAt !== null && Date.now() - failedAt > GRACE_MS)) send("SIGKILL");
    // MPI's launcher ends when its ranks have; it is not waited for without end.
    if (goneAt !== null && Date.now() - goneAt > GRACE_MS) {
      processes.forEach(({ pid }) => kill(pid, "SIGKILL"));
    }
  };
  const timer = setInterval(look, LOOK_MS);
  return {
    allGone() {
      goneAt = Date.now();
      look();
    },
    close: () => clearInterval(timer),
  };
}

function hasFailed(folder: string, { rank, at }: Watched): boolean {
  if (at === null) return false;
  const note = endOf(folder, rank);
  return note === null || (note.code !== 0 && note.code !== 75);
}

/** A rank that never began leaves its reader waiting: a writer that comes and goes is the end of that. */
function release(folder: string, rank: number): void {
  for (const file of [FILES.out, FILES.err]) {
    Deno.openSync(join(rankFolder(folder, rank), file), { read: true, write: true }).close();
  }
}

/** A process that has closed its pipes is about to end; one that has not after a while is made to. */
async function sweep(folder: string, ranks: readonly Watched[]): Promise<void> {
  const pids = ranks.map(({ rank }) => pidOf(folder, rank)).filter((pid) => pid !== null);
  for (const end = Date.now() + GRACE_MS; pids.some(isAlive);) {
    if (Date.now() > end) return pids.filter(isAlive).forEach((pid) => kill(pid, "SIGKILL"));
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS / 5));
  }
}

/** Not gone, and not merely waiting to be counted by its parent. */
function isAlive(pid: number): boolean {
  try {
    return !/^\d+ \(.*\) [ZX]/s.test(Deno.readTextFileSync(`/proc/${pid}/stat`));
  } catch {
    return false;
  }
}

function kill(pid: number, signal: Deno.Signal): void {
  try {
    Deno.kill(pid, signal);
  } catch { /* it has gone */ }
}

async function collect(stream: ReadableStream<Uint8Array>, into: { text: string }): Promise<void> {
  const decoder = new TextDecoder();
  for await (const bytes of stream) {
    into.text = (into.text + decoder.decode(bytes, { stream: true })).slice(-16384);
  }
}

function memoryOf(run: RunPlaces | null, before: Memory["kills"]): Memory {
  const now = killsForMemory(), short = run && lastShortage(lastEvents(run.logs));
  const kills = { job: now.job - before.job, machine: now.machine - before.machine };
  return { kills, said: short && killedFor(short) };
}

const TAIL_BYTES = 65536;

/** Of a run's events; null where none has ended. */
function lastStep(logs: string): number | null {
  try {
    using file = Deno.openSync(join(logs, "events.jsonl"));
    file.seekSync(Math.max(0, file.statSync().size - TAIL_BYTES), Deno.SeekMode.Start);
    const bytes = new Uint8Array(TAIL_BYTES);
    const text = new TextDecoder().decode(bytes.subarray(0, file.readSync(bytes) ?? 0));
    const steps = [...text.matchAll(/"kind":"step","step":(\d+)/g)];
    return steps.length > 0 ? Number(steps.at(-1)![1]) : null;
  } catch {
    return null;
  }
}
