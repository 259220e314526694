// --profile-training from outside: a trace that its readers take, of all ranks on one clock.
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "paths";
import { type Complete, validate } from "../core/train/validate.ts";
import { mpich } from "../mpi.ts";
import { inTemp, run, succeed, TINY } from "./program.ts";
import { train } from "./ranks.ts";
import { assertSentence } from "../sentences.ts";

const FLAGS = ["--model=mlp", "--data-type=synthetic", "--profile-training", "--no-wandb", "--run-name=r"];
const MORE = ["--train-samples=640", "--val-samples=16", "--batch-size=16", "--epochs=1"];

async function traceIn(cwd: string): Promise<Complete[]> {
  const file = await Deno.open(join(cwd, "logs/r/trace.json.gz"));
  const text = await new Response(file.readable.pipeThrough(new DecompressionStream("gzip"))).text();
  return validate(JSON.parse(text));
}

const of = (spans: readonly Complete[], cat: string, pid: number) =>
  spans.filter((span) => span.cat === cat && span.pid === pid);

Deno.test("a profile has the steps that were asked for, their parts and ops, and a table of the slowest", () =>
  inTemp(async (cwd) => {
    const { stdout } = await succeed([...TINY, ...FLAGS, ...MORE, "--profile-steps=4-9"], { cwd });
    const spans = await traceIn(cwd);
    assertEquals(
      of(spans, "step", 0).map(({ name }) => name),
      [4, 5, 6, 7, 8, 9].map((step) => `step ${step}`),
    );
    const count = (cat: string, name: string) =>
      of(spans, cat, 0).filter((span) => span.name === name).length;
    assertEquals([count("part", "compute"), count("op", "backward"), count("op", "relu_")], [6, 6, 12]);
    const steps = of(spans, "step", 0), parts = of(spans, "part", 0);
    const sum = (list: readonly Complete[]) => list.reduce((total, { dur }) => total + dur, 0);
    assert(
      sum(parts) > 0.99 * sum(steps) && sum(parts) < 1.01 * sum(steps),
      "every moment of a step is some part's",
    );
    assertMatch(stdout, /^Steps 4 to 9, by the time that ops took on the host:\n {2}op +calls/m);
    assertStringIncludes(Deno.readTextFileSync(join(cwd, "logs/r/profile.txt")), "backward");
  }));

Deno.test("a profile of two ranks is one trace on one clock, good to a millisecond", () =>
  inTemp(async (cwd) => {
    const call = { mpi: mpich(), cwd };
    const { code, stdout, stderr } = await train(cwd, "r", 2, [
      ...TINY,
      ...FLAGS,
      ...MORE,
      "--profile-steps=4-9",
    ], call);
    assertEquals(code, 0, stdout + stderr);
    const spans = await traceIn(cwd);
    assertEquals([of(spans, "step", 0).length, of(spans, "step", 1).length], [6, 6]);
    const flown = [0, 1].map((rank) =>
      new Map(of(spans, "collective", rank).map((one) => [one.args!.sequence, one]))
    );
    const both = [...flown[0].keys()].filter((sequence) => flown[1].has(sequence));
    assert(both.length >= 6, `${both.length} collectives seen on both ranks`);
    for (const sequence of both) {
      const [a, b] = flown.map((own) => own.get(sequence)!);
      if (!a.name.startsWith("all-reduce")) continue;
      // None can know the sum before the other has given its part.
      const early = Math.max(b.ts - (a.ts + a.dur), a.ts - (b.ts + b.dur));
      assert(early < 1000, `${a.name} ${sequence} ended ${early} us before it began on the other rank`);
    }
    assert(!Deno.readDirSync(join(cwd, "logs/r")).some(({ name }) => name.endsWith(".part")));
  }));

Deno.test("a run that is over before the steps to look at says so", () =>
  inTemp(async (cwd) => {
    const { code, stderr } = await run([...TINY, ...FLAGS, "--profile-steps=100-110"], { cwd });
    assertEquals(code, 0);
    assertSentence("integration/profile: run ended before", stderr);
  }));
