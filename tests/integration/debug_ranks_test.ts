// TORCH_DISTRIBUTED_DEBUG, as torchrun's users know it: each rank says where it is, and collectives are compared.
import { assertEquals, assertMatch } from "@std/assert";
import { numbers } from "./ranks.ts";
import { inTemp, run } from "./program.ts";
import { assertSentence } from "../sentences.ts";

const RANKS = [
  "launch",
  "-n",
  "2",
  "--",
  "--debug",
  "--device=cpu",
  "--threads=1",
  "--max-steps=6",
  "--log-interval=1",
];

Deno.test("TORCH_DISTRIBUTED_DEBUG=DETAIL trains to the same losses, and both ranks say where they are", () =>
  inTemp(async (cwd) => {
    const plain = await run([...RANKS, "--run-name=plain"], { cwd });
    assertEquals(plain.code, 0, plain.stderr);
    const told = await run([...RANKS, "--run-name=detail"], {
      cwd,
      env: { TORCH_DISTRIBUTED_DEBUG: "DETAIL" },
    });
    assertEquals(told.code, 0, told.stderr);
    for (const rank of [0, 1]) {
      assertMatch(
        told.stderr,
        new RegExp(`rank ${rank} of 2, ${rank} of 2 on \\S+: process \\d+ on cpu, libtorch `),
      );
    }
    assertEquals(/rank \d of 2, \d of 2 on/.test(plain.stderr), false);
    assertEquals(numbers(cwd, "detail"), numbers(cwd, "plain"));
    const wrong = await run(["--debug"], { cwd, env: { TORCH_DISTRIBUTED_DEBUG: "LOUD" } });
    assertEquals(wrong.code, 2);
    assertSentence("integration/debug_ranks: env distributed debug", wrong.stderr);
  }));
