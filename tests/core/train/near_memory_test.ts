// Memory of a rank's own NUMA domain.
import { assertEquals } from "@std/assert";
import { preferMemoryOf, preferredMemory } from "../../../ffi/libc.ts";
import { keepMemoryNear } from "../../../core/train/near_memory.ts";
import { nearSentence } from "../../../core/train/setup/launch.ts";
import { madeOf } from "../base/made_topology.ts";
import { assertSentence } from "../../sentences.ts";

const all = madeOf(4, 4, 4, 4);
const third = { ...all, domains: [all.domains[2]] };

Deno.test("a rank with cores of one domain of several prefers its memory, and any other nothing", () => {
  const asked: number[] = [];
  const prefer = (domain: number) => asked.push(domain) > 0;
  const bound = keepMemoryNear(third, prefer);
  assertEquals([bound.memory, asked], [2, [2]]);
  assertSentence("core/train/near_memory: numa domain whose", nearSentence(bound));
  const spread = keepMemoryNear(all, prefer);
  assertEquals([spread.memory, nearSentence(spread)], [null, " on 4 NUMA domains of 4"]);
  const single = keepMemoryNear(madeOf(8), prefer);
  assertEquals([single.memory, nearSentence(single), asked], [null, "", [2]]);
});

Deno.test("where the kernel refuses, as in a container, a note says so and nothing fails", () => {
  const refused = keepMemoryNear(third, () => false);
  assertEquals(refused.memory, null);
  assertSentence("core/train/near_memory: numa domain whose memory", nearSentence(refused));
  // A domain that this machine has not is refused by the kernel itself.
  assertEquals([preferMemoryOf(1000), preferredMemory()], [false, null]);
});

Deno.test("the kernel notes the preference for this thread and those it starts, and takes it back", async () => {
  if (!preferMemoryOf(0)) return assertEquals(preferredMemory(), null); // a container: nothing is kept
  try {
    assertEquals(preferredMemory(), 0);
    const path = new URL("../../../ffi/libc.ts", import.meta.url);
    const source =
      `import { preferredMemory } from "${path}"; self.postMessage(preferredMemory()); self.close();`;
    const worker = new Worker(`data:application/typescript,${encodeURIComponent(source)}`, {
      type: "module",
    });
    assertEquals(await new Promise((resolve) => worker.onmessage = ({ data }) => resolve(data)), 0);
  } finally {
    preferMemoryOf(null);
  }
  assertEquals(preferredMemory(), null);
});
