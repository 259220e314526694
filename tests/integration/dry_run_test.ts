// `hpctrain train --dry-run`: what a run would do, told by what decides it.
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { inTemp, run, succeed } from "./program.ts";
import { sentenceNamed } from "../sentences.ts";

Deno.test("--dry-run tells what each step would train on, in the lines of the run, and leaves nothing behind", () =>
  inTemp(async (cwd) => {
    const argv = ["--debug", "--batch-size=50", "--grad_accum=2", "--lr", "1e-2", "--max-steps=2"];
    const dry = (await succeed(["train", ...argv, "--dry-run"], { cwd, env: { EPOCHS: "2" } })).stdout;
    assertEquals([...Deno.readDirSync(cwd)], []);
    assertMatch(
      dry,
      /^Batch: 50 x 1 rank x 2 accumulated = 100 samples a step, 20 steps an epoch\. Learning rate: 0.01 \(--lr\), not scaled/m,
    );
    assertMatch(dry, /^From the environment: EPOCHS=2\.$/m);
    assertMatch(dry, /^Dry run: nothing was trained, and nothing written\.\n$/m);
    const told = (await succeed(argv, { cwd, env: { EPOCHS: "2" } })).stdout.split("\n");
    // A run has its libtorch in its events; it is looked for here.
    const lines = dry.trim().split("\n").slice(0, -1).filter((line) => !line.startsWith("libtorch "));
    for (const line of lines) assertEquals(told.includes(line), true, line);
    const goesOn = (await succeed([...argv, "--resume=auto", "--dry-run"], { cwd })).stdout;
    assertMatch(goesOn, /^Goes on from checkpoints\/debug_latest\.pt$/m);
    assertMatch(
      goesOn,
      /^A save held training for .* of 1 node fails once in 1000 days, --save-interval \d+s loses least/m,
    );
  }));

Deno.test("--dry-run refuses what the run would refuse, with its code", () =>
  inTemp(async (cwd) => {
    Deno.mkdirSync(`${cwd}/digits`);
    for (const [half, count] of [["train", 8], ["t10k", 4]] as const) {
      const images = [0, 0, 8, 3, 0, 0, 0, count, 0, 0, 0, 2, 0, 0, 0, 2, ...new Array(4 * count).fill(7)];
      const labels = [0, 0, 8, 1, 0, 0, 0, count, ...new Array(count).fill(1)];
      Deno.writeFileSync(`${cwd}/digits/${half}-images-idx3-ubyte`, Uint8Array.from(images));
      Deno.writeFileSync(`${cwd}/digits/${half}-labels-idx1-ubyte`, Uint8Array.from(labels));
    }
    const cases: [string[], number, string][] = [
      [["--preset=multi-node"], 2, 'Preset "multi-node" is for'],
      [
        ["--debug", "--gpus-per-node=2", "--device=cpu"],
        2,
        sentenceNamed("integration/dry_run: gpus-per-node asks gpus"),
      ],
      [["--data-path=none.npz"], 3, "none.npz"],
      [
        ["--data-path=digits", "--model=mlp", "--validation-split=0.3"],
        2,
        sentenceNamed("integration/dry_run: validation-split would hold"),
      ],
    ];
    for (const [argv, code, says] of cases) {
      const dry = await run(["train", ...argv, "--dry-run"], { cwd });
      assertEquals(dry.code, code, dry.stderr);
      assertStringIncludes(dry.stderr, says);
      const real = await run(["train", ...argv], { cwd });
      assertEquals([real.code, real.stderr], [dry.code, dry.stderr]);
    }
  }));
