import { assertEquals } from "@std/assert";
import { latestPath, newestRun, runPathsOf } from "../../../core/train/run_folder.ts";
import { settings } from "./rig.ts";

async function inFolder(test: (folder: string) => void) {
  const folder = await Deno.makeTempDir();
  try {
    test(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}
const touch = (path: string, seconds = 0) => {
  Deno.mkdirSync(path.slice(0, path.lastIndexOf("/")), { recursive: true });
  Deno.writeTextFileSync(path, "");
  Deno.utimeSync(path, seconds, seconds);
};

Deno.test("a run is named by --run-name, else by its preset, else by model and data", () =>
  inFolder((folder) => {
    const name = (preset: string | null, ...flags: string[]) =>
      runPathsOf(settings("--save-dir", folder, ...flags), preset, null).run;
    assertEquals(name("debug", "--run-name", "mine"), "mine");
    assertEquals(name("debug"), "debug");
    assertEquals(name(null, "--model", "resnet18", "--data-type", "mnist"), "resnet18-mnist");
    assertEquals(name(null, "--model", "models/my_net.ts", "--data-type", "mnist"), "my_net-mnist");
    assertEquals(name(null, "--model", "gpt"), "gpt");
  }));

Deno.test("a new run never takes a name that has logs or a checkpoint", () =>
  inFolder((folder) => {
    const config = settings("--save-dir", folder, "--run-name", "mine");
    touch(`${folder}/logs/mine/events.jsonl`);
    assertEquals(runPathsOf(config, null, null).run, "mine-2");
    touch(`${folder}/checkpoints/mine-2_latest.pt`);
    assertEquals(runPathsOf(config, null, null).run, "mine-3");
    assertEquals(latestPath(runPathsOf(config, null, null)), `${folder}/checkpoints/mine-3_latest.pt`);
  }));

Deno.test("a resumed run keeps its name and its files", () =>
  inFolder((folder) => {
    const config = settings("--save-dir", folder, "--run-name", "mine");
    touch(`${folder}/logs/mine-2/events.jsonl`);
    assertEquals(runPathsOf(config, null, "mine-2").logs, `${folder}/logs/mine-2`);
  }));

Deno.test("--model-dir takes the checkpoints, --save-dir the logs", () =>
  inFolder((folder) => {
    const config = settings("--save-dir", folder, "--model-dir", `${folder}/models`, "--run-name", "mine");
    const places = runPathsOf(config, null, null);
    assertEquals([places.checkpoints, places.logs], [`${folder}/models`, `${folder}/logs/mine`]);
  }));

Deno.test("--resume auto takes the newest run of this name, and no other's", () =>
  inFolder((folder) => {
    const config = settings("--save-dir", folder, "--run-name", "mine");
    const given: Record<string, string> = { "mine-4": "mine-4", "mine-2": "mine" };
    const newest = () => newestRun(config, null, (path) => given[/([^/]*)_latest/.exec(path)![1]]);
    assertEquals(newest(), null);
    touch(`${folder}/checkpoints/mine_latest.pt`, 100);
    touch(`${folder}/checkpoints/mine-2_latest.pt`, 300);
    touch(`${folder}/checkpoints/mine-3_latest.pt`, 200);
    touch(`${folder}/checkpoints/mine-other_latest.pt`, 400);
    touch(`${folder}/checkpoints/yours_latest.pt`, 500);
    touch(`${folder}/checkpoints/mine_best.pt`, 600);
    touch(`${folder}/checkpoints/mine-4_latest.pt`, 700); // by --run-name mine-4
    assertEquals(newest()?.run, "mine-2");
  }));
