// How ranks find each other: rank 0 listens and says where, the others look. May import its siblings, atomic, errors,
// nccl/ras, where.
import { join } from "../../../deps/path.ts";
import { remove } from "../../checkpoint/atomic.ts";
import { UserError } from "../../errors.ts";
import type { Env } from "../launchers.ts";
import { askRas } from "../nccl/ras.ts";
import type { Where } from "../where.ts";
import { guesses, jobKey, listen, ownAddresses } from "./address.ts";
import { MAKE_SECRET, newSecret, secretIn } from "./auth.ts";
import type { Outlook } from "./find.ts";
import type { Limits } from "./job.ts";
import type { Hello, Settings } from "./messages.ts";
import { publish, published, rendezvousFile } from "./rendezvous_file.ts";
import { openServer } from "./server.ts";

export interface Meeting {
  readonly where: Where;
  /** A folder that all nodes see. Null: there is none. */
  readonly folder: string | null;
  readonly runFolder: string;
  readonly hello: Hello;
  readonly settings: Settings;
  readonly limits: Limits;
}

export interface RankZero {
  look(): Outlook;
  readonly said: string;
  /** Where reports go. */
  keepIn(folder: string): void;
  close(): Promise<void>;
}

export function openRankZero(meeting: Meeting, env: Env = Deno.env.toObject()): RankZero {
  const { where, hello, settings, limits } = meeting;
  let { runFolder } = meeting;
  const path = fileOf(meeting, env);
  const given = secretIn(env);
  const fresh = given ? null : newSecret();
  const secret = given ?? new TextEncoder().encode(fresh!);
  const { pid, host } = hello;
  if (path) remove(path); // of a job that could not tidy up
  let listener: Deno.TcpListener;
  try {
    listener = listen(where, env, secret);
  } catch (error) {
    if (path && error instanceof UserError) {
      publish(path, { addresses: [], host, pid, secret: null, refused: error.message });
    }
    throw error;
  }
  const { port } = listener.addr as Deno.NetAddr;
  if (path) publish(path, { addresses: ownAddresses(where, port), host, pid, secret: fresh });
  const server = openServer({
    listener,
    secret,
    own: hello,
    settings,
    limits,
    nodeOf: (rank) => where.nodeNames[Math.floor(rank / where.localWorld)] ?? null,
    say: (line) => console.error(line),
    keep: (name, report) => keep(runFolder, name, report),
    // Ranks with a GPU talk by NCCL. Its addresses may be set after this thread began.
    askEngine: hello.device === null ? undefined : () => askRas(Deno.env.toObject()),
  });
  return {
    look: () => ({ secret, addresses: [{ hostname: "127.0.0.1", port }], lacking: "" }),
    said: `Rank 0 on ${host} listens at port ${port}.`,
    keepIn: (folder) => void (runFolder = folder),
    async close() {
      await server.close();
      if (path && published(path)?.pid === pid) remove(path);
    },
  };
}

/** For the other ranks. */
export function lookFor(meeting: Meeting, env: Env = Deno.env.toObject()): () => Outlook {
  const { where } = meeting;
  const path = fileOf(meeting, env);
  const given = secretIn(env);
  return () => {
    const found = path ? published(path) : null;
    if (found?.refused) throw new UserError("communication", found.refused);
    const secret = given ?? (found?.secret ? new TextEncoder().encode(found.secret) : null);
    if (!secret) return { secret, addresses: [], lacking: `${path}, which rank 0 writes, is not there` };
    const all = [...found?.addresses ?? [], ...guesses(where, env, secret)];
    const addresses = [...new Map(all.map((address) => [JSON.stringify(address), address])).values()];
    return { secret, addresses, lacking: found || !path ? "" : `${path}, which rank 0 writes, is not there` };
  };
}

/** Where there is neither a folder nor a secret, ranks of one host have this user's own temporary folder. */
function fileOf({ where, folder }: Meeting, env: Env): string | null {
  if (folder !== null) return rendezvousFile(folder, jobKey(where, env));
  if (where.nodes === 1) {
    return rendezvousFile(env.XDG_RUNTIME_DIR || env.TMPDIR || "/tmp", jobKey(where, env));
  }
  if (env.HPCTRAIN_SECRET) return null;
  throw new UserError(
    "communication",
    `${where.world} ranks on ${where.nodes} nodes need a secret of their own, or a folder that all of them see. In the ` +
      `job script, before the ranks start: ${MAKE_SECRET}.`,
  );
}

function keep(folder: string, name: string, report: unknown): string {
  const path = join(folder, name);
  Deno.mkdirSync(folder, { recursive: true });
  Deno.writeTextFileSync(path, JSON.stringify(report, null, 2));
  return path;
}
