// A run that is killed and resumed, twice, beside the same run left alone. Test helper.
import { assert, assertEquals } from "@std/assert";
import { join } from "paths";
import { type Files, lay } from "./formats.ts";
import { eventsOf, finish, inTemp, start, succeed, until } from "./program.ts";
import { different } from "./storm_checks.ts";

// Long enough that a run of small steps is still at work when its kill comes.
const NAME = "r", STEPS = 60;
/** On a busy machine a run may be over before its kill comes: then the same is tried again. */
const TRIES = 5;

/** 10 steps, kill -9, 10 more, kill -9 and the rest are 60 steps at once, in every file and every line of the record. */
export async function survivesKills(flags: readonly string[], files: Files): Promise<void> {
  const args = [
    ...["--device=cpu", "--threads=1", `--max-steps=${STEPS}`, "--save-interval=10steps", "--log-interval=1"],
    // The id of the run at W&B is drawn, and in its checkpoints.
    ...[`--run-name=${NAME}`, "--wandb-id=same", "--resume=auto", ...flags],
  ];
  await inTemp(async (folder) => {
    const [calm, killed] = ["calm", "killed"].map((name) => join(folder, name));
    for (const cwd of [calm, killed]) {
      Deno.mkdirSync(cwd);
      lay(files, cwd);
    }
    await succeed(args, { cwd: calm });
    for (const step of [10, 20]) await killedAfter(step, args, killed);
    await succeed(args, { cwd: killed });

    const resumed = eventsOf(killed, NAME).flatMap(({ kind, step }) =>
      kind === "resume" ? [Number(step)] : []
    );
    assertEquals(resumed.length, 2);
    assert(resumed[0] >= 10 && resumed[1] >= 20 && resumed[1] < STEPS, resumed.join());
    const whole = record(calm);
    assertEquals(whole.filter(({ kind }) => kind === "step").length, STEPS);
    assertEquals(record(killed), whole);
    assertEquals(different(calm, killed, NAME), []); // every bit of every checkpoint
  });
}

/** Kills the run as soon as it tells of a save at this step or after it, while it trains on. */
async function killedAfter(step: number, args: string[], cwd: string): Promise<void> {
  const saved = () =>
    eventsOf(cwd, NAME).some((event) => event.kind === "save" && Number(event.step) >= step);
  for (let tries = 1; tries <= TRIES; tries++) {
    const before = `${cwd}-before`;
    copy(cwd, before);
    const child = start(args, { cwd });
    const ended = finish(child);
    let over = false;
    ended.finally(() => over = true).catch(() => {});
    await until(`a save at step ${step}`, () => over || saved());
    if (!over) child.kill("SIGKILL");
    const { code, stdout, stderr } = await ended;
    const all = eventsOf(cwd, NAME).some(({ kind, step }) => kind === "step" && Number(step) >= STEPS);
    if (code === 137 && !all) return Deno.removeSync(before, { recursive: true });
    if (code !== 137) assertEquals(code, 0, stdout + stderr);
    Deno.removeSync(cwd, { recursive: true });
    Deno.renameSync(before, cwd);
  }
  throw new Error(`the run was over before its kill, ${TRIES} times`);
}

function copy(from: string, to: string): void {
  const { success, stderr } = new Deno.Command("cp", { args: ["-a", from, to] }).outputSync();
  assert(success, new TextDecoder().decode(stderr));
}

/** What a run tells of its training, less what depends on the clock. */
const record = (cwd: string) =>
  eventsOf(cwd, NAME).filter(({ kind }) => kind === "step" || kind === "epoch" || kind === "eval")
    .map(({ kind, step, epoch, loss, lr, grad_norm, metrics, val_loss, val_metrics }) => ({
      kind,
      step,
      epoch,
      loss,
      lr,
      grad_norm,
      metrics,
      val_loss,
      val_metrics,
    }));
