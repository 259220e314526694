// W&B's protocol of uploads: GraphQL queries, file streams, checked answers.
import { UserError } from "../../../base/errors.ts";
import type { WandbServer } from "./credentials.ts";
import { type Http, RequestRefused } from "./http.ts";
import { type JsonValue, parseJson, type Tree } from "./json_text.ts";

export interface ServerRun {
  readonly entity: string;
  readonly project: string;
  readonly run: string;
  readonly id: string | null;
}

export interface ServerStatus {
  readonly id: string | null;
  readonly history: number;
  readonly events: number;
  readonly output: number;
  readonly lastRow: Tree | null;
  readonly lastEvents: Tree | null;
  readonly config: Tree;
  readonly summary: Tree;
  readonly tags: readonly string[];
  readonly notes: string | null;
}

interface Upsert {
  readonly id: string | null;
  readonly name: string;
  readonly project: string | null;
  readonly entity: string | null;
  readonly config: string;
  readonly groupName?: string;
  readonly displayName?: string;
  readonly notes?: string;
  readonly jobType?: string;
  readonly host?: string;
  readonly commit?: string;
  readonly repo?: string;
  readonly tags?: readonly string[];
}

type LinesFile = "wandb-history.jsonl" | "wandb-events.jsonl" | "wandb-summary.json" | "output.log";

/** A failed request may have had its effect, so it shows what remains. */
export interface StreamBody {
  files?: Partial<Record<LinesFile, { offset: number; content: readonly string[] }>>;
  uploaded?: readonly string[];
  preempting?: boolean;
  complete?: boolean;
  exitcode?: number;
}

export interface Api {
  /** Returns null where the server has no such run, or nothing was sent to it. */
  status(run: { entity: string | null; project: string | null; name: string }): Promise<ServerStatus | null>;
  upsert(run: Upsert): Promise<ServerRun>;
  /** Calls `rest` before it repeats the body, because the server may have some of it. */
  stream(place: ServerRun, body: StreamBody, rest: () => Promise<StreamBody | null>): Promise<void>;
  uploadUrls(
    place: ServerRun,
    paths: readonly string[],
  ): Promise<{ urls: Map<string, string>; headers: Record<string, string> }>;
  put(
    url: string,
    headers: Record<string, string>,
    bytes: Uint8Array<ArrayBuffer>,
    path: string,
  ): Promise<void>;
  alert(place: ServerRun, alert: { title: string; text: string; level: string }): Promise<void>;
  files(run: { entity: string | null; project: string | null; name: string }): Promise<Map<string, number>>;
}

/** Unit: nanoseconds, which the server waits between two alerts with one title. */
const ALERT_WAIT = 60_000_000_000;
/** An upload address also refuses for good by these statuses. */
const NO_PLACE = [400, 401, 403, 404, 405, 410, 413, 422, 501];

export function openApi(server: WandbServer, http: Http): Api {
  const { post, graphql, put } = openRequests(server, http);
  return {
    async status({ entity, project, name }) {
      const what = "The question how far the run is";
      return serverStatusIn(await graphql("RunResumeStatus", STATUS, { entity, project, name }, what));
    },

    async upsert(run) {
      const what = "The run";
      return serverRunIn(await graphql("UpsertBucket", UPSERT, { ...NOTHING, ...run }, what), what);
    },

    async stream(place, body, rest) {
      const path = `/files/${
        [place.entity, place.project, place.run].map(encodeURIComponent).join("/")
      }/file_stream`;
      const again = async () => {
        const left = await rest();
        return left === null ? null : JSON.stringify(left);
      };
      parsed(await post(path, JSON.stringify(body), "The rows", again), "The rows");
    },

    async uploadUrls({ entity, project, run }, paths) {
      const what = "The list of files";
      const variables = { entity, project, run, files: paths };
      const data = await graphql("CreateRunFiles", CREATE_FILES, variables, what);
      return urlsIn(data, paths, server.url, what);
    },

    put: (to, headers, body, path) => put(to, headers, body, `The file ${path}`),

    async alert({ entity, project, run }, { title, text, level }) {
      const variables = { entityName: entity, projectName: project, runName: run, title, text };
      const severity = ["INFO", "WARN", "ERROR"].includes(level) ? level : "INFO";
      const all = { ...variables, severity, waitDuration: ALERT_WAIT };
      await graphql("NotifyScriptableRunAlert", ALERT, all, "An alert");
    },

    async files({ entity, project, name }) {
      const variables = { entity, project, run: name };
      return sizesIn(await graphql("RunFiles", RUN_FILES, variables, "The question which files it has"));
    },
  };
}

/**
 * Only the server gets the key; files go without it to the addresses that the server names. Errors never
 * show the key.
 */
function openRequests({ url, key }: WandbServer, http: Http) {
  const headers = {
    authorization: key.header(),
    "content-type": "application/json",
    "user-agent": "hpctrain",
  };

  async function post(path: string, body: string, what: string, rest?: () => Promise<string | null>) {
    try {
      return await http.send({ method: "POST", url: url + path, headers, body, what, beforeAgain: rest });
    } catch (error) {
      throw error instanceof RequestRefused
        ? refusal(error, what, key.hide(error.message))
        : error instanceof UserError
        ? new UserError(error.kind, key.hide(error.message))
        : error;
    }
  }

  async function graphql(
    operationName: string,
    query: string,
    variables: unknown,
    what: string,
  ): Promise<any> {
    const question = JSON.stringify({ query, variables, operationName });
    const answer = parsed(await post("/graphql", question, what), what);
    const complaint = answer.errors?.[0]?.message;
    if (complaint !== undefined) {
      const kind = /permission|denied|unauthor|not found/i.test(complaint) ? "usage" : "communication";
      throw new UserError(
        kind,
        `${what} could not be sent: the server says "${key.hide(plain(complaint))}".`,
      );
    }
    return answer.data;
  }

  async function put(to: string, more: Record<string, string>, body: Uint8Array<ArrayBuffer>, what: string) {
    try {
      await http.send({ method: "PUT", url: to, headers: more, body, what, hopeless: NO_PLACE });
    } catch (error) {
      throw error instanceof RequestRefused ? refusal(error, what, key.hide(error.message)) : error;
    }
  }
  return { post, graphql, put };
}

function refusal({ status }: RequestRefused, what: string, reason: string): UserError {
  if (status === 401 || status === 403) {
    return new UserError(
      "usage",
      `${what} could not be sent: ${reason}. The key is not right for this server or this entity; ` +
        "set WANDB_API_KEY to a key of an account that may write there.",
    );
  }
  return new UserError("communication", `${what} could not be sent: ${reason}.`);
}

/** Some servers explain themselves with an object where a text should be. */
const plain = (answer: unknown): string =>
  // deno-lint-ignore no-control-regex
  (typeof answer === "string" ? answer : JSON.stringify(answer)).replaceAll(/[\x00-\x1f\x7f-\x9f]+/g, " ")
    .slice(
      0,
      200,
    );

const BUCKET =
  "id name displayName description config sweepName project{id name entity{id name}} historyLineCount";
const UPSERT =
  `mutation UpsertBucket($id:String,$name:String,$project:String,$entity:String,$groupName:String,` +
  `$description:String,$displayName:String,$notes:String,$commit:String,$config:JSONString,$host:String,$debug:Boolean,` +
  `$program:String,$repo:String,$jobType:String,$state:String,$sweep:String,$tags:[String!],$summaryMetrics:JSONString){` +
  `upsertBucket(input:{id:$id,name:$name,groupName:$groupName,modelName:$project,entityName:$entity,` +
  `description:$description,displayName:$displayName,notes:$notes,config:$config,commit:$commit,host:$host,debug:$debug,` +
  `jobProgram:$program,jobRepo:$repo,jobType:$jobType,state:$state,sweep:$sweep,tags:$tags,` +
  `summaryMetrics:$summaryMetrics}){bucket{${BUCKET}} inserted}}`;
const STATUS = `query RunResumeStatus($project:String,$entity:String,$name:String!){model(name:$project,` +
  `entityName:$entity){id name entity{id name} bucket(name:$name,missingOk:true){id name summaryMetrics displayName ` +
  `logLineCount historyLineCount eventsLineCount historyTail eventsTail config tags notes wandbConfig(keys:["t"])}}}`;
const CREATE_FILES =
  `mutation CreateRunFiles($entity:String!,$project:String!,$run:String!,$files:[String!]!){` +
  `createRunFiles(input:{entityName:$entity,projectName:$project,runName:$run,files:$files}){` +
  `runID uploadHeaders files{name uploadUrl}}}`;
const ALERT =
  `mutation NotifyScriptableRunAlert($entityName:String!,$projectName:String!,$runName:String!,$title:String!,` +
  `$text:String!,$severity:AlertSeverity,$waitDuration:Duration){notifyScriptableRunAlert(input:{entityName:$entityName,` +
  `projectName:$projectName,runName:$runName,title:$title,text:$text,severity:$severity,waitDuration:$waitDuration}){success}}`;
const RUN_FILES =
  `query RunFiles($project:String,$entity:String,$run:String!){model(name:$project,entityName:$entity){` +
  `bucket(name:$run){files(first:1000){edges{node{name sizeBytes}}}}}}`;

/** The query for a run needs each variable, null by default. */
const NOTHING = {
  id: null,
  name: null,
  project: null,
  entity: null,
  groupName: null,
  description: null,
  displayName: null,
  notes: null,
  commit: null,
  config: null,
  host: null,
  debug: null,
  program: null,
  repo: null,
  jobType: null,
  state: null,
  sweep: null,
  tags: null,
  summaryMetrics: null,
};

function serverStatusIn(data: any): ServerStatus | null {
  const bucket = data?.model?.bucket;
  if (!isObject(bucket)) return null;
  const has = parseJson(textIn(bucket, "wandbConfig") ?? "");
  return has instanceof Map && has.has("t") ? statusOf(bucket) : null;
}

function serverRunIn(data: any, what: string): ServerRun {
  const bucket = data?.upsertBucket?.bucket;
  const run = textIn(bucket, "name"), project = textIn(bucket?.project, "name");
  const entity = textIn(bucket?.project?.entity, "name");
  if (!run || !project || !entity) throw strange(what, "it names no run, project and entity");
  return { id: textIn(bucket, "id"), run, project, entity };
}

/** Addresses may be relative to `url`, the server's. */
function urlsIn(
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

function sizesIn(data: any): Map<string, number> {
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

function parsed(text: string, what: string): any {
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

function statusOf(bucket: Record<string, unknown>): ServerStatus {
  const tree = (field: string): Tree => {
    const value = parseJson(textIn(bucket, field) ?? "");
    return value instanceof Map ? value : new Map();
  };
  const config: Tree = new Map();
  for (const [key, wrapped] of tree("config")) {
    const value = wrapped instanceof Map ? wrapped.get("value") : undefined;
    if (value !== undefined) config.set(key, value);
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

/** A tail is JSON text: a list of JSON texts. */
function lastOf(tail: string | null): Tree | null {
  try {
    const lines: unknown = JSON.parse(tail ?? "[]");
    const last: unknown = Array.isArray(lines) ? lines.at(-1) : undefined;
    const row: JsonValue | null = typeof last === "string" ? parseJson(last) : null;
    return row instanceof Map ? row : null;
  } catch {
    return null;
  }
}

/** Lines of "Name:value" that can't be headers are left out. */
function headersOf(list: unknown): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const line of Array.isArray(list) ? list : []) {
    const [, name, value] = /^([\w-]{1,100}):\s*([\x20-\x7e]{0,4000})$/.exec(String(line)) ?? [];
    if (name !== undefined && !/^(host|content-length|transfer-encoding)$/i.test(name)) headers[name] = value;
  }
  return headers;
}
