// Cores of this process, and the threads that fit there.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { cpuCount, workersFor } from "../../../core/base/topology.ts";

const workers = (...args: Parameters<typeof workersFor>) => workersFor(...args).workers;

Deno.test("the default number of loader threads is what training leaves, or half, without a word", () => {
  const cases: [cpus: number, trainingThreads: number, workers: number][] = [
    [1, 1, 1], // one core for everything
    [2, 1, 1],
    [2, 2, 1],
    [4, 1, 3],
    [8, 8, 4], // on a CPU, training takes all cores that it gets
    [16, 1, 8], // never more than the default asks for
    [64, 64, 8],
  ];
  for (const [cpus, training, expected] of cases) {
    assertEquals(
      workersFor(8, cpus, training, false),
      { workers: expected, note: null },
      `${cpus} ${training}`,
    );
  }
});

Deno.test("threads that were asked for are had up to the number of cores, and none are none", () => {
  assertEquals(workersFor(8, 8, 8, true), { workers: 8, note: null });
  assertEquals(workers(2, 2, 2, true), 2);
  assertEquals([workers(0, 4, 1, true), workers(0, 4, 1, false)], [0, 0]);
});

Deno.test("in a cpuset of one core, eight threads are one and a line says why and what to ask for", async () => {
  const program = `import { cpuCount, workersFor } from "${new URL(
    "../../../core/base/topology.ts",
    import.meta.url,
  )}";
    console.log(JSON.stringify([cpuCount(), workersFor(8, cpuCount(), 1, true)]));`;
  const [first] = Deno.readTextFileSync("/proc/self/status").match(/(?<=Cpus_allowed_list:\s*)\d+/)!;
  const { stdout, stderr, success } = await new Deno.Command("taskset", {
    args: ["-c", first, Deno.execPath(), "eval", "--quiet", program],
  }).output();
  assert(success, new TextDecoder().decode(stderr));
  const [cpus, { workers, note }] = JSON.parse(new TextDecoder().decode(stdout));
  assertEquals([cpus, workers], [1, 1]);
  assertMatch(
    note,
    new RegExp(`8 threads .*--num-workers.* 1 core \\(its cpuset is ${first}\\), so 1 will.*--cpus-per-task`),
  );
  assertEquals(note.includes("\n"), false);
});

Deno.test("cpuCount is at least 1 on this machine", () => assert(cpuCount() >= 1));
