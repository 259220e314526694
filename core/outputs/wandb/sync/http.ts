// Requests to a slow, broken or hostile server: limits on time and size, no key to another host, and retries.
import { UserError } from "../../../base/errors.ts";
import { formatDuration } from "../../../base/format.ts";

interface HttpRequest {
  readonly method: "POST" | "PUT";
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array<ArrayBuffer>;
  readonly what: string;
  readonly hopeless?: readonly number[];
  /** The last try may have had its effect: returns what remains to send, or null. */
  readonly beforeAgain?: () => Promise<string | null>;
}

export interface HttpOptions {
  readonly retries: number;
  readonly timeoutMs?: number;
  readonly maxBytes?: number;
  /** Each later wait is twice as long, up to a minute. */
  readonly firstWaitMs?: number;
  /** PEM certificates extend the system's. */
  readonly caCerts?: readonly string[];
  readonly onRetry?: (sentence: string) => void;
  readonly signal?: AbortSignal;
}

export interface Http {
  send(request: HttpRequest): Promise<string>;
  close(): void;
}

export class RequestRefused extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

const TIMEOUT_MS = 60_000, MAX_BYTES = 16 * 2 ** 20, FIRST_WAIT_MS = 2000, MAX_WAIT_MS = 60_000;
/** A slow line carries this much, so a large body gets more time. */
const SLOWEST_BYTES_PER_MS = 32;
const MAX_REDIRECTS = 5;
const HOPELESS = [400, 401, 403, 404, 410, 413, 422, 501];

export function openHttp(options: HttpOptions): Http {
  const client = clientOf(options.caCerts ?? []);

  async function send(request: HttpRequest): Promise<string> {
    let body = request.body;
    for (let tries = 0;; tries++) {
      const failure = await once(request, body, client, options);
      if (typeof failure === "string") return failure;
      if (tries >= options.retries) throw gaveUp(request, failure, tries);
      const wait = failure.retryAfterMs ??
        Math.min((options.firstWaitMs ?? FIRST_WAIT_MS) * 2 ** tries, MAX_WAIT_MS) *
          (1 + (performance.now() % 1) / 4);
      options.onRetry?.(
        `${failure.why}; trying again in ${formatDuration(wait / 1000)} (${tries + 1} of ${options.retries})`,
      );
      await pause(wait, options.signal);
      if (!request.beforeAgain) continue;
      const rest = await request.beforeAgain();
      if (rest === null) return "{}";
      body = rest;
    }
  }
  return { send, close: () => client?.close() };
}

function clientOf(caCerts: readonly string[]): Deno.HttpClient | undefined {
  if (caCerts.length === 0) return undefined;
  try {
    return Deno.createHttpClient({ caCerts: [...caCerts] });
  } catch (cause) {
    throw new UserError(
      "environment",
      `The certificates of this machine can't be used: ${innermost(cause)}. ` +
        "Look at SSL_CERT_FILE and REQUESTS_CA_BUNDLE, or name a good file with --ca-file FILE.",
      { cause },
    );
  }
}

interface Failure {
  readonly why: string;
  readonly retryAfterMs?: number;
}

async function once(
  request: HttpRequest,
  body: HttpRequest["body"],
  client: Deno.HttpClient | undefined,
  options: HttpOptions,
): Promise<string | Failure> {
  const limit = (options.timeoutMs ?? TIMEOUT_MS) + body.length / SLOWEST_BYTES_PER_MS;
  const overdue = new AbortController();
  const timer = setTimeout(() => overdue.abort(), limit);
  const signal = options.signal ? AbortSignal.any([overdue.signal, options.signal]) : overdue.signal;
  const host = new URL(request.url).host;
  try {
    const response = await followed(request, body, client, signal);
    if (response.status === 413) throw new RequestRefused(413, `${host} takes no request of this size (413)`);
    const text = await limited(response, options.maxBytes ?? MAX_BYTES, host);
    if (response.ok) return text;
    const failure = `${host} answered ${response.status}${because(text)}`;
    const hopeless = request.hopeless ?? HOPELESS;
    if (hopeless.includes(response.status)) throw new RequestRefused(response.status, failure);
    return {
      why: failure,
      retryAfterMs: retryAfter(response.headers.get("retry-after")),
    };
  } catch (error) {
    if (error instanceof RequestRefused || error instanceof UserError) throw error;
    options.signal?.throwIfAborted();
    const untrusted = /invalid peer certificate: (\w+)/.exec(
      String((error as Error).message) + innermost(error),
    )?.[1];
    if (untrusted !== undefined && !overdue.signal.aborted) {
      throw new RequestRefused(
        0,
        `${host} has a certificate that nobody known here has signed (${untrusted}); ` +
          "name the file of its authority with --ca-file FILE or SSL_CERT_FILE",
      );
    }
    const why = overdue.signal.aborted
      ? `${host} gave no answer in ${formatDuration(limit / 1000)}`
      : `${host} can't be reached or broke off (${innermost(error)})`;
    return { why };
  } finally {
    clearTimeout(timer);
  }
}

/** Redirects keep the body and stay within one server. */
async function followed(
  request: HttpRequest,
  body: HttpRequest["body"],
  client: Deno.HttpClient | undefined,
  signal: AbortSignal,
): Promise<Response> {
  let url = new URL(request.url);
  for (let i = 0; i <= MAX_REDIRECTS; i++) {
    const response = await fetch(url, {
      method: request.method,
      headers: request.headers,
      body,
      redirect: "manual",
      signal,
      ...(client ? { client } : {}),
    } as RequestInit);
    const to = response.headers.get("location");
    if (response.status < 300 || response.status >= 400 || to === null) return response;
    await response.body?.cancel();
    const next = URL.canParse(to, url) ? new URL(to, url) : null;
    if (next === null || next.origin !== url.origin) {
      throw new RequestRefused(
        response.status,
        `${url.host} sends requests on to ${
          next?.origin ?? "nowhere"
        }, and neither the key nor data is sent there; ` +
          "if that is the server, name it with WANDB_BASE_URL",
      );
    }
    url = next;
  }
  throw new RequestRefused(310, `${url.host} sends requests in a circle`);
}

async function limited(response: Response, maxBytes: number, host: string): Promise<string> {
  const parts: Uint8Array<ArrayBuffer>[] = [];
  let size = 0;
  for await (const part of response.body ?? []) {
    size += part.length;
    if (size > maxBytes) {
      throw new RequestRefused(response.status, `${host} answers with more than ${maxBytes} bytes`);
    }
    parts.push(part);
  }
  return await new Blob(parts).text();
}

/** The header has seconds or a date. */
function retryAfter(text: string | null): number | undefined {
  if (text === null) return undefined;
  const ms = /^\s*\d+(\.\d+)?\s*$/.test(text) ? Number(text) * 1000 : Date.parse(text) - Date.now();
  return Number.isFinite(ms) ? Math.min(Math.max(ms, 0), 10 * MAX_WAIT_MS) : undefined;
}

/** The server's explanation becomes one short, printable line. */
function because(text: string): string {
  const found = /"(?:message|error)"\s*:\s*"((?:[^"\\]|\\.){1,300})"/.exec(text)?.[1] ??
    (text.includes("<") ? "" : text);
  // deno-lint-ignore no-control-regex
  const line = found.replaceAll(/[\x00-\x1f\x7f-\x9f]+/g, " ").trim().slice(0, 200);
  return line === "" ? "" : ` (${line})`;
}

function innermost(error: unknown): string {
  let at = error as Error;
  while (at.cause instanceof Error) at = at.cause;
  // deno-lint-ignore no-control-regex
  return at.message.replaceAll(/[\x00-\x1f\x7f-\x9f]+/g, " ").replace(/^.*: (?=\w)/, "").slice(0, 200);
}

function gaveUp(request: HttpRequest, { why }: Failure, tries: number): UserError {
  const times = tries === 0 ? "" : `, ${tries + 1} times`;
  return new UserError("communication", `${request.what} could not be sent: ${why}${times}.`);
}

function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    signal?.addEventListener("abort", stop, { once: true });
  });
}
