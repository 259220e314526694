import { assertEquals } from "@std/assert";
import { useLibtorch } from "../../../libtorch.ts";
import { fuzzGroup } from "./fuzz.ts";
import { ISAS } from "./harness.ts";

useLibtorch();

for (const isa of ISAS) {
  Deno.test(`100 random groups of ${isa} compute what libtorch computes and touch nothing else`, () => {
    const wrong = Array.from({ length: 100 }, (_, seed) => fuzzGroup(seed, isa)).filter((one) =>
      one !== null
    );
    assertEquals(wrong, []);
  });
}
