// Signals that come late: while a run saves, waits for other ranks, or ends. The code stays its own, so that a job goes back
// to its queue; and an end that hangs can be ended.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { join } from "paths";
import { mpich, type MpiUnderTest, openMpi } from "../mpi.ts";
import { endsBegun, slowEnd } from "../native/slow_end.ts";
import { launch, processesOf, stepped } from "./launches.ts";
import { eventsOf, finish, inTemp, lastEventsOf, start, TINY, until } from "./program.ts";
import { startJob } from "./rank_processes.ts";
import { withoutMpi } from "./without_mpi.ts";
import { within } from "../cpu_time.ts";

const RUN = [...TINY, "--run-name=r", "--log-interval=1"];
const ENDLESS = [...RUN, "--epochs=1000000", "--train-samples=500000"];
const ENDLESS_SWEEP = [
  ...[...TINY, "--log-interval=1", "--epochs=1000000", "--train-samples=500000", "--local"],
];
/** 110 MB of weights and moments: a save takes some time. */
const BIG = ["--hidden-size=3072", "--train-samples=16000"];
const STOPPED = 75;
/** What a scheduler, its launchers and a terminal that is closed send. */
const LATE = ["SIGUSR1", "SIGUSR2", "SIGUSR1", "SIGTERM", "SIGHUP", "SIGUSR1"] as const;

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const steps = (cwd: string) => eventsOf(cwd, "r").filter(({ kind }) => kind === "step").length;
const training = (cwd: string) => stepped(cwd, "r", 3);

/** False where the process has gone. */
function send(pid: number, signal: Deno.Signal): boolean {
  try {
    Deno.kill(pid, signal);
    return true;
  } catch {
    return false;
  }
}

/** Sends these signals at random moments, until all the processes have gone. */
async function storm(pids: readonly number[], signals: readonly Deno.Signal[]): Promise<void> {
  for (let i = 0;; i++) {
    if (pids.map((pid) => send(pid, signals[i % signals.length])).every((there) => !there)) return;
    await pause(8 * Math.random());
  }
}

const ends: [how: string, flags: string[], ask: typeof warn | null, code: number][] = [
  ["was stopped", ENDLESS, warn, STOPPED],
  ["is done", RUN, null, 0],
  ["has failed", [...RUN, "--epochs=100", "--lr=1e6", "--scheduler=constant"], null, 6],
];

async function warn(child: Deno.ChildProcess, cwd: string): Promise<void> {
  await training(cwd);
  child.kill("SIGUSR1");
}

for (const [how, flags, ask, expected] of ends) {
  Deno.test(`no signal changes the code of a run that ${how}, while its libraries end`, () =>
    inTemp(async (cwd) => {
      const child = start(flags, { cwd, env: slowEnd(cwd, 2) });
      await ask?.(child, cwd);
      await until("the libraries' end", () => endsBegun(cwd) === 1);
      for (const signal of LATE) {
        assert(send(child.pid, signal));
        await pause(50);
      }
      const { code, stdout, stderr } = await finish(child, 60);
      assertEquals(code, expected, stdout + stderr);
    }));
}

Deno.test("a run that saves, stops and ends under repeated warnings keeps its code, at whatever moments they come", () =>
  inTemp(async (cwd) => {
    for (let i = 0; i < 3; i++) {
      const before = steps(cwd);
      const child = start([...ENDLESS, ...BIG, "--resume=auto"], { cwd });
      await until("a step", () => steps(cwd) > before);
      const result = finish(child, 60);
      await storm([child.pid], i % 2 === 0 ? ["SIGUSR1"] : ["SIGUSR1", "SIGUSR2", "SIGTERM"]);
      const { code, stdout, stderr } = await result;
      assertEquals(code, STOPPED, stdout + stderr);
      const [save, exit] = lastEventsOf(cwd, "r", 2);
      assertEquals([save.kind, exit.kind, exit.code], ["save", "exit", STOPPED]);
    }
  }));

for (
  const [name, mpi] of [["Open MPI", openMpi], ["MPICH", mpich], ["no MPI", () => null]] as [
    string,
    () => MpiUnderTest | null,
  ][]
) {
  Deno.test(`two ranks that save, wait for each other and end under repeated warnings stop with 75, and launch too (${name})`, () =>
    inTemp(async (cwd) => {
      const none = mpi() === null ? { ...withoutMpi(cwd), TMPDIR: cwd } : {};
      for (let i = 0; i < 3; i++) {
        const words = ["-n", "2", "--", ...ENDLESS, ...BIG, "--resume=auto"];
        const launched = launch(cwd, mpi(), words, none);
        const before = eventsOf(cwd, "r").length;
        await until("a step", () => eventsOf(cwd, "r").slice(before).some(({ kind }) => kind === "step"));
        const ranks = [launched.pid(0), launched.pid(1)];
        await storm(i === 0 ? ranks : [launched.child.pid, ...ranks], ["SIGUSR1", "SIGUSR2"]);
        const { code, stdout, stderr } = await launched.result;
        assertEquals(code, STOPPED, stdout + stderr);
        assertEquals(lastEventsOf(cwd, "r", 1)[0].code, STOPPED);
        assertEquals(processesOf(cwd), []);
      }
    }));
}

Deno.test("two ranks that MPI's launcher has started keep their 75, whatever signals come while their libraries end", () =>
  inTemp(async (cwd) => {
    const job = startJob(["--train-samples=500000", "--epochs=1000", "--threads=1"], {
      ...{ cwd, mpi: openMpi(), ranks: 2, env: slowEnd(cwd, 3) },
    });
    await job.until("some steps", () => steps(cwd) > 3);
    job.kill(0, "SIGUSR1");
    await job.until("the libraries' ends", () => endsBegun(cwd) === 2);
    const pids = [0, 1].map((rank) => job.pidOf(rank)!);
    for (const signal of LATE) {
      pids.forEach((pid) => send(pid, signal));
      await pause(50);
    }
    const { code, stdout, stderr } = await job.end(performance.now());
    assertEquals(code, STOPPED, stdout + stderr);
  }));

Deno.test("a local sweep that is warned again and again stops its runs, and ends with 75", () =>
  inTemp(async (cwd) => {
    for (let i = 0; i < 3; i++) {
      const began = Date.now();
      const child = start(["sweep", ...ENDLESS_SWEEP, "--lr=1e-3,1e-2", "--jobs=2"], { cwd });
      const result = finish(child, 60);
      const logs = () => [...Deno.readDirSync(join(cwd, "logs"))].filter(({ name }) => /^sweep/.test(name));
      await until("both runs train", () => {
        try {
          return logs().length === 2 &&
            logs().every(({ name }) =>
              eventsOf(cwd, name).some(({ kind, t }) => kind === "step" && 1000 * Number(t) > began)
            );
        } catch {
          return false; // no run yet
        }
      });
      await storm([child.pid], ["SIGUSR1", "SIGUSR2", "SIGTERM"]);
      const { code, stdout, stderr } = await result;
      assertEquals(code, STOPPED, stdout + stderr);
    }
  }));

Deno.test("a local sweep stops its runs at Ctrl-C, and ends at the second one even where their ends hang", () =>
  inTemp(async (cwd) => {
    const words = ["sweep", ...ENDLESS_SWEEP, "--lr=1e-3,1e-2"];
    const child = start(words, { cwd, env: slowEnd(cwd, 100) });
    await stepped(cwd, "sweep-lr1e-3", 3);
    const stdout = await interruptTwice(child, cwd);
    assertMatch(stdout, /^Ctrl-C: no further run is begun, and those under way stop after a save\.$/m);
  }));

Deno.test("Ctrl-C ends a search that waits for another one's run", () =>
  inTemp(async (cwd) => {
    const words = ["sweep", ...ENDLESS_SWEEP, "--lr=1e-4..1e-1", "--search=random", "--max-runs=1"];
    const first = start(words, { cwd });
    await stepped(cwd, "sweep-000", 3);
    const second = start(words, { cwd });
    const reader = second.stdout.getReader();
    for (let text = ""; !/Waiting for process/.test(text);) {
      const { value, done } = await reader.read();
      assert(!done, text);
      text += new TextDecoder().decode(value);
    }
    reader.releaseLock();
    const since = performance.now();
    second.kill("SIGINT");
    const { code, stderr } = await finish(second, 60);
    const seconds = (performance.now() - since) / 1000;
    assertEquals(code, STOPPED, stderr);
    assert(within(seconds, 2), `${seconds} s`);
    first.kill("SIGTERM");
    assertEquals((await finish(first, 60)).code, STOPPED);
  }));

Deno.test("a terminal that is closed ends nothing that nohup has started, and is a request where --stop-signals has HUP", () =>
  inTemp(async (cwd) => {
    for (const [run, launcher] of [["alone", []], ["ranks", ["launch", "-n", "2", "--"]]] as const) {
      const words = [...launcher, ...ENDLESS, `--run-name=${run}`];
      const child = start(words, { cwd, through: ["nohup"], env: withoutMpi(cwd) });
      await stepped(cwd, run, 3);
      child.kill("SIGHUP");
      await pause(300);
      const told = eventsOf(cwd, run).length;
      await until("more steps", () => eventsOf(cwd, run).length > told + 3);
      child.kill("SIGUSR1");
      const { code, stdout, stderr } = await finish(child, 60);
      assertEquals(code, STOPPED, stdout + stderr);
      assertMatch(stdout, /Stopped on request \(SIGUSR1\)/);
    }
    const child = start([...ENDLESS, "--stop-signals=HUP,USR1"], { cwd, through: ["nohup"] });
    await training(cwd);
    child.kill("SIGHUP");
    const { code, stdout } = await finish(child, 60);
    assertEquals(code, STOPPED);
    assertMatch(stdout, /Stopped on request \(SIGHUP\)/);
  }));

/** The second Ctrl-C comes while the libraries end, which takes longer than anybody waits. */
async function interruptTwice(child: Deno.ChildProcess, cwd: string): Promise<string> {
  child.kill("SIGINT");
  await until("the libraries' end", () => endsBegun(cwd) === 1);
  await pause(500);
  const since = performance.now();
  child.kill("SIGINT");
  const { code, stdout, stderr } = await finish(child, 90);
  const seconds = (performance.now() - since) / 1000;
  assertEquals(code, STOPPED, stdout + stderr);
  assert(within(seconds, 2), `${seconds} s`);
  return stdout;
}

Deno.test("a second Ctrl-C ends an end that hangs, with the code of the run", () =>
  inTemp(async (cwd) => {
    const child = start(ENDLESS, { cwd, env: slowEnd(cwd, 100) });
    await training(cwd);
    await interruptTwice(child, cwd);

    const done = start([...RUN, "--run-name=done"], { cwd, env: slowEnd(cwd, 100) });
    const reader = done.stderr.getReader();
    await until("the libraries' end", () => endsBegun(cwd) === 2);
    await pause(500);
    done.kill("SIGINT");
    assertMatch(new TextDecoder().decode((await reader.read()).value), /Once more ends it at once/);
    done.kill("SIGINT");
    reader.releaseLock();
    assertEquals((await finish(done, 90)).code, 0);
  }));

Deno.test("an end that takes longer than 30 s after the last save is ended, and launch has the code of the run", () =>
  inTemp(async (cwd) => {
    // Threads are told to end when the last save is over.
    const model = `Worker.prototype.terminate = () => { for (;;); };
      export default ({ nn, ops, outputs }) => {
        class Net extends nn.Module {
          last = this.child("0", new nn.Linear(7, outputs));
          forward(x) { return this.last.forward(ops.flatten(x, 1)); }
        }
        return new Net();
      };`;
    Deno.writeTextFileSync(join(cwd, "net.js"), model);
    const words = ["-n", "1", "--", ...ENDLESS, "--model=net.js"];
    const launched = launch(cwd, null, words, withoutMpi(cwd));
    await training(cwd);
    launched.child.kill("SIGUSR1");
    await until("the end", () => eventsOf(cwd, "r").some(({ kind }) => kind === "exit"));
    const since = performance.now();
    const { code, stdout, stderr } = await launched.result;
    const seconds = (performance.now() - since) / 1000;
    assertEquals(code, STOPPED, stdout + stderr);
    assertMatch(
      stderr,
      /^warning: The end took longer than 30 s after the last save: ended with code 75\.$/m,
    );
    assert(seconds > 25 && within(seconds, 34), `${seconds} s`);
  }));
