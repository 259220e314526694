// hpctrain sync-wandb beside W&B's own program: the same state at the server, and either finishes what the other began.
import { assert, assertEquals, assertMatch, assertNotMatch } from "@std/assert";
import { dirname, join } from "paths";
import { range, stepsOf, writeRun } from "../core/outputs/wandb/sync/rig.ts";
import { CONFUSION } from "../../core/outputs/wandb/media.ts";
import { WandbRun } from "../../core/outputs/wandb/sink.ts";
import { at, exit, parsed, recordsOf, setupIn, step, sync, WANDBS } from "../core/outputs/wandb/runs.ts";
import { eventsOf, filesIn, finish, inTemp, run, start, succeed, TINY, until } from "./program.ts";
import { syncs } from "./syncs.ts";
import { KEY, openWandbServer, type WandbServer } from "./wandb_server.ts";
import { stateOf } from "./wandb_states.ts";
import { within } from "../cpu_time.ts";
import { assertSentence } from "../sentences.ts";

const PYTHON = () => {
  const python = Deno.env.get(WANDBS.new);
  if (!python) throw new Error(`${WANDBS.new} names no Python with wandb: ./scripts/test sets it`);
  return python;
};

/** Long enough to be looked at while it goes on. */
const LONG = [
  ...[
    "--model=mlp",
    "--train-samples=1600",
    "--val-samples=16",
    "--batch-size=16",
    "--device=cpu",
    "--threads=1",
  ],
  ...["--epochs=1000", "--log-interval=1", "--save-interval=20steps", "--run-name=r", "--resume=auto"],
];

/** Runs that W&B's own client writes. */
async function clientRuns(folder: string, kind: string): Promise<string[]> {
  const child = new Deno.Command(PYTHON(), {
    args: ["-B", new URL("../peers/wandb_runs.py", import.meta.url).pathname],
    ...{ stdin: "piped", stdout: "piped", stderr: "piped" },
    env: { HOME: folder },
  }).spawn();
  const writer = child.stdin.getWriter();
  await writer.write(new TextEncoder().encode(JSON.stringify({ folder, kind })));
  await writer.close();
  const { success, stdout, stderr } = await child.output();
  if (!success) throw new Error(new TextDecoder().decode(stderr));
  const last = new TextDecoder().decode(stdout).trimEnd().split("\n").at(-1)!;
  return JSON.parse(last).map((path: string) => join(folder, path));
}

Deno.test("the chart of confused classes is the one that W&B's client writes, and every program uploads it", () =>
  inTemp(async (cwd) => {
    const [theirs] = await clientRuns(cwd, "confusion");
    const own = setupIn(cwd, { config: { _wandb: CONFUSION } }), run = new WandbRun(own);
    const counts = [[1, 1, 0], [0, 1, 0], [1, 0, 2]];
    run.note({ kind: "confusion", t: at(7), step: 7, classes: ["a", "b", "ç"], counts });
    run.write(step(7));
    run.write(exit(0, 7));
    run.close();
    const chart = recordsOf(join(theirs, "run-confusion.wandb")).find(({ kind }) => kind === "config");
    assert(chart?.kind === "config" && chart.update.length === 1);
    assertEquals(chart.update[0].key, ["_wandb", "visualize", "confusion_matrix"]);
    assertEquals(CONFUSION.visualize.confusion_matrix as unknown, JSON.parse(chart.update[0].json));
    // Tables of W&B's client are artifacts, too, which its older versions and we do without.
    const row = recordsOf(join(theirs, "run-confusion.wandb")).find(({ kind }) => kind === "history");
    assert(row?.kind === "history");
    const table = (name: string) =>
      JSON.parse(row.items.find(({ key }) => key.join(" ") === `confusion_matrix_table ${name}`)!.json);
    const file = JSON.parse(Deno.readTextFileSync(join(theirs, "files", table("path"))));
    for (const version of ["new", "old"] as const) {
      await using server = openWandbServer();
      await sync(version, server, cwd, [dirname(own.path)]);
      const stored = server.run(), { _wandb } = JSON.parse(stored.config!);
      assertEquals(_wandb.value.visualize, CONFUSION.visualize, version);
      const made = parsed(stored.lines.history.at(-1)!).confusion_matrix_table as Record<string, unknown>;
      assertEquals(parsed(stored.lines.summary.at(-1)!).confusion_matrix_table, made);
      for (const name of ["_type", "ncols", "nrows"]) assertEquals(made[name], table(name), version);
      assertEquals(
        JSON.parse(new TextDecoder().decode(stored.files.get(made.path as string))),
        file,
        version,
      );
      for (const mark of ["synced", "syncstate"]) await Deno.remove(`${own.path}.${mark}`).catch(() => {});
    }
    await using server = openWandbServer();
    await syncs(cwd, server, [dirname(own.path)]);
    assertEquals(JSON.parse(server.run().config!)._wandb.value.visualize, CONFUSION.visualize);
  }));

async function copied(from: string, to: string): Promise<void> {
  const { success } = await new Deno.Command("cp", { args: ["-r", from, to] }).output();
  assert(success);
}

/** What either program makes of the same folders. */
async function bothStates(cwd: string, folder: string): Promise<[unknown, unknown]> {
  await copied(join(cwd, folder), join(cwd, "theirs"));
  await using theirs = openWandbServer(), ours = openWandbServer();
  const runs = [...Deno.readDirSync(join(cwd, "theirs"))].map(({ name }) => name)
    .filter((name) => name.startsWith("offline-run-")).sort().map((name) => join(cwd, "theirs", name));
  await sync("new", theirs, cwd, runs);
  const { code, stderr } = await syncs(cwd, ours, [folder]);
  assertEquals([code, stderr], [0, ""]);
  return [stateOf(ours.run()), stateOf(theirs.run())];
}

for (const kind of ["rich", "resumed", "globs", "forked"]) {
  Deno.test(`a ${kind} run of W&B's own client arrives as W&B's own program delivers it`, () =>
    inTemp(async (cwd) => {
      await clientRuns(cwd, kind);
      const [ours, theirs] = await bothStates(cwd, "wandb");
      assertEquals(ours, theirs);
    }));
}

Deno.test("what of a run of W&B's own client only W&B's own program can send is said, and a run that goes back is refused", () =>
  inTemp(async (cwd) => {
    await clientRuns(cwd, "artifacts");
    await clientRuns(cwd, "rewound");
    await using server = openWandbServer();
    const { code, stdout, stderr } = await syncs(cwd, server, ["wandb"]);
    assertEquals(code, 3);
    assertSentence("integration/sync_wandb: artifacts sent artifact", stderr);
    assertMatch(
      stderr,
      /-rewound: This file takes the run rewound back to _step 5 .*nothing of it was sent.*: wandb sync \S+-rewound$/m,
    );
    assertMatch(stdout, /1 run uploaded, 1 failed/);
    assertEquals(server.run().name, "artifacts");
    const file = filesIn(cwd).find((path) => path.endsWith("run-artifacts.wandb"))!;
    assertMatch(
      (await succeed(["inspect", file], { cwd })).stdout,
      /artifacts made: 1; sync-wandb leaves them out/,
    );
  }));

Deno.test("a damaged run is uploaded and inspected as far as it can be read, with exit code 3", () =>
  inTemp(async (cwd) => {
    const path = writeRun(join(cwd, "wandb"), { rows: 5 });
    const bytes = Deno.readFileSync(path);
    for (const damaged of [bytes.subarray(0, bytes.length - 3), bytes.with(bytes.length - 12, 7)]) {
      Deno.writeFileSync(path, damaged);
      await using server = openWandbServer();
      const { code, stderr } = await syncs(cwd, server, ["--finish"]);
      assertEquals(code, 3);
      assertMatch(stderr, /: damaged at byte \d+: /);
      assertEquals(stepsOf(server.run().lines.history), range(0, 5));
      const inspected = await run(["inspect", path], { cwd });
      assertEquals(inspected.code, 3);
      assertMatch(inspected.stdout, / at byte \d+: .*/);
      Deno.removeSync(`${path}.uploaded.json`);
    }
  }));

Deno.test("a run of this program arrives as W&B's own program delivers it", () =>
  inTemp(async (cwd) => {
    await succeed([...TINY, "--run-name=r", "--epochs=2", "--log-interval=1"], { cwd });
    const [ours, theirs] = await bothStates(cwd, "logs/wandb");
    assertEquals(ours, theirs);
  }));

Deno.test("a run that was stopped on request, with pictures, histograms and checkpoints, arrives the same, too", () =>
  inTemp(async (cwd) => {
    const kinds = ["--wandb-histograms=5", "--wandb-files=best,latest,lineage", "--wandb-images=4"];
    const child = start(["--model=simple-convnet", ...LONG, ...kinds], { cwd });
    await until("an evaluation", () => eventsOf(cwd, "r").some(({ kind }) => kind === "eval"));
    child.kill("SIGTERM");
    assertEquals((await finish(child)).code, 75);
    const [ours, theirs] = await bothStates(cwd, "logs/wandb");
    assertEquals(ours, theirs);
  }));

/** A sync by W&B's own program that is killed once the server has got so many rows. */
async function killedSync(server: WandbServer, cwd: string, folder: string, rows: number): Promise<void> {
  const child = new Deno.Command(PYTHON(), {
    args: ["-m", "wandb", "sync", folder],
    cwd,
    env: { ...server.env, HOME: cwd, WANDB_ERROR_REPORTING: "false" },
    ...{ stdin: "null", stdout: "null", stderr: "null" },
    detached: true, // a session of its own, so that its helper ends with it
  }).spawn();
  await until(
    `${rows} rows`,
    () => [...server.runs.values()].some(({ lines }) => lines.history.length >= rows),
  );
  Deno.kill(-child.pid, "SIGKILL");
  await child.status;
}

Deno.test("what either program has uploaded the other one takes for uploaded", () =>
  inTemp(async (cwd) => {
    const ours = dirname(writeRun(join(cwd, "wandb"), { id: "ours" }));
    const theirs = dirname(writeRun(join(cwd, "wandb"), { id: "theirs" }));
    await using server = openWandbServer();
    assertEquals((await syncs(cwd, server, [ours])).code, 0);
    await sync("new", server, cwd, [theirs]);
    const asked = server.seen.length;
    const { code, stdout } = await syncs(cwd, server);
    assertEquals(code, 0);
    assertMatch(stdout, /^0 runs uploaded, 2 uploaded before, in/m);
    await sync("new", server, cwd, [ours, theirs]);
    const about = server.seen.slice(asked).filter(({ what }) => what !== "POST");
    assertEquals(about.map(({ what }) => what), [], "nothing is sent again");
    for (const { lines } of server.runs.values()) assertEquals(stepsOf(lines.history), range(0, 5));
  }));

Deno.test("what W&B's own program was killed at is finished, nothing doubled", () =>
  inTemp(async (cwd) => {
    const path = writeRun(join(cwd, "wandb"), { id: "long", rows: 300, padding: 100_000 });
    await using server = openWandbServer({ placing: "at the end" });
    await killedSync(server, cwd, dirname(path), 60);
    const had = server.run().lines.history.length;
    assert(had < 300, `${had} rows were there before the kill`);
    const { code, stderr } = await syncs(cwd, server);
    assertEquals([code, stderr], [0, ""]);
    const { lines, holes, complete } = server.run();
    assertEquals(stepsOf(lines.history), range(0, 300));
    assertEquals(lines.events.map((line) => JSON.parse(line)["system.cpu"]), range(0, 150).map((i) => 2 * i));
    assertEquals([holes, complete], [0, true]);
  }));

Deno.test("many runs go side by side, and parts of one run in their order", () =>
  inTemp(async (cwd) => {
    const folder = join(cwd, "logs/wandb");
    for (let i = 0; i < 12; i++) writeRun(folder, { id: `r${i}`, start: 1_700_000_000 + i });
    // Written in another order than that of their names.
    writeRun(folder, { id: "parts", from: 5, start: 1_700_000_200, run: { resume: true } });
    writeRun(folder, { id: "parts", from: 0, start: 1_700_000_100 });
    await using server = openWandbServer({
      fault: ({ nth }) => nth % 7 === 3 ? { status: 500, headers: { "retry-after": "0.01" } } : undefined,
    });
    let at = 0, most = 0;
    const before = server.fault!;
    server.fault = (seen) => {
      if (seen.what === "UpsertBucket" && seen.said.displayName) most = Math.max(most, ++at);
      if (seen.said.complete) at--;
      return before(seen);
    };
    const { code, stdout, stderr } = await syncs(cwd, server, ["--json", "--parallel=3"]);
    assertEquals(code, 0);
    assertMatch(stderr, /answered 500; trying again in .*\(1 of 8\)/);
    const told = stdout.trimEnd().split("\n").map((line) => JSON.parse(line));
    assertEquals(told.map(({ state }) => state), Array(14).fill("synced"));
    assert(most > 1, "several at a time");
    assertEquals(server.runs.size, 13);
    for (const { name, lines, complete } of server.runs.values()) {
      assertEquals(stepsOf(lines.history), range(0, name === "parts" ? 10 : 5), name);
      assert(complete);
    }
    const { stdout: verified } = await syncs(cwd, server, ["--verify"]);
    assertEquals(verified.match(/: verified, \d+ rows and \d+ files read back$/gm)?.length, 13, verified);
  }));

Deno.test("--dry-run says what would go where, needs no key and sends nothing", () =>
  inTemp(async (cwd) => {
    writeRun(join(cwd, "logs/wandb"), { id: "one" });
    const server = { env: {} } as WandbServer;
    const { code, stdout, stderr } = await syncs(cwd, server, ["--dry-run", "--project=other"]);
    assertEquals([code, stderr], [0, ""]);
    assertSentence("integration/sync_wandb: run-one wandb would", stdout);
    assertEquals(filesIn(cwd).filter((path) => !path.endsWith(".wandb")), []);
  }));

Deno.test("--verify tells what the server lost", () =>
  inTemp(async (cwd) => {
    writeRun(join(cwd, "logs/wandb"), { files: { "a.txt": "text" } });
    await using server = openWandbServer();
    assertEquals((await syncs(cwd, server, ["--verify"])).code, 0);
    const { lines, files } = server.run();
    lines.history.pop();
    lines.summary[0] = lines.summary[0].replace("0.25", "0.125");
    files.delete("a.txt");
    const { code, stderr } = await syncs(cwd, server, ["--verify"]);
    assertEquals(code, 5);
    for (
      const says of [/has 4 rows of 5/, /last row is another/, /another "best"/, /lacks the file a\.txt/]
    ) {
      assertMatch(stderr, says);
    }
  }));

const CASES: [string, string[], Record<string, string>, number, RegExp][] = [
  ["no key", [], { WANDB_API_KEY: "" }, 2, /no key for 127\.0\.0\.1:\d+\. Set WANDB_API_KEY/],
  ["a wrong key", [], { WANDB_API_KEY: "x".repeat(40) }, 2, /answered 401/],
  ["no runs", ["empty"], {}, 0, /^$/],
  ["no such folder", ["nowhere"], {}, 2, /There is no nowhere/],
  ["a wrong flag", ["--wach"], {}, 2, /Did you mean "--watch"/],
  ["a wrong number", ["--retries=many"], {}, 2, /--retries must be a whole number from 0 to 1000/],
  ["a wrong address", [], { WANDB_BASE_URL: "wandb" }, 2, /WANDB_BASE_URL names no W&B server: "wandb"/],
  ["an address with a password", [], { WANDB_BASE_URL: "http://me:secret@h" }, 2, /password in the address/],
  ["a server that is down", ["--retries=0"], { WANDB_BASE_URL: "http://127.0.0.1:9" }, 5, /can't be reached/],
  ["a CA file that is none", ["--ca-file=/dev/null"], {}, 2, /has no certificate in it/],
];

Deno.test("what is wrong is one sentence and its exit code", () =>
  inTemp(async (cwd) => {
    writeRun(join(cwd, "logs/wandb"));
    Deno.mkdirSync(join(cwd, "empty"));
    await using server = openWandbServer();
    for (const [name, flags, env, code, says] of CASES) {
      const said = await syncs(cwd, server, flags, env);
      assertEquals(said.code, code, `${name}: ${said.stderr}`);
      assertMatch(said.stderr, says, name);
      assert(!said.stderr.includes("secret"), name);
    }
    assertEquals(server.runs.size, 0);
  }));

Deno.test("the key comes from netrc, or from a file that only its owner reads, and is never shown", () =>
  inTemp(async (cwd) => {
    writeRun(join(cwd, "logs/wandb"));
    await using server = openWandbServer();
    const none = { WANDB_API_KEY: "" };
    const again = ["--include-synced"];
    Deno.writeTextFileSync(
      join(cwd, ".netrc"),
      `machine other login user password no\nmachine 127.0.0.1\n  login user\n  password ${KEY}\n`,
    );
    const outputs = [await syncs(cwd, server, again, none)];
    Deno.removeSync(join(cwd, ".netrc"));
    const file = join(cwd, ".config/hpctrain/wandb-key");
    Deno.mkdirSync(dirname(file), { recursive: true });
    Deno.writeTextFileSync(file, KEY + "\n", { mode: 0o644 });
    const open = await syncs(cwd, server, again, none);
    assertEquals(open.code, 2);
    assertSentence("integration/sync_wandb: others machine read", open.stderr);
    Deno.chmodSync(file, 0o600);
    outputs.push(
      await syncs(cwd, server, again, none),
      await syncs(cwd, server, [...again, "--key-file", file], none),
    );
    server.fault = () => ({ status: 500, body: `{"error":"your key is ${KEY}"}` });
    const echoed = await syncs(cwd, server, [...again, "--retries=1", "--json"]);
    assertEquals(echoed.code, 5);
    for (const { code } of outputs) assertEquals(code, 0);
    for (const { stdout, stderr } of [...outputs, open, echoed]) {
      assert(!stdout.includes(KEY) && !stderr.includes(KEY), stdout + stderr);
      assert(!(stdout + stderr).includes(btoa(`api:${KEY}`)));
    }
    const left = filesIn(join(cwd, "logs")).map((path) => Deno.readTextFileSync(join(cwd, "logs", path)))
      .join();
    assert(!left.includes(KEY));
  }));

Deno.test("a run that is being written is uploaded as far as it is and left open; --watch follows it to its end", () =>
  inTemp(async (cwd) => {
    await using server = openWandbServer();
    const rows = () => [...server.runs.values()].at(0)?.lines.history.length ?? 0;
    const training = start(LONG, { cwd });
    const watching = start(["sync-wandb", "--watch", "--interval=1", "--save-dir", cwd], {
      cwd,
      env: { HOME: cwd, ...server.env },
    });
    await until("rows of a run that goes on", () => rows() > 20);
    const now = await syncs(cwd, server);
    assertEquals(now.code, 0);
    assertMatch(now.stdout, /1 being uploaded by another process/);
    assert(!server.run().complete);
    // Killed, and gone on with: what was sent after the checkpoint is not sent again.
    training.kill("SIGKILL");
    await finish(training);
    const last = eventsOf(cwd, "r").findLast(({ kind }) => kind === "step")!.step as number;
    const end = last + 1000; // W&B's file may be some steps ahead of the events, and its rows stay
    await succeed([...LONG, `--max-steps=${end}`], { cwd });
    await until("the run's end", () => server.run().complete);
    watching.kill("SIGINT");
    const { code, stderr } = await finish(watching);
    assertEquals([code, stderr], [0, ""]);
    const { lines, exitCode, overwritten, holes } = server.run();
    assertEquals(stepsOf(lines.history), range(1, end + 1));
    assertEquals([exitCode, overwritten, holes], [0, 0, 0]);
  }));

Deno.test("Ctrl-C and SIGTERM end an upload within 2 s, whether the server is silent or down, and it goes on later", () =>
  inTemp(async (cwd) => {
    await using server = openWandbServer();
    await succeed([...TINY, "--log-interval=1"], { cwd });
    for (
      const [signal, flags, fault, expected] of [
        ["SIGINT", [], { silent: true }, 130],
        ["SIGTERM", [], { cut: true }, 143],
        ["SIGINT", ["--watch"], { silent: true }, 0],
      ] as const
    ) {
      server.fault = () => fault;
      const asked = server.seen.length;
      const syncing = start(["sync-wandb", ...flags], { cwd, env: { HOME: cwd, ...server.env } });
      await until("a request", () => server.seen.length > asked);
      const since = performance.now();
      syncing.kill(signal);
      const { code, stderr } = await finish(syncing, 60);
      const seconds = (performance.now() - since) / 1000;
      assertEquals(code, expected, stderr);
      assert(within(seconds, 2), `${seconds} s`);
      assertMatch(
        stderr,
        /^hpctrain: Not all was uploaded\. The same command goes on where this one was\.$/m,
      );
    }
    server.fault = () => ({ silent: true });
    const asked = server.seen.length;
    const twice = start(["sync-wandb"], { cwd, env: { HOME: cwd, ...server.env } });
    await until("a request", () => server.seen.length > asked);
    const since = performance.now();
    for (const wait of [100, 0]) {
      twice.kill("SIGINT");
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
    const { code, stderr } = await finish(twice, 60);
    assertEquals([code, stderr], [130, ""]);
    const seconds = (performance.now() - since) / 1000;
    assert(within(seconds, 0.8), `${seconds} s`);
    server.fault = undefined;
    assertEquals((await syncs(cwd, server)).code, 0);
    assertEquals(stepsOf(server.run().lines.history), range(1, 5));
  }));

Deno.test("a run that was killed is left open while it is new, and ended with --finish", () =>
  inTemp(async (cwd) => {
    writeRun(join(cwd, "logs/wandb"), { exit: null });
    await using server = openWandbServer();
    for (let times = 0; times < 2; times++) {
      const { code, stdout } = await syncs(cwd, server);
      assertEquals(code, 0);
      assertSentence("integration/sync_wandb: run may left", stdout);
    }
    assertEquals([server.run().complete, server.run().exitCode], [false, null]);
    assertEquals((await syncs(cwd, server, ["--finish"])).code, 0);
    const { lines, complete, exitCode } = server.run();
    assertEquals([stepsOf(lines.history), complete, exitCode], [range(0, 5), true, 1]);
    assertMatch((await syncs(cwd, server, ["--finish"])).stdout, /1 uploaded before/);
  }));

Deno.test("--wandb-online uploads while training, and a server that comes late or never does not stop it", () =>
  inTemp(async (cwd) => {
    await using server = openWandbServer();
    const env = { HOME: cwd, ...server.env };
    let down = true;
    server.fault = () => down ? { cut: true } : undefined;
    const args = [...TINY, "--epochs=2", "--log-interval=1", "--wandb-online"];
    const child = start([...args, "--run-name=a"], { cwd, env });
    await until("a first request", () => server.seen.length > 0);
    down = false;
    const { code, stdout } = await finish(child);
    assertEquals(code, 0);
    assertNotMatch(stdout, /No effect/);
    assertEquals(stepsOf(server.run().lines.history), range(1, 9));
    assertEquals([server.run().complete, server.run().exitCode], [true, 0]);

    const without = await succeed([...args, "--run-name=b"], { cwd, env: { ...env, WANDB_API_KEY: "" } });
    assertSentence("integration/sync_wandb: nothing uploaded while", without.stderr);
    assertEquals(server.runs.size, 1);
    assertEquals((await syncs(cwd, server)).code, 0);
    assertEquals(server.runs.size, 2);
  }));
