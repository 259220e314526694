// A stand-in for the W&B server: keeps what clients upload, and fails on demand.
import { type Asked, type HandOptions, listenByHand, type Reply } from "./http_by_hand.ts";
import { openStore, type Placing, type StoredRun } from "./wandb_store.ts";

export type { Asked, Reply } from "./http_by_hand.ts";
export type { StoredRun } from "./wandb_store.ts";

/** 40 characters, as keys have. */
export const KEY = "0123456789abcdef0123456789abcdef01234567";

/** A request as a plan of faults sees it. */
export interface Seen extends Asked {
  /** Such as "UpsertBucket", "file_stream", "PUT". */
  readonly what: string;
  /** How many of this kind came before it. */
  readonly nth: number;
  /** GraphQL's variables, or the body of a file_stream. */
  readonly said: any;
}

/** What goes wrong; `kept`: the request has its effect all the same, and only the answer is lost. */
export type Fault = Reply & { kept?: boolean };

export interface ServerOptions extends HandOptions {
  readonly fault?: (seen: Seen) => Fault | undefined;
  readonly placing?: Placing;
  /** Keys that are let in; default KEY. */
  readonly keys?: readonly string[];
}

export interface WandbServer {
  readonly url: string;
  readonly port: number;
  readonly runs: ReadonlyMap<string, StoredRun>;
  readonly seen: Seen[];
  /** The only run there is. */
  run(): StoredRun;
  /** What the client needs to know: address and key. */
  readonly env: Record<string, string>;
  /** From now on. */
  fault: ServerOptions["fault"];
  /** What it answers, without a connection. */
  answer(asked: Asked): Reply;
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

export function openWandbServer(options: ServerOptions = {}): WandbServer {
  const store = openStore(options.placing);
  const keys = options.keys ?? [KEY];
  const seen: Seen[] = [];
  const server = {
    get url() {
      return listening.url;
    },
    get port() {
      return listening.port;
    },
    runs: store.runs,
    seen,
    run() {
      if (store.runs.size !== 1) throw new Error(`${store.runs.size} runs: ${[...store.runs.keys()]}`);
      return [...store.runs.values()][0];
    },
    get env() {
      return { WANDB_BASE_URL: listening.url, WANDB_API_KEY: keys[0] };
    },
    fault: options.fault,
    answer(asked: Asked): Reply {
      const one = look(asked, seen);
      seen.push(one);
      const fault = server.fault?.(one);
      if (fault && !fault.kept) return fault;
      const reply = one.what !== "PUT" && !allowed(asked, keys)
        ? { status: 401, body: `{"errors":[{"message":"invalid key"}]}` }
        : answer(one, store, listening.url);
      return fault ?? reply;
    },
    close: () => listening.close(),
    [Symbol.asyncDispose]: () => listening.close(),
  };
  const listening = listenByHand((asked) => server.answer(asked), options);
  return server;
}

const decoder = new TextDecoder();

function look(asked: Asked, before: readonly Seen[]): Seen {
  const isText = /\/(graphql|file_stream)$/.test(asked.path);
  const body = isText && asked.body.length > 0 ? JSON.parse(decoder.decode(asked.body)) : {};
  const what = asked.path.endsWith("/graphql")
    ? body.operationName ?? /\b(?:mutation|query)\s+(\w+)/.exec(body.query ?? "")?.[1] ?? "query"
    : asked.path.endsWith("/file_stream")
    ? "file_stream"
    : asked.method;
  const said = asked.path.endsWith("/graphql") ? body.variables ?? {} : body;
  return { ...asked, what, nth: before.filter((one) => one.what === what).length, said };
}

const allowed = ({ headers }: Asked, keys: readonly string[]): boolean =>
  keys.some((key) =>
    headers.authorization === `Basic ${btoa(`api:${key}`)}` || headers.authorization === `Bearer ${key}`
  );

type Store = ReturnType<typeof openStore>;

function answer(seen: Seen, store: Store, base: string): Reply {
  const path = seen.path.split("/").map(decodeURIComponent);
  if (seen.method === "PUT" && path[1] === "storage") {
    const run = store.find(path[2], path[3], path[4]);
    if (run === undefined) return { status: 404, body: "no such run" };
    run.files.set(path.slice(5).join("/"), seen.body);
    return { status: 200, body: "" };
  }
  if (seen.what === "file_stream") {
    const run = store.find(path[2], path[3], path[4]);
    if (run === undefined) return { status: 404, body: `{"error":"no such run"}` };
    store.stream(run, seen.said);
    return json({ exitcode: null, limits: {} });
  }
  if (seen.path.endsWith("/graphql")) return graphql(seen, store, base);
  return { status: 404, body: "no such page" };
}

const json = (data: unknown): Reply => ({
  status: 200,
  headers: { "content-type": "application/json" },
  body: JSON.stringify(data),
});

function graphql({ what, said }: Seen, store: Store, base: string): Reply {
  switch (what) {
    case "UpsertBucket": {
      const { run, inserted } = store.upsert(said);
      return json({ data: { upsertBucket: { bucket: bucketOf(run), inserted } } });
    }
    case "RunResumeStatus": {
      const run = store.find(said.entity, said.project, said.name);
      const entity = { id: "e", name: said.entity || "me" };
      return json({
        data: { model: { id: "p", name: said.project, entity, bucket: run ? statusOf(run) : null } },
      });
    }
    case "CreateRunFiles": {
      const run = store.find(said.entity, said.project, said.run)!;
      const files = said.files.map((name: string) => ({
        name,
        uploadUrl: `${base}/storage/${
          [run.entity, run.project, run.name, ...name.split("/")].map(encodeURIComponent).join("/")
        }`,
      }));
      return json({
        data: { createRunFiles: { runID: run.id, uploadHeaders: ["X-Stored-As:file"], files } },
      });
    }
    case "NotifyScriptableRunAlert":
      return json({ data: { notifyScriptableRunAlert: { success: true } } });
    case "RunFiles": // what verification asks
    case "RunUploadUrls": // older clients
      return older(what, said, store, base);
    default:
      return json(asked(what));
  }
}

function bucketOf(run: StoredRun) {
  return {
    id: run.id,
    name: run.name,
    displayName: run.displayName,
    description: null,
    config: run.config,
    sweepName: null,
    project: { id: "p", name: run.project, entity: { id: "e", name: run.entity } },
    historyLineCount: run.lines.history.length,
  };
}

function statusOf(run: StoredRun) {
  const { history, events, output, summary } = run.lines;
  const config = run.config === null
    ? {}
    : JSON.parse(run.config.replaceAll(/\b(NaN|-?Infinity)\b/g, "null"));
  return {
    id: run.id,
    name: run.name,
    displayName: run.displayName,
    summaryMetrics: summary.at(-1) ?? "{}",
    logLineCount: output.length,
    historyLineCount: history.length,
    eventsLineCount: events.length,
    historyTail: JSON.stringify(history.slice(-1)),
    eventsTail: JSON.stringify(events.slice(-1)),
    config: run.config ?? "{}",
    tags: run.tags,
    notes: run.notes,
    wandbConfig: JSON.stringify({ t: config._wandb?.value?.t }),
    stopped: false,
    state: run.complete ? (run.exitCode === 0 ? "finished" : "failed") : "running",
  };
}

function older(what: string, said: any, store: Store, base: string): Reply {
  const run = store.find(said.entity, said.project ?? said.name, said.run);
  if (run === undefined) return json({ data: { model: { bucket: null } } });
  const prefix = `${base}/storage/${[run.entity, run.project, run.name].map(encodeURIComponent).join("/")}`;
  const names: string[] = what === "RunUploadUrls" ? said.files : [...run.files.keys()];
  const edges = names.map((name) => ({
    node: { name, url: `${prefix}/${name}`, sizeBytes: run.files.get(name)?.length ?? 0, updatedAt: null },
  }));
  return json({ data: { model: { bucket: { id: run.id, files: { uploadHeaders: [], edges } } } } });
}

/** Questions that clients start with: who is there, and what it can do. */
function asked(what: string): unknown {
  const fields = (names: string[]) => ({ fields: names.map((name) => ({ name, args: [] })) });
  const answers: Record<string, unknown> = {
    Viewer: { viewer: { id: "u", entity: "me", flags: "{}", username: "me", teams: { edges: [] } } },
    ServerFeaturesQuery: { serverInfo: { features: [] } },
    ProbeServerSettings: { ServerSettingsType: fields(["name"]) },
    ProbeServerCapabilities: {
      QueryType: fields(["viewer", "serverInfo", "project", "entity"]),
      MutationType: fields(["upsertBucket", "createRunFiles"]),
      ServerInfoType: fields(["cliVersionInfo", "features"]),
    },
    ServerInfo: {
      serverInfo: { cliVersionInfo: { max_cli_version: "99.0.0" }, latestLocalVersionInfo: null },
    },
  };
  return { data: answers[what] ?? {} };
}
