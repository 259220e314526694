// LoRA in an exported program: trained, killed, gone on with, and merged. Its gradients beside peft's are in
// tests/core/models/real_weights_test.ts.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { openCheckpoint } from "../../core/checkpoint/open.ts";
import { findStateDict } from "../../core/checkpoint/state_dict.ts";
import { tensorBytes } from "../../core/checkpoint/value.ts";
import { eventsOf, inTemp, run, succeed } from "./program.ts";

const DATA =
  "--data-type synthetic --train-samples 160 --val-samples 20 --batch-size 16 --threads 1 --no-wandb".split(
    " ",
  );

/** A state dict's tensors as base64. */
function tensorsOf(path: string): Map<string, string> {
  using file = openCheckpoint(path);
  const { tensors } = findStateDict(file.root, path);
  return new Map([...tensors].map(([name, t]) => [name, tensorBytes(t).toBase64()]));
}

Deno.test("an exported program learns by adapters alone, goes on with the same bits, and is exported merged", () =>
  inTemp(async (cwd) => {
    await succeed([...DATA, "--model=mlp", "--epochs=1", "--run-name=first"], { cwd });
    await succeed(["export", "checkpoints/first_latest.pt", "mlp.pt2"], { cwd });
    const adapted = [
      ...DATA,
      "--model=mlp.pt2",
      "--lora-rank=2",
      "--lr=1e-2",
      "--scheduler=constant",
      "--gradient-checkpointing",
    ];
    const { stdout } = await succeed([...adapted, "--epochs=2", "--run-name=whole"], { cwd });
    assertMatch(stdout, /^Frozen: 4,737 of 5,135 parameters, in 6 tensors of 10$/m);
    await succeed([...adapted, "--epochs=2", "--max-steps=13", "--run-name=half"], { cwd });
    await succeed([...adapted, "--epochs=2", "--resume=auto", "--run-name=half", "--max-steps=0"], { cwd });
    const whole = tensorsOf(`${cwd}/checkpoints/whole_latest.pt`);
    const half = tensorsOf(`${cwd}/checkpoints/half_latest.pt`);
    assertEquals([...whole.keys()].filter((name) => half.get(name) !== whole.get(name)), []);
    const before = tensorsOf(`${cwd}/checkpoints/first_latest.pt`);
    for (const [name, bytes] of before) assert(whole.get(name) === bytes, `${name} is frozen`);

    await succeed(["export", "checkpoints/whole_latest.pt", "merged.pt"], { cwd });
    const merged = tensorsOf(`${cwd}/merged.pt`);
    assertEquals([...merged.keys()].sort(), [...before.keys()].sort());
    const changed = [...merged].flatMap(([name, bytes]) => before.get(name) === bytes ? [] : [name]);
    assertEquals(changed.sort(), ["0.weight", "2.weight"], "the head has no adapter");
    const plain = await succeed(
      [
        "--model=mlp.pt2",
        ...DATA,
        "--init-from=merged.pt",
        "--lr=0",
        "--weight-decay=0",
        "--epochs=1",
        "--json",
      ],
      { cwd },
    );
    const evaluated = plain.stdout.split("\n").filter(Boolean).map((line) => JSON.parse(line))
      .find(({ kind }) => kind === "eval");
    const judged = eventsOf(cwd, "whole").findLast(({ kind }) => kind === "eval")!;
    const loss = Number(judged.val_loss);
    assert(Math.abs(evaluated.val_loss - loss) < 1e-5 * loss, `${evaluated.val_loss} ${loss}`);

    for (
      const [flags, sentence] of [
        [
          ["--lora-dropout=0.1"],
          /--lora-dropout drops inputs of layers, and the exported program mlp\.pt2 has ops/,
        ],
        [["--lora-for=3"], /--lora-for 3 fits no parameter/],
      ] as const
    ) assertMatch((await run([...adapted, ...flags], { cwd })).stderr, sentence);
  }));
