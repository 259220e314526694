// What goes wrong in a job of several ranks, with real MPI: the sentence, the code, and nothing that is left.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { join } from "paths";
import { openCheckpoint } from "../../core/checkpoint/open.ts";
import { openMpi } from "../mpi.ts";
import { eventsOf, filesIn, inTemp, lastEventsOf, type Result, ROOT } from "./program.ts";
import { type Job, type JobOptions, startJob } from "./rank_processes.ts";
import { within } from "../cpu_time.ts";

const HOST = Deno.hostname();
/** Seconds, from a fault to the end of the last process. */
const LIMIT = 15;
const SMALL = [
  ...["--model=gpt", "--data-type=synthetic", "--layers=2", "--heads=2", "--context=16", "--val-samples=8"],
  ...["--batch-size=4", "--global-batch-size=8", "--optimizer=adamw"],
];
/** It goes on until something happens to it. */
const ENDLESS = [
  ...[...SMALL, "--embed=32", "--train-samples=500000", "--epochs=1000", "--save-interval=5steps"],
];

const steps = (cwd: string) => eventsOf(cwd, "r").filter(({ kind }) => kind === "step").length;
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const checkpoint = (cwd: string) => join(cwd, "checkpoints/r_latest.pt");

function verify(cwd: string): void {
  using file = openCheckpoint(checkpoint(cwd));
  file.verify();
}

/** A job that has saved. */
async function underWay(cwd: string, more: Partial<JobOptions> = {}, flags: string[] = []): Promise<Job> {
  const job = startJob([...ENDLESS, ...flags], { cwd, mpi: openMpi(), ranks: 2, ...more });
  await job.until("a save", () => eventsOf(cwd, "r").some(({ kind }) => kind === "save"));
  return job;
}

interface Ending {
  readonly code: number;
  readonly says: RegExp;
  /** More than LIMIT, where something has to time out first. */
  readonly limit?: number;
}

/** The job ends so, in time, and its last checkpoint is good. */
async function ends(
  cwd: string,
  job: Job,
  since: number,
  { code, says, limit = LIMIT }: Ending,
): Promise<Result> {
  const result = await job.end(since);
  const { stdout, stderr, seconds } = result;
  assertMatch(stderr, says, stdout + stderr);
  assertEquals(result.code, code, stdout + stderr);
  assert(within(seconds, limit), `${seconds} s: ${stderr}`);
  if (filesIn(cwd).includes("checkpoints/r_latest.pt")) verify(cwd);
  return result;
}

const GONE = "is gone: its process ended without a word \\(killed, or out of memory\\?\\)";
/** What is said of a rank that was killed. */
const gone = (rank: number) =>
  rank === 0
    ? new RegExp(`^hpctrain: Rank 0 on ${HOST} ${GONE}: look at its own output first\\.$`, "m")
    : new RegExp(`^hpctrain: Rank ${rank} on ${HOST} ${GONE}\\. It was in [a-z. ]+, at step \\d+\\.$`, "m");

for (const rank of [0, 1]) {
  Deno.test(`kill -9 of rank ${rank} in a step: the other says who is gone`, () =>
    inTemp(async (cwd) => {
      const job = await underWay(cwd);
      const since = performance.now();
      job.kill(rank, "SIGKILL");
      await ends(cwd, job, since, { code: 5, says: gone(rank) });
    }));

  Deno.test(`kill -9 of rank ${rank} in an all-reduce: the other says who is gone`, () =>
    inTemp(async (cwd) => {
      const job = await underWay(cwd);
      job.kill(1 - rank, "SIGSTOP"); // now the one that is to go waits for it
      await pause(1500);
      const since = performance.now();
      job.kill(rank, "SIGKILL");
      job.kill(1 - rank, "SIGCONT");
      await ends(cwd, job, since, { code: 5, says: gone(rank) });
    }));

  Deno.test(`kill -9 of rank ${rank} while the other waits for it in an all-reduce: the other says who is gone`, () =>
    inTemp(async (cwd) => {
      const job = await underWay(cwd);
      job.kill(rank, "SIGSTOP");
      await pause(1500);
      const since = performance.now();
      job.kill(rank, "SIGKILL");
      await ends(cwd, job, since, { code: 5, says: gone(rank) });
    }));

  Deno.test(`kill -9 of rank ${rank} while a checkpoint is written: the one before it is good`, () =>
    inTemp(async (cwd) => {
      const large = ["--embed=384", "--layers=4", "--save-interval=1steps"];
      const job = await underWay(cwd, {}, large);
      const before = filesIn(cwd).length;
      await job.until("a file that is being written", () => filesIn(cwd).length > before);
      const since = performance.now();
      job.kill(rank, "SIGKILL");
      await ends(cwd, job, since, { code: 5, says: gone(rank) });
    }));

  Deno.test(`rank ${rank} is stopped: the other says that it is not heard of, and where it was`, () =>
    inTemp(async (cwd) => {
      const job = await underWay(cwd);
      const since = performance.now();
      job.kill(rank, "SIGSTOP");
      const stopped = job.pidOf(rank)!;
      await job.until("the other is gone", () => job.pidOf(1 - rank) === undefined);
      Deno.kill(stopped, "SIGKILL"); // no launcher would end it
      const says = rank === 0
        ? /^hpctrain: Rank 0 on \S+ was not heard of for \d+ s .*: look at its own output first\.$/m
        : /^hpctrain: Rank 1 on \S+ was not heard of for \d+ s: its node or the network is down\. It was in [a-z. ]+, at step \d+\.$/m;
      await ends(cwd, job, since, { code: 5, says });
    }));
}

Deno.test("Open MPI's launcher ends the others itself when a rank is killed, and names it", () =>
  inTemp(async (cwd) => {
    const job = await underWay(cwd, { lenient: false });
    const since = performance.now();
    job.kill(1, "SIGKILL");
    await ends(cwd, job, since, { code: 137, says: /process rank 1 .*signal 9/s });
  }));

Deno.test("kill -9 of one of four ranks: the three others say who is gone", () =>
  inTemp(async (cwd) => {
    const job = await underWay(cwd, { ranks: 4 }, ["--batch-size=2"]);
    const since = performance.now();
    job.kill(2, "SIGKILL");
    const { stderr } = await ends(cwd, job, since, { code: 5, says: gone(2) });
    assertEquals(stderr.match(/^hpctrain: Rank 2 /gm)?.length, 3, stderr);
  }));

Deno.test("a rank that sleeps is named after --timeout, with what it never entered, and all ranks are in a file", () =>
  inTemp(async (cwd) => {
    const program = `${Deno.execPath()} run --quiet --allow-all --no-check ${
      join(ROOT, "tests/integration/sleeping_rank.ts")
    }`;
    const wrapped = ["sh", "-c", `while [ "$1" != train ]; do shift; done; exec ${program} "$@"`];
    const job = startJob([...ENDLESS, "--timeout=4s"], { cwd, mpi: openMpi(), ranks: 2, wrapped });
    await job.until("some steps", () => steps(cwd) >= 5);
    const says =
      /^hpctrain: Rank 1 on \S+ never entered [a-z-]+ \d+ \(.+\): in [a-z. ]+ for \d+ s\. All ranks: (\S+)\.$/m;
    const { stderr } = await ends(cwd, job, performance.now(), { code: 5, says, limit: LIMIT + 4 });
    const file = says.exec(stderr)![1];
    assertMatch(file, /\/logs\/r\/hang-\d+\.json$/);
    const { ranks } = JSON.parse(Deno.readTextFileSync(file));
    assertEquals(ranks.map(({ rank }: { rank: number }) => rank), [0, 1]);
    assert(ranks.every(({ flight }: { flight: unknown[] }) => flight.length > 10));
  }));

/** A job that comes to its end by itself. Each rank runs `script` first, with its number as $R, and ends with its code. */
async function refused(
  cwd: string,
  script: string,
  codes: number[],
  says: RegExp,
  { flags = [], env = {} }: { flags?: string[]; env?: Record<string, string> } = {},
): Promise<string> {
  const since = performance.now();
  const wrapped = [
    ...["sh", "-c"],
    `D=$PWD; R=$OMPI_COMM_WORLD_RANK; ${script}; "$0" "$@"; echo $? > $D/code-$R`,
  ];
  const job = startJob([...ENDLESS, ...flags], { cwd, mpi: openMpi(), ranks: 2, wrapped, env });
  const { stderr } = await ends(cwd, job, since, { code: 0, says, limit: LIMIT + 4 });
  assertEquals(
    codes.map((_, rank) => Number(Deno.readTextFileSync(join(cwd, `code-${rank}`)))),
    codes,
    stderr,
  );
  return stderr;
}

Deno.test("a rank whose data is bad says so, and the other names it", () =>
  inTemp(async (cwd) => {
    for (const rank of [0, 1]) {
      const digits = join(cwd, `${rank}/digits`);
      Deno.mkdirSync(digits, { recursive: true });
      const header = (...words: number[]) => new Uint8Array(new Uint32Array(words).buffer).reverse();
      const images = [...header(4, 4, 80, 0x803), ...new Uint8Array(rank === 0 ? 80 * 16 : 100)];
      Deno.writeFileSync(join(digits, "train-images-idx3-ubyte"), new Uint8Array(images));
      Deno.writeFileSync(
        join(digits, "train-labels-idx1-ubyte"),
        new Uint8Array([...header(80, 0x801), ...new Uint8Array(80)]),
      );
    }
    const flags = ["--model=mlp", "--data-type=mnist", "--data-path=digits", "--train-samples=64"];
    const stderr = await refused(cwd, "cd $R", [5, 3], /^hpctrain: digits\S+ is truncated/m, { flags });
    assertMatch(stderr, /^hpctrain: Rank 1 on \S+ failed first, at step 0: digits\S+ is truncated/m);
  }));

Deno.test("a loss that is no number ends all ranks with the same code, and one of them says so", () =>
  inTemp(async (cwd) => {
    const flags = ["--lr=1e6", "--scheduler=constant"];
    const stderr = await refused(cwd, ":", [6, 6], /^hpctrain: The loss became NaN at step \d+ /m, { flags });
    assertEquals(stderr.match(/^hpctrain: The loss became NaN/gm)?.length, 1, stderr);
  }));

Deno.test("a rank with another libtorch is refused by its version", () =>
  inTemp(async (cwd) => {
    const script = `[ $R = 0 ] || export HPCTRAIN_LIBTORCH=${Deno.env.get("HPCTRAIN_LIBTORCH_OLDEST")!}`;
    await refused(cwd, script, [7, 7], /^hpctrain: .*Rank 1 .*libtorch.*2\.10/m);
  }));

Deno.test("a rank that never arrives is named after --timeout", () =>
  inTemp(async (cwd) => {
    const says = /^hpctrain: Of 2 ranks 1 came within \d+ s; rank 1 \(expected on \S+\) never arrived/m;
    await refused(cwd, "[ $R = 0 ] || exec sleep 6", [5], says, { flags: ["--timeout=4s"] });
  }));

Deno.test("a port that another program has is named, by every rank", () =>
  inTemp(async (cwd) => {
    using taken = Deno.listen({ port: 0 });
    const { port } = taken.addr as Deno.NetAddr;
    const env = { MASTER_ADDR: "127.0.0.1", MASTER_PORT: String(port) };
    await refused(cwd, ":", [5, 5], new RegExp(`^hpctrain: .*port ${port}`, "m"), { env });
  }));

Deno.test("a rank with another secret is refused", () =>
  inTemp(async (cwd) => {
    const script = "export HPCTRAIN_SECRET=0123456789abcdef0123456789abcde$R";
    const says =
      /^The rendezvous port refused a connection from \S+, which sent what another secret was used for/m;
    const stderr = await refused(cwd, script, [5, 5], says, { flags: ["--timeout=4s"] });
    assertMatch(stderr, /^hpctrain: Of 2 ranks 1 came within 4 s; rank 1 /m);
    assertMatch(stderr, /^hpctrain: Rank 0 was not found: .*answers with another secret/m);
  }));

for (const signal of ["SIGTERM", "SIGINT"] as const) {
  for (const rank of [0, 1]) {
    Deno.test(`${signal} to rank ${rank}: all stop after a save, with code 75`, () =>
      inTemp(async (cwd) => {
        const job = await underWay(cwd);
        const since = performance.now();
        job.kill(rank, signal);
        const { stdout } = await ends(cwd, job, since, { code: 75, says: /^(warning: |$)/ });
        assertMatch(
          stdout,
          new RegExp(`Stopped on request \\(${signal === "SIGINT" ? "Ctrl-C" : signal}\\)`),
        );
        const [save, exit] = lastEventsOf(cwd, "r", 2);
        assertEquals([save.kind, save.reason, exit.kind, exit.code], ["save", "stop", "exit", 75]);
      }));
  }

  // It kills them a quarter of a second after it has asked, which on a busy machine may be too short for a save.
  Deno.test(`${signal} to Open MPI's launcher: the ranks save where they get the time, and all end`, async () => {
    let saved = false, said = "";
    for (let tries = 0; tries < 5 && !saved; tries++) {
      await inTemp(async (cwd) => {
        const job = await underWay(cwd, { lenient: false });
        const since = performance.now();
        job.child.kill(signal);
        const { seconds, stdout, stderr } = await job.end(since);
        said = `${seconds} s: ${stdout}${stderr}`;
        assert(within(seconds, LIMIT), said);
        verify(cwd);
        saved = eventsOf(cwd, "r").some(({ kind, reason }) => kind === "save" && reason === "stop");
      });
    }
    assert(saved, said);
  });
}
