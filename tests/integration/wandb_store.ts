// What a W&B server keeps of runs, as far as uploads tell.

export interface StoredRun {
  readonly id: string;
  readonly entity: string;
  readonly project: string;
  readonly name: string;
  displayName: string | null;
  notes: string | null;
  group: string | null;
  jobType: string | null;
  host: string | null;
  commit: string | null;
  repo: string | null;
  program: string | null;
  tags: string[];
  /** The JSON text as it came last. */
  config: string | null;
  /** The lines of wandb-history.jsonl, wandb-events.jsonl, wandb-summary.json and output.log. */
  readonly lines: Record<LineFile, string[]>;
  /** Uploaded files by path, and what the client said it has uploaded. */
  readonly files: Map<string, Uint8Array>;
  readonly uploaded: Set<string>;
  preempting: boolean;
  complete: boolean;
  exitCode: number | null;
  /** Writes at a line that was there already with another text, and writes that leave a hole. */
  overwritten: number;
  holes: number;
  readonly alerts: Record<string, unknown>[];
}

export type LineFile = "history" | "events" | "summary" | "output";

const FILE_NAMES: Readonly<Record<string, LineFile>> = {
  "wandb-history.jsonl": "history",
  "wandb-events.jsonl": "events",
  "wandb-summary.json": "summary",
  "output.log": "output",
};

/** What a second write at the same line does: nobody outside knows which of them the real server does. */
export type Placing = "by offset" | "at the end";

type Variables = Record<string, any>;

export function openStore(placing: Placing = "by offset") {
  const runs = new Map<string, StoredRun>();
  const find = (entity: unknown, project: unknown, name: unknown) =>
    runs.get(`${entity || "me"}/${project || "uncategorized"}/${name}`);

  function upsert(variables: Variables): { run: StoredRun; inserted: boolean } {
    const entity = variables.entity || "me", project = variables.project || "uncategorized";
    const old = find(entity, project, variables.name) ??
      [...runs.values()].find(({ id }) => id === variables.id);
    const run = old ?? emptyRun(entity, project, variables.name);
    run.displayName = variables.displayName ?? run.displayName ?? `run-${variables.name}`;
    run.notes = variables.notes ?? run.notes;
    run.group = variables.groupName ?? run.group;
    run.jobType = variables.jobType ?? run.jobType;
    run.host = variables.host ?? run.host;
    run.commit = variables.commit ?? run.commit;
    run.repo = variables.repo ?? run.repo;
    run.program = variables.program ?? run.program;
    run.config = variables.config ?? run.config;
    if (Array.isArray(variables.tags)) run.tags = variables.tags;
    runs.set(`${entity}/${project}/${run.name}`, run);
    return { run, inserted: !old };
  }

  function stream(run: StoredRun, body: Variables): void {
    for (const [file, { offset, content }] of Object.entries<any>(body.files ?? {})) {
      const lines = run.lines[FILE_NAMES[file]];
      if (placing === "by offset" || FILE_NAMES[file] === "summary") {
        if (offset > lines.length) run.holes++;
        content.forEach((line: string, i: number) => {
          const before = lines[offset + i];
          if (FILE_NAMES[file] === "history" && before !== undefined && before !== line) run.overwritten++;
          lines[offset + i] = line;
        });
      } else lines.push(...content);
    }
    for (const name of body.uploaded ?? []) run.uploaded.add(name);
    run.preempting ||= body.preempting === true;
    // Any sign of life makes a run that had ended go on.
    run.complete = body.complete === true;
    if (typeof body.exitcode === "number") run.exitCode = body.exitcode;
  }

  return { runs, find, upsert, stream };
}

export type Store = ReturnType<typeof openStore>;

function emptyRun(entity: string, project: string, name: string): StoredRun {
  return {
    id: btoa(`Run:v1:${name}:${project}:${entity}`),
    entity,
    project,
    name,
    displayName: null,
    notes: null,
    group: null,
    jobType: null,
    host: null,
    commit: null,
    repo: null,
    program: null,
    tags: [],
    config: null,
    lines: { history: [], events: [], summary: [], output: [] },
    files: new Map(),
    uploaded: new Set(),
    preempting: false,
    complete: false,
    exitCode: null,
    overwritten: 0,
    holes: 0,
    alerts: [],
  };
}
