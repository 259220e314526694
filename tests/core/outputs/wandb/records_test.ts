// Typed records and their bytes.
import { assertEquals, assertThrows } from "@std/assert";
import { ProtoError } from "../../../../core/outputs/proto.ts";
import {
  decodeRecord,
  encodeRecord,
  jsonOf,
  recordItems,
  type WandbRecord,
} from "../../../../core/outputs/wandb/records.ts";

const hex = (bytes: Uint8Array) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
const back = (record: WandbRecord) => decodeRecord(encodeRecord(record, 1).slice());

Deno.test("the bytes of a run, a row, a summary and an exit are those of W&B's own writer", () => {
  const config = recordItems({ lr: 0.5 });
  const run = { kind: "run", id: "r1", entity: "e", project: "p", config, startTime: 1_700_000_000 } as const;
  assertEquals(
    hex(encodeRecord(run, 1)),
    "08018a01210a0272311201651a0170220c0a0a0a026c72820103302e358a01060880e2cfaa06",
  );
  assertEquals(
    hex(encodeRecord({ kind: "history", items: recordItems({ loss: 1.5, _step: 0 }) }, 2)),
    "0802121b0a0c0a046c6f7373820103312e350a0b0a055f73746570820101" + "30",
  );
  const summary = { kind: "summary", update: recordItems({ loss: 1.5 }) } as const;
  assertEquals(hex(encodeRecord(summary, 3)), "08031a0e0a0c0a046c6f7373820103312e35");
  assertEquals(hex(encodeRecord({ kind: "exit", code: 0, runtime: 1 }, 4)), "08049201021001");
});

Deno.test("every kind of record comes back as it was", () => {
  const git = { remote: "https://example.org/x", commit: "abc" };
  const items = [{ key: ["a/b.c"], json: "1" }, { key: ["deep", "er"], json: '"é"' }];
  const records: WandbRecord[] = [
    { kind: "header", producer: "p", minConsumer: "c" },
    {
      kind: "run",
      id: "i",
      entity: "e",
      project: "p",
      config: items,
      group: "g",
      jobType: "j",
      name: "n",
      notes: "line\nline",
      tags: ["a", ""].filter(Boolean),
      host: "h",
      startingStep: 2 ** 40,
      startTime: 1.5,
      resumed: true,
      runtime: 9,
      git,
      branch: undefined,
      resume: true,
    },
    { kind: "history", items, step: 0 },
    { kind: "summary", update: items, remove: items },
    { kind: "config", update: items, remove: [] },
    { kind: "files", files: [{ path: "a/b", policy: "live", type: "media" }] },
    { kind: "stats", t: 12.25, items },
    { kind: "output", stream: "stderr", t: 1.5, text: "x\n" },
    { kind: "output", stream: "stdout", t: 1.5, text: "" },
    {
      kind: "environment",
      os: "o",
      python: "p",
      startedAt: 3,
      args: ["a", "b"],
      program: "h",
      git,
      root: "/r",
      host: "h",
      user: "u",
      executable: "/e",
      cores: 2,
      threads: 4,
      gpu: "g",
      gpus: 8,
      memoryBytes: 2 ** 42,
      slurm: { job_id: "1" },
    },
    { kind: "telemetry", python: "p", cli: "c", platform: "l" },
    { kind: "alert", title: "t", text: "x", level: "WARN" },
    { kind: "preempting" },
    { kind: "exit", code: -1, runtime: 300 },
  ];
  for (const record of records) assertEquals(back(record), record, record.kind);
});

Deno.test("what is no finite number is a bare word, and undefined is left out", () => {
  assertEquals(
    jsonOf({ a: NaN, b: [Infinity, -Infinity], c: undefined, d: null }),
    '{"a":NaN,"b":[Infinity,-Infinity],"d":null}',
  );
  assertEquals(jsonOf(2n ** 63n), "9223372036854775808");
});

Deno.test("names of 10 KB, with emoji and halves of them, pass", () => {
  const name = "ä/.🎉".repeat(2000) + "\ud800";
  const { items } = back({ kind: "history", items: recordItems({ [name]: 1 }) }) as WandbRecord & {
    kind: "history";
  };
  assertEquals(items[0].key[0], name.replace("\ud800", "\ufffd"));
});

Deno.test("a record of a kind that is not known says so, and bytes that are none are refused", () => {
  assertEquals(decodeRecord(Uint8Array.of(0x08, 1, 0x42, 0)), { kind: "other", field: 8 });
  for (const bytes of [[0x12, 5, 1], [0x0f], [0x08, 0xff], [0x12, 1, 0x0a]]) {
    assertThrows(() => decodeRecord(Uint8Array.from(bytes)), ProtoError);
  }
});
