// `hpctrain bench` from outside, on ranks of real MPI.
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { mpich } from "../mpi.ts";
import { launch } from "./launches.ts";
import { inTemp, run, succeed, TINY } from "./program.ts";
import { assertSentence } from "../sentences.ts";

const words = ["-n", "2", "--", "bench", "allreduce", "--device=cpu", "--sizes", "4KiB,256KiB,1MiB"];

Deno.test("bench allreduce measures each size on all ranks, as a table and as JSON", () =>
  inTemp(async (cwd) => {
    const { code, stdout, stderr } = await launch(cwd, mpich(), words).result;
    assertEquals(code, 0, stderr);
    assertStringIncludes(stdout, "All-reduce of f32 on 2 ranks, 1 node, by MPI:\n");
    assertEquals(
      stdout.match(/^ +[\d.]+ [KM]iB +[\d.]+ us +[\d.]+ GB\/s +[\d.]+ GB\/s$/gm)?.length,
      3,
      stdout,
    );
    const json = await launch(cwd, mpich(), [...words, "--json"]).result;
    assertEquals(json.code, 0, json.stderr);
    const { backend, ranks, measured } = JSON.parse(json.stdout);
    assertEquals([backend, ranks], ["mpi", 2]);
    assertEquals(measured.map(({ bytes }: { bytes: number }) => bytes), [4096, 262144, 1048576]);
    for (const { bytes, seconds, algorithm, bus } of measured) {
      assert(seconds > 1e-7 && seconds < 1, `${seconds}`);
      // Of two ranks each sends half of its sums and receives the other half: as many bytes as there are.
      assert(Math.abs(algorithm * seconds / bytes - 1) < 1e-9 && Math.abs(bus / algorithm - 1) < 1e-9);
    }
  }));

for (
  const [args, sentence] of [
    [["bench"], /^hpctrain: bench measures allreduce or scaling\. Usage: /],
    [["bench", "allreduc"], /"allreduc" was given\. Did you mean "allreduce"\?/],
    [
      ["bench", "allreduce"],
      /this is one rank alone\. Start several: hpctrain launch -n 2 -- bench allreduce/,
    ],
    [["bench", "allreduce", "--sizes", "4KiB,3x"], /--sizes has "3x" in it: sizes such as 4KiB,64KiB,16MiB/],
  ] as const
) {
  Deno.test(`${args.join(" ")} says what is missing`, async () => {
    const { code, stderr } = await run([...args]);
    assertEquals(code, 2);
    assertMatch(stderr, sentence);
  });
}

Deno.test("bench scaling compares recorded runs by name, for people and for programs", () =>
  inTemp(async (cwd) => {
    const flags = [...TINY, "--model=mlp", "--data-type=synthetic", "--no-wandb", "--epochs=3"];
    for (const name of ["a", "b"]) await succeed([...flags, `--run-name=${name}`], { cwd });
    const { stdout } = await succeed(["bench", "scaling", "a", "b"], { cwd });
    assertMatch(stdout, /^run +ranks +samples\/s .* efficiency +communication +loader\n[ab] +1 .* 100\.0% /);
    const said = JSON.parse((await succeed(["bench", "scaling", "a", "logs/b", "--json"], { cwd })).stdout);
    assertEquals([said.runs.length, said.runs[0].efficiency, said.doubt], [2, 1, null]);
    const predict = ["bench", "scaling", "a", "--predict", "1..4096"];
    const network = ["--network", "alpha=5us,beta=25GB/s", "--ranks-per-node", "4", "--mtbf", "1000"];
    const told = (await succeed([...predict, ...network], { cwd })).stdout;
    assertMatch(
      told,
      /^Predicted from a: [\d.]+ m?s a step of \d+ samples, .*\n +ranks +a step .* goodput\n( +\d+ .*\n){13}On 4096 ranks: --bucket-mb \d+/,
    );
    const rows = JSON.parse((await succeed([...predict, ...network, "--json"], { cwd })).stdout);
    assertEquals(rows.predicted.map(({ ranks }: { ranks: number }) => ranks).slice(-2), [2048, 4096]);
    assert(Math.abs(rows.predicted[0].efficiency - 1) < 1e-9);
    const { blocks, parameters } = rows.recorded;
    assertEquals(blocks.reduce((sum: number, bytes: number) => sum + bytes, 0), 4 * parameters);
    assertSentence("integration/bench: prediction needs network", (await run(predict, { cwd })).stderr);
    assertMatch(
      (await run([...predict, "--network", "fast"], { cwd })).stderr,
      /--network has "fast" in it: a latency and a rate/,
    );
    const { code, stderr } = await run(["bench", "scaling", "a"], { cwd });
    assertEquals(code, 2);
    assertMatch(stderr, /compares two runs or more/);
  }));
