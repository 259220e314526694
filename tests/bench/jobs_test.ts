// Whole jobs beside scripts, at a tiny size: what is compared, what is printed, and that a benchmark goes on where it was.
import { assert, assertEquals, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import { join } from "paths";
import { codeOf } from "../../bench/age.ts";
import { openHost } from "../../bench/contestant.ts";
import { commandOf, JOBS } from "../../bench/job_lines.ts";
import { due, inOrder, keyOf, makeJobData, measureJob, QUICK, sameJob, wantedBy } from "../../bench/jobs.ts";
import { beside, type JobResults, type JobRow, jobsPage } from "../../bench/jobs_page.ts";
import { coresOfOthers, neighbour, timed } from "../../bench/timed.ts";
import { COMMAND, inTemp } from "../integration/program.ts";

const python = () => {
  const found = Deno.env.get("HPCTRAIN_PYTHON");
  if (!found) throw new Error("set HPCTRAIN_PYTHON to a Python with torch and pandas");
  return found;
};

const side = (command: string, others = 0, seconds = [3, 1, 2]) => ({
  command,
  seconds,
  cpu: seconds,
  peak: seconds.map(() => 2 ** 20),
  others: seconds.map(() => others),
  val_loss: 0.5,
});

const made = (more: Partial<JobRow> = {}): JobRow => ({
  cpu: "a CPU",
  title: "a table",
  threads: 1,
  busy: false,
  parameters: 10,
  steps: 20,
  batch: 32,
  date: "2026-11-28",
  load: 0.1,
  code: codeOf("jobs"),
  sides: {
    hpctrain: side("hpctrain train --data-path a.csv"),
    PyTorch: side("python3 jobs.py a", 0, [1, 1, 1]),
  },
  ...more,
});

Deno.test("a job is timed from start to exit on both sides, which train the same network in as many steps", () =>
  inTemp(async (folder) => {
    const exe = join(folder, "hpctrain");
    Deno.writeTextFileSync(exe, `#!/bin/sh\nexec ${COMMAND.join(" ")} "$@"\n`, { mode: 0o755 });
    const data = join(folder, "data"), programs = { exe, python: python(), lightning: null };
    makeJobData(programs.python, data, QUICK.share, "small-table");
    const setting = { threads: 1, busy: false };
    const row = await measureJob(programs, data, "small-table", setting, QUICK, openHost(undefined, 1));
    assertEquals(row.steps, 4); // 58 rows of 64 train, 32 at a time, for two epochs
    assertEquals(Object.keys(row.sides), ["hpctrain", "hpctrain --compile", "PyTorch"]);
    const { hpctrain, PyTorch } = row.sides;
    assertEquals(
      hpctrain!.command,
      "hpctrain train --data-path small.csv --hidden-size 128 --epochs 2 --batch-size 32 --clip-norm 1 --threads 1",
    );
    assertEquals(
      PyTorch!.command,
      "python3 jobs.py small-table small.csv --epochs 2 --batch-size 32 --clip-norm 1 --threads 1",
    );
    for (const one of [hpctrain!, PyTorch!]) {
      assert(one.seconds[0] > 0.1 && one.cpu[0] > 0.1 && one.peak[0] > 50e6, JSON.stringify(one));
      assert(one.val_loss > 0, JSON.stringify(one));
    }
  }));

Deno.test("sides that train other networks, or other steps, are no comparison", () => {
  const trained = { parameters: 10, steps: 20, val_loss: 1 };
  sameJob("maps", "PyTorch", { ...trained, val_loss: 2 }, trained);
  assertThrows(
    () => sameJob("maps", "PyTorch", { ...trained, steps: 21 }, trained),
    Error,
    "maps: PyTorch has steps 21",
  );
  assertThrows(
    () => sameJob("maps", "Lightning", { ...trained, parameters: 9 }, trained),
    Error,
    "parameters 9",
  );
});

Deno.test("a benchmark that was cut off goes on with the jobs that are missing, or of other code", () => {
  const all = wantedBy(["--threads", "2"]);
  const [first, second, ...rest] = Object.keys(JOBS);
  const setting = { threads: 2, busy: false };
  const rows = {
    [keyOf(first, setting)]: made(),
    [keyOf(second, setting)]: made({ code: { commit: "abc", fingerprint: "0" } }),
  };
  assertEquals(due(rows, all).map(([name]) => name), [second, ...rest]);
  assertEquals(due(rows, wantedBy([first, "--threads", "2"])), [[first, setting]]);
  assertEquals(due(rows, wantedBy(["--busy", "--threads", "2"])).length, Object.keys(JOBS).length);
});

Deno.test("words choose jobs, threads and a neighbour; others are refused by name", () => {
  assertEquals(wantedBy(["gpt", "--busy"]), {
    names: ["gpt"],
    settings: [{ threads: 1, busy: true }, { threads: 2, busy: true }],
  });
  assertThrows(() => wantedBy(["gtp"]), Error, 'There is no job "gtp". There are: small-table, ');
  assertThrows(() => wantedBy(["--threads", "3"]), Error, "--threads takes 1 or 2.");
});

Deno.test("each job's command lines name the same data, epochs, batch and threads", () => {
  for (const name of Object.keys(JOBS)) {
    const [ours, theirs] = [commandOf(name, "hpctrain", 2), commandOf(name, "PyTorch", 2)];
    const { epochs, batch, data } = JOBS[name];
    for (const words of [`--epochs ${epochs} --batch-size ${batch} --clip-norm 1 --threads 2`, ` ${data} `]) {
      assertStringIncludes(ours, words);
      assertStringIncludes(theirs, words);
    }
    assertEquals(commandOf(name, "hpctrain --compile", 2), `${ours} --compile`);
  }
});

Deno.test("the page prints every command line, losses too, and which rows were measured beside other work", () => {
  const rows = {
    "gpt, one thread": made(),
    "small-table, one thread, busy": made({
      busy: true,
      sides: { hpctrain: side("hpctrain train --data-path b.csv", 1.1) },
    }),
    "small-table, one thread": made({ sides: { hpctrain: side("hpctrain train --data-path c.csv", 0.9) } }),
  };
  assertEquals(Object.values(rows).map(beside), [false, false, true]);
  const results: JobResults = {
    command: "./scripts/bench jobs",
    date: "2026-11-28",
    machine: { cpu: "a CPU", cores: 2, memoryGiB: 1, load: 0 },
    versions: { python: "3", torch: "2", libtorch: "2", deno: "2" },
    rows: inOrder(rows),
  };
  assertEquals(Object.keys(results.rows).at(-1), "gpt, one thread");
  const page = jobsPage(results);
  for (const row of Object.values(rows)) {
    for (const { command } of Object.values(row.sides)) {
      assertStringIncludes(page, `    ${command}\n`.trimEnd());
    }
  }
  assertStringIncludes(page, "|  |  | PyTorch | 1.0 s | 1.0 s to 1.0 s | 0.50x |");
  assertEquals(page.match(/a table; beside other work \|/g)?.length, 1);
  assertStringIncludes(page, "a table; one core busy |");
});

Deno.test("a command's time, processor time and memory are its own, and one that fails is named", async () => {
  const cwd = Deno.makeTempDirSync();
  try {
    const slept = await timed(python(), ["sh", "-c", "sleep 0.3; echo done"], cwd);
    assert(slept.seconds >= 0.3 && slept.cpu < 0.2 && slept.peak > 1e5, JSON.stringify(slept));
    assertEquals(slept.said, "done\n");
    const busy = await timed(python(), [python(), "-S", "-c", "sum(range(10_000_000))"], cwd);
    assert(busy.cpu > 0.05, JSON.stringify(busy));
    await assertRejects(() => timed(python(), ["sh", "-c", "echo no >&2; exit 3"], cwd), Error, "failed: no");
  } finally {
    Deno.removeSync(cwd, { recursive: true });
  }
});

Deno.test("others are what the machine's processes took but the command's own", () => {
  assertEquals(coresOfOthers(500, { seconds: 2, cpu: 3 }), 1);
  assertEquals(coresOfOthers(299, { seconds: 2, cpu: 3 }), 0);
});

Deno.test("a neighbour is one of the others, and ends with the job", async () => {
  const cwd = Deno.makeTempDirSync();
  const own = () => new Deno.Command("ps", { args: ["--ppid", `${Deno.pid}`, "-o", "args"] }).outputSync();
  const running = () => new TextDecoder().decode(own().stdout).includes("while kill -0");
  try {
    {
      using _busy = neighbour();
      assert(running());
      const { others } = await timed(python(), ["sleep", "0.5"], cwd);
      assert(others > 0.3, `${others}`);
    }
    for (let i = 0; i < 100 && running(); i++) await new Promise((done) => setTimeout(done, 20));
    assert(!running());
  } finally {
    Deno.removeSync(cwd, { recursive: true });
  }
});
