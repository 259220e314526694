// The account of a run's time on two ranks, of which one is slow: closed, and told alike everywhere.
import { assert, assertAlmostEquals, assertEquals, assertMatch } from "@std/assert";
import { join } from "paths";
import { TIME_PARTS } from "../../core/run/account.ts";
import { recordsOf } from "../core/outputs/wandb/runs.ts";
import { openMpi } from "../mpi.ts";
import { environment, eventsOf, filesIn, inTemp, succeed } from "./program.ts";
import { train } from "./ranks.ts";

const STEPS = 110, SLEEP_MS = 10;

/** Rank 1 waits before each of its batches. */
const SLOW = `
export default function ({ tensor }) {
  const slow = ["OMPI_COMM_WORLD_RANK", "PMI_RANK"].some((name) => Deno.env.get(name) === "1");
  const batch = (ids) => {
    if (slow) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ${SLEEP_MS});
    return {
      input: tensor(Float32Array.from(ids, (id) => Math.sin(id)), [ids.length, 1]),
      target: tensor(Float32Array.from(ids, (id) => Math.cos(id)), [ids.length, 1]),
    };
  };
  return { task: "regression", outputs: 1, train: { length: ${
  4 * STEPS
}, batch }, val: { length: 8, batch } };
}`;

const sum = (event: Record<string, unknown>) =>
  TIME_PARTS.reduce((all, name) => all + Number(event[`${name}_s`]), 0);

Deno.test("where one rank of two is slow, the other's account says so in its last line, report, watch and W&B", () =>
  inTemp(async (cwd) => {
    Deno.writeTextFileSync(join(cwd, "slow.ts"), SLOW);
    const flags = [
      "--data=slow.ts",
      "--model=mlp",
      "--hidden-size=8",
      "--batch-size=2",
      "--epochs=1",
      "--num-workers=0",
    ];
    const { code, stdout, stderr } = await train(cwd, "r", 2, flags, { mpi: openMpi() });
    assertEquals(code, 0, stderr);
    const events = eventsOf(cwd, "r"), exit = events.find(({ kind }) => kind === "exit")!;
    assertAlmostEquals(sum(exit), Number(exit.seconds), 1e-5);
    const times = events.filter(({ kind }) => kind === "times");
    for (const event of times) assertAlmostEquals(sum(event), Number(event.seconds), 1e-5);
    assertAlmostEquals(
      times.reduce((all, { seconds }) => all + Number(seconds), 0),
      Number(exit.seconds),
      0.01,
    );
    const waited = Number(exit.communication_s);
    assert(waited > 0.6 * STEPS * SLEEP_MS / 1000, `${waited} s: ${JSON.stringify(exit)}`);
    assert(Number(exit.data_s) < 0.2 * waited);

    const ranks = events.find(({ kind }) => kind === "ranks")!;
    assertEquals(ranks.slowest, 1);
    const [of0, of1] = [0, 1].map((rank) => ({
      data: (ranks.data_s as number[])[rank],
      communication: (ranks.communication_s as number[])[rank],
    }));
    assert(of1.data > 0.6 && of0.communication > 0.6 && of0.data < 0.2, JSON.stringify([of0, of1]));

    const share = 100 * waited / Number(exit.seconds);
    const said = Number(/Of that time: .*?([\d.]+)% waiting for other ranks/.exec(stdout)![1]);
    assertAlmostEquals(said, share, 0.11);
    const report = await succeed(["report", "logs/r", "--out", "r.html"], { cwd });
    assertEquals(report.stderr, "");
    const html = Deno.readTextFileSync(join(cwd, "r.html"));
    assertAlmostEquals(Number(/waiting for other ranks ([\d.]+)%/.exec(html)![1]), share, 0.2);
    const watch = await succeed(["watch", "logs/r"], { cwd });
    assertAlmostEquals(Number(/Time: .*?communication ([\d.]+)%/.exec(watch.stdout)![1]), share, 0.2);
    const file = filesIn(join(cwd, "logs")).find((name) => name.endsWith(".wandb"))!;
    const rows = recordsOf(join(cwd, "logs", file)).filter((record) => record.kind === "history");
    const names = rows.flatMap((row) => JSON.stringify(row).match(/time\/\w+_ms/g) ?? []);
    assertEquals([...new Set(names)].sort(), TIME_PARTS.map((name) => `time/${name}_ms`).sort());
    // What it says to run next starts two ranks again, wherever it is pasted in this folder.
    const next = /^ {2}train on +(.*)$/m.exec(stdout)![1];
    assertMatch(next, / launch -n 2 -- /);
    const pasted = await new Deno.Command("bash", {
      args: ["-c", `${next} --max-steps ${STEPS + 5}`],
      cwd,
      env: environment({ OMP_NUM_THREADS: "1" }),
      clearEnv: true,
    }).output();
    const again = new TextDecoder().decode(pasted.stdout);
    assertEquals(pasted.code, 0, again + new TextDecoder().decode(pasted.stderr));
    assertMatch(again, /Starting distributed training on 2 CPU ranks/);
    assertMatch(again, new RegExp(`${STEPS + 5} steps`));
    assertMatch(stdout, /Of that time: [^\n]*\d+\.\d% rest\n/);
  }));
