// `hpctrain find-lr` and `find-batch`, as a user runs them.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { filesIn, inTemp, run, succeed } from "./program.ts";

const DATA = "--model mlp --data-type synthetic --train-samples 400 --val-samples 20 --batch-size 16".split(
  " ",
);

Deno.test("find-lr writes a picture and the numbers, twice the same, and no run", () =>
  inTemp(async (cwd) => {
    const { stdout } = await succeed(["find-lr", ...DATA, "--out", "found/lr"], { cwd });
    assertMatch(stdout, /^Sweep: 100 steps of 16 samples, from 1\.0e-7 to 1\.0e\+1, with adamw$/m);
    const [, suggested] = /^Suggested: --lr (\S+), where the loss falls fastest/m.exec(stdout)!;
    assert(Number(suggested) > 1e-6 && Number(suggested) < 0.1, suggested);
    assertEquals(filesIn(`${cwd}/found`).sort(), ["lr.json", "lr.svg"]);
    assertEquals([...Deno.readDirSync(cwd)].map(({ name }) => name), ["found"]);
    const numbers = Deno.readTextFileSync(`${cwd}/found/lr.json`);
    assert(JSON.parse(numbers).swept.length > 50);
    await succeed(["find-lr", ...DATA, "--out", "again", "--json"], { cwd });
    assertEquals(Deno.readTextFileSync(`${cwd}/again.json`), numbers);
    const high = "--optimizer sgd --weight-decay 0 --clip-value 1e-9 --from 1 --to 1e5 --steps 20 --json"
      .split(" ");
    const still = await succeed(["find-lr", ...DATA, ...high], { cwd });
    assertEquals(JSON.parse(still.stdout).exploded, null, "steps that are clipped are as short as a run's");
  }));

Deno.test("find-batch measures sizes up to the samples, and suggests one", () =>
  inTemp(async (cwd) => {
    const { stdout } = await succeed(["find-batch", ...DATA, "--train-samples=20", "--json"], { cwd });
    const { tried, suggestion, end } = JSON.parse(stdout);
    assertEquals(tried.map(({ size }: { size: number }) => size).slice(0, 3), [1, 2, 4]);
    assert(tried.every(({ rate }: { rate: number }) => rate > 0) && suggestion <= 16);
    assert(["samples", "no faster"].includes(end), end);
    assertEquals([...Deno.readDirSync(cwd)], []);
  }));

Deno.test("what the finders can't do is refused in a sentence", () =>
  inTemp(async (cwd) => {
    for (
      const [args, says] of [
        [["find-lr", "--steps", "3"], /at least 10/],
        [["find-lr", "--from", "one"], /--from takes a number above 0, and "one" is none/],
        [["find-lr", "--from", "1", "--to", "0.1"], /--to 0\.1 is not above --from 1/],
        [["find-batch", "--resume", "auto"], /goes on from no run/],
        [["find-lr", "--fro", "1"], /Unknown flag --fro/],
      ] as const
    ) assertMatch((await run([...args], { cwd })).stderr, says);
  }));
