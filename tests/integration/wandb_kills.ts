// A run that is killed at random moments and resumed each time, and what its W&B file has then. Test helper, and what
// `scripts/storm wandb` runs.
import { assert, assertEquals } from "@std/assert";
import { dirname, join } from "paths";
import { key, uniform } from "../../core/base/random.ts";
import { parsed, pythonOf, stepsOf, sync, WANDBS } from "../core/outputs/wandb/runs.ts";
import { eventsOf, filesIn, finish, inTemp, start, succeed, until } from "./program.ts";
import { openWandbServer } from "./wandb_server.ts";

export const LOGGED = ["--log-interval=1", "--device=cpu", "--threads=1"];
/** As long as it takes to be killed. */
export const LONG = [
  ...[...LOGGED, "--model=mlp", "--data-type=synthetic", "--train-samples=1600", "--batch-size=16"],
  ...["--val-samples=16", "--epochs=1000", "--save-interval=7steps"],
];

/** The .wandb files below a folder. */
export const filesOf = (cwd: string): string[] =>
  filesIn(join(cwd, "logs/wandb")).filter((path) => path.endsWith(".wandb"))
    .map((path) => join(cwd, "logs/wandb", path));

export function fileOf(cwd: string): string {
  const files = filesOf(cwd);
  assertEquals(files.length, 1, files.join(" "));
  return files[0];
}

/** After each kill: one file, each step once, no row missing that the events have, and none from before a save. */
export async function killAgainAndAgain(
  cwd: string,
  kills: number,
  told: (line: string) => void = () => {},
): Promise<void> {
  const moment = uniform(key(4, "moments of kills"));
  for (let kill = 0; kill < kills; kill++) {
    const before = eventsOf(cwd, "r").length;
    const child = start([...LONG, "--resume=auto", "--run-name=r"], { cwd });
    await until("it goes on", () => eventsOf(cwd, "r").length > before + 5);
    await new Promise((resolve) => setTimeout(resolve, 200 * moment(kill)));
    child.kill("SIGKILL");
    await finish(child);
    const events = eventsOf(cwd, "r");
    const saved = Number(events.findLast(({ kind }) => kind === "save")?.step ?? 0);
    const told_ = events.filter(({ kind }) => kind === "step").map(({ step }) => step as number);
    const steps = stepsOf(fileOf(cwd)).map(Number);
    const done = steps.at(-1) ?? 0;
    assert(steps.every((step, i) => i === 0 || step > steps[i - 1]), `kill ${kill}: ${steps}`);
    // The row of an epoch's last step waits for its evaluation; events are written together, each look of the thread.
    const missing = told_.filter((step) => step < done && !steps.includes(step));
    assertEquals(missing, [], `kill ${kill}: rows are missing`);
    assert(done >= saved - 1, `kill ${kill}: the rows end with ${done}, and step ${saved} was saved`);
    const behind = told_.filter((step) => step > done).length;
    assert(behind <= 1, `kill ${kill}: ${behind} events have no row`);
    told(`kill ${kill + 1}: ${steps.length} rows up to step ${done}, ${behind} behind the events`);
  }
}

if (import.meta.main) {
  const kills = Number(Deno.args[0] ?? 100);
  const versions = Object.keys(WANDBS) as (keyof typeof WANDBS)[];
  versions.forEach(pythonOf); // before the kills, not after them
  await inTemp(async (cwd) => {
    await killAgainAndAgain(cwd, kills, console.log);
    const last = stepsOf(fileOf(cwd)).map(Number).at(-1)! + 50;
    await succeed([...LONG, "--resume=auto", "--run-name=r", `--max-steps=${last}`], { cwd });
    for (const version of versions) {
      await using server = openWandbServer();
      for (const mark of ["synced", "syncstate"]) await Deno.remove(`${fileOf(cwd)}.${mark}`).catch(() => {});
      await sync(version, server, cwd, [dirname(fileOf(cwd))]);
      const rows = server.run().lines.history.map((line) => parsed(line)._step);
      assertEquals(rows, stepsOf(fileOf(cwd)));
      const gaps = last - rows.length;
      console.log(
        `${version}: ${rows.length} rows at the server, each step once, ${gaps} of ${last} lost by kills`,
      );
    }
  });
}
