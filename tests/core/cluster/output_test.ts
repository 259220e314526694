// Which file is what a job has printed.
import { assertEquals } from "@std/assert";
import { join } from "paths";
import { outputIn } from "../../../core/cluster/jobs.ts";
import { inTemp } from "../../integration/program.ts";

Deno.test("a job's output is found by its whole number, also in names with numbers of their own", () =>
  inTemp((folder) => {
    for (
      const name of [
        ...[
          "a_170.out",
          "a_17.out",
          "run_2_31.out",
          "s_40_1.out",
          "s_40_0.out",
          "p.55.server.out",
          "b_9.txt",
        ],
        ...["q.60[3].server.out", "run_17_99.out"],
      ]
    ) Deno.writeTextFileSync(join(folder, name), "");
    const found = (job: string) => outputIn(folder, job)?.slice(folder.length + 1) ?? null;
    assertEquals(
      ["17", "170", "31", "2", "40", "40_1", "55.server", "55", "60[3].server", "9", "7"].map(found),
      [
        ...["a_17.out", "a_170.out", "run_2_31.out", "run_2_31.out", "s_40_0.out", "s_40_1.out"],
        ...["p.55.server.out", "p.55.server.out", "q.60[3].server.out", null, null],
      ],
    );
    assertEquals(outputIn(join(folder, "nowhere"), "17"), null);
  }));
