import { join } from "../../../deps/path.ts";
import { isHangUpIgnored, onSignal } from "../../../ffi/signals.ts";
import { indexOf } from "../../checkpoint/sharded_reader.ts";
import { EXIT } from "../../base/errors.ts";
import { endOf, pidOf, RANK_FILES, rankFolder, rankRun, type RunFolders } from "./rank.ts";
import { type LaunchJob, type StartedRanks, startRanks } from "./start.ts";
import { killsForMemory } from "../../base/memory.ts";
import { lastEvents } from "../../run/lineage.ts";
import { killedFor, lastShortage } from "../../run/system.ts";
import { judgeEnds, type LaunchVerdict, type MemoryEvidence, type RankEnd } from "./verdict.ts";
import { clean } from "../../base/terminal.ts";

/** A restart would end the same way, or the end was requested. */
const FINAL: readonly number[] = [EXIT.done, EXIT.usage, EXIT.data, EXIT.stopped];

export async function supervise(
  job: LaunchJob,
  words: readonly string[],
  maxRestarts: number,
  say: (line: string) => void,
): Promise<number> {
  const requests = listen(say);
  let args = words;
  for (let restarts = 0;; restarts++) {
    const { verdict, run } = await attempt(job, args, openRankOutput(), requests);
    if (verdict.sentence) say(verdict.sentence);
    if (requests.stop || FINAL.includes(verdict.code) || restarts === maxRestarts) return verdict.code;
    const going = run && hasCheckpoint(run);
    if (going) args = [...words, "--resume", "auto", "--run-name", run.run];
    say(
      `Restart ${restarts + 1} of ${maxRestarts}: ${
        going
          ? `${run.run} goes on from its newest good checkpoint.`
          : "from the beginning, as there is no checkpoint yet."
      }`,
    );
  }
}

function hasCheckpoint({ run, checkpoints }: RunFolders): boolean {
  try {
    return [...Deno.readDirSync(checkpoints)].some(({ name, isDirectory }) =>
      ["pt", "safetensors", "ckpt"].some((ending) =>
        [`${run}_latest.${ending}`, `${run}_best.${ending}`].includes(name)
      ) && (!isDirectory || indexOf(join(checkpoints, name)) !== undefined)
    );
  } catch {
    return false;
  }
}

/**
 * The first request to stop goes to the ranks, which end in their own time; the second ends them. The listeners
 * stay until the process is gone: a scheduler's next signal must not change its code.
 */
function listen(say: (line: string) => void): Requests {
  const requests: Requests = { stop: null, atOnce: false, passOn: [] };
  const onStop = (signal: StopSignal) => () => {
    if (requests.stop === null) return void (requests.stop = signal);
    if (!requests.atOnce) say("SettingChoice to stop again: the ranks are killed.");
    requests.atOnce = true;
  };
  const stops: StopSignal[] = ["SIGINT", "SIGTERM", ...(isHangUpIgnored() ? [] : ["SIGHUP"] as const)];
  for (const name of stops) onSignal(name, onStop(name));
  for (const name of ["SIGUSR1", "SIGUSR2"] as const) onSignal(name, () => requests.passOn.push(name));
  return requests;
}

type StopSignal = "SIGINT" | "SIGTERM" | "SIGHUP";

interface Requests {
  stop: StopSignal | null;
  /** A second request ends the ranks at once. */
  atOnce: boolean;
  /** Each of these other signals is taken by whoever passes it on. */
  passOn: Deno.Signal[];
}

/** When one rank has failed, the others have this long to end by themselves. */
const GRACE_MS = 5000;
const POLL_MS = 50;

interface Watched {
  readonly rank: number;
  at: number | null;
  readonly sent: Set<Deno.Signal>;
}

async function attempt(
  job: LaunchJob,
  args: readonly string[],
  output: RankOutput,
  requests: Requests,
): Promise<{ verdict: LaunchVerdict; run: RunFolders | null }> {
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
          readLines(join(own, RANK_FILES[stream]), (text) => output.line(rank, stream, text))
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
    const run = rankRun(folder, job.ranks[0]);
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
    const verdict = judgeEnds({
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

function watchOver(
  { folder, processes }: StartedRanks,
  ranks: Watched[],
  output: RankOutput,
  requests: Requests,
) {
  let known = false, failedAt: number | null = null, goneAt: number | null = null;
  const send = (signal: Deno.Signal) => {
    for (const watched of ranks) {
      const pid = pidOf(folder, watched.rank);
      if (watched.at !== null || pid === null || watched.sent.has(signal)) continue;
      watched.sent.add(signal);
      kill(pid, signal);
    }
  };
  const poll = () => {
    if (!known) {
      const run = rankRun(folder, ranks[0].rank);
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
    // MPI's launcher ends when its ranks have; the wait for it is limited.
    if (goneAt !== null && Date.now() - goneAt > GRACE_MS) {
      processes.forEach(({ pid }) => kill(pid, "SIGKILL"));
    }
  };
  const timer = setInterval(poll, POLL_MS);
  return {
    allGone() {
      goneAt = Date.now();
      poll();
    },
    close: () => clearInterval(timer),
  };
}

function hasFailed(folder: string, { rank, at }: Watched): boolean {
  if (at === null) return false;
  const note = endOf(folder, rank);
  return note === null || (note.code !== 0 && note.code !== 75);
}

/** A rank that never began would leave its reader waiting: a writer that comes and goes ends the wait. */
function release(folder: string, rank: number): void {
  for (const file of [RANK_FILES.out, RANK_FILES.err]) {
    Deno.openSync(join(rankFolder(folder, rank), file), { read: true, write: true }).close();
  }
}

/** A process that has closed its pipes is about to end; after a while it is killed. */
async function sweep(folder: string, ranks: readonly Watched[]): Promise<void> {
  const pids = ranks.map(({ rank }) => pidOf(folder, rank)).filter((pid) => pid !== null);
  for (const end = Date.now() + GRACE_MS; pids.some(isAlive);) {
    if (Date.now() > end) return pids.filter(isAlive).forEach((pid) => kill(pid, "SIGKILL"));
    await new Promise((resolve) => setTimeout(resolve, POLL_MS / 5));
  }
}

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

function memoryOf(run: RunFolders | null, before: MemoryEvidence["kills"]): MemoryEvidence {
  const now = killsForMemory(), short = run && lastShortage(lastEvents(run.logs));
  const kills = { job: now.job - before.job, machine: now.machine - before.machine };
  return { kills, shortage: short && killedFor(short) };
}

const TAIL_BYTES = 65536;

function lastStep(logs: string): number | null {
  try {
    using file = Deno.openSync(join(logs, "events.jsonl"));
    file.seekSync(Math.max(0, file.statSync().size - TAIL_BYTES), Deno.SeekMode.Start);
    const bytes = new Uint8Array(TAIL_BYTES);
    const text = new TextDecoder().decode(bytes.subarray(0, file.readSync(bytes) ?? 0));
    const last = [...text.matchAll(/"kind":"step","step":(\d+)/g)].at(-1);
    return last ? Number(last[1]) : null;
  } catch {
    return null;
  }
}

type Stream = "out" | "err";

interface RankOutput {
  line(rank: number, stream: Stream, text: string): void;
  keepIn(logs: string): void;
}

/** The output before the run has a folder is short, except by mistake. */
const HELD_LINES = 2000;

export function openRankOutput(write: (stream: Stream, text: string) => void = toScreen): RankOutput {
  let logs: string | null = null;
  const held: [rank: number, text: string][] = [];
  const errors = new Map<string, number>();
  const keep = (folder: string, rank: number, text: string) => {
    try {
      Deno.writeTextFileSync(join(folder, `rank-${rank}.log`), `${text}\n`, { append: true });
    } catch { /* a full disk is no reason to end a run: whoever saves tells of it */ }
  };
  return {
    line(rank, stream, text) {
      if (logs !== null) keep(logs, rank, text);
      else if (held.length < HELD_LINES) held.push([rank, text]);
      if (stream === "err" && printedBefore(errors, rank, text)) return;
      write(stream, rank === 0 ? `${text}\n` : `[rank ${rank}] ${text}\n`);
    },
    keepIn(folder) {
      logs = folder;
      for (const [rank, text] of held.splice(0)) keep(folder, rank, text);
    },
  };
}

/** An error that all ranks meet is shown once: each rank's file has it. */
function printedBefore(errors: Map<string, number>, rank: number, text: string): boolean {
  if (!text.startsWith("hpctrain: ")) return false;
  const bare = withoutRank(text.slice("hpctrain: ".length));
  const first = errors.get(bare);
  if (first === undefined) errors.set(bare, rank);
  return first !== undefined && first !== rank;
}

const withoutRank = (sentence: string): string =>
  sentence.replace(/^Rank \d+ on \S+(: | failed first, at step \d+: )/, "");

function toScreen(stream: Stream, text: string): void {
  const to = stream === "out" ? Deno.stdout : Deno.stderr;
  const bytes = new TextEncoder().encode(clean(text));
  try {
    for (let at = 0; at < bytes.length;) at += to.writeSync(bytes.subarray(at));
  } catch { /* nobody reads any more: the run goes on */ }
}

async function readLines(path: string, line: (text: string) => void): Promise<void> {
  using pipe = await Deno.open(path); // waits for the writer
  const decoder = new TextDecoder(), buffer = new Uint8Array(65536);
  let rest = "";
  for (let got; (got = await pipe.read(buffer)) !== null;) {
    const lines = (rest + decoder.decode(buffer.subarray(0, got), { stream: true })).split("\n");
    rest = lines.pop()!;
    lines.forEach(line);
  }
  if (rest !== "") line(rest);
}
