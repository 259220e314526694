// The requests of W&B's protocol that uploading needs. May import http, credentials, queries, answers, json_text (types),
// core/errors.
import { UserError } from "../../../errors.ts";
import { parsed, placeIn, sizesIn, statusIn, urlsIn } from "./answers.ts";
import type { Server } from "./credentials.ts";
import { type Http, Refused } from "./http.ts";
import type { Tree } from "./json_text.ts";
import { ALERT, CREATE_FILES, FILES, NOTHING, STATUS, UPSERT } from "./queries.ts";

/** Where a run is at the server, by the server's own names. */
export interface Place {
  readonly entity: string;
  readonly project: string;
  readonly run: string;
  /** The server's own id of it. */
  readonly id: string | null;
}

/** What the server has of a run. */
export interface Status {
  readonly id: string | null;
  readonly history: number;
  readonly events: number;
  readonly output: number;
  /** The newest row and the newest system metrics. */
  readonly lastRow: Tree | null;
  readonly lastEvents: Tree | null;
  readonly config: Tree;
  readonly summary: Tree;
  readonly tags: readonly string[];
  readonly notes: string | null;
}

export interface Upsert {
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

export type LinesFile = "wandb-history.jsonl" | "wandb-events.jsonl" | "wandb-summary.json" | "output.log";

/** The body of a file_stream, and what of it is left after a failure that may have been none. */
export interface StreamBody {
  files?: Partial<Record<LinesFile, { offset: number; content: readonly string[] }>>;
  uploaded?: readonly string[];
  preempting?: boolean;
  complete?: boolean;
  exitcode?: number;
}

export interface Api {
  /** Null where the server has no such run, or one that nothing was sent to. */
  status(run: { entity: string | null; project: string | null; name: string }): Promise<Status | null>;
  upsert(run: Upsert): Promise<Place>;
  /** `rest` is asked before the body is sent again: the server may have it, or some of it. */
  stream(place: Place, body: StreamBody, rest: () => Promise<StreamBody | null>): Promise<void>;
  /** Where each file is to be put. */
  uploadUrls(
    place: Place,
    paths: readonly string[],
  ): Promise<{ urls: Map<string, string>; headers: Record<string, string> }>;
  put(
    url: string,
    headers: Record<string, string>,
    bytes: Uint8Array<ArrayBuffer>,
    path: string,
  ): Promise<void>;
  alert(place: Place, alert: { title: string; text: string; level: string }): Promise<void>;
  /** Sizes of the run's files, by path. */
  files(run: { entity: string | null; project: string | null; name: string }): Promise<Map<string, number>>;
}

/** Nanoseconds, as the server counts waiting between two alerts of one title. */
const ALERT_WAIT = 60_000_000_000;
/** What a place for files says for good, beside what says so anywhere. */
const NO_PLACE = [400, 401, 403, 404, 405, 410, 413, 422, 501];

export function openApi(server: Server, http: Http): Api {
  const { post, graphql, put } = openRequests(server, http);
  return {
    async status({ entity, project, name }) {
      const what = "The question how far the run is";
      return statusIn(await graphql("RunResumeStatus", STATUS, { entity, project, name }, what));
    },

    async upsert(run) {
      const what = "The run";
      return placeIn(await graphql("UpsertBucket", UPSERT, { ...NOTHING, ...run }, what), what);
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
      return sizesIn(await graphql("RunFiles", FILES, variables, "The question which files it has"));
    },
  };
}

/** What goes to the server with the key, and files to where it says without; what fails says what was not sent, and no key. */
function openRequests({ url, key }: Server, http: Http) {
  const headers = {
    authorization: key.header(),
    "content-type": "application/json",
    "user-agent": "hpctrain",
  };

  async function post(path: string, body: string, what: string, rest?: () => Promise<string | null>) {
    try {
      return await http.send({ method: "POST", url: url + path, headers, body, what, beforeAgain: rest });
    } catch (error) {
      throw error instanceof Refused
        ? refusal(error, what, key.hide(error.message))
        : error instanceof UserError
        ? new UserError(error.kind, key.hide(error.message))
        : error;
    }
  }

  /** The field of an answer's `data`. */
  async function graphql(
    operationName: string,
    query: string,
    variables: unknown,
    what: string,
  ): Promise<any> {
    const question = JSON.stringify({ query, variables, operationName });
    const answer = parsed(await post("/graphql", question, what), what);
    const said = answer.errors?.[0]?.message;
    if (said !== undefined) {
      const kind = /permission|denied|unauthor|not found/i.test(said) ? "usage" : "communication";
      throw new UserError(kind, `${what} could not be sent: the server says "${key.hide(plain(said))}".`);
    }
    return answer.data;
  }

  async function put(to: string, more: Record<string, string>, body: Uint8Array<ArrayBuffer>, what: string) {
    try {
      await http.send({ method: "PUT", url: to, headers: more, body, what, hopeless: NO_PLACE });
    } catch (error) {
      throw error instanceof Refused ? refusal(error, what, key.hide(error.message)) : error;
    }
  }
  return { post, graphql, put };
}

function refusal({ status }: Refused, what: string, said: string): UserError {
  if (status === 401 || status === 403) {
    return new UserError(
      "usage",
      `${what} could not be sent: ${said}. The key is not right for this server or this entity; ` +
        "set WANDB_API_KEY to a key of an account that may write there.",
    );
  }
  return new UserError("communication", `${what} could not be sent: ${said}.`);
}

// deno-lint-ignore no-control-regex
const plain = (text: unknown): string => String(text).replaceAll(/[\x00-\x1f\x7f-\x9f]+/g, " ").slice(0, 200);
