// A real kernel that kills for memory, in a real control group: somebody says so, before and after.
import { assertEquals, assertMatch } from "@std/assert";
import { HAS_GROUPS, inGroup, NEEDS_GROUPS } from "../control_group.ts";
import { eventsOf, filesIn, finish, inTemp, run, start, succeed, until } from "./program.ts";
import { assertSentence } from "../sentences.ts";

const MIB = 2 ** 20;
const RUN = [
  ...["--data-type=synthetic", "--model=mlp", "--train-samples=512", "--batch-size=16", "--epochs=100000"],
  ...["--val-samples=0", "--device=cpu", "--threads=1", "--run-name=r", "--log-interval=1"],
];

Deno.test({
  name:
    `a rank that the kernel kills for its job's memory is told of by the launcher with code 4${NEEDS_GROUPS}`,
  ignore: !HAS_GROUPS,
  fn: () =>
    inTemp((cwd) =>
      inGroup(700 * MIB, async ({ through }) => {
        // 129 MiB of weights have gradients and two averages beside them, and a copy at a save.
        const large = [
          "launch",
          "-n",
          "1",
          "--",
          ...RUN,
          "--layers=3",
          "--hidden-size=4096",
          "--memory-check=off",
        ];
        const { code, stderr } = await run(large, { cwd, through, timeout: 120 });
        assertSentence("integration/out_of_memory: rank kernel killed", stderr);
        assertEquals(code, 4, stderr);
      })
    ),
});

Deno.test({
  name:
    `a batch that can't fit into a job's memory is refused with code 4 before a run is begun${NEEDS_GROUPS}`,
  ignore: !HAS_GROUPS,
  fn: () =>
    inTemp((cwd) =>
      inGroup(600 * MIB, async ({ through }) => {
        const unet = ["--model=unet", "--set=model.image_size=128", "--batch-size=32", "--train-samples=32"];
        const { code, stderr } = await run([...RUN, ...unet], { cwd, through, timeout: 120 });
        assertMatch(
          stderr,
          /^hpctrain: This can't fit into memory\. .* for a batch of 32\), and \S+ MiB are free/m,
        );
        assertEquals([code, filesIn(cwd)], [4, []]);
      })
    ),
});

Deno.test({
  name:
    `memory that is nearly used up is told on stderr and in events.jsonl, and status knows when such a run was killed${NEEDS_GROUPS}`,
  ignore: !HAS_GROUPS,
  fn: () =>
    inTemp((cwd) =>
      inGroup(4096 * MIB, async ({ through, limit, used }) => {
        const child = start(RUN, { cwd, through });
        const steps = () => eventsOf(cwd, "r").filter(({ kind }) => kind === "step").length;
        await until("some steps", () => steps() > 5);
        await until("a warning", () => {
          limit(Math.round(used() / 0.97)); // what a run has goes up and down
          return eventsOf(cwd, "r").some(({ about }) => about === "memory");
        }, 20);
        child.kill("SIGKILL"); // as the kernel does
        const { stderr } = await finish(child);
        assertMatch(
          stderr,
          /^warning: Memory is nearly used up: \S+ MiB of \S+ MiB that this job's control group allows/m,
        );
        const { state, why } = JSON.parse((await succeed(["status", "r", "--json"], { cwd })).stdout).run;
        assertEquals(state, "gone");
        assertMatch(why, /; it was probably killed for memory: \S+ MiB of \S+ MiB were used at step \d+$/);
      })
    ),
});
