// The first run of a new user: fast, clearly better than guessing, and it says what to do next. Slow: about a minute.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { eventsOf, inTemp, succeed } from "./program.ts";
import { within } from "../cpu_time.ts";

Deno.test("the quickstart infers the fields' parameters in under two minutes, and says what to run next (slow)", () =>
  inTemp(async (cwd) => {
    const began = performance.now();
    const { stdout } = await succeed(["--preset", "quickstart", "--device", "cpu"], { cwd, timeout: 900 });
    const seconds = (performance.now() - began) / 1000;
    const { metrics } = eventsOf(cwd, "quickstart").findLast(({ kind }) => kind === "eval")!;
    const { r2 } = metrics as { r2: number };
    assert(r2 > 0.5, `the last Val R2 is ${r2}`);
    assert(within(seconds, 120), `it took ${seconds.toFixed(0)} s`);
    assertMatch(stdout, /^\[Epoch \d+\/\d+\] Loss: .* \| Val R2: 0\.\d+ /m);
    const checkpoint = /^ {2}evaluate +.* eval (\S+)$/m.exec(stdout)![1];
    const { stdout: evaluated } = await succeed(["eval", checkpoint, "--json"], { cwd });
    assertEquals(JSON.parse(evaluated).samples, 500);
  }));
