// A Zarr store on a server, over HTTP. Readers wait for nothing, so a thread asks the server, and the reader
// sleeps until the answer is there.
import { UserError } from "../../../base/errors.ts";
import { withoutSecrets } from "../../../base/secrets.ts";
import type { ChunkBytes } from "../../codecs/bytes.ts";
import { crc32 } from "node:zlib";
import { ANSWER, DONE, type FetchAnswer, type FetchFailure, LENGTH, type Orders, SPACE } from "./asking.ts";
import { MOST_METADATA } from "./json.ts";
import type { FileMark } from "../../arrays/rows.ts";

export const tooLarge = (most: number): string => `is far larger than it can be (over ${most} bytes)`;

/** All stores that this thread has open share one thread that asks servers. */
let shared: { readonly thread: Fetcher; readonly marks: Map<string, Mark>; users: number } | null = null;

type Mark = ReturnType<StoreFiles["markOf"]>;

function hold() {
  shared ??= { thread: startFetcher(), marks: new Map(), users: 0 };
  shared.users++;
  return shared;
}

function release(): void {
  if (!shared || --shared.users > 0) return;
  shared.thread.end();
  shared = null;
}

interface Fetcher {
  fetch(orders: Omit<Orders, "shared">): FetchAnswer;
  take(bytes: number): ChunkBytes;
  expect(urls: readonly string[], most: number): void;
  end(): void;
}

/** The thread gives up long before. */
const PATIENCE_MS = 30 * 60_000;

function startFetcher(): Fetcher {
  const worker = new Worker(new URL("./server_thread.ts", import.meta.url), {
    type: "module",
    name: "server",
  });
  const words = new Int32Array(new SharedArrayBuffer(SPACE));
  const wait = () => {
    if (Atomics.wait(words, DONE, 0, PATIENCE_MS) === "timed-out") {
      throw new Error("internal: the thread that asks servers gives no answer.");
    }
    const text = new Uint8Array(words.buffer, ANSWER, words[LENGTH]).slice();
    Atomics.store(words, DONE, 0);
    return JSON.parse(new TextDecoder().decode(text)) as FetchAnswer;
  };
  return {
    fetch(orders) {
      worker.postMessage({ ...orders, shared: words.buffer });
      return wait();
    },
    take(bytes) {
      const into = new Uint8Array(new SharedArrayBuffer(bytes));
      worker.postMessage({ into: into.buffer, shared: words.buffer });
      wait();
      const own = new Uint8Array(bytes);
      own.set(into);
      return own;
    },
    expect: (ahead, most) => worker.postMessage({ ahead, most }),
    end: () => worker.terminate(),
  };
}

/** Without its last slash; the part behind "?" goes with each request. */
export function openStoreServer(address: string, patience = {}): StoreFiles {
  const base = addressOf(address), { thread, marks } = hold();
  const root = base.pathname.replace(/\/+$/, "");
  const urlOf = (key: string) =>
    `${base.origin}${root}/${key.split("/").map(encodeURIComponent).join("/")}${base.search}`;
  const get = (key: string, more: Pick<Orders, "most" | "range">): ChunkBytes | string | null => {
    const url = urlOf(key), answer = thread.fetch({ url, ...more, ...patience });
    if (answer.bytes !== undefined) return thread.take(answer.bytes);
    return answer.failed!.kind === "absent" ? null : wrongIn(answer.failed!, url, more.most);
  };
  // Metadata are looked for before they are read, and asked for once.
  const known = new Map<string, ChunkBytes | string | null>();
  const small = (key: string) => {
    if (known.has(key)) return known.get(key)!;
    const found = get(key, { most: MOST_METADATA });
    known.set(key, found);
    if (found instanceof Uint8Array) marks.set(urlOf(key), { size: found.length, changed: crc32(found) });
    return found;
  };
  return {
    whole(key, most) {
      if (most === MOST_METADATA) return small(key);
      return get(key, { most });
    },
    expect: (keys, most) => thread.expect(keys.map(urlOf), most),
    part: (key, at, bytes) => get(key, { most: bytes, range: { at, bytes } }),
    has: (key) => small(key) instanceof Uint8Array,
    markOf(key) {
      if (!marks.has(urlOf(key))) small(key);
      return marks.get(urlOf(key)) ?? { size: 0, changed: 0 };
    },
    sizeOf: () => null,
    foldersIn: () => null,
    realName: (key) => key,
    close: release,
  };
}

function addressOf(address: string): URL {
  const url = URL.canParse(address) ? new URL(address) : null;
  if (!url) {
    throw new UserError("usage", `data.data_path: ${withoutSecrets(address)} is no address of a server.`);
  }
  if (url.username !== "" || url.password !== "") {
    throw new UserError(
      "usage",
      `data.data_path has a name or password for ${url.host} in it, and the path is written into logs and ` +
        "checkpoints: serve the store to this machine without one, or copy it to a folder.",
    );
  }
  return url;
}

/** A reader tells what is wrong with one file; a server that gives nothing ends the run. */
function wrongIn(failed: FetchFailure, address: string, most: number): string {
  if (failed.kind === "large" || failed.kind === "absent") return tooLarge(most);
  const url = new URL(address), { host } = url, request = `${url.origin}${url.pathname}`;
  const times = failed.tries > 1 ? `, ${failed.tries} times` : "";
  throw new UserError("data", sentenceOf(failed, host, request, times));
}

function sentenceOf(
  failed: Exclude<FetchFailure, { kind: "large" | "absent" }>,
  host: string,
  url: string,
  times: string,
): string {
  switch (failed.kind) {
    case "status":
      return failed.status === 401 || failed.status === 407
        ? `${host} asks for a name and password (${failed.status}) for ${url}, and none are sent: serve the store ` +
          "to this machine without one, or copy it to a folder."
        : failed.status === 403
        ? `${host} does not give ${url} to this machine (403). Ask whoever runs the server, or copy the store to ` +
          "a folder."
        : `${host} answered ${failed.status} for ${url}${times}. Try again later, or copy the store to a folder.`;
    case "redirect":
      return `${host} sends the request for ${url} on to ${failed.to}, and only the host that --data-path names ` +
        "is asked. If that is the server, name it.";
    case "overdue":
      return `${host} gave no answer for ${url} in ${failed.seconds} s${times}. Check that the server runs, or ` +
        "copy the store to a folder.";
    case "untrusted":
      return `${host} has a certificate that nobody known here has signed (${failed.why}): name the file of its ` +
        "authority with SSL_CERT_FILE or DENO_CERT.";
    case "no parts":
      return `${host} gives files as a whole only, and ${url} is a shard of more than ${failed.most} bytes, of ` +
        "which parts are read. Serve the store by a program that knows ranges, or copy it to a folder.";
    case "unreachable":
      return `${host} can't be reached for ${url} (${failed.why})${times}. Check data.data_path (--data-path), ` +
        "and that the server runs.";
  }
}

/** Keys are paths inside of the store. Bytes are valid until the next read; a text says what is wrong. */
export interface StoreFiles {
  /** Null where there is no such file. */
  whole(key: string, most: number): ChunkBytes | string | null;
  /** Fewer bytes come where the file ends. A place below 0 is counted from the end. */
  part(key: string, at: number, bytes: number): ChunkBytes | string | null;
  /** A server is asked for several files at once; others are near. */
  expect?(keys: readonly string[], most: number): void;
  has(key: string): boolean;
  /** Its bytes; null where there is no such file, or the server was not asked. */
  sizeOf(key: string): number | null;
  /** It shows whether the file changed. */
  markOf(key: string): Omit<FileMark, "path">;
  /** The folders in a folder; null where nobody can say. */
  foldersIn(key: string): readonly string[] | null;
  /** Links give one folder several names, and this one. */
  realName(key: string): string;
  close(): void;
}
