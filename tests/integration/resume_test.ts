// Going on: which checkpoint, with which settings, as which run, and what the run's lineage tells of it.
import { assert, assertEquals, assertMatch, assertNotMatch } from "@std/assert";
import { join } from "paths";
import { openCheckpoint } from "../../core/checkpoint/open.ts";
import { writePt } from "../../core/checkpoint/pt.ts";
import { dict, type Value } from "../../core/checkpoint/value.ts";
import type { Lineage } from "../../core/run/lineage.ts";
import { eventsOf, filesIn, finish, inTemp, run, start, succeed, TINY, until } from "./program.ts";

const RUN = [...TINY, "--run-name=r", "--hidden-size=8", "--log-interval=1"];

const lineageOf = (cwd: string, name: string): Lineage =>
  JSON.parse(Deno.readTextFileSync(join(cwd, "logs", name, "lineage.json")));
const steps = (cwd: string) =>
  eventsOf(cwd, "r").filter(({ kind }) => kind === "step").map(({ step }) => step as number);

Deno.test("a run that was killed twice tells each attempt's end, and has every step in its events once", () =>
  inTemp(async (cwd) => {
    const args = [
      ...RUN,
      "--train-samples=2000",
      "--epochs=1000000",
      "--save-interval=100steps",
      "--resume=auto",
    ];
    for (const steps of [250, 650]) {
      const child = start(args, { cwd });
      await until(
        `step ${steps}`,
        () => eventsOf(cwd, "r").some(({ kind, step }) => kind === "step" && step === steps),
      );
      child.kill("SIGKILL");
      await finish(child);
    }
    const { stdout } = await succeed([...args, "--max-steps=1000"], { cwd, env: { SLURM_JOB_ID: "123" } });
    assertMatch(
      stdout,
      /^Attempt 3 of this run, goodput so far \d+\.\d%\. Attempt 2 was killed after step \d+/m,
    );
    assertMatch(stdout, /^Goodput of 3 attempts: \d+\.\d%$/m);
    assertEquals(steps(cwd), Array.from({ length: 1000 }, (_, i) => i + 1));

    const { attempts, goodput_percent } = lineageOf(cwd, "r");
    assertEquals(attempts.map(({ ended }) => ended?.why), ["killed", "killed", "done"]);
    assertEquals(attempts.map(({ job_id }) => job_id), [null, null, "123"]);
    assertEquals([attempts[0].first_step, attempts[2].last_step], [1, 1000]);
    for (const [i, { first_step, lost }] of attempts.slice(1).entries()) {
      assertEquals(lost.redone_steps, attempts[i].last_step - first_step + 1);
      assertEquals((first_step - 1) % 100 === 0 || (first_step - 1) % 125 === 0, true, "a save's step");
    }
    assert(goodput_percent! > 0 && goodput_percent! < 100, String(goodput_percent));
    const shown = await succeed(["inspect", "logs/r"], { cwd });
    assertMatch(
      shown.stdout,
      /^logs\/r\/lineage\.json: run r, 3 attempts, goodput \d+\.\d%\n {2}1 .* was killed after /,
    );
    assertMatch(shown.stdout, /\(job 123\) .*steps \d+ to 1000 .*lost: start \d/);
    const json = JSON.parse(
      (await succeed(["inspect", "checkpoints/r_latest.pt", "--json"], { cwd })).stdout,
    );
    assertEquals(json.lineage, JSON.parse((await succeed(["inspect", "logs/r", "--json"], { cwd })).stdout));
    assertEquals(json.lineage, lineageOf(cwd, "r"));
  }));

Deno.test("harmless changes are told in a line, averages that come and go too", () =>
  inTemp(async (cwd) => {
    await succeed(RUN, { cwd });
    const again = (...flags: string[]) => succeed([...RUN, "--resume=auto", ...flags], { cwd });
    const added = await again("--epochs=2", "--batch-size=8", "--ema=0.9", "--num-workers=3");
    assertMatch(
      added.stdout,
      /^Changed since the checkpoint: data\.num_workers 8 -> 3, training\.epochs 1 -> 2, training\.batch_size 16 -> 8, training\.ema 0 -> 0\.9$/m,
    );
    assertMatch(added.stdout, /^The averages of the weights \(--ema\) begin with the checkpoint's weights/m);
    const removed = await again("--epochs=3", "--batch-size=8", "--ema=0", "--num-workers=3");
    assertMatch(removed.stdout, /^The checkpoint's averaged weights are left out: this run keeps none/m);
    const seed = await again("--epochs=4", "--seed=1", "--force");
    assertMatch(
      seed.stdout,
      /^Changed since the checkpoint: .*training\.seed 0 -> 1 \(--force: .*another training\)$/m,
    );
  }));

Deno.test("a run goes on under another name as a run of its own, which knows where it came from", () =>
  inTemp(async (cwd) => {
    await succeed(RUN, { cwd });
    const files = () => filesIn(cwd).filter((file) => /\/r[_/]/.test(file)).map((file) => join(cwd, file));
    const contents = () => files().map((file) => Deno.readFileSync(file).toHex());
    const before = contents();
    const resume = ["--epochs=2", "--resume=checkpoints/r_latest.pt"];
    const { stdout } = await succeed([...RUN, "--run-name=other", ...resume], { cwd });
    assertMatch(
      stdout,
      /^The run r goes on as a new one \(--run-name other\); its own files stay as they are$/m,
    );
    assertMatch(stdout, /^Run other: logs\/other$/m);
    assert(before.length >= 3 && contents().join() === before.join(), "its own files stay as they are");
    const { parent, attempts } = lineageOf(cwd, "other");
    assertEquals(parent, { run: "r", checkpoint: "checkpoints/r_latest.pt", step: 4 });
    assertEquals(attempts.map(({ first_step, last_step }) => [first_step, last_step]), [[5, 8]]);
    const shown = await succeed(["inspect", "logs/other"], { cwd });
    assertMatch(shown.stdout, /went on from checkpoints\/r_latest\.pt at step 4$/m);
    // The name that it had all along is no other name.
    const same = await succeed([...RUN, "--epochs=3", "--resume=checkpoints/r_latest.pt"], { cwd });
    assertMatch(same.stdout, /^Run r: logs\/r$/m);
  }));

Deno.test("a PyTorch program's checkpoint begins a new run, a state dict alone too, and neither is written to", () =>
  inTemp(async (cwd) => {
    await succeed(RUN, { cwd });
    {
      using file = openCheckpoint(join(cwd, "checkpoints/r_latest.pt"));
      const weights = (file.root as Map<string, Value>).get("model_state_dict")!;
      writePt(join(cwd, "python.pt"), dict({ epoch: 1, model_state_dict: weights, loss: 0.5 }));
      writePt(join(cwd, "bare.pt"), weights);
    }
    const from = (path: string) => succeed([...RUN, "--epochs=3", "--resume", path], { cwd });
    const python = await from("python.pt");
    assertMatch(
      python.stdout,
      /^Taken from it: weights, no optimizer state, .* 1 epoch done \(its epoch is 1\)$/m,
    );
    assertMatch(
      python.stdout,
      /^Resuming from python\.pt: epoch 1, step 4\nRun r-2: logs\/r-2\n\[Epoch 2\/3\]/m,
    );
    assertEquals(lineageOf(cwd, "r-2").parent, { run: null, checkpoint: "python.pt", step: 4 });
    const bare = await from("bare.pt");
    assertMatch(
      bare.stdout,
      /^bare\.pt holds weights and nothing else: the run starts at epoch 0 with them$/m,
    );
    assertMatch(bare.stdout, /^Run r-3: logs\/r-3\n\[Epoch 1\/3\]/m);
  }));

Deno.test("--resume auto passes over a latest with one wrong bit in a weight, and goes on without a latest", () =>
  inTemp(async (cwd) => {
    const latest = join(cwd, "checkpoints/r_latest.pt");
    const again = (epochs: number) =>
      run([...RUN, `--epochs=${epochs}`, "--resume=auto", "--save-every-epoch"], { cwd });
    const first = await again(2);
    assertMatch(first.stdout, /^Nothing to resume yet: this run starts afresh \(--resume auto\)$/m);
    const bytes = Deno.readFileSync(latest);
    Deno.removeSync(join(cwd, "checkpoints/r_best.pt"));
    // In the first weight's data: only its checksum tells.
    const name = new TextEncoder().encode("archive/data/0");
    const at = bytes.findIndex((_, i) => name.every((byte, k) => bytes[i + k] === byte)) + 128;
    bytes[at] ^= 4;
    Deno.removeSync(latest); // the epoch's checkpoint is the same file
    Deno.writeFileSync(latest, bytes);
    const second = await again(3);
    assertMatch(
      second.stdout,
      /^Passed over a damaged checkpoint\. checkpoints\/r_latest\.pt: the checksum of .* is wrong/m,
    );
    assertMatch(second.stdout, /^Resuming from checkpoints\/r_epoch_2\.pt: epoch 2, step 8$/m);
    Deno.removeSync(latest);
    Deno.removeSync(join(cwd, "checkpoints/r_epoch_3.pt"));
    const third = await again(4);
    assertMatch(
      third.stdout,
      /^Resuming from checkpoints\/(r_best|r_epoch_2)\.pt: epoch \d, step \d+$/m,
    );
    assertNotMatch(third.stdout, /Passed over/);
  }));
