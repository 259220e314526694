// When an end that hangs is made to come. With real processes: tests/integration/late_signals_test.ts.
import { assertEquals } from "@std/assert";
import { openExitBound } from "../../../core/train/leaving.ts";

/** A clock by hand: `ended` has the code and the second at which the process would be gone. */
function opened() {
  const timers: { at: number; act: () => void }[] = [];
  const said: string[] = [], ended: [code: number, second: number][] = [];
  let now = 0;
  const bound = openExitBound({
    end: (code) => void ended.push([code, now]),
    say: (line) => void said.push(line),
    after: (seconds, act) => void timers.push({ at: now + seconds, act }),
  });
  const wait = (seconds: number) => {
    const until = now + seconds;
    for (const { at, act } of timers) {
      if (at <= now || at > until) continue;
      now = at;
      act();
    }
    now = until;
  };
  return { bound, wait, ended, said };
}

Deno.test("an end has 30 s from the last save on, and then the newest code that was expected", () => {
  const { bound, wait, ended } = opened();
  bound.expect(75);
  wait(1000); // another rank saves
  assertEquals(ended, []);
  bound.begin();
  wait(20);
  bound.expect(5);
  bound.begin(); // told again, it is no later
  wait(9);
  assertEquals(ended, []);
  wait(2);
  assertEquals(ended, [[5, 1030]]);
});

Deno.test("a second Ctrl-C ends at once what is about to end, the first where it was asked to stop before", () => {
  const ended = opened();
  ended.bound.expect(0);
  ended.bound.interrupt();
  assertEquals([ended.ended, ended.said.length], [[], 1]);
  ended.bound.interrupt();
  assertEquals(ended.ended, [[0, 0]]);

  const stopped = opened();
  stopped.bound.requested();
  stopped.bound.expect(75);
  stopped.bound.interrupt();
  assertEquals(stopped.ended, [[75, 0]]);
});
