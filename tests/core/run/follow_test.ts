import { assertEquals } from "@std/assert";
import { join } from "paths";
import { EventFollower } from "../../../core/run/event_log.ts";

const line = (step: number) => `{"t":1,"kind":"warning","message":"${step}"}\n`;

function following(body: (path: string, heard: unknown[], poll: () => boolean) => void): void {
  const folder = Deno.makeTempDirSync(), path = join(folder, "events.jsonl"), heard: unknown[] = [];
  const follower = new EventFollower(
    path,
    (event) => heard.push((event as { message?: string }).message),
    () => heard.push("again"),
  );
  try {
    body(path, heard, () => follower.poll());
  } finally {
    follower.close();
    Deno.removeSync(folder, { recursive: true });
  }
}

Deno.test("each event is heard once, as soon as its line is whole", () =>
  following((path, heard, poll) => {
    assertEquals(poll(), false);
    Deno.writeTextFileSync(path, line(1) + line(2) + line(3).slice(0, 20));
    assertEquals([poll(), heard], [true, ["1", "2"]]);
    assertEquals(poll(), false);
    Deno.writeTextFileSync(path, line(3).slice(20, 30), { append: true });
    assertEquals([poll(), heard], [false, ["1", "2"]]);
    Deno.writeTextFileSync(path, line(3).slice(30) + line(4), { append: true });
    assertEquals([poll(), heard], [true, ["1", "2", "3", "4"]]);
  }));

Deno.test("a letter that is cut within its bytes, and lines longer than what is read at once, come whole", () =>
  following((path, heard, poll) => {
    const long = "ü".repeat(700_000);
    const bytes = new TextEncoder().encode(`{"t":1,"kind":"warning","message":"${long}"}\n`);
    Deno.writeFileSync(path, bytes.subarray(0, 1001));
    poll();
    Deno.writeFileSync(path, bytes.subarray(1001), { append: true });
    assertEquals([poll(), heard.length, heard[0] === long], [true, 1, true]);
  }));

Deno.test("a file that is written anew or cut is read from its begin", () =>
  following((path, heard, poll) => {
    Deno.writeTextFileSync(path, line(1) + line(2));
    poll();
    Deno.writeTextFileSync(path + ".new", line(1) + line(20) + line(30));
    Deno.renameSync(path + ".new", path);
    poll();
    assertEquals(heard, ["1", "2", "again", "1", "20", "30"]);
    Deno.writeTextFileSync(path, line(5));
    poll();
    assertEquals(heard.slice(6), ["again", "5"]);
  }));

Deno.test("lines that are no events are passed over", () =>
  following((path, heard, poll) => {
    Deno.writeTextFileSync(
      path,
      `nothing\n\n[1]\nnull\n{"kind":"warning"}\n{"t":"x","kind":"warning"}\n\0\0\n${line(1)}`,
    );
    poll();
    assertEquals(heard, ["1"]);
  }));
