// Gradient checkpointing: the same bits as without, in less memory.
import { assert, assertEquals } from "@std/assert";
import { open } from "./rig.ts";
import { BIASED, CASES, ROUNDED, train } from "./zoo_cases.ts";

open();

for (const zooCase of [...CASES, BIASED, ROUNDED]) {
  for (const direct of [false, true]) {
    const way = direct ? "autograd's own gradients" : "a gradient arena";
    Deno.test(`${zooCase.title} has the same bits with gradient checkpointing, with ${way}`, async () => {
      const without = await train(zooCase, { direct });
      assert(new Set(without.losses).size === 5, "five steps, five losses");
      assertEquals(await train(zooCase, { checkpointing: true, direct }), without);
    });
  }
}

Deno.test("gpt 8 x 256 at sequence 512 needs at most half the memory with gradient checkpointing", async () => {
  const peak = async (mode: string) => {
    const program = new URL("peak_memory_program.ts", import.meta.url).pathname;
    const args = ["run", "-A", "--no-check", program, mode];
    const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), { args }).output();
    assert(success, new TextDecoder().decode(stderr));
    return Number(new TextDecoder().decode(stdout));
  };
  const without = await peak("straight"), recomputed = await peak("checkpointed");
  assert(without > 100, `${without} MB without: too little to tell anything from`);
  assert(recomputed <= 0.5 * without, `${recomputed} MB, against ${without} MB without`);
});
