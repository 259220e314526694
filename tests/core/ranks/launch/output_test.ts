// What ranks print, on the screen and in files.
import { assertEquals } from "@std/assert";
import { join } from "paths";
import { openRankOutput } from "../../../../core/ranks/launch/supervise.ts";

Deno.test("lines have their rank before them, an error that all ranks meet is shown once, files have it all", () => {
  const logs = Deno.makeTempDirSync();
  try {
    const screen: string[] = [];
    const output = openRankOutput((stream, text) => screen.push(`${stream}: ${text}`));
    output.line(0, "out", "Epoch 1");
    output.line(1, "err", "hpctrain: Rank 1 on a: no file");
    output.keepIn(logs);
    output.line(0, "err", "hpctrain: Rank 0 on a: no file");
    output.line(1, "out", "late");
    assertEquals(screen, [
      "out: Epoch 1\n",
      "err: [rank 1] hpctrain: Rank 1 on a: no file\n",
      "out: [rank 1] late\n",
    ]);
    const file = (rank: number) => Deno.readTextFileSync(join(logs, `rank-${rank}.log`));
    assertEquals(file(0), "Epoch 1\nhpctrain: Rank 0 on a: no file\n");
    assertEquals(file(1), "hpctrain: Rank 1 on a: no file\nlate\n");
  } finally {
    Deno.removeSync(logs, { recursive: true });
  }
});
