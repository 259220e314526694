// One file to a server that is well, ill, or hostile: each row arrives once.
import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { UserError } from "../../../../../core/base/errors.ts";
import { inTemp } from "../../../../integration/program.ts";
import {
  type Fault,
  KEY,
  openWandbServer,
  type Seen,
  type WandbServer,
} from "../../../../integration/wandb_server.ts";
import { range, stepsOf, upload, writeRun } from "./rig.ts";

/** What a run of five rows is at the server, whatever happened on the way. */
function assertWhole(server: WandbServer, rows = 5): void {
  const run = server.run();
  assertEquals(stepsOf(run.lines.history), range(0, rows));
  assertEquals(
    run.lines.events.map((line) => JSON.parse(line)["system.cpu"]),
    range(0, rows).filter((i) => i % 2 === 0),
  );
  assertEquals(run.lines.output.map((line) => line.split(" ").slice(1).join(" ")), ["one", "two"]);
  assertEquals(run.lines.summary.length, 1);
  assertEquals(JSON.parse(run.lines.summary[0]), { loss: 1 / rows, _step: rows - 1, best: 0.25 });
  assertEquals([run.overwritten, run.holes], [0, 0]);
  assertEquals([run.complete, run.exitCode], [true, 0]);
}

const withRun = (body: (path: string, folder: string) => Promise<void>, w = {}) =>
  inTemp((folder) => body(writeRun(folder, { files: { "a/b.txt": "text" }, ...w }), folder));

Deno.test("a run arrives with its rows, configuration, summary, output, files and end, and is marked", () =>
  withRun(async (path) => {
    await using server = openWandbServer();
    const result = await upload(server, path);
    assertEquals(result.state, "synced");
    assertEquals(result.rows, { sent: 5, had: 0 });
    assertWhole(server);
    const run = server.run();
    assertEquals([run.entity, run.project, run.name, run.displayName], ["e", "p", "abc", "a name"]);
    const config = JSON.parse(run.config!);
    assertEquals([config.lr, config.nested], [{ value: 0.5 }, { value: { a: [1, 2] } }]);
    assertEquals(config._wandb.value.t["12"], "hpctrain test");
    assertEquals(
      [...run.files.keys()].sort(),
      ["a/b.txt", "config.yaml", "output.log", "wandb-summary.json"],
    );
    assertEquals(new TextDecoder().decode(run.files.get("a/b.txt")), "text");
    assertEquals(new TextDecoder().decode(run.files.get("output.log")), "one\ntwo\n");
    assertEquals([...run.uploaded].sort(), [...run.files.keys()].sort());
    assertEquals(Deno.readTextFileSync(`${path}.synced`), "");
    assertEquals(
      JSON.parse(Deno.readTextFileSync(`${path}.syncstate`)),
      { starting_step: 0, starting_runtime: 0 },
    );
    const before = server.seen.length;
    assertEquals((await upload(server, path)).state, "was synced");
    assertEquals(server.seen.length, before, "nothing is asked for a run that is marked");
  }));

Deno.test("a run that is sent again, marked or not, is not doubled", () =>
  withRun(async (path) => {
    for (const placing of ["by offset", "at the end"] as const) {
      await using server = openWandbServer({ placing });
      const again = { upload: { again: true } };
      await upload(server, path, again);
      for (const left of [[], [".uploaded.json"], [".syncstate"], [".uploaded.json", ".syncstate"]]) {
        for (const name of [".synced", ...left]) Deno.removeSync(path + name);
        assertEquals((await upload(server, path)).rows, { sent: 0, had: 5 }, `${placing}, without ${left}`);
        assertWhole(server);
      }
      for (const name of [".synced", ".uploaded.json", ".syncstate"]) Deno.removeSync(path + name);
    }
  }));

/** Each fault at each request, once: before it had its effect, and after. */
const FAULTS: Record<string, Fault> = {
  "500": { status: 500, body: "oops" },
  "507, its disk being full": { status: 507, body: "<html>no space left</html>" },
  "429": { status: 429, headers: { "retry-after": "0" } },
  "409": { status: 409 },
  "503 with a date to come back": {
    status: 503,
    headers: { "retry-after": new Date(0).toUTCString() },
  },
  "a cut connection": { cut: true },
  "half an answer": { raw: "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{" },
  "no HTTP": { raw: "SSH-2.0-OpenSSH_9.2\r\n" },
  "silence": { silent: true },
};

for (const [name, fault] of Object.entries(FAULTS)) {
  for (const kept of [false, true]) {
    Deno.test(`nothing is lost or doubled when a request ends in ${name}${kept ? ", and had its effect" : ""}`, () =>
      withRun(async (path) => {
        for (const placing of ["by offset", "at the end"] as const) {
          const failed = new Map<string, number>();
          await using server = openWandbServer({
            placing,
            fault({ what }: Seen) {
              const count = failed.get(what) ?? 0;
              failed.set(what, count + 1);
              return count === 0 ? { ...fault, kept } : undefined;
            },
          });
          const result = await upload(server, path, { timeoutMs: "silent" in fault ? 150 : 5000 });
          assertEquals(result.state, "synced");
          assertWhole(server);
          assertEquals(server.run().files.size, 4);
          const kinds = ["RunResumeStatus", "UpsertBucket", "CreateRunFiles", "PUT", "file_stream"];
          for (const kind of kinds) assert((failed.get(kind) ?? 0) > 1, `${kind} failed`);
          for (const left of [".synced", ".uploaded.json", ".syncstate"]) Deno.removeSync(path + left);
        }
      }));
  }
}

Deno.test("an upload that was given up at any request is finished by the next one", () =>
  withRun(async (path) => {
    for (const placing of ["by offset", "at the end"] as const) {
      for (const kept of [false, true]) {
        for (let at = 0, failed = true; failed; at++) {
          failed = false;
          let count = 0;
          await using server = openWandbServer({ placing });
          server.fault = () => {
            failed ||= count === at;
            return count++ === at ? { cut: true, kept } : undefined;
          };
          const first = await upload(server, path, { retries: 0 }).catch((error) => error);
          if (failed) {
            assert(first instanceof UserError && first.kind === "communication", String(first));
            assertMatch(first.message, /can't be reached or broke off/);
          }
          if (failed) assertEquals((await upload(server, path)).state, "synced");
          assertWhole(server);
          for (const left of [".synced", ".uploaded.json", ".syncstate"]) Deno.removeSync(path + left);
        }
      }
    }
  }));

Deno.test("a long run goes in several requests, and a kill between any two of them costs nothing", () =>
  withRun(async (path) => {
    let last = Infinity;
    for (let at = 0; at < last; at++) {
      await using server = openWandbServer({ placing: "at the end" });
      server.fault = ({ what, nth, said }) => {
        if (what !== "file_stream") return undefined;
        assert(JSON.stringify(said).length < 6 * 2 ** 20, "a request has a limit");
        if (said.complete) last = Math.min(last, nth);
        return nth === at ? { cut: true, kept: at % 2 === 0 } : undefined;
      };
      await upload(server, path, { retries: 0 }).catch(() => {});
      server.fault = undefined;
      await upload(server, path);
      assertWhole(server, 30);
      for (const left of [".synced", ".uploaded.json", ".syncstate"]) Deno.removeSync(path + left);
    }
    assert(last >= 2, `${last} requests before the last one`);
  }, { rows: 30, padding: 300_000 }));

for (
  const [name, status, kind, says] of [
    ["401", 401, "usage", /answered 401.*set WANDB_API_KEY/],
    ["403", 403, "usage", /answered 403.*set WANDB_API_KEY/],
    ["404", 404, "communication", /answered 404/],
    ["500 for good", 500, "communication", /answered 500 \(broken\), 5 times/],
  ] as const
) {
  Deno.test(`a server that says ${name} ends the upload in one sentence, and nothing is marked`, () =>
    withRun(async (path) => {
      await using server = openWandbServer({ fault: () => ({ status, body: `{"error":"broken ${KEY}"}` }) });
      const error = await assertRejects(() => upload(server, path), UserError);
      assertEquals(error.kind, kind);
      assertMatch(error.message.replace(" ***", ""), says);
      assert(!error.message.includes(KEY), "the key is not in it");
      assert(status === 500 || server.seen.length === 1, "not tried again");
      assert(!exists(`${path}.synced`));
    }));
}

Deno.test("a redirect to another server is not followed, and the key does not go there", () =>
  withRun(async (path) => {
    await using other = openWandbServer();
    for (const status of [301, 302, 303, 307, 308]) {
      for (const what of ["RunResumeStatus", "UpsertBucket", "PUT", "file_stream"]) {
        await using server = openWandbServer();
        server.fault = (seen) =>
          seen.what === what ? { status, headers: { location: `${other.url}/graphql` } } : undefined;
        const error = await assertRejects(() => upload(server, path), UserError);
        assertMatch(
          error.message,
          /sends requests on to http:\/\/127\.0\.0\.1:\d+, and neither the key nor data is sent/,
        );
      }
    }
    assertEquals(other.seen.length, 0);
  }));

Deno.test("a redirect within the server is followed, body and all", () =>
  withRun(async (path) => {
    await using server = openWandbServer();
    server.fault = (seen) =>
      seen.nth % 2 === 0 && seen.what !== "PUT"
        ? { status: 308, headers: { location: seen.path } }
        : undefined;
    assertEquals((await upload(server, path)).state, "synced");
    assertWhole(server);
  }));

const HOSTILE: Record<string, [Fault, RegExp]> = {
  "without end": [{ drip: "x".repeat(65536), everyMs: 0, bytes: 2 ** 30 }, /more than \d+ bytes/],
  "slower than a snail": [{ drip: " ", everyMs: 20, bytes: 10_000 }, /gave no answer in/],
  "that is no JSON": [{ status: 200, body: "<html>welcome</html>" }, /it is no JSON object/],
  "that is a list": [{ status: 200, body: "[]" }, /it is no JSON object/],
  "with nothing in it": [{ status: 200, body: "{}" }, /names no run, project and entity/],
  "with the wrong types": [
    { status: 200, body: `{"data":{"upsertBucket":{"bucket":{"name":1,"project":[],"id":{}}}}}` },
    /names no run, project and entity/,
  ],
  "with errors of its own": [
    { status: 200, body: `{"errors":[{"message":"no \\u001b[2J"}],"data":null}` },
    /says "no  ?\[2J"/,
  ],
};

for (const [name, [fault, says]] of Object.entries(HOSTILE)) {
  Deno.test(`an answer ${name} ends the upload in one sentence`, () =>
    withRun(async (path) => {
      await using server = openWandbServer({
        fault: ({ what }) => what === "UpsertBucket" ? fault : undefined,
      });
      const limits = {
        timeoutMs: name === "slower than a snail" ? 400 : 30_000,
        maxBytes: 2 ** 20,
        retries: 1,
      };
      const error = await assertRejects(() => upload(server, path, limits), UserError);
      assertEquals(error.kind, "communication");
      assertMatch(error.message, says);
      assert(!exists(`${path}.synced`));
    }));
}

Deno.test("a server can't ask for files that were not offered, nor send them to a place that is none", () =>
  withRun(async (path) => {
    await using server = openWandbServer();
    const answer = (files: unknown) => ({
      status: 200,
      body: JSON.stringify({ data: { createRunFiles: { runID: "r", uploadHeaders: [], files } } }),
    });
    const secret = { name: "../../secret", uploadUrl: `${server.url}/storage/e/p/abc/secret` };
    for (
      const files of [[secret], [{ name: "config.yaml", uploadUrl: "file:///etc/passwd" }], null, [null, 3]]
    ) {
      server.fault = ({ what }) => what === "CreateRunFiles" ? answer(files) : undefined;
      const error = await assertRejects(() => upload(server, path), UserError);
      assertMatch(error.message, /gives no place for|has no list of files/);
    }
    assertEquals(server.seen.filter(({ what }) => what === "PUT"), []);
  }));

Deno.test("a file that names others than its own does not send them", () =>
  inTemp(async (folder) => {
    Deno.writeTextFileSync(`${folder}/secret`, "secret");
    const names = [
      "../../secret",
      `${folder}/secret`,
      "..",
      "",
      "files/../../../secret",
      "missing.txt",
      "a\0b",
    ];
    const more = [{ kind: "files" as const, files: names.map((path) => ({ path })) }];
    const hostile = writeRun(folder, { output: [], more });
    await using server = openWandbServer();
    const said: string[] = [];
    const options = { upload: { say: (sentence: string) => void said.push(sentence) } };
    assertEquals((await upload(server, hostile, options)).state, "synced");
    assertEquals([...server.run().files.keys()].sort(), ["config.yaml", "wandb-summary.json"]);
    assert(said.some((sentence) => /"\.\.\/\.\.\/secret" lies outside/.test(sentence)), said.join("\n"));
    assert(said.some((sentence) => /"missing.txt" is not there/.test(sentence)), said.join("\n"));
  }));

Deno.test("two uploads of one file at a time: the second leaves it to the first", () =>
  withRun(async (path) => {
    await using server = openWandbServer();
    const gate = Promise.withResolvers<void>();
    const reached = Promise.withResolvers<void>();
    const slow = { onProgress: () => reached.resolve() };
    server.fault = undefined;
    const first = (async () => {
      const result = await upload(server, path, {
        upload: { ...slow, grows: () => true, pollMs: 5, stop: abortAfter(gate.promise) },
      });
      return result;
    })();
    await reached.promise;
    assertEquals((await upload(server, path)).state, "busy");
    gate.resolve();
    await first;
    assertWhole(server);
  }));

function abortAfter(promise: Promise<void>): AbortSignal {
  const controller = new AbortController();
  promise.then(() => controller.abort());
  return controller.signal;
}

function exists(path: string): boolean {
  try {
    Deno.statSync(path);
    return true;
  } catch {
    return false;
  }
}
