// What a W&B server answers, checked before it is used. May import api (types), json_text, core/errors.
import { UserError } from "../../../errors.ts";
import type { Place, Status } from "./api.ts";
import { type Json, parseJson, type Tree } from "./json_text.ts";

/** Null where the server has no such run, or one that nothing was sent to. */
export function statusIn(data: any): Status | null {
  const bucket = data?.model?.bucket;
  if (!isObject(bucket)) return null;
  const has = parseJson(textIn(bucket, "wandbConfig") ?? "");
  return has instanceof Map && has.has("t") ? statusOf(bucket) : null;
}

export function placeIn(data: any, what: string): Place {
  const bucket = data?.upsertBucket?.bucket;
  const place = {
    id: textIn(bucket, "id"),
    run: textIn(bucket, "name"),
    project: textIn(bucket?.project, "name"),
    entity: textIn(bucket?.project?.entity, "name"),
  };
  if (!place.run || !place.project || !place.entity) {
    throw strange(what, "it names no run, project and entity");
  }
  return place as Place;
}

/** Where each of these files is to be put; `url` is the server's, which an answer may be relative to. */
export function urlsIn(
  data: any,
  paths: readonly string[],
  url: string,
  what: string,
): { urls: Map<string, string>; headers: Record<string, string> } {
  const created = data?.createRunFiles;
  if (!Array.isArray(created?.files)) throw strange(what, "it has no list of files");
  const urls = new Map<string, string>();
  for (const file of created.files) {
    const name = textIn(file, "name"), to = textIn(file, "uploadUrl");
    if (name === null || to === null) continue;
    const resolved = URL.canParse(to, url) ? new URL(to, url) : null;
    if (resolved !== null && /^https?:$/.test(resolved.protocol)) urls.set(name, resolved.href);
  }
  const missing = paths.find((path) => !urls.has(path));
  if (missing !== undefined) throw strange(what, `it gives no place for ${missing}`);
  return { urls, headers: headersOf(created.uploadHeaders) };
}

export function sizesIn(data: any): Map<string, number> {
  const edges: unknown = data?.model?.bucket?.files?.edges;
  const sizes = new Map<string, number>();
  for (const edge of Array.isArray(edges) ? edges : []) {
    const name = textIn(edge?.node, "name");
    if (name !== null) sizes.set(name, Number(edge.node.sizeBytes));
  }
  return sizes;
}

const strange = (what: string, why: string): UserError =>
  new UserError(
    "communication",
    `${what} was sent, and the server's answer is none of W&B's: ${why}. Does WANDB_BASE_URL name a W&B server?`,
  );

export function parsed(text: string, what: string): any {
  try {
    const value = JSON.parse(text);
    if (isObject(value)) return value;
  } catch {
    // Said below.
  }
  throw strange(what, "it is no JSON object");
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function textIn(object: unknown, field: string): string | null {
  const value = isObject(object) ? object[field] : null;
  return typeof value === "string" ? value : null;
}

function countIn(object: unknown, field: string): number {
  const value = isObject(object) ? object[field] : null;
  return typeof value === "number" && Number.isSafeInteger(value) && value > 0 ? value : 0;
}

function statusOf(bucket: Record<string, unknown>): Status {
  const tree = (field: string): Tree => {
    const value = parseJson(textIn(bucket, field) ?? "");
    return value instanceof Map ? value : new Map();
  };
  const config: Tree = new Map();
  for (const [key, wrapped] of tree("config")) {
    if (wrapped instanceof Map && wrapped.has("value")) config.set(key, wrapped.get("value")!);
  }
  const tags = bucket.tags;
  return {
    id: textIn(bucket, "id"),
    history: countIn(bucket, "historyLineCount"),
    events: countIn(bucket, "eventsLineCount"),
    output: countIn(bucket, "logLineCount"),
    lastRow: lastOf(textIn(bucket, "historyTail")),
    lastEvents: lastOf(textIn(bucket, "eventsTail")),
    config,
    summary: tree("summaryMetrics"),
    tags: Array.isArray(tags) ? tags.filter((tag) => typeof tag === "string") : [],
    notes: textIn(bucket, "notes"),
  };
}

/** A tail is the JSON text of a list of JSON texts. */
function lastOf(tail: string | null): Tree | null {
  try {
    const lines: unknown = JSON.parse(tail ?? "[]");
    const last: unknown = Array.isArray(lines) ? lines.at(-1) : undefined;
    const row: Json | null = typeof last === "string" ? parseJson(last) : null;
    return row instanceof Map ? row : null;
  } catch {
    return null;
  }
}

/** "Name:value" each; what could not be a header is left out. */
function headersOf(list: unknown): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const line of Array.isArray(list) ? list : []) {
    const [, name, value] = /^([\w-]{1,100}):\s*([\x20-\x7e]{0,4000})$/.exec(String(line)) ?? [];
    if (name !== undefined && !/^(host|content-length|transfer-encoding)$/i.test(name)) headers[name] = value;
  }
  return headers;
}
