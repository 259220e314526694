// The thread that asks a server for files: one at a time, with a limit to each, again where that may help, and no
// other host than the one that was named.
import * as asking from "./asking.ts";
import type { ThreadScope } from "../../../base/threads.ts";

declare const self: ThreadScope;

const TRIES = 4, SILENCE_MS = 30_000, WAIT_MS = 500, MOST_REDIRECTS = 5;
/** A server that gives no parts gives such a file whole, and the last one is kept. */
const MOST_WHOLE = 256 * 2 ** 20;
/** They may be over in a moment. */
const PASSING = [408, 425, 429, 500, 502, 503, 504];

type Bytes = Uint8Array<ArrayBuffer>;

let found: Bytes = new Uint8Array(0);
let lastWhole: { readonly url: string; readonly bytes: Bytes } | null = null;

/** It holds what was expected last: an answer is kept until it is asked for. */
const coming = new Map<string, Promise<Bytes | asking.FetchFailure>>();
const MOST_COMING = 64;

self.onmessage = async ({ data }: MessageEvent<asking.Orders | asking.FetchBuffers | asking.Expected>) => {
  if ("ahead" in data) {
    for (const url of data.ahead) if (!coming.has(url)) coming.set(url, fetched({ url, most: data.most }));
    for (const [url] of coming) if (coming.size > MOST_COMING) coming.delete(url);
    return;
  }
  if ("into" in data) {
    new Uint8Array(data.into).set(found);
    return reply(data.shared, {});
  }
  const got = await (data.range ? fetched(data) : coming.get(data.url) ?? fetched(data));
  coming.delete(data.url);
  if (got instanceof Uint8Array) found = got;
  reply(data.shared, got instanceof Uint8Array ? { bytes: got.length } : { failed: got });
};

function reply(shared: SharedArrayBuffer, answer: asking.FetchAnswer): void {
  const words = new Int32Array(shared), text = new TextEncoder().encode(JSON.stringify(answer));
  new Uint8Array(shared, asking.ANSWER).set(text);
  words[asking.LENGTH] = text.length;
  Atomics.store(words, asking.DONE, 1);
  Atomics.notify(words, asking.DONE);
}

async function fetched(orders: Omit<asking.Orders, "shared">): Promise<Bytes | asking.FetchFailure> {
  const { range, url, waitMs = WAIT_MS } = orders;
  if (range && lastWhole?.url === url) return cut(lastWhole.bytes, range);
  for (let tries = 1;; tries++) {
    const got = await once(orders);
    if (got instanceof Uint8Array) return got;
    const passes = got.kind === "unreachable" || got.kind === "overdue" ||
      got.kind === "status" && PASSING.includes(got.status);
    if (!passes || tries === TRIES) return { ...got, tries };
    await new Promise((resolve) => setTimeout(resolve, waitMs * 2 ** (tries - 1)));
  }
}

function cut(whole: Bytes, { at, bytes }: Required<asking.Orders>["range"]): Bytes {
  const from = at < 0 ? whole.length + at : at;
  return from < 0 ? new Uint8Array(0) : whole.slice(from, from + bytes);
}

async function once(
  { url, most, range, silenceMs = SILENCE_MS }: Omit<asking.Orders, "shared">,
): Promise<Bytes | asking.FetchFault> {
  const overdue = new AbortController();
  let timer = setTimeout(() => overdue.abort(), silenceMs);
  const alive = () => {
    clearTimeout(timer);
    timer = setTimeout(() => overdue.abort(), silenceMs);
  };
  try {
    const response = await followed(url, range, overdue.signal);
    if (!(response instanceof Response)) return response;
    const { status } = response, isPart = range !== undefined && status === 206;
    if (status !== 200 && !isPart) {
      await response.body?.cancel();
      return status === 404 || status === 410
        ? { kind: "absent" }
        : status === 416 && range
        ? new Uint8Array(0)
        : { kind: "status", status };
    }
    const limit = range && !isPart ? MOST_WHOLE : most;
    const bytes = await limited(response, limit, alive);
    if (bytes === null) return range && !isPart ? { kind: "no parts", most: MOST_WHOLE } : { kind: "large" };
    if (!range || isPart) return bytes;
    lastWhole = { url, bytes };
    return cut(bytes, range);
  } catch (error) {
    if (overdue.signal.aborted) return { kind: "overdue", seconds: silenceMs / 1000 };
    const why = innermost(error);
    const untrusted = /invalid peer certificate: (\w+)/.exec(`${(error as Error).message} ${why}`)?.[1];
    return untrusted ? { kind: "untrusted", why: untrusted } : { kind: "unreachable", why };
  } finally {
    clearTimeout(timer);
  }
}

/** A redirect may lead to another place of the same host, and not from https to http. */
async function followed(
  address: string,
  range: asking.Orders["range"],
  signal: AbortSignal,
): Promise<Response | asking.FetchFault> {
  let url = new URL(address);
  const headers: Record<string, string> = range ? { range: `bytes=${rangeText(range)}` } : {};
  for (let i = 0; i <= MOST_REDIRECTS; i++) {
    const response = await fetch(url, { headers, redirect: "manual", signal });
    const to = response.headers.get("location");
    if (response.status < 300 || response.status >= 400 || to === null) return response;
    await response.body?.cancel();
    const next = URL.canParse(to, url) ? new URL(to, url) : null;
    const same = next?.hostname === url.hostname &&
      (next.protocol === url.protocol || next.protocol === "https:");
    if (!next || !same) return { kind: "redirect", to: (next?.origin ?? to).slice(0, 200) };
    url = next;
  }
  return { kind: "redirect", to: "itself, again and again" };
}

const rangeText = ({ at, bytes }: Required<asking.Orders>["range"]): string =>
  at < 0 ? String(at) : `${at}-${at + bytes - 1}`;

/** Null where there is more. */
async function limited(response: Response, most: number, alive: () => void): Promise<Bytes | null> {
  const parts: Bytes[] = [];
  let size = 0;
  for await (const part of response.body ?? []) {
    alive();
    size += part.length;
    if (size > most) return null;
    parts.push(part);
  }
  if (parts.length === 1) return parts[0];
  const whole = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

function innermost(error: unknown): string {
  let at = error as Error;
  while (at.cause instanceof Error) at = at.cause;
  // deno-lint-ignore no-control-regex
  return String(at.message).replaceAll(/[\x00-\x1f\x7f-\x9f]+/g, " ").replace(/^.*: (?=\w)/, "").slice(
    0,
    200,
  );
}
