// The W&B runs that the program writes, and what W&B's own program, the newest and one of 2024, makes of them.
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { dirname, join } from "paths";
import { parsed, recordsOf, rowsOf, stepsOf, sync, WANDBS } from "../core/outputs/wandb/runs.ts";
import { mpich } from "../mpi.ts";
import { launch } from "./launches.ts";
import { eventsOf, filesIn, finish, inTemp, run, start, succeed, TINY, until } from "./program.ts";
import { fileOf, filesOf, killAgainAndAgain, LOGGED, LONG } from "./wandb_kills.ts";
import { openWandbServer, type StoredRun } from "./wandb_server.ts";

const MLP = [...LOGGED, "--model=mlp", "--data-type=synthetic", "--train-samples=160", "--batch-size=16"];
const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, i) => from + i);

/** Runs, kills it after this step, and gives the step that its checkpoint has, as far as events tell. */
async function killed(cwd: string, name: string, flags: string[], step: number): Promise<void> {
  const child = start([...flags, `--run-name=${name}`], { cwd });
  await until(
    `step ${step}`,
    () => eventsOf(cwd, name).some((event) => event.kind === "step" && (event.step as number) >= step),
  );
  child.kill("SIGKILL");
  await finish(child);
}

/** One run of every kind, each in a folder of its own: how it was made, and its last step and code. */
const KINDS: Record<string, (cwd: string) => Promise<{ steps?: number; code: number }>> = {
  async regression(cwd) {
    await succeed([...MLP, "--epochs=2", "--val-samples=32", "--wandb-histograms=10"], { cwd });
    return { steps: 20, code: 0 };
  },
  async classification(cwd) {
    await succeed(["--model=simple-convnet", ...TINY, "--epochs=2", "--log-interval=1"], { cwd });
    return { steps: 8, code: 0 };
  },
  async language(cwd) {
    const gpt = ["--model=gpt", "--layers=2", "--embed=32", "--context=16", "--set=model.vocab_size=32"];
    await succeed([...gpt, ...TINY, "--log-interval=1"], { cwd });
    return { steps: 4, code: 0 };
  },
  async resumed(cwd) {
    await succeed([...MLP, "--epochs=1", "--run-name=r"], { cwd });
    await succeed([...LOGGED, "--resume=auto", "--epochs=3", "--run-name=r"], { cwd });
    return { steps: 30, code: 0 };
  },
  async "requeued thrice"(cwd) {
    for (const step of [12, 40, 75]) await killed(cwd, "r", [...LONG, "--resume=auto"], step);
    await succeed([...LONG, "--resume=auto", "--run-name=r", "--max-steps=120"], { cwd });
    return { steps: 120, code: 0 };
  },
  async "stopped on request"(cwd) {
    const child = start([...LONG, "--run-name=r"], { cwd });
    await until("step 5", () => eventsOf(cwd, "r").some(({ step }) => (step as number) >= 5));
    child.kill("SIGTERM");
    assertEquals((await finish(child)).code, 75);
    return { code: 75 };
  },
  async killed(cwd) {
    await killed(cwd, "r", LONG, 30);
    return { code: 1 };
  },
  async failed(cwd) {
    const { code } = await run([...MLP, "--lr=1e6", "--optimizer=sgd", "--epochs=5"], { cwd });
    assertEquals(code, 6);
    return { code: 6 };
  },
  async "two ranks"(cwd) {
    const flags = [...MLP, "--epochs=2", "--run-name=r"];
    const { code, stderr } = await launch(cwd, mpich(), ["-n", "2", "--", ...flags]).result;
    assertEquals(code, 0, stderr);
    return { steps: 10, code: 0 };
  },
};

const rows = (stored: StoredRun) => stored.lines.history.map(parsed);

Deno.test("W&B's own program, the newest and one of 2024, delivers every kind of run whole", () =>
  inTemp(async (cwd) => {
    const made = new Map<string, { steps?: number; code: number; file: string }>();
    for (const [kind, make] of Object.entries(KINDS)) {
      const folder = join(cwd, kind);
      Deno.mkdirSync(folder);
      made.set(kind, { ...await make(folder), file: fileOf(folder) });
    }
    for (const version of Object.keys(WANDBS) as (keyof typeof WANDBS)[]) {
      await using server = openWandbServer();
      for (const { file } of made.values()) await removeMarks(file);
      const folders = [...made.values()].map(({ file }) => dirname(file));
      const said = await sync(version, server, cwd, folders);
      assertEquals(server.runs.size, made.size, said);
      for (const [kind, { steps, code, file }] of made) {
        const what = `${kind}, ${version}`;
        const stored = [...server.runs.values()].find(({ name }) => file.includes(`-${name}/`))!;
        const written = rowsOf(file);
        assertEquals(rows(stored).length, written.length, what);
        rows(stored).forEach((row, i) => assertEquals(row, textual(written[i]), what));
        assertEquals(rows(stored).map((row) => row._step), range(1, steps ?? written.length), what);
        const records = recordsOf(file);
        const lines = records.filter((record) => record.kind === "output");
        assertEquals(stored.lines.output.length, lines.length, what);
        // Programs of 2024 send what was said on stderr by itself.
        const texts = stored.lines.output.map((line) => line.trimEnd().replace(/^(ERROR )?\S+ /, ""));
        const order = (list: string[]) => version === "old" ? list.toSorted() : list;
        assertEquals(order(texts), order(lines.map(({ text }) => text.trimEnd())), what);
        const stats = records.filter(({ kind }) => kind === "stats");
        assertEquals(stored.lines.events.length, stats.length, what);
        assertEquals(stored.complete, true, what);
        // Programs of 2024 say 0 of every run.
        if (version === "new") assertEquals(stored.exitCode, code, what);
        const config = JSON.parse(stored.config!);
        assertEquals(config.training.value.batch_size, 16, what);
        const summary = parsed(stored.lines.summary.at(-1)!);
        if (code === 0) assertEquals(summary._step, steps, what);
        if (code === 0 && kind !== "language") assert("best/loss" in summary, what);
        assert(stored.files.has("wandb-metadata.json"), `${what}: ${[...stored.files.keys()]}`);
        assert(stored.files.has("config.yaml"), what);
        if (kind !== "classification") continue;
        const pictures = [...stored.files.keys()].filter((path) =>
          /^media\/images\/samples_4_\w+\.png$/.test(path)
        );
        assertEquals(pictures.length, 4, [...stored.files.keys()].join(" "));
        assertEquals([...stored.files.get(pictures[0])!.subarray(1, 4)], [80, 78, 71]); // PNG
        const { path } = summary.confusion_matrix_table as Record<string, string>;
        const { data } = JSON.parse(new TextDecoder().decode(stored.files.get(path)));
        const counted = data.reduce((sum: number, [, , count]: [string, string, number]) => sum + count, 0);
        assertEquals([data.length, counted], [100, config.run.value.val_samples], what);
        assert("confusion_matrix" in config._wandb.value.visualize, what);
      }
    }
    const spread = rowsOf(made.get("regression")!.file).filter((row) => "weights/0.weight" in row);
    assertEquals(spread.map((row) => row._step), [10, 20]);
    assertMatch(lastRow(made.get("classification")!.file), /"val\/accuracy"/);
    assertMatch(lastRow(made.get("language")!.file), /"val\/perplexity"/);
    assertMatch(lastRow(made.get("regression")!.file), /"val\/r2"/);
  }));

const lastRow = (file: string) => JSON.stringify(rowsOf(file).at(-1));

/** As JSON gives it: what is no finite number as its name. */
const textual = (row: Record<string, unknown>) =>
  Object.fromEntries(
    Object.entries(row).map(([name, value]) => [
      name,
      typeof value === "number" && !Number.isFinite(value) ? String(value) : value,
    ]),
  );

async function removeMarks(file: string): Promise<void> {
  for (const mark of ["synced", "syncstate"]) {
    await Deno.remove(`${file}.${mark}`).catch(() => {});
  }
}

Deno.test("killed at four random moments, a run is one W&B run with each step once, and no row that its events have is missing", () =>
  inTemp((cwd) => killAgainAndAgain(cwd, 4)));

Deno.test("each run has its own id: a new one, one from another's weights, one from the same checkpoint", () =>
  inTemp(async (cwd) => {
    const ids = () => filesOf(cwd).map((path) => /run-(\w+)\.wandb$/.exec(path)![1]);
    await succeed([...MLP, "--epochs=1", "--run-name=a"], { cwd });
    const [first] = ids();
    const { stdout } = await succeed(["inspect", "checkpoints/a_latest.pt", "--json"], { cwd });
    assertStringIncludes(stdout, first);
    const from = "checkpoints/a_latest.pt";
    await succeed([...MLP, "--epochs=1", "--run-name=b", `--init-from=${from}`], { cwd });
    await succeed([...LOGGED, "--epochs=2", "--run-name=c", `--resume=${from}`], { cwd });
    assertEquals(new Set(ids()).size, 3);
    await succeed([...LOGGED, "--epochs=2", `--resume=${from}`], { cwd });
    assertEquals(ids().length, 3);
    const lasting = filesOf(cwd).find((path) => path.includes(first))!;
    assertEquals(stepsOf(lasting), range(1, 20));
    const forked = filesOf(cwd).find((path) => stepsOf(path)[0] === 11)!;
    assertEquals(stepsOf(forked), range(11, 20));
  }));

Deno.test("a run that was uploaded goes on in a new file, and the server has each step once", () =>
  inTemp(async (cwd) => {
    await using server = openWandbServer();
    await killed(cwd, "r", LONG, 30);
    const [first] = filesOf(cwd);
    await sync("new", server, cwd, [dirname(first)]);
    // Folders are named by the second.
    await new Promise((resolve) => setTimeout(resolve, 1100));
    await succeed([...LONG, "--resume=auto", "--run-name=r", "--max-steps=200"], { cwd });
    const files = filesOf(cwd);
    assertEquals(files.length, 2);
    await sync("new", server, cwd, files.map((path) => dirname(path)));
    assertEquals(rows(server.run()).map((row) => row._step), range(1, 200));
    assertEquals(server.run().overwritten, 0);
  }));

Deno.test("W&B's variables and our flags say what the run is called, and WANDB_RUN_ID keeps two processes apart", () =>
  inTemp(async (cwd) => {
    const env = {
      WANDB_PROJECT: "p",
      WANDB_ENTITY: "e",
      WANDB_NAME: "n",
      WANDB_RUN_GROUP: "g",
      WANDB_JOB_TYPE: "j",
      WANDB_TAGS: "x,y",
      WANDB_NOTES: "one note",
      WANDB_RUN_ID: "fixed-id",
      WANDB_DIR: "elsewhere",
      SLURM_JOB_ID: "17",
      USER: "somebody",
    };
    const child = start([...LONG, "--run-name=long", "--wandb-notes=by flag"], { cwd, env });
    await until("step 5", () => eventsOf(cwd, "long").some(({ step }) => (step as number) >= 5));
    const second = await run([...MLP, "--run-name=other"], { cwd, env });
    assertEquals(second.code, 2, second.stderr);
    assertStringIncludes(second.stderr, "Another process is writing the W&B run fixed-id");
    child.kill("SIGKILL");
    await finish(child);
    const folder = join(cwd, "elsewhere/wandb");
    const [path] = filesIn(folder).filter((file) => file.endsWith("run-fixed-id.wandb"));
    assertMatch(path, /^offline-run-\d{8}_\d{6}-fixed-id\/run-fixed-id\.wandb$/);
    const record = recordsOf(join(folder, path)).find((record) => record.kind === "run")!;
    const { project, entity, name, group, jobType, tags, notes } = record;
    assertEquals([project, entity, name, group, jobType, tags, notes], [
      ...["p", "e", "n", "g", "j"],
      ["x", "y"],
      "by flag",
    ]);
    const facts = JSON.parse(
      Deno.readTextFileSync(join(folder, dirname(path), "files/wandb-metadata.json")),
    );
    assertEquals([facts.slurm, facts.username], [{ job_id: "17" }, "somebody"]);
  }));

Deno.test("--no-wandb, WANDB_MODE=disabled and WANDB_DISABLED write no W&B run", () =>
  inTemp(async (cwd) => {
    const tiny = ["--model=mlp", ...TINY];
    await succeed([...tiny, "--no-wandb"], { cwd });
    await succeed(tiny, { cwd, env: { WANDB_MODE: "disabled" } });
    await succeed(tiny, { cwd, env: { WANDB_DISABLED: "true" } });
    assertEquals(filesIn(cwd).filter((path) => path.includes("wandb")), []);
  }));

Deno.test("a place where no W&B run can be written costs a warning, and not the run", () =>
  inTemp(async (cwd) => {
    Deno.writeTextFileSync(join(cwd, "file"), "");
    const { code, stderr } = await run(["--model=mlp", ...TINY, "--wandb-dir=file"], { cwd });
    assertEquals(code, 0);
    assertEquals(stderr.match(/No W&B run is written/g)?.length, 1, stderr);
  }));
