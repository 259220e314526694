// `hpctrain eval` on other data than the run's own: classes keep the numbers that the model learnt.
import { assertEquals } from "@std/assert";
import { join } from "paths";
import { inTemp, run, succeed } from "./program.ts";
import { assertSentence } from "../sentences.ts";

const KINDS = ["ant", "bee", "cat", "dog"];

/** Rows whose numbers tell their kind. */
function table(cwd: string, name: string, count: number, kinds: readonly string[]): void {
  const rows = Array.from({ length: count }, (_, i) => {
    const kind = kinds[i % kinds.length], place = KINDS.indexOf(kind);
    return `${Math.sin(i) / 2 + 3 * (place & 1)},${Math.cos(i) / 2 + 3 * (place >> 1)},${kind}`;
  });
  Deno.writeTextFileSync(join(cwd, name), ["x,y,kind", ...rows, ""].join("\n"));
}

async function trained(cwd: string): Promise<string> {
  table(cwd, "a.csv", 200, KINDS);
  const mlp = "--model=mlp --hidden-size=32 --epochs=10 --lr=1e-2 --batch-size=16 --threads=1 --device=cpu"
    .split(" ");
  await succeed(["train", ...mlp, "--data-path=a.csv", "--targets=kind", "--no-wandb", "--run-name=r"], {
    cwd,
  });
  return "checkpoints/r_latest.pt";
}

Deno.test("data that lacks classes is judged by the run's own numbers of the others", () =>
  inTemp(async (cwd) => {
    const path = await trained(cwd);
    table(cwd, "b.csv", 120, ["dog", "bee"]);
    const { stdout } = await succeed(
      ["eval", path, "--data-path=b.csv", "--validation-split=0.5", "--json"],
      {
        cwd,
      },
    );
    const { metrics: { accuracy }, samples } = JSON.parse(stdout.trim().split("\n").at(-1)!);
    assertEquals([accuracy, samples], [1, 60]); // by their numbers in this file none would be right
  }));

Deno.test("a class that the run never had is refused by its name", () =>
  inTemp(async (cwd) => {
    const path = await trained(cwd);
    table(cwd, "c.csv", 60, ["dog", "bee", "yak"]);
    const { code, stderr } = await run(["eval", path, "--data-path=c.csv", "--val-samples=30"], { cwd });
    assertEquals(code, 3);
    assertSentence("integration/eval: class yak run", stderr);
  }));
