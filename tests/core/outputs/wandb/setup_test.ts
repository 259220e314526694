// Which W&B run it is, and where its file lies.
import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { dirname, join } from "paths";
import { defaultConfig } from "../../../../core/settings/settings.ts";
import { UserError } from "../../../../core/base/errors.ts";
import { WandbRun } from "../../../../core/outputs/wandb/sink.ts";
import { newId, type WandbOptions, wandbSetup } from "../../../../core/outputs/wandb/setup.ts";
import type { WandbSetup } from "../../../../core/outputs/wandb/records.ts";
import { inTemp } from "../../../integration/program.ts";
import { exit, step, steps } from "./runs.ts";

const config = (wandb: Partial<WandbOptions["config"]["wandb"]> = {}): WandbOptions["config"] => {
  const all = defaultConfig();
  return { ...all, wandb: { ...all.wandb, ...wandb } };
};

const of = (folder: string, more: Partial<WandbOptions> = {}): WandbOptions => ({
  config: config(),
  run: "r",
  logs: join(folder, "logs/r"),
  checkpoints: { best: join(folder, "r_best.pt"), latest: join(folder, "r_latest.pt") },
  id: null,
  resumed: null,
  pace: { step: 0, stepInEpoch: 0, stepsPerEpoch: 10, maxSteps: 0 },
  facts: { model: "mlp" },
  confuses: false,
  argv: ["--lr=1", "--set=x.api_key=secret", "--api-key", "secret"],
  env: { SLURM_JOB_ID: "7", SLURM_JWT: "secret", SLURM_EXPORT_ENV: "ALL,ANY=secret", USER: "u" },
  began: 1_700_000_000,
  gpus: 0,
  ...more,
});

const setupOf = (folder: string, more?: Partial<WandbOptions>): WandbSetup => wandbSetup(of(folder, more))!;

/** A run that is written in a process of its own, which ends: a lock of this one would last. */
async function written(setup: WandbSetup, last: number, code: number | null): Promise<void> {
  const run = new WandbRun(setup);
  for (const event of steps(1, last)) run.write(event);
  if (code !== null) run.write(exit(code, last));
  run.close();
  await Promise.resolve();
}

/** The lock of a folder goes with its inode: another one is free. */
function unlock(setup: WandbSetup): void {
  const folder = dirname(setup.path);
  Deno.renameSync(folder, `${folder}.old`);
  Deno.mkdirSync(folder);
  for (const { name } of Deno.readDirSync(`${folder}.old`)) {
    Deno.renameSync(join(`${folder}.old`, name), join(folder, name));
  }
  Deno.removeSync(`${folder}.old`, { recursive: true });
}

Deno.test("a new run has a new id, and a folder by local time that W&B's program takes", () =>
  inTemp((folder) => {
    const setup = setupOf(folder);
    assertMatch(
      setup.path,
      /\/logs\/wandb\/offline-run-2023111\d_\d{6}-[0-9a-z]{8}\/run-[0-9a-z]{8}\.wandb$/,
    );
    assert(setup.path.includes(`-${setup.run.id}/run-${setup.run.id}.wandb`));
    assertEquals([setup.run.name, setup.run.project, setup.run.resume, setup.again], [
      "r",
      "hpctrain",
      false,
      null,
    ]);
    assertEquals((setup.config.run as Record<string, unknown>).model, "mlp");
    assertEquals(new Set(Array.from({ length: 100 }, newId)).size, 100);
  }));

Deno.test("no run is wanted where it is switched off, whichever way", () =>
  inTemp((folder) => {
    for (const off of [{ enabled: false }, { disabled: true }, { mode: "disabled" as const }]) {
      assertEquals(wandbSetup(of(folder, { config: config(off) })), null);
    }
  }));

Deno.test("keys and passwords of the command line and of SLURM are not written", () =>
  inTemp((folder) => {
    const { environment } = setupOf(folder);
    assertEquals(environment.args, ["--lr=1", "--set=x.api_key=***", "--api-key", "***"]);
    assertEquals(environment.slurm, { job_id: "7" });
    assertEquals(JSON.stringify(environment).includes("secret"), false);
  }));

Deno.test("a run that goes on has its file of before; uploaded, it gets another behind it", () =>
  inTemp(async (folder) => {
    const first = setupOf(folder);
    await written(first, 12, null);
    unlock(first);
    const resumed = { id: first.run.id, resumed: { step: 10, epoch: 1 } };
    const second = setupOf(folder, { ...resumed, began: 1_700_000_100 });
    assertEquals([second.path, second.again], [first.path, resumed.resumed]);
    Deno.writeTextFileSync(`${first.path}.synced`, "");
    const third = setupOf(folder, { ...resumed, began: 1_700_000_200 });
    assert(third.path !== first.path);
    assertEquals([third.uploaded, third.run.resume], [[first.path], true]);
  }));

Deno.test("what was uploaded and removed is not written again", () =>
  inTemp((folder) => {
    const setup = setupOf(folder, { id: "abc", resumed: { step: 10, epoch: 1 } });
    assertEquals([setup.after, setup.run.resume, setup.run.id], [10, true, "abc"]);
    const other = setupOf(folder, { resumed: { step: 10, epoch: 1 } }); // no W&B run until now: all of it is written
    assertEquals([other.after, other.run.resume], [-1, false]);
  }));

Deno.test("an id that is given by hand goes on with a run that was killed, and leaves one that is over whole", () =>
  inTemp(async (folder) => {
    const given = { config: config({ id: "mine" }) };
    const first = setupOf(folder, given);
    await written(first, 5, null);
    unlock(first);
    const again = setupOf(folder, given);
    assertEquals([again.path, again.again], [first.path, { step: 0, epoch: 0 }]);
    await written(again, 7, 0);
    unlock(first);
    const next = setupOf(folder, { ...given, began: 1_700_000_100 });
    assert(next.path !== first.path);
    assertEquals([next.again, next.run.resume], [null, true]);
  }));

Deno.test("two writers of one run are refused", () =>
  inTemp((folder) => {
    const given = { config: config({ id: "mine" }) };
    setupOf(folder, given);
    const error = assertThrows(
      () => setupOf(folder, given),
      UserError,
      "Another process is writing the W&B run mine",
    );
    assertEquals(error.exitCode, 2);
  }));

Deno.test("files that go with the run are known by name, and others are refused", () =>
  inTemp((folder) => {
    const { files } = setupOf(folder, { config: config({ files: ["best", "lineage"] }) });
    assertEquals(files.map(({ name }) => name), ["checkpoints/best.pt", "lineage.json"]);
    assertThrows(
      () => setupOf(folder, { config: config({ files: ["everything"] }) }),
      UserError,
      "takes best, latest",
    );
  }));

Deno.test("a folder that can't be made is left to the writer, which fails", () =>
  inTemp((folder) => {
    Deno.writeTextFileSync(join(folder, "file"), "");
    const setup = setupOf(folder, { config: config({ dir: join(folder, "file") }) });
    assertThrows(() => new WandbRun(setup).write(step(1)));
  }));
