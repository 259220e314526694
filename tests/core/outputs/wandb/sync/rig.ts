// Offline runs made by hand, and their upload to a stand-in server. Test helper.
import { dirname, join } from "paths";
import { createWandbFile } from "../../../../../core/outputs/wandb/file.ts";
import { recordItems, type RunRecord, type WandbRecord } from "../../../../../core/outputs/wandb/records.ts";
import { openApi } from "../../../../../core/outputs/wandb/sync/api.ts";
import { findWandbServer } from "../../../../../core/outputs/wandb/sync/credentials.ts";
import { type HttpOptions, openHttp } from "../../../../../core/outputs/wandb/sync/http.ts";
import {
  type UploadOptions,
  type UploadResult,
  uploadRun,
} from "../../../../../core/outputs/wandb/sync/upload.ts";
import type { WandbServer } from "../../../../integration/wandb_server.ts";

export interface Written {
  readonly id?: string;
  readonly from?: number;
  readonly rows?: number;
  /** Of each row, to make it long. */
  readonly padding?: number;
  readonly start?: number;
  readonly exit?: number | null;
  readonly run?: Partial<RunRecord>;
  readonly files?: Readonly<Record<string, string>>;
  readonly output?: readonly string[];
  /** Written before the end. */
  readonly more?: readonly WandbRecord[];
}

export const START = 1_700_000_000;

export function recordsOf(w: Written = {}): WandbRecord[] {
  const { id = "abc", from = 0, rows = 5, start = START, exit = 0 } = w;
  const records: WandbRecord[] = [
    { kind: "header", producer: "test", minConsumer: "0.70.0" },
    {
      kind: "run",
      id,
      entity: "e",
      project: "p",
      name: "a name",
      startTime: start,
      config: recordItems({ lr: 0.5, nested: { a: [1, 2] } }),
      ...w.run,
    },
  ];
  if (w.files) {
    records.push({ kind: "files", files: Object.keys(w.files).map((path) => ({ path })) });
  }
  for (const [i, text] of (w.output ?? ["one\n", "two\n"]).entries()) {
    records.push({ kind: "output", stream: "stdout", t: start + i / 10, text });
  }
  for (let i = from; i < from + rows; i++) {
    const text = w.padding ? { text: "x".repeat(w.padding) } : {};
    const values = { loss: 1 / (i + 1), _step: i, _timestamp: start + i + 0.5, _runtime: i + 0.5, ...text };
    records.push({ kind: "history", items: recordItems(values), step: i });
    if (i % 2 === 0) records.push({ kind: "stats", t: start + i + 0.75, items: recordItems({ cpu: i }) });
  }
  records.push({ kind: "summary", update: recordItems({ loss: 1 / (from + rows), best: 0.25 }) });
  records.push(...w.more ?? []);
  if (exit !== null) records.push({ kind: "exit", code: exit, runtime: rows });
  return records;
}

/** The path of the .wandb file. */
export function writeRun(folder: string, w: Written = {}): string {
  const id = w.id ?? "abc";
  const at = new Date((w.start ?? START) * 1000).toISOString().replace(/[-:]/g, "").replace("T", "_").slice(
    0,
    15,
  );
  const path = join(folder, `offline-run-${at}-${id}`, `run-${id}.wandb`);
  Deno.mkdirSync(join(dirname(path), "files"), { recursive: true });
  const file = createWandbFile(path);
  for (const record of recordsOf(w)) file.append(record);
  file.close();
  for (const [name, text] of Object.entries(w.files ?? {})) {
    const to = join(dirname(path), "files", name);
    Deno.mkdirSync(dirname(to), { recursive: true });
    Deno.writeTextFileSync(to, text);
  }
  return path;
}

export interface RigOptions extends Partial<HttpOptions> {
  readonly upload?: Partial<UploadOptions>;
}

/** One upload by a client that does not wait long. */
export async function upload(
  server: WandbServer,
  path: string,
  { upload = {}, ...http }: RigOptions = {},
): Promise<UploadResult> {
  const found = findWandbServer({ HOME: "/nowhere", ...server.env });
  const client = openHttp({ retries: 4, firstWaitMs: 5, timeoutMs: 5000, ...http });
  try {
    return await uploadRun(path, {
      api: openApi(found, client),
      server: found.url,
      version: "hpctrain test",
      ...upload,
    });
  } finally {
    client.close();
  }
}

/** One upload without connections: thousands of them take seconds. */
export function uploadWithin(server: WandbServer, path: string): Promise<UploadResult> {
  const found = findWandbServer({ HOME: "/nowhere", ...server.env });
  const api = openApi(found, {
    send({ method, url, headers, body }) {
      const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
      const { pathname } = new URL(url);
      const reply = server.answer({ method, path: pathname, headers, body: bytes });
      if (!("status" in reply) || reply.status !== 200) {
        throw new Error(`${pathname}: ${JSON.stringify(reply)}`);
      }
      return Promise.resolve(reply.body as string);
    },
    close() {},
  });
  return uploadRun(path, { api, server: found.url, version: "hpctrain test" });
}

export const stepsOf = (lines: readonly string[]): number[] =>
  lines.map((line) => Number(/"_step":(\d+)/.exec(line)![1]));

export const range = (from: number, to: number): number[] =>
  Array.from({ length: to - from }, (_, i) => from + i);
