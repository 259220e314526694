// Runs that share a folder of checkpoints: nothing of one is ever another's to write over or to remove.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { join } from "paths";
import { openCheckpoint } from "../../core/checkpoint/open.ts";
import type { Value } from "../../core/checkpoint/value.ts";
import { eventsOf, filesIn, finish, inTemp, start, succeed, TINY, until } from "./program.ts";

const EACH = [...TINY, "--hidden-size=8", "--save-every-epoch"];
const epochs = (run: string, numbers: number[], ending = "pt") =>
  numbers.map((n) => `${run}_epoch_${n}.${ending}`);
const checkpoints = (cwd: string) =>
  [...Deno.readDirSync(join(cwd, "checkpoints"))].map(({ name }) => name).sort();
const epochsIn = (cwd: string, run: string) =>
  checkpoints(cwd).filter((name) => name.startsWith(`${run}_epoch_`));

function runAndEpoch(path: string): unknown[] {
  using file = openCheckpoint(path);
  file.verify();
  const root = file.root as Map<string, Value>;
  return [(root.get("hpctrain") as Map<string, Value>).get("run"), root.get("epoch")];
}

/** Each file below a folder with what is in it. */
const contents = (folder: string) =>
  Object.fromEntries(filesIn(folder).map((name) => [name, Deno.readFileSync(join(folder, name)).toHex()]));

for (const [format, ending] of [["pt", "pt"], ["safetensors", "safetensors"], ["sharded", "ckpt"]]) {
  Deno.test(`two runs side by side with --save-every-epoch and --keep-last keep all their own, in ${format}`, () =>
    inTemp(async (cwd) => {
      const flags = [...EACH, `--checkpoint-format=${format}`];
      await succeed([...flags, "--run-name=r", "--epochs=4"], { cwd });
      await succeed([...flags, "--run-name=s", "--epochs=5", "--keep-last=2"], { cwd });
      await succeed([...flags, "--run-name=r", "--epochs=5", "--keep-last=3"], { cwd });
      assertEquals(epochsIn(cwd, "r"), epochs("r", [1, 2, 3, 4], ending));
      assertEquals(epochsIn(cwd, "s"), epochs("s", [4, 5], ending));
      assertEquals(epochsIn(cwd, "r-2"), epochs("r-2", [3, 4, 5], ending));
      const plain = epochs("checkpoint", [1, 2, 3, 4, 5], ending);
      assertEquals(epochsIn(cwd, "checkpoint"), plain);
      const whose = plain.map((name) => runAndEpoch(join(cwd, "checkpoints", name)));
      assertEquals(whose, [["r", 1], ["r", 2], ["r", 3], ["r", 4], ["s", 5]]);
      assertEquals(runAndEpoch(join(cwd, "checkpoints", `s_epoch_4.${ending}`)), ["s", 4]);
    }));
}

Deno.test("runs started at once from several save folders into one folder of checkpoints keep all their own", () =>
  inTemp(async (cwd) => {
    const flags = [...EACH, "--run-name=r", "--epochs=6", "--keep-last=4", `--model-dir=${cwd}/checkpoints`];
    const children = [1, 2, 3, 4].map((n) => start([...flags, `--save-dir=${n}`, `--seed=${n}`], { cwd }));
    for (const { code, stderr } of await Promise.all(children.map((child) => finish(child)))) {
      assertEquals([code, stderr], [0, ""]);
    }
    const runs = ["r", "r-2", "r-3", "r-4"], seeds = new Set();
    for (const run of runs) {
      assertEquals(epochsIn(cwd, run), epochs(run, [3, 4, 5, 6]));
      for (const name of [`${run}_latest.pt`, `${run}_epoch_6.pt`]) {
        using file = openCheckpoint(join(cwd, "checkpoints", name));
        const own = (file.root as Map<string, Value>).get("hpctrain") as Map<string, Value>;
        assertEquals(own.get("run"), run);
        seeds.add(own.get("seed"));
      }
    }
    assertEquals(seeds.size, 4);
    const plain = epochs("checkpoint", [3, 4, 5, 6]);
    assert(
      epochsIn(cwd, "checkpoint").every((name) => plain.includes(name)),
      "links to removed files are removed",
    );
    assertEquals(checkpoints(cwd).filter((name) => name.startsWith(".")), []);
  }));

Deno.test("--resume of one run's epoch goes on with that run after another came to the same epoch", () =>
  inTemp(async (cwd) => {
    await succeed([...EACH, "--run-name=r", "--epochs=3"], { cwd });
    await succeed([...EACH, "--run-name=s", "--epochs=3", "--seed=1"], { cwd });
    const other = () => Object.entries(contents(cwd)).filter(([name]) => /\/s[_/]/.test(name));
    const before = other();
    for (const [name, last] of [["checkpoint_epoch_2.pt", 4], ["r_epoch_3.pt", 5]] as const) {
      const { stdout } = await succeed(
        [...EACH, "--keep-last=2", `--epochs=${last}`, `--resume=checkpoints/${name}`],
        { cwd },
      );
      assertMatch(stdout, /^Run r: logs\/r$/m);
      assertEquals(epochsIn(cwd, "r"), epochs("r", [last - 1, last]));
    }
    assertEquals(other(), before);
    assertEquals(before.length > 5, true);
    await succeed([...EACH, "--epochs=4", "--resume=checkpoints/s_epoch_3.pt"], { cwd });
    assertEquals(runAndEpoch(join(cwd, "checkpoints/s_latest.pt")), ["s", 4]);
    assertEquals(runAndEpoch(join(cwd, "checkpoints/r_latest.pt")), ["r", 5]);
  }));

/** As an older version left it: each epoch's file under the plain name alone. */
function asOlder(cwd: string, run: string): void {
  for (const name of epochsIn(cwd, run)) {
    const plain = join(cwd, "checkpoints", name.replace(run, "checkpoint"));
    Deno.removeSync(plain);
    Deno.renameSync(join(cwd, "checkpoints", name), plain);
  }
}

for (const how of ["--resume=auto", "--resume=checkpoints/checkpoint_epoch_3.pt", "a requeue"]) {
  Deno.test(`a run of an older version goes on with its epochs as its own, by ${how}`, () =>
    inTemp(async (cwd) => {
      const env = { SLURM_JOB_ID: "7", SLURM_RESTART_COUNT: "0" };
      await succeed([...EACH, "--run-name=s", "--epochs=1"], { cwd });
      asOlder(cwd, "s");
      await succeed([...EACH, "--run-name=r", "--epochs=3"], { cwd, env });
      Deno.removeSync(join(cwd, "checkpoints/r_epoch_1.pt")); // s has the plain name of epoch 1
      asOlder(cwd, "r");
      const again = how === "a requeue" ? [] : [how];
      const flags = [...EACH, "--run-name=r", "--epochs=4", "--keep-last=2", ...again];
      const { stdout } = await succeed(flags, {
        cwd,
        env: how === "a requeue" ? { ...env, SLURM_RESTART_COUNT: "1" } : {},
      });
      assertMatch(stdout, /^Resuming from checkpoints\/.*: epoch 3, step 12$/m);
      assertEquals(epochsIn(cwd, "r"), epochs("r", [4]));
      const plain = epochs("checkpoint", [1, 3, 4]);
      assertEquals(epochsIn(cwd, "checkpoint"), plain);
      const whose = plain.map((name) => runAndEpoch(join(cwd, "checkpoints", name)));
      assertEquals(whose, [["s", 1], ["r", 3], ["r", 4]]);
    }));
}

Deno.test("--resume auto goes on from an older version's epoch where the latest is damaged", () =>
  inTemp(async (cwd) => {
    const flags = [...EACH, "--run-name=r", "--resume=auto"];
    await succeed([...flags, "--epochs=2"], { cwd });
    asOlder(cwd, "r");
    for (const name of ["r_latest.pt", "r_best.pt"]) {
      Deno.removeSync(join(cwd, "checkpoints", name)); // its bytes have other names
      Deno.writeTextFileSync(join(cwd, "checkpoints", name), "no checkpoint");
    }
    const { stdout } = await succeed([...flags, "--epochs=3"], { cwd });
    assertMatch(stdout, /^Resuming from checkpoints\/checkpoint_epoch_2\.pt: epoch 2, step 8$/m);
  }));

for (const wandb of [[], ["--no-wandb"]]) {
  Deno.test(`a run that goes on in a folder where another has its name is a new one there ${wandb}`, () =>
    inTemp(async (cwd) => {
      const flags = [...EACH, "--run-name=r", ...wandb];
      for (const folder of ["a", "b"]) {
        await succeed([...flags, "--epochs=2", `--save-dir=${folder}`], { cwd });
      }
      const own = () =>
        Object.entries(contents(join(cwd, "b"))).filter(([name]) =>
          /^(checkpoints|logs)\/(r[_/]|checkpoint)/.test(name)
        );
      const before = own();
      const from = ["--resume=a/checkpoints/r_latest.pt", "--epochs=3", "--save-dir=b", "--keep-last=1"];
      const { stdout } = await succeed([...flags, ...from], { cwd });
      assertMatch(
        stdout,
        /^The run r goes on as a new one: its name is another run's in b\/checkpoints and b\/logs\/r, /m,
      );
      assertMatch(stdout, /^Run r-2: b\/logs\/r-2$/m);
      assertEquals(own().length, before.length + 1, "the link of epoch 3 is new");
      assertEquals(own().filter(([name]) => !name.endsWith("checkpoint_epoch_3.pt")), before);
      const home = await succeed([...flags, ...from, "--save-dir=a"], { cwd });
      assertMatch(home.stdout, /^Run r: a\/logs\/r$/m);
    }));
}

Deno.test("a run that was killed before its first save begins again under its name, in a shared folder too", () =>
  inTemp(async (cwd) => {
    const shared = [...EACH, "--run-name=r", `--model-dir=${cwd}/checkpoints`, "--resume=auto"];
    const own = [...shared, "--save-dir=a", "--train-samples=4000"];
    const child = start([...own, "--epochs=1000", "--save-interval=1h", "--batch-size=1"], { cwd });
    await until("a step", () => eventsOf(join(cwd, "a"), "r").some(({ kind }) => kind === "step"));
    child.kill("SIGKILL");
    await finish(child);
    assertEquals(checkpoints(cwd), [".r.claim"]);
    const other = await succeed([...shared, "--save-dir=b"], { cwd });
    assertMatch(other.stdout, /^Run r-2: b\/logs\/r-2$/m);
    const again = await succeed([...own, "--max-steps=2"], { cwd });
    assertMatch(again.stdout, /^Run r: a\/logs\/r$/m);
    assert(!checkpoints(cwd).includes(".r.claim"));
  }));
