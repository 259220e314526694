import { assert, assertEquals } from "@std/assert";
import { growth, meeting } from "../../bench/meeting.ts";

Deno.test("256 ranks in processes of their own meet, gather, agree, save and fail together, at little cost for rank 0", async () => {
  const { seconds, memory, files, indexBytes } = await meeting(256, 1);
  assert(seconds.meet < 10 && seconds.abort < 5, JSON.stringify(seconds));
  assert(memory < 100e6, `${memory} bytes`);
  assert(files >= 256 && files < 256 + 64, `${files} open files`); // a crowd that knocks twice would have more
  assert(indexBytes > 256 * 50);
});

Deno.test("growth is the power with which something follows the number of ranks", () => {
  assertEquals(growth([[512, 5], [1024, 10], [4096, 40]]).toFixed(6), "1.000000");
  assertEquals(growth([[512, 1], [1024, 4], [2048, 16]]).toFixed(6), "2.000000");
});
