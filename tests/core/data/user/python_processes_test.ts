// The processes of a Python data set: what the user's code starts there, and what is left behind. None is.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { delay } from "@std/async";
import { join } from "paths";
import { finish, inTemp, start, succeed, TINY } from "../../../integration/program.ts";

const python = Deno.env.get("HPCTRAIN_PYTHON") ?? "python3";
const FLAGS = [...TINY, "--data=own_data.py", `--data-python=${python}`, "--model=mlp", "--no-wandb"];
const SHORT = ["--max-steps=1", "--num-workers=0"];

const write = (cwd: string, text: string) => Deno.writeTextFileSync(join(cwd, "own_data.py"), text);

const GIVES = `
    samples = [([float(i), 1.0], (0.5, 0.5)) for i in range(16)]
    return dict(task="regression", outputs=2, train=samples, val=samples)
`;

Deno.test("a data set ends its own child processes, in whichever way they were started, by the signals for it", () =>
  inTemp(async (cwd) => {
    write(
      cwd,
      `
import multiprocessing, os, signal, subprocess, sys, time

def idle():
    time.sleep(600)

def data(settings, seed):
    ended = []
    for method in ("fork", "spawn", "forkserver"):
        process = multiprocessing.get_context(method).Process(target=idle)
        process.start()
        process.terminate()
        process.join()
        ended.append(process.exitcode)
    pool = multiprocessing.get_context("fork").Pool(2)
    pool.terminate()
    pool.join()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        program = subprocess.Popen(["sleep", "600"])
        program.send_signal(number)
        ended.append(program.wait())
    print("ended by", ended, file=sys.stderr)${GIVES}`,
    );
    const { stderr } = await succeed([...FLAGS, ...SHORT], { cwd, timeout: 90 });
    assertMatch(stderr, /ended by \[-15, -15, -15, -2, -15, -1, -10, -12\]/);
  }));

Deno.test("functions and classes of a Python file reach its worker processes, however those are started", () =>
  inTemp(async (cwd) => {
    write(
      cwd,
      `
import multiprocessing, sys
from dataclasses import dataclass

@dataclass
class Row:
    number: int

def doubled(row):
    return Row(2 * row.number)

def data(settings, seed):
    for method in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            print(method, pool.map(doubled, [Row(1), Row(2)]), file=sys.stderr)${GIVES}`,
    );
    const { stderr } = await succeed([...FLAGS, ...SHORT], { cwd, timeout: 90 });
    for (const method of ["fork", "spawn", "forkserver"]) {
      assert(stderr.includes(`${method} [Row(number=2), Row(number=4)]\n`), stderr);
    }
  }));

Deno.test("a data set that takes longer than ten seconds is said to be awaited", () =>
  inTemp(async (cwd) => {
    write(
      cwd,
      `
import time

def data(settings, seed):
    time.sleep(11)${GIVES}`,
    );
    const { stderr } = await succeed([...FLAGS, ...SHORT], { cwd, timeout: 90 });
    assertEquals(
      stderr.match(/^own_data\.py: the data set is awaited from \S+ for 10 s already\.$/gm)?.length,
      1,
    );
  }));

const isThere = (pid: number): boolean => {
  try {
    return !/^State:\s*Z/m.test(Deno.readTextFileSync(`/proc/${pid}/status`));
  } catch {
    return false;
  }
};

async function until(what: string, isSo: () => boolean, seconds = 60): Promise<void> {
  for (const end = Date.now() + seconds * 1000; !isSo(); await delay(100)) {
    if (Date.now() > end) throw new Error(`not within ${seconds} s: ${what}`);
  }
}

for (const whole of [false, true]) {
  const killed = whole ? "all of its process group" : "alone";
  Deno.test(`no process of a data set outlives a program that is killed, ${killed}`, () =>
    inTemp(async (cwd) => {
      write(
        cwd,
        `
import multiprocessing, os, subprocess, time

def idle():
    time.sleep(600)

class Slow:
    def __len__(self): return 16
    def __getitem__(self, i):
        workers = [multiprocessing.get_context(method).Process(target=idle) for method in ("fork", "spawn")]
        for worker in workers:
            worker.start()
        pids = [os.getpid(), *(worker.pid for worker in workers), subprocess.Popen(["sleep", "600"]).pid]
        with open("pids.tmp", "w") as file:
            print(*pids, file=file)
        os.rename("pids.tmp", "pids")
        time.sleep(600)

def data(settings, seed):
    return dict(task="regression", outputs=2, train=Slow())
`,
      );
      const program = start([...FLAGS, ...SHORT], { cwd, through: whole ? ["setsid"] : [] });
      const result = finish(program);
      const path = join(cwd, "pids"),
        there = () => [...Deno.readDirSync(cwd)].some(({ name }) => name === "pids");
      await until("a sample is asked for", there);
      const pids = Deno.readTextFileSync(path).trim().split(" ").map(Number);
      try {
        assert(pids.length === 4 && pids.every(isThere));
        Deno.kill(whole ? -program.pid : program.pid, "SIGKILL");
        await until(`${pids} are gone`, () => !pids.some(isThere), 15);
      } finally {
        for (const pid of pids.filter(isThere)) Deno.kill(pid, "SIGKILL");
        await result;
      }
    }));
}
