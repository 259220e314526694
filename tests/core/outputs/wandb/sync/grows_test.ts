// The upload of a run while it grows, by a writer that is within reach.
import { assert, assertEquals } from "@std/assert";
import { dirname, join } from "paths";
import { createWandbFile } from "../../../../../core/outputs/wandb/file.ts";
import { uploadWhileTraining } from "../../../../../core/outputs/wandb/sync/upload.ts";
import { inTemp, until } from "../../../../integration/program.ts";
import { openWandbServer, type WandbServer } from "../../../../integration/wandb_server.ts";
import { range, recordsOf, stepsOf } from "./rig.ts";
import { assertSentence } from "../../../../sentences.ts";

function growing(folder: string, server: WandbServer) {
  const path = join(folder, "offline-run-20260102_030405-abc/run-abc.wandb");
  const ended = new AbortController(), giveUp = new AbortController();
  const warnings: string[] = [];
  const result = uploadWhileTraining(
    { path, version: "hpctrain test", pollMs: 10, requestMs: 20 },
    {
      env: { HOME: folder, ...server.env },
      ended: ended.signal,
      giveUp: giveUp.signal,
      warn: (sentence) => void warnings.push(sentence),
    },
  );
  return { path, ended, giveUp, warnings, result };
}

const rowsAt = (server: WandbServer) => [...server.runs.values()].at(0)?.lines.history.length ?? 0;

Deno.test("rows arrive while the file grows, and its end when it has come", () =>
  inTemp(async (folder) => {
    await using server = openWandbServer();
    const { path, ended, warnings, result } = growing(folder, server);
    const records = recordsOf({ rows: 6 });
    const file = createWandbFile(path); // it was not there when the upload began
    for (const record of records.slice(0, -2)) {
      file.append(record);
      if (record.kind === "history") await until("the row", () => rowsAt(server) === record.step! + 1, 20);
    }
    assert(!server.run().complete);
    for (const record of records.slice(-2)) file.append(record);
    file.close();
    ended.abort();
    assertEquals(await result, "synced");
    const { lines, complete, exitCode } = server.run();
    assertEquals([stepsOf(lines.history), complete, exitCode], [range(0, 6), true, 0]);
    assertEquals(warnings, []);
  }));

Deno.test("a file that is written anew under its name is read anew, and no row is sent twice", () =>
  inTemp(async (folder) => {
    await using server = openWandbServer({ placing: "at the end" });
    const { path, ended, result } = growing(folder, server);
    const write = (to: string, rows: number, exit: number | null) => {
      const file = createWandbFile(to);
      for (const record of recordsOf({ rows, exit })) file.append(record);
      file.close();
    };
    write(path, 5, null);
    await until("rows", () => rowsAt(server) === 5, 20);
    write(`${path}.new`, 8, 0);
    Deno.renameSync(`${path}.new`, path);
    await until("more rows", () => rowsAt(server) === 8, 20);
    ended.abort();
    assertEquals(await result, "synced");
    assertEquals(stepsOf(server.run().lines.history), range(0, 8));
  }));

Deno.test("a server that never answers is given up, once, with what to do later", () =>
  inTemp(async (folder) => {
    await using server = openWandbServer({ fault: () => ({ cut: true }) });
    const { path, ended, giveUp, warnings, result } = growing(folder, server);
    const file = createWandbFile(path);
    for (const record of recordsOf()) file.append(record);
    file.close();
    await until("a request", () => server.seen.length > 0, 20);
    ended.abort();
    giveUp.abort();
    assertEquals(await result, "open");
    assertSentence("core/outputs/wandb/sync/grows: run server yet", warnings.at(-1)!);
    assertEquals([...Deno.readDirSync(dirname(path))].some(({ name }) => name.endsWith(".synced")), false);
  }));

Deno.test("without a key nothing is asked, and it is said", () =>
  inTemp(async (folder) => {
    await using server = openWandbServer();
    const keyless = { ...server, env: { WANDB_BASE_URL: server.url }, run: server.run, close: server.close };
    const { warnings, result } = growing(folder, keyless as WandbServer);
    assertEquals(await result, null);
    assertSentence("core/outputs/wandb/sync/grows: nothing uploaded while", warnings[0]);
    assertEquals(server.seen.length, 0);
  }));
