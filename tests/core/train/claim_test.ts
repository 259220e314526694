// Whose a run's name is: save folders that share one folder of checkpoints, notes that a kill left, files of older runs.
import { assertEquals, assertThrows } from "@std/assert";
import { join } from "paths";
import { writePt } from "../../../core/checkpoint/pt.ts";
import { INDEX_FILE } from "../../../core/checkpoint/sharded_reader.ts";
import { dict } from "../../../core/checkpoint/value.ts";
import { claim, releaseName } from "../../../core/train/claim.ts";
import { lockFolder } from "../../../core/base/files.ts";
import { isAnothers } from "../../../core/train/run_folder.ts";
import { lineagePath } from "../../../core/run/lineage.ts";
import { UserError } from "../../../core/base/errors.ts";
import { inTemp } from "../../integration/program.ts";
import { settings } from "./rig.ts";

/** A run `r` of this save folder, whose checkpoints lie in `models` beside it. */
const configOf = (cwd: string, folder: string, name = "r") =>
  settings("--save-dir", join(cwd, folder), "--model-dir", join(cwd, "models"), "--run-name", name);
const fresh = (cwd: string, folder: string, name?: string) =>
  claim({ config: configOf(cwd, folder, name), preset: null, resume: null });
const goOn = (cwd: string, folder: string) =>
  claim({ config: configOf(cwd, folder), preset: null, resume: null, again: "r" });

/** What a process that was killed leaves: the note, and no lock. */
function killed(cwd: string, owner: { host: string; logs: string }): void {
  Deno.mkdirSync(join(cwd, "models"), { recursive: true });
  Deno.writeTextFileSync(join(cwd, "models/.r.claim"), JSON.stringify(owner));
}

function saved(path: string, run: string, wandb: string | null = null): string {
  Deno.mkdirSync(join(path, ".."), { recursive: true });
  writePt(path, dict({ epoch: 1, hpctrain: dict({ run, cursor: dict({ step: 4 }), wandb_run_id: wandb }) }));
  return path;
}

Deno.test("a name that a run of another save folder has in this folder of checkpoints is taken until that ends", () =>
  inTemp((cwd) => {
    const first = fresh(cwd, "a");
    assertEquals([first.run, fresh(cwd, "b").run], ["r", "r-2"]);
    assertEquals([...Deno.readDirSync(join(cwd, "b/logs"))].map(({ name }) => name), ["r-2"]);
    releaseName(first);
    assertEquals(fresh(cwd, "c").run, "r", "nothing was saved under it");
  }));

Deno.test("a start that comes second to a folder takes the next name, and leaves the folder to the first to lock", () =>
  inTemp((cwd) => {
    const { mkdirSync } = Deno, logs = join(cwd, "a/logs/r");
    Deno.mkdirSync = (path, options) => {
      if (path === logs) mkdirSync(path); // by the first, at this moment
      mkdirSync(path, options);
    };
    try {
      assertEquals(fresh(cwd, "a").run, "r-2");
    } finally {
      Deno.mkdirSync = mkdirSync;
    }
    assertEquals(lockFolder(logs), true);
  }));

Deno.test("a run's best or epoch is enough to keep its name, in any format", () =>
  inTemp((cwd) => {
    Deno.mkdirSync(join(cwd, "models"));
    for (const name of ["r_best.safetensors", "r-2_epoch_7.pt", "r-3_epoch_1.ckpt", "r-5_epoch_x.pt"]) {
      Deno.writeTextFileSync(join(cwd, "models", name), "");
    }
    assertEquals(fresh(cwd, "a").run, "r-4");
    assertEquals(fresh(cwd, "a").run, "r-5");
    assertEquals(fresh(cwd, "a", "checkpoint").run, "checkpoint-2", "other runs' links have this name");
    const config = configOf(cwd, "a", "checkpoint");
    assertEquals(claim({ config, preset: null, resume: null, again: "checkpoint" }).run, "checkpoint-3");
  }));

Deno.test("a note that a kill left keeps the name from others, and not from the run itself or its successor", () =>
  inTemp((cwd) => {
    const logs = join(cwd, "a/logs/r");
    killed(cwd, { host: "node1", logs });
    assertEquals(fresh(cwd, "b").run, "r-2");
    assertEquals(fresh(cwd, "a").run, "r-3", "another machine's folder may have this path");
    assertEquals(goOn(cwd, "a").run, "r");
    const elsewhere = join(cwd, "elsewhere");
    Deno.mkdirSync(elsewhere);
    killed(elsewhere, { host: Deno.hostname(), logs: join(elsewhere, "a/logs/r") });
    assertEquals(fresh(elsewhere, "a").run, "r", "its logs were removed");
  }));

Deno.test("a run that is under way from another save folder is not gone on with, and the sentence names its logs", () =>
  inTemp((cwd) => {
    fresh(cwd, "a");
    const error = assertThrows(() => goOn(cwd, "b"), UserError);
    assertEquals(error.message.includes(`it holds ${join(cwd, "a/logs/r")}`), true, error.message);
  }));

Deno.test("files of older versions are a run's own by its id at W&B, or by its name when they are younger than it", () =>
  inTemp((cwd) => {
    const plain = (epoch: number, run: string, wandb: string | null, seconds: number) => {
      const path = saved(join(cwd, `models/checkpoint_epoch_${epoch}.pt`), run, wandb);
      Deno.utimeSync(path, seconds, seconds);
    };
    plain(1, "r", "abc", 50);
    plain(2, "r", "other", 200);
    plain(3, "s", "abc", 200);
    plain(4, "r", null, 50);
    plain(5, "r", null, 200);
    const logs = join(cwd, "a/logs/r"),
      lost = { restart_s: 0, save_stall_s: 0, redone_steps: 0, redone_s: 0 };
    const attempt = {
      ...{ attempt: 1, host: "h", job_id: null, ranks: 1, pid: 1, started: 100, resumed_from: null },
      ...{ first_step: 1, last_step: 4, first_step_at: 101, last_seen: 300, ended: null, lost },
    };
    Deno.mkdirSync(logs, { recursive: true });
    Deno.writeTextFileSync(
      lineagePath(logs),
      JSON.stringify({ version: 1, run: "r", parent: null, goodput_percent: null, attempts: [attempt] }),
    );
    const resume = { path: "models/r_latest.pt", run: "r", wandb: "abc" };
    const { older } = claim({ config: configOf(cwd, "a"), preset: null, resume });
    assertEquals(older.toSorted(), [1, 5].map((epoch) => `checkpoint_epoch_${epoch}.pt`));
  }));

Deno.test("a checkpoint's run is another's than the one here by its id at W&B, else by where its files and logs lie", () =>
  inTemp((cwd) => {
    const models = join(cwd, "models"), config = configOf(cwd, "a");
    const another = (path: string, wandb: string | null = null) =>
      isAnothers(config, { path, run: "r", wandb });
    const logs = (folder: string, model_dir: string) => {
      Deno.mkdirSync(join(cwd, folder, "logs/r"), { recursive: true });
      const event = { t: 1, kind: "config", config: { output: { model_dir } }, origins: {} };
      Deno.writeTextFileSync(join(cwd, folder, "logs/r/events.jsonl"), JSON.stringify(event) + "\n");
    };
    const away = saved(join(cwd, "away/r_latest.pt"), "r", "abc");
    Deno.mkdirSync(models);
    assertEquals(another(away), false, "nothing is here");
    killed(cwd, { host: "node1", logs: "/node1/logs/r" });
    assertEquals(another(away), true, "a run that has saved nothing yet");
    Deno.removeSync(join(models, ".r.claim"));

    const latest = saved(join(models, "r_latest.pt"), "r", "abc");
    assertEquals(another(latest), false, "it is the one here");
    assertEquals([another(away), another(away, "xyz"), another(away, "abc")], [true, true, false]);
    Deno.symlinkSync(latest, join(cwd, "away/link.pt"));
    assertEquals(another(join(cwd, "away/link.pt")), false, "a link to the one here");
    assertEquals(another(join(models, "r_latest.ckpt", INDEX_FILE)), false, "an index in its folder");
    assertEquals(another(saved(join(models, "friend.pt"), "r")), true, "no name that r gives its files");
    assertEquals(another(saved(join(models, "checkpoint_epoch_1.pt"), "r")), false);

    logs("a", models);
    assertEquals([another(latest), another(away)], [false, true]);
    logs("a", join(cwd, "before"));
    assertEquals(another(latest), false, "its files were moved here");
    saved(join(cwd, "before/r_best.pt"), "r");
    assertEquals(another(latest), true, "the logs are of a run whose files lie elsewhere");
    Deno.removeSync(latest);
    logs("a", join(cwd, "away"));
    assertEquals(another(away), false, "the logs are its own, and --model-dir is new");
    assertEquals(isAnothers(config, { path: away, run: "checkpoint" }), true);
  }));
