// `--sandbox`: a command for a stranger's files starts itself again, confined by the kernel, before it reads one.
import { dirname, join, resolve } from "../../deps/path.ts";
import {
  filterBytes,
  landlockVersion,
  loaderOf,
  refuseCalls,
  startAgainConfined,
} from "../../ffi/sandbox.ts";
import { findLibtorch } from "../../ffi/libraries/find.ts";
import { messageOf, systemRefusal, UserError } from "../../core/base/errors.ts";
import { isFolder, isPython } from "../../core/base/files.ts";
import { isUrl } from "../../core/data/arrays/paths.ts";
import { placeFlags, rankContext } from "../../core/ranks/context.ts";
import { LAUNCH_VARIABLE } from "../../core/ranks/launchers.ts";
import { parseOptions, splitOwnOptions } from "../../core/settings/options.ts";
import { resolveSettings } from "../../core/settings/resolve.ts";
import type { Config } from "../../core/settings/settings.ts";
import type { Command } from "../mod.ts";

/** The second start finds here its process's number, which the first one knew, and where it may write. */
const MARK = "HPCTRAIN_SANDBOX";

type Env = Readonly<Record<string, string>>;

/** Null where this process is free; the last one is for temporary files. */
let writable: readonly string[] | null = null;

/** Comes back in a process that is confined, or where --sandbox was not given after all. */
export function enterSandbox(command: Command, words: readonly string[]): void {
  const env = Deno.env.toObject();
  const [pid, ...folders] = (env[MARK] ?? "").split("\n");
  Deno.env.delete(MARK);
  if (pid === String(Deno.pid)) {
    writable = folders;
    refuseRest();
    return;
  }
  const request = sandboxRequest(command, words, env);
  if (request === null) return;
  if (landlockVersion() === 0) {
    console.error(
      "hpctrain: --sandbox: this kernel has no Landlock (Linux has it from 5.13 on, where it is turned on), so " +
        "nothing keeps a file's code from writing wherever you may write; programs and the network are refused.",
    );
    refuseRest();
    return;
  }
  const temporary = temporaryFolder();
  const own = [...new Set(request.folders.map(madeFolder)), temporary];
  const places = {
    folders: [...own, ...existing(["/dev/shm"]), dirname(temporary)],
    files: existing([...devices(), ...(env.HPCTRAIN_ENDED ? [env.HPCTRAIN_ENDED] : [])]),
    programs: [Deno.execPath(), ...loaderOf(Deno.readTextFileSync("/proc/self/maps"))],
  };
  const argv = Deno.readTextFileSync("/proc/self/cmdline").split("\0").slice(0, -1);
  startAgainConfined(places, argv, {
    ...env,
    ...request.env,
    TMPDIR: temporary,
    [MARK]: [Deno.pid, ...own].join("\n"),
  });
}

/** Says it where the sandbox may be why a file can't be written; else it is empty. */
export function aboutSandbox(error: unknown): string {
  const refused = [error, (error as Error | undefined)?.cause].some((one) =>
    systemRefusal(one)?.code === "EACCES"
  );
  if (writable === null || !refused) return "";
  return `--sandbox: nothing is written but below ${
    writable.join(", ")
  }; no program is started, no network used.`;
}

export function leaveSandbox(): void {
  const temporary = writable?.at(-1);
  if (temporary !== undefined) Deno.removeSync(temporary, { recursive: true });
}

function refuseRest(): void {
  try {
    refuseCalls(filterBytes(Deno.build.arch, Deno.pid));
  } catch (error) {
    throw new UserError(
      "environment",
      `--sandbox can't be kept here: this system lets no process refuse calls (${messageOf(error)}). ` +
        "Without it: only files that you would run.",
      { cause: error },
    );
  }
}

interface SandboxRequest {
  readonly folders: readonly string[];
  readonly env: Env;
}

/** Null where the command is not to be confined. Nothing is read but the command line, variables and settings files. */
function sandboxRequest(
  { writes, options: spec = {}, settings, usage }: Command,
  words: readonly string[],
  env: Env,
): SandboxRequest | null {
  if (!settings) {
    const { options, positionals } = parseOptions(words, spec, usage);
    return options.sandbox ? { folders: foldersOf(writes!, options, positionals), env: {} } : null;
  }
  const { own, rest } = splitOwnOptions(words, spec);
  const { options } = parseOptions(own, spec, usage);
  if (!options.sandbox) return null;
  const takes = settings === true ? undefined : settings;
  const resolved = resolveSettings({
    argv: rest,
    env,
    usage,
    takes,
    positionals: takes ? Infinity : undefined,
  });
  const { config, positionals } = resolved;
  refuseOthers(config, env, writes === "run");
  const { chosen } = findLibtorch({ explicit: config.environment.libtorch || undefined, env });
  return {
    folders: writes === "run" ? runFolders(config) : foldersOf(writes!, options, positionals),
    // No Python can be asked for its torch any more.
    env: chosen && !config.environment.libtorch ? { HPCTRAIN_LIBTORCH: chosen.dir } : {},
  };
}

type Options = Readonly<Record<string, unknown>>;

/** A file has another name in its folder until it is whole, so all of the folder is written to. */
function foldersOf(
  writes: NonNullable<Command["writes"]>,
  options: Options,
  words: readonly string[],
): string[] {
  const out = writes === "last" ? words.length > 1 ? words.at(-1) : undefined : options[writes];
  if (typeof out !== "string") return [];
  const folder = isFolder(out) || options.shards !== undefined || !/\.\w+$/.test(out);
  return [folder ? out : dirname(out)];
}

function runFolders({ output, wandb }: Config): string[] {
  const { save_dir, model_dir, prometheus_dir } = output;
  const given = [prometheus_dir, wandb.dir].filter((folder) => folder !== "");
  return [model_dir || join(save_dir, "checkpoints"), join(save_dir, "logs"), ...given];
}

/** The sandbox refuses what these settings ask for: they are refused by name, before they fail. */
function refuseOthers({ distributed, data, output, wandb }: Config, env: Env, trains: boolean): void {
  const refuse = (what: string, instead: string) => {
    throw new UserError("usage", `--sandbox goes without ${what}. ${instead}`);
  };
  const { world } = rankContext(env, placeFlags(distributed));
  if (world > 1 || distributed.nodes > 1 || env[LAUNCH_VARIABLE]) {
    refuse("other ranks, which are reached by the network", "Start one process, or leave out --sandbox.");
  }
  if (isPython(data.code)) refuse("a data set in Python (--data), which is a program", "Pack it first.");
  const url = [data.data_path, data.validation_path, data.test_path].find(isUrl);
  if (url !== undefined) refuse(`the network, and ${url} is read by it`, "Copy the data here first.");
  if (data.stage !== "") refuse("a copy of the data elsewhere (--stage)", "Leave out --stage.");
  if (!trains) return;
  if (wandb.enabled && !wandb.disabled && wandb.mode === "online") {
    refuse("the network, and --wandb-online uploads", "Upload afterwards: hpctrain sync-wandb.");
  }
  if (output.on_event !== "") {
    refuse("other programs, and --on-event starts one", "Leave out --on-event; events.jsonl has the same.");
  }
}

/** Whatever lies below can be changed, so it must not be all that a user has. */
function madeFolder(folder: string): string {
  try {
    Deno.mkdirSync(folder, { recursive: true });
    const real = Deno.realPathSync(folder), home = Deno.env.get("HOME") || "/";
    if (!`${isFolder(home) ? Deno.realPathSync(home) : home}/`.startsWith(real === "/" ? "/" : `${real}/`)) {
      return real;
    }
  } catch (error) {
    throw new UserError("usage", `${folder}: the folder can't be made: ${messageOf(error)}.`, {
      cause: error,
    });
  }
  throw new UserError(
    "usage",
    `--sandbox lets the command write anywhere below ${
      resolve(folder)
    }, which holds your home: name a folder of its own.`,
  );
}

/** It lies in one that stays, as only from within that one can be removed what is in it. */
function temporaryFolder(): string {
  const around = join(Deno.env.get("TMPDIR") || "/tmp", `hpctrain-sandbox-${Deno.uid()}`);
  try {
    Deno.mkdirSync(around, { recursive: true, mode: 0o700 });
    const { isDirectory, uid } = Deno.lstatSync(around);
    if (isDirectory && uid === Deno.uid()) return Deno.makeTempDirSync({ dir: Deno.realPathSync(around) });
  } catch (error) {
    throw new UserError("environment", `${around}: can't be used for temporary files: ${messageOf(error)}.`);
  }
  throw new UserError("environment", `${around} is not a folder of yours: set TMPDIR to another place.`);
}

/** Adapters of a network are not among them. */
const DEVICES = /^(null|zero|full|tty|nvidia.*|dri|kfd)$/;

const devices = (): string[] =>
  [...Deno.readDirSync("/dev")].filter(({ name }) => DEVICES.test(name)).map(({ name }) => `/dev/${name}`);

const existing = (paths: readonly string[]): string[] =>
  paths.filter((path) => {
    try {
      return Deno.statSync(path) !== undefined;
    } catch {
      return false;
    }
  });
