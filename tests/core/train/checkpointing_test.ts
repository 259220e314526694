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

async function peak(...args: string[]): Promise<number> {
  const program = new URL("peak_memory_program.ts", import.meta.url).pathname;
  const command = ["run", "-A", "--no-check", program, ...args];
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), { args: command }).output();
  assert(success, new TextDecoder().decode(stderr));
  return Number(new TextDecoder().decode(stdout));
}

Deno.test("gpt 8 x 256 at sequence 512 needs at most half the memory with gradient checkpointing", async () => {
  const without = await peak("8", "256", "65", "0"),
    recomputed = await peak("8", "256", "65", "checkpointed");
  assert(without > 100, `${without} MB without: too little to tell anything from`);
  assert(recomputed <= 0.5 * without, `${recomputed} MB, against ${without} MB without`);
});

Deno.test("gpt with GPT-2's vocabulary needs at most a third of the memory with its head in parts", async () => {
  const whole = await peak("1", "32", "50257", "0"), parts = await peak("1", "32", "50257", "256");
  assert(parts <= whole / 3, `${parts} MB, against ${whole} MB with the head whole`);
});
