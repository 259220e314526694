// A real browser without a window, asked over its debugging protocol.
import { join } from "paths";

/** The browser that HPCTRAIN_CHROMIUM names, or null. */
export const CHROMIUM = Deno.env.get("HPCTRAIN_CHROMIUM") || null;
export const needsChromium = CHROMIUM ? "" : " (needs the browser that HPCTRAIN_CHROMIUM names)";

type Fields = Record<string, any>;

export interface Page {
  /** Console errors, exceptions and what the browser itself complains of, such as a breach of the page's policy. */
  readonly errors: readonly string[];
  /** Every address that was asked for, the page's own left out. */
  readonly requests: readonly string[];
  /** The value of an expression; a promise is waited for. */
  evaluate<T>(expression: string): Promise<T>;
  send(method: string, parameters?: Fields): Promise<Fields>;
  /** PNG bytes of what is seen, or of the whole page. */
  screenshot(whole?: boolean): Promise<Uint8Array>;
  /** Pressed at one point, let go at another. */
  drag(from: readonly [number, number], to: readonly [number, number]): Promise<void>;
}

export interface Size {
  width: number;
  height: number;
  mobile?: boolean;
  dark?: boolean;
}

/** Opens a page, waits until its report says that it is ready, and closes it after. */
export type OpenPage = (address: string, size: Size, body: (page: Page) => Promise<void>) => Promise<void>;

/** Opens a page in a browser of its own. */
export const onPage: OpenPage = (address, size, body) => inBrowser((open) => open(address, size, body));

/** One browser for many pages: to start one takes longer than to look at a page. */
export async function inBrowser(body: (open: OpenPage) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  const browser = new Deno.Command(CHROMIUM!, {
    args: [
      ...[
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--remote-debugging-port=0",
      ],
      ...["--no-first-run", "--hide-scrollbars", `--user-data-dir=${folder}`, "about:blank"],
    ],
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).spawn();
  try {
    const port = await portOf(folder);
    await body((address, size, look) => onTab(port, address, size, look));
  } finally {
    try {
      browser.kill("SIGKILL");
    } catch {
      // it has ended by itself
    }
    await browser.status;
    await removed(folder);
  }
}

async function onTab(
  port: number,
  address: string,
  { width, height, mobile = false, dark = false }: Size,
  body: (page: Page) => Promise<void>,
): Promise<void> {
  const made = await fetch(`http://127.0.0.1:${port}/json/new?about:blank`, { method: "PUT" });
  const { id, webSocketDebuggerUrl }: Fields = await made.json();
  const connection = await connect(webSocketDebuggerUrl), { send } = connection;
  try {
    for (const domain of ["Page", "Runtime", "Log", "Network"]) await send(`${domain}.enable`);
    await send("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile });
    await send("Emulation.setEmulatedMedia", {
      features: [{ name: "prefers-color-scheme", value: dark ? "dark" : "light" }],
    });
    await send("Page.navigate", { url: address });
    const page = pageOf(connection, address);
    await ready(page);
    await body(page);
  } finally {
    connection.close();
    await (await fetch(`http://127.0.0.1:${port}/json/close/${id}`)).text();
  }
}

async function ready(page: Page): Promise<void> {
  for (const end = performance.now() + 60_000; performance.now() < end;) {
    if (await page.evaluate(`document.documentElement?.dataset.ready !== undefined`)) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error(`the page is not ready after 60 s: ${page.errors.join("; ")}`);
}

interface Connection {
  readonly events: readonly { method: string; params: Fields }[];
  send(method: string, parameters?: Fields): Promise<Fields>;
  close(): void;
}

async function connect(address: string): Promise<Connection> {
  const socket = new WebSocket(address);
  await new Promise((resolve, reject) => {
    socket.onopen = resolve;
    socket.onerror = reject;
  });
  const events: { method: string; params: Fields }[] = [];
  const waiting = new Map<number, PromiseWithResolvers<Fields>>();
  socket.onmessage = ({ data }) => {
    const { id, method, params, result, error } = JSON.parse(data);
    if (method) events.push({ method, params });
    else if (error) waiting.get(id)?.reject(new Error(error.message));
    else waiting.get(id)?.resolve(result);
  };
  let last = 0;
  return {
    events,
    send(method, params = {}) {
      const answer = Promise.withResolvers<Fields>();
      waiting.set(++last, answer);
      socket.send(JSON.stringify({ id: last, method, params }));
      return answer.promise;
    },
    close: () => socket.close(),
  };
}

function pageOf({ events, send }: Connection, address: string): Page {
  const of = (method: string) =>
    events.filter((event) => event.method === method).map(({ params }) => params);
  return {
    get errors() {
      return [
        ...of("Runtime.exceptionThrown").map(({ exceptionDetails: details }) =>
          details.exception?.description ?? details.text
        ),
        ...of("Runtime.consoleAPICalled").filter(({ type }) => type === "error" || type === "warning")
          .map(({ args }) => args.map((arg: Fields) => arg.value ?? arg.description).join(" ")),
        ...of("Log.entryAdded").map(({ entry }) => `${entry.level}: ${entry.text}`),
      ];
    },
    get requests() {
      return of("Network.requestWillBeSent").map(({ request }) => request.url as string)
        .filter((url) => url !== address && !url.startsWith("data:"));
    },
    send,
    async evaluate<T>(expression: string) {
      const { result, exceptionDetails } = await send("Runtime.evaluate", {
        expression,
        returnByValue: true,
        awaitPromise: true,
      });
      if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
      return result.value as T;
    },
    async screenshot(whole = false) {
      const { data } = await send("Page.captureScreenshot", { format: "png", captureBeyondViewport: whole });
      return Uint8Array.fromBase64(data);
    },
    async drag([x0, y0], [x1, y1]) {
      const mouse = (type: string, x: number, y: number) =>
        send("Input.dispatchMouseEvent", { type, x, y, button: "left", buttons: 1, clickCount: 1 });
      await mouse("mousePressed", x0, y0);
      for (let i = 1; i <= 5; i++) await mouse("mouseMoved", x0 + (x1 - x0) * i / 5, y0 + (y1 - y0) * i / 5);
      await mouse("mouseReleased", x1, y1);
    },
  };
}

/** The browser chooses a free port and writes it down. */
async function portOf(folder: string): Promise<number> {
  for (const end = performance.now() + 60_000; performance.now() < end;) {
    try {
      const [port] = Deno.readTextFileSync(join(folder, "DevToolsActivePort")).split("\n");
      if (port) return Number(port);
    } catch {
      // not there yet
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error("the browser has not started after 60 s");
}

/** Its helpers may write a little longer than it lives. */
async function removed(folder: string): Promise<void> {
  for (let attempt = 0;; attempt++) {
    try {
      return await Deno.remove(folder, { recursive: true });
    } catch (error) {
      if (attempt === 20) throw error;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}
