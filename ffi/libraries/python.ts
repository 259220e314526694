// This machine's python3, started for ourselves: it is asked for its torch, and downloads and unpacks wheels. A user's own Python
// (--data-python) is not started here.
import { isAbsolute, resolve } from "../../deps/path.ts";
import { exists } from "./elf.ts";

type Env = Readonly<Record<string, string>>;

/** They name what pip reads, and may do so from the working folder. */
const FILES = [
  ...["PIP_CONFIG_FILE", "PIP_FIND_LINKS", "PIP_CERT", "PIP_CLIENT_CERT"],
  ...["SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"],
];

/**
 * A command that is to be run before it is disposed of. `python3 -c` and `-m` look for modules where they are started, before
 * they look anywhere else, and a user's folder may well have a json.py or a pip.py. So Python starts in an empty folder; -P and
 * -I would not do, because Python has the one since 3.11, and the other loses PYTHONPATH, by which sites' modules give torch.
 */
export function ownPython(
  args: readonly string[],
  env: Env,
  through: readonly string[] = [],
): { readonly command: Deno.Command } & Disposable {
  const cwd = Deno.makeTempDirSync({ prefix: "hpctrain-python-" });
  const [program, ...words] = [...through, "python3", ...args];
  const command = new Deno.Command(program, {
    ...{ args: words, cwd, clearEnv: true, env: withoutWorkingFolder(env) },
    ...{ stdin: "null", stdout: "piped", stderr: "piped" },
  });
  return {
    command,
    [Symbol.dispose]() {
      try {
        Deno.removeSync(cwd, { recursive: true });
      } catch { /* it is empty */ }
    },
  };
}

function withoutWorkingFolder(env: Env): Record<string, string> {
  const { PYTHONPATH = "", ...rest } = env;
  const kept = PYTHONPATH.split(":").filter((place) => isAbsolute(place) && !isWorkingFolder(place)).join(
    ":",
  );
  const named = FILES.filter((name) => rest[name] && !isAbsolute(rest[name]) && exists(rest[name]));
  return {
    ...rest,
    ...Object.fromEntries(named.map((name) => [name, resolve(rest[name])])),
    ...(kept === "" ? {} : { PYTHONPATH: kept }),
  };
}

function isWorkingFolder(place: string): boolean {
  try {
    const [placeInfo, workingFolder] = [Deno.statSync(place), Deno.statSync(".")];
    return placeInfo.dev === workingFolder.dev && placeInfo.ino === workingFolder.ino;
  } catch {
    return false;
  }
}
