// A server of a folder's files, in a thread of its own, with the faults that servers have. Test helper.
import type { ThreadScope } from "../../../core/base/threads.ts";

declare const self: ThreadScope;

/** The first part of a path says how the server behaves; what follows is a file of the folder. */
const BEHAVIOURS: Record<string, (request: Request, file: () => Response) => Response | Promise<Response>> = {
  good: (_, file) => file(),
  whole: (request, file) => (request.headers.delete("range"), file()),
  flaky: (_, file) => ++asked !== 4 ? file() : new Response("busy", { status: 503 }),
  down: () => new Response("broken", { status: 500 }),
  closed: () => new Response("who?", { status: 401 }),
  forbidden: () => new Response("no", { status: 403 }),
  moved: (request) => Response.redirect(request.url.replace("/moved/", "/good/")),
  away: (request) =>
    Response.redirect(request.url.replace("127.0.0.1", "localhost").replace("/away/", "/good/")),
  round: (request) => Response.redirect(request.url),
  silent: () => new Promise(() => {}),
  endless: (_, file) => {
    const body = new ReadableStream({ pull: (to) => to.enqueue(new Uint8Array(2 ** 16).fill(32)) });
    return file().ok ? new Response(body) : new Response("none", { status: 404 });
  },
};

let asked = 0;

self.onmessage = ({ data: folder }: MessageEvent<string>) => {
  Deno.serve(
    { port: 0, hostname: "127.0.0.1", onListen: ({ port }) => self.postMessage(port) },
    (request) => {
      const [, behaviour, ...rest] = decodeURIComponent(new URL(request.url).pathname).split("/");
      const plain = new Request(request.url, { headers: new Headers(request.headers) });
      return BEHAVIOURS[behaviour](
        plain,
        () => answer(`${folder}/${rest.join("/")}`, plain.headers.get("range")),
      );
    },
  );
};

function answer(path: string, range: string | null): Response {
  let bytes: Uint8Array<ArrayBuffer>;
  try {
    bytes = Deno.readFileSync(path);
  } catch {
    return new Response("none", { status: 404 });
  }
  const [, from, to] = /^bytes=(\d*)-(\d*)$/.exec(range ?? "") ?? [];
  if (from === undefined) return new Response(bytes);
  const part = from === "" ? bytes.slice(-Number(to)) : bytes.slice(Number(from), Number(to) + 1);
  return new Response(part, { status: 206 });
}
