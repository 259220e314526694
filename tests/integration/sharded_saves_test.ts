// Checkpoints that all ranks write (--checkpoint-format sharded), with real MPI: bits, kills, and ranks that can't write.
import { createHash } from "node:crypto";
import { assert, assertEquals, assertMatch } from "@std/assert";
import { join } from "paths";
import { openCheckpoint } from "../../core/checkpoint/open.ts";
import { tensorBytes, TensorData, type Value } from "../../core/checkpoint/value.ts";
import { key, uniform } from "../../core/base/random.ts";
import { openMpi } from "../mpi.ts";
import { eventsOf, filesIn, inTemp } from "./program.ts";
import { startJob } from "./rank_processes.ts";
import { train, trained } from "./ranks.ts";
import { within } from "../cpu_time.ts";
import { assertSentence } from "../sentences.ts";

const SHARDED = "--checkpoint-format=sharded";
const GPT = [
  ...["--model=gpt", "--data-type=synthetic", "--layers=2", "--hidden-size=32", "--heads=2", "--context=16"],
  ...["--train-samples=50", "--val-samples=10", "--global-batch-size=16", "--batch-size=3", "--epochs=2"],
];
/** With batch norm; without the evaluation that would make all ranks' statistics equal. */
const UNET = [
  ...["--model=unet", "--data-type=synthetic", "--input-size=16", "--train-samples=24", "--val-samples=0"],
  ...["--global-batch-size=8", "--batch-size=2", "--max-steps=2"],
];

const at = (cwd: string, name: string) => join(cwd, "checkpoints", name);

/** All that must be equal, by its place, every checksum compared: numbers, texts, the sums of tensors. */
function stateOf(path: string): { step: number; state: Map<string, unknown> } {
  using file = openCheckpoint(path);
  file.verify();
  const state = new Map<string, unknown>();
  const visit = (value: Value, at: string) => {
    if (value instanceof Map) { for (const [key, inner] of value) visit(inner, `${at}/${key}`); }
    else if (value instanceof TensorData) {
      state.set(at, createHash("sha256").update(tensorBytes(value)).digest("hex"));
    } else state.set(at, value);
  };
  for (const [key, value] of file.root as Map<string, Value>) if (key !== "config") visit(value, key);
  state.delete("hpctrain/run");
  state.delete("hpctrain/wandb_run_id"); // drawn for each run
  return { step: Number(state.get("hpctrain/cursor/step")), state };
}

const shardsIn = (folder: string) =>
  filesIn(folder).filter((name) => name.endsWith(".safetensors")).map((name) => name.slice(-26, -12));

Deno.test("a run that 2, 4 ranks and one save together goes on on each, and ends with the bits of one in .pt", () =>
  inTemp(async (cwd) => {
    const mpi = openMpi();
    const flags = [...GPT, "--deterministic=world", "--dropout=0.1", "--ema=0.9", "--scheduler=constant"];
    await trained(cwd, "calm", 1, flags, { mpi });
    const moved = [...flags, SHARDED, "--resume=auto"], latest = at(cwd, "moved_latest.ckpt");
    for (const [ranks, steps] of [[2, 3], [4, 6], [1, 0]] as const) {
      await trained(cwd, "moved", ranks, [...moved, `--max-steps=${steps}`], { mpi });
      assertEquals(
        shardsIn(latest).sort(),
        Array.from({ length: ranks }, (_, i) => `0000${i + 1}-of-0000${ranks}`),
      );
    }
    assertEquals(stateOf(latest), stateOf(at(cwd, "calm_latest.pt")));
    assertEquals(stateOf(at(cwd, "moved_best.ckpt")), stateOf(at(cwd, "calm_best.pt")));
    assertEquals(eventsOf(cwd, "moved").filter(({ kind }) => kind === "warning"), []);
  }));

Deno.test("running statistics, which differ from rank to rank, are saved as rank 0's; each rank writes about its share", () =>
  inTemp(async (cwd) => {
    const mpi = openMpi();
    await trained(cwd, "pt", 4, UNET, { mpi });
    await trained(cwd, "sharded", 4, [...UNET, SHARDED], { mpi });
    const folder = at(cwd, "sharded_latest.ckpt");
    assertEquals(stateOf(folder), stateOf(at(cwd, "pt_latest.pt")));
    const sizes = filesIn(folder).filter((name) => name.startsWith("model-")).map((name) =>
      Deno.statSync(join(folder, name)).size
    );
    assertEquals(sizes.length, 4);
    assert(Math.max(...sizes) < 0.7 * sizes.reduce((a, b) => a + b), String(sizes));
    const [save] = eventsOf(cwd, "sharded").filter(({ kind }) => kind === "save");
    assertEquals(
      save.bytes,
      sizes.reduce((a, b) => a + b) + Deno.statSync(join(folder, "model.safetensors.index.json")).size,
    );
  }));

Deno.test("kill -9 of one rank or all in a save: what was reported is there and whole, and the run ends with the same bits", () =>
  inTemp(async (cwd) => {
    const mpi = openMpi();
    const flags = [...GPT, SHARDED, "--epochs=100000", "--save-interval=3steps", "--scheduler=constant"];
    const folder = at(cwd, "r_latest.ckpt"), dice = uniform(key(3, "kills"));
    const reported = () => Number(eventsOf(cwd, "r").findLast(({ kind }) => kind === "save")?.step ?? 0);
    const writing = () => filesIn(folder).some((name) => name.startsWith(".model-"));
    for (const [kill, ranks] of [[1], [0], [1, 0], [0, 1]].entries()) {
      const before = reported();
      const job = startJob([...flags, "--resume=auto"], { cwd, mpi, ranks: 2 });
      await job.until("some saves", () => reported() > before + 3);
      await job.until("a save", writing);
      await new Promise((resolve) => setTimeout(resolve, 15 * dice(kill)));
      const since = performance.now();
      for (const rank of ranks) if (job.pidOf(rank) !== undefined) job.kill(rank, "SIGKILL");
      const { code, seconds, stderr } = await job.end(since);
      // Of a job without ranks, Open MPI's launcher says that all went well.
      assert(
        within(seconds, 15) && (code === 5 || ranks.length === 2),
        `${code} after ${seconds} s: ${stderr}`,
      );
      const found = stateOf(folder).step;
      assert(found >= reported(), `step ${found} is there, and ${reported()} was reported`);
    }
    const end = `--max-steps=${stateOf(folder).step + 5}`;
    await trained(cwd, "r", 2, [...flags, end, "--resume=auto"], { mpi });
    await trained(cwd, "calm", 2, [...flags, end], { mpi });
    assertEquals(stateOf(folder), stateOf(at(cwd, "calm_latest.ckpt")));
    assertEquals(filesIn(folder).length, 3);
  }));

Deno.test("a rank that can't write its part: that is told, training goes on, the checkpoint from before is kept; STOP saves", () =>
  inTemp(async (cwd) => {
    const flags = [...GPT, SHARDED, "--epochs=10000", "--train-samples=5000", "--save-interval=5steps"];
    const job = startJob(flags, { cwd, mpi: openMpi(), ranks: 2 });
    const events = (kind: string) => eventsOf(cwd, "r").filter((event) => event.kind === kind);
    const latest = at(cwd, "r_latest.ckpt"), saved = () => Number(events("save").at(-1)?.step ?? 0);
    const limit = (bytes: string) =>
      new Deno.Command("prlimit", { args: [`--pid=${job.pidOf(1)}`, `--fsize=${bytes}:`] }).outputSync();
    await job.until("a save", () => saved() > 0);
    assert(limit("65536").success);
    await job.until(
      "a warning",
      () => events("warning").some(({ message }) => `${message}`.includes("failed")),
    );
    const { message, step } = events("warning").find(({ message }) => `${message}`.includes("failed"))!;
    assertMatch(
      `${message}`,
      /^The save at step \d+ failed, and training goes on without it: Rank 1: .*00002-of-00002\.safetensors: a file of its size/,
    );
    await job.until("more steps", () => events("step").length > Number(step) + 12);
    assertEquals(stateOf(latest).step, saved());
    assert(saved() < Number(step));
    assert(limit("unlimited").success);
    await job.until("a save", () => saved() > Number(step));
    Deno.writeTextFileSync(join(cwd, "logs/r/STOP"), "");
    const { code, stderr } = await job.end(performance.now());
    assertEquals(code, 75, stderr);
    const save = events("save").at(-1)!;
    assertEquals([save.reason, save.step], ["stop", stateOf(latest).step]);
    assertEquals(filesIn(latest).length, 3);
  }));

Deno.test("ranks that do not see one folder are refused before the first step, and so is --zero 1", () =>
  inTemp(async (cwd) => {
    const mpi = openMpi(),
      script = 'mkdir -p "d$OMPI_COMM_WORLD_RANK"; cd "d$OMPI_COMM_WORLD_RANK"; exec "$0" "$@"';
    const apart = await train(cwd, "r", 2, [...GPT, SHARDED, "--model-dir=here"], {
      mpi,
      wrapped: ["sh", "-c", script],
    });
    assertEquals(apart.code, 2, apart.stderr);
    assertSentence("integration/sharded_saves: rank does see", apart.stderr, { hostname: Deno.hostname() });
    const zero = await train(cwd, "z", 2, [...GPT, SHARDED, "--zero=1"], { mpi });
    assertEquals(zero.code, 2, zero.stderr);
    assertSentence("integration/sharded_saves: zero does together", zero.stderr);
  }));
