// Files that change while a run reads them, and samples that it may leave out.
import { assertEquals, assertMatch } from "@std/assert";
import { join } from "paths";
import { goodFiles, lay } from "./formats.ts";
import { eventsOf, finish, inTemp, run, start, succeed, TINY, until } from "./program.ts";

const TRAIN = [
  ...TINY,
  "--model=mlp",
  "--hidden-size=8",
  "--run-name=r",
  "--in-memory=no",
  "--log-interval=1",
];

/** Trains without an end, and damages the data when that has begun. */
async function whileReading(
  files: string[],
  args: string[],
  damage: (folder: string) => void,
  says: RegExp,
): Promise<void> {
  const good = await goodFiles(...files);
  await inTemp(async (cwd) => {
    lay(good, cwd);
    const child = start([...TRAIN, ...args, "--epochs=100000"], { cwd });
    const done = finish(child);
    const steps = () => eventsOf(cwd, "r").filter(({ kind }) => kind === "step").length;
    await Promise.race([until("some steps", () => steps() > 5), done]);
    damage(cwd);
    const { code, stdout, stderr } = await done;
    const last = stderr.trimEnd().split("\n").at(-1)!;
    assertMatch(last, says);
    assertMatch(last, /^hpctrain: .*[.?]$/);
    assertEquals(code, 3, stdout + stderr);
    assertEquals(eventsOf(cwd, "r").find(({ kind }) => kind === "exit")?.code, 3);
  });
}

for (const workers of [0, 2]) {
  const by = workers === 0 ? "read by the training thread" : `read by ${workers} threads`;
  for (
    const [file, name] of [["rows.npz", "an npz"], ["flat.h5", "an HDF5 file"], ["rows.nc", "a NetCDF file"]]
  ) {
    const variables = file === "rows.nc" ? ["--features=wind", "--targets=ice"] : [];
    Deno.test(`${name} that shrinks while it is ${by} ends the run, and no crash`, () =>
      whileReading(
        [file],
        [`--data-path=${file}`, `--num-workers=${workers}`, ...variables],
        (folder) => Deno.truncateSync(join(folder, file), 600),
        new RegExp(`${file.replace(".", "\\.")}.* (became shorter|was changed)`),
      ));
  }
  Deno.test(`an image that goes away while others are ${by} ends the run with its path`, () =>
    whileReading(
      ["images"],
      ["--data-path=images", `--num-workers=${workers}`],
      (folder) => {
        for (let i = 0; i < 40; i++) {
          Deno.removeSync(join(folder, `images/dog/${String(i).padStart(2, "0")}.jpg`));
        }
      },
      /images\/dog\/\d\d\.jpg\) is no longer there.*--bad-samples skip/,
    ));
}

Deno.test("--bad-samples skip takes the next sample for a bad one, whoever reads it, and tells how many there were", async () => {
  const good = await goodFiles("images");
  const losses = async (workers: number) => {
    const found: unknown[] = [];
    await inTemp(async (cwd) => {
      lay(good, cwd);
      for (const name of ["cat/05", "dog/17"]) Deno.truncateSync(join(cwd, `images/${name}.jpg`), 400);
      const args = ["--data-path=images", `--num-workers=${workers}`, "--bad-samples=skip"];
      const all = ["--train-samples=80", "--val-samples=0"];
      const { stderr } = await succeed([...TRAIN, ...args, ...all], { cwd });
      assertMatch(stderr, /^warning: 2 samples that could not be used were replaced .*--bad-samples skip/m);
      found.push(...eventsOf(cwd, "r").filter(({ kind }) => kind === "step").map(({ loss }) => loss));
      if (workers > 0) return;
      const own = ["checkpoints/r_latest.pt", "--on=train", "--threads=1"];
      const judged = await succeed(["eval", ...own], { cwd });
      assertMatch(
        judged.stderr,
        /^2 samples could not be used, and the next one was judged once more in the place of each/m,
      );
      const { code, stderr: refusal } = await run(["predict", ...own, "--out=p.csv"], { cwd });
      assertMatch(
        refusal,
        /images\/(cat\/05|dog\/17)\.jpg\) .* a prediction can't use the next sample in its place/,
      );
      assertEquals([code, [...Deno.readDirSync(cwd)].some(({ name }) => name === "p.csv")], [3, false]);
    });
    return found;
  };
  const alone = await losses(0);
  assertEquals(alone.length, 5);
  assertEquals(await losses(2), alone);
});
