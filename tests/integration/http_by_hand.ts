// A small HTTP/1.1 server on bare connections, so that tests can cut, stall and garble answers as no library would.

export interface Asked {
  readonly method: string;
  readonly path: string;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array<ArrayBuffer>;
}

/** An answer, or what a connection does in place of one. */
export type Reply =
  | { status: number; headers?: Record<string, string>; body?: string | Uint8Array }
  /** These bytes, and then the connection ends. */
  | { raw: string }
  /** The connection ends at once. */
  | { cut: true }
  /** Nothing ever comes; the connection stays. */
  | { silent: true }
  /** The start of an answer, and then this text again and again, up to so many bytes. */
  | { headers?: Record<string, string>; drip: string; everyMs: number; bytes: number };

export interface Listening {
  readonly port: number;
  readonly url: string;
  close(): Promise<void>;
}

export interface HandOptions {
  /** For https: a certificate and its key. */
  readonly tls?: { cert: string; key: string };
  readonly hostname?: string;
}

const encoder = new TextEncoder(), decoder = new TextDecoder();

export function listenByHand(
  answer: (asked: Asked) => Reply | Promise<Reply>,
  options: HandOptions = {},
): Listening {
  const at = { hostname: "127.0.0.1", port: 0 };
  const listener = options.tls ? Deno.listenTls({ ...at, ...options.tls }) : Deno.listen(at);
  const open = new Set<Deno.Conn>();
  const serving = new Set<Promise<void>>();
  let closed = false;
  const accepting = (async () => {
    for (;;) {
      const connection: Deno.Conn | null = await listener.accept().catch((error) => {
        if (error instanceof Deno.errors.BadResource || error instanceof Deno.errors.Interrupted) return null;
        return undefined; // a handshake that failed
      }) ?? null;
      if (connection === null) {
        if (closed) return;
        await new Promise((resolve) => setTimeout(resolve, 1));
        continue;
      }
      open.add(connection);
      const served = serve(connection, answer).catch(() => {}).finally(() => {
        open.delete(connection);
        serving.delete(served);
        try {
          connection.close();
        } catch {
          // closed already
        }
      });
      serving.add(served);
    }
  })();
  const { port } = listener.addr as Deno.NetAddr;
  return {
    port,
    url: `${options.tls ? "https" : "http"}://${options.hostname ?? "127.0.0.1"}:${port}`,
    async close() {
      closed = true;
      listener.close();
      for (const connection of open) {
        try {
          connection.close();
        } catch {
          // closed already
        }
      }
      await accepting;
      await Promise.all(serving);
    },
  };
}

async function serve(connection: Deno.Conn, answer: (asked: Asked) => Reply | Promise<Reply>): Promise<void> {
  const reader = openReader(connection);
  for (;;) {
    const asked = await readRequest(reader, connection);
    if (asked === null) return;
    if (!await send(connection, await answer(asked))) return;
  }
}

/** Whether the connection goes on. */
async function send(connection: Deno.Conn, reply: Reply): Promise<boolean> {
  if ("cut" in reply) return false;
  if ("silent" in reply) {
    await new Promise<void>((resolve) =>
      void connection.read(new Uint8Array(1)).catch(() => {}).finally(resolve)
    );
    return false;
  }
  if ("raw" in reply) {
    await writeAll(connection, encoder.encode(reply.raw));
    return false;
  }
  if ("drip" in reply) {
    await writeAll(connection, head(200, { "content-length": `${reply.bytes}`, ...reply.headers }));
    const piece = encoder.encode(reply.drip);
    for (let sent = 0; sent < reply.bytes; sent += piece.length) {
      await writeAll(connection, piece);
      if (reply.everyMs > 0) await new Promise((resolve) => setTimeout(resolve, reply.everyMs));
    }
    return false;
  }
  const body = typeof reply.body === "string" ? encoder.encode(reply.body) : reply.body ?? new Uint8Array();
  const first = head(reply.status, { "content-length": `${body.length}`, ...reply.headers });
  await writeAll(connection, new Uint8Array([...first, ...body]));
  return true;
}

const head = (status: number, headers: Record<string, string>): Uint8Array =>
  encoder.encode(
    `HTTP/1.1 ${status} Said\r\n${Object.entries(headers).map(([k, v]) => `${k}: ${v}\r\n`).join("")}\r\n`,
  );

async function writeAll(connection: Deno.Conn, bytes: Uint8Array): Promise<void> {
  for (let done = 0; done < bytes.length;) done += await connection.write(bytes.subarray(done));
}

function openReader(connection: Deno.Conn) {
  let held = new Uint8Array(0);
  const chunk = new Uint8Array(256 * 1024);
  const more = async () => {
    const got = await connection.read(chunk);
    if (got === null) return false;
    const joined = new Uint8Array(held.length + got);
    joined.set(held);
    joined.set(chunk.subarray(0, got), held.length);
    held = joined;
    return true;
  };
  return {
    /** Up to and without the line end; null at the end. */
    async line(): Promise<string | null> {
      for (;;) {
        const at = held.indexOf(10);
        if (at >= 0) {
          const text = decoder.decode(held.subarray(0, at)).replace(/\r$/, "");
          held = held.slice(at + 1);
          return text;
        }
        if (!await more()) return null;
      }
    },
    async bytes(count: number): Promise<Uint8Array<ArrayBuffer>> {
      const whole = new Uint8Array(count);
      let done = Math.min(count, held.length);
      whole.set(held.subarray(0, done));
      held = held.slice(done);
      while (done < count) {
        const got = await connection.read(whole.subarray(done));
        if (got === null) throw new Error("cut within a body");
        done += got;
      }
      return whole;
    },
  };
}

async function readRequest(
  reader: ReturnType<typeof openReader>,
  connection: Deno.Conn,
): Promise<Asked | null> {
  const first = await reader.line();
  if (first === null) return null;
  const [method, path] = first.split(" ");
  const headers: Record<string, string> = {};
  for (let line = await reader.line(); line; line = await reader.line()) {
    const colon = line.indexOf(":");
    headers[line.slice(0, colon).toLowerCase()] = line.slice(colon + 1).trim();
  }
  if (headers.expect?.toLowerCase() === "100-continue") {
    await writeAll(connection, encoder.encode("HTTP/1.1 100 Continue\r\n\r\n"));
  }
  if (headers["transfer-encoding"]?.toLowerCase() === "chunked") {
    const parts: Uint8Array[] = [];
    for (let size = 1; size > 0;) {
      size = parseInt(await reader.line() ?? "0", 16);
      parts.push(await reader.bytes(size));
      await reader.line();
    }
    return { method, path, headers, body: new Uint8Array(await new Blob(parts as BlobPart[]).arrayBuffer()) };
  }
  return { method, path, headers, body: await reader.bytes(Number(headers["content-length"] ?? 0)) };
}
