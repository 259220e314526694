// Finds the W&B server and its key. Only one header has the key.
import { readText } from "../../../base/files.ts";
import { join } from "../../../../deps/path.ts";
import { UserError } from "../../../base/errors.ts";
import { withoutSecrets } from "../../../base/secrets.ts";

export interface WandbServer {
  readonly url: string;
  readonly urlFrom: string;
  /** A private field keeps the key out of JSON and of inspection. */
  readonly key: WandbKey;
}

export class WandbKey {
  readonly #text: string;
  readonly from: string;
  constructor(text: string, from: string) {
    this.#text = text;
    this.from = from;
  }
  header(): string {
    return `Basic ${btoa(`api:${this.#text}`)}`;
  }
  /** A server or the system may have repeated the key in the text. */
  hide(text: string): string {
    return text.replaceAll(this.#text, "***").replaceAll(btoa(`api:${this.#text}`), "***");
  }
  toJSON(): string {
    return "***";
  }
  toString(): string {
    return "***";
  }
}

export type Environment = Readonly<Record<string, string | undefined>>;

const CLOUD = "https://api.wandb.ai";

/**
 * Hosts of a line are one server: the newest `wandb login` writes the first name into netrc, older ones the
 * last.
 */
const SAME: readonly (readonly string[])[] = [
  ["api.forge.coreweave.com", "forge.coreweave.com", "api.wandb.ai"],
  ["api.qa.forge.coreweave.com", "qa.forge.coreweave.com", "api.qa.wandb.ai"],
];

/** W&B's own program writes host and port into netrc; others write the host, or an alias. */
const namesOf = ({ host, hostname }: URL): string[] => [
  ...new Set([host, hostname, ...SAME.find((names) => names.includes(hostname)) ?? []]),
];

export function findWandbServer(
  env: Environment,
  given: { baseUrl?: string; keyFile?: string } = {},
): WandbServer {
  const [text, urlFrom] = addressOf(env, given.baseUrl);
  const url = checkedUrl(text, urlFrom);
  return { url: url.href.replace(/\/+$/, ""), urlFrom, key: findKey(env, url, given.keyFile) };
}

function addressOf(env: Environment, given: string | undefined): [string, string] {
  if (given !== undefined) return [given, "--base-url"];
  if (env.WANDB_BASE_URL) return [env.WANDB_BASE_URL, "WANDB_BASE_URL"];
  const settings = join(env.WANDB_CONFIG_DIR ?? join(configHome(env), "wandb"), "settings");
  const found = /^\s*base_url\s*=\s*(\S+)\s*$/m.exec(readText(settings) ?? "");
  return found ? [found[1], settings] : [CLOUD, "the default"];
}

function checkedUrl(text: string, from: string): URL {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || !["http:", "https:"].includes(url.protocol)) {
    throw new UserError(
      "usage",
      `${from} names no W&B server: ${
        JSON.stringify(withoutSecrets(text).slice(0, 200))
      }. Give an address such as ${CLOUD}.`,
    );
  }
  if (url.username !== "" || url.password !== "") {
    throw new UserError(
      "usage",
      `${from} has a user or password in the address, where others can read it; ` +
        "leave them out and put the key into WANDB_API_KEY, ~/.netrc or a key file.",
    );
  }
  url.search = url.hash = "";
  return url;
}

function findKey(env: Environment, url: URL, keyFile: string | undefined): WandbKey {
  if (keyFile !== undefined) return keyIn(keyFile, "--key-file", true)!;
  if (env.WANDB_API_KEY) return checkedKey(env.WANDB_API_KEY, "WANDB_API_KEY");
  const own = join(configHome(env), "hpctrain", "wandb-key");
  const netrc = netrcOf(env);
  const inNetrc = passwordIn(readText(netrc) ?? "", namesOf(url));
  if (inNetrc !== null) return checkedKey(inNetrc, netrc);
  const inFile = keyIn(own, own, false);
  if (inFile) return inFile;
  throw new UserError(
    "usage",
    `There is no key for ${url.host}. Set WANDB_API_KEY, or add "machine ${url.hostname} login user password KEY" to ` +
      `${netrc}, or write the key into ${own} and run: chmod 600 ${own}. ` +
      `Your key stands at ${url.href === `${CLOUD}/` ? "https://wandb.ai" : url.origin}/authorize.`,
  );
}

export function caCertsOf(env: Environment, given: string | undefined): string[] {
  const certs = (path: string) =>
    readText(path)?.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
  const named = given === undefined ? [] : certs(given);
  if (given !== undefined && named.length === 0) {
    throw new UserError(
      "usage",
      `--ca-file names ${given}, which ${
        readText(given) === null ? "can't be read" : "has no certificate in it"
      }; ` +
        "name a file of certificates in PEM form.",
    );
  }
  const others = [env.SSL_CERT_FILE, env.REQUESTS_CA_BUNDLE].filter((path) => path !== undefined);
  return [...new Set([...named, ...[...new Set(others)].flatMap(certs)])];
}

const configHome = (env: Environment): string => env.XDG_CONFIG_HOME || join(env.HOME ?? "/", ".config");

function netrcOf(env: Environment): string {
  if (env.NETRC) return env.NETRC;
  const [dotted, other] = [".netrc", "_netrc"].map((name) => join(env.HOME ?? "/", name));
  return readText(dotted) === null && readText(other) !== null ? other : dotted;
}

/** Returns null where there is no file and the user named none. */
function keyIn(path: string, from: string, given: boolean): WandbKey | null {
  const text = readText(path);
  if (text === null) {
    if (!given) return null;
    throw new UserError("usage", `The key file ${path} can't be read; name another with --key-file FILE.`);
  }
  const mode = Deno.statSync(path).mode ?? 0;
  if ((mode & 0o077) !== 0) {
    throw new UserError(
      "usage",
      `Others on this machine can read the key file ${path}; it is not used so. Run: chmod 600 ${path}`,
    );
  }
  return checkedKey(text.trim(), from);
}

function checkedKey(text: string, from: string): WandbKey {
  const key = text.trim();
  if (/^[\x21-\x7e]{1,1000}$/.test(key)) return new WandbKey(key, from);
  throw new UserError(
    "usage",
    `${from} holds no key: a key is one word of letters, digits, dashes and underscores, some 40 or 86 of them.`,
  );
}

/** The first of these names counts, or the default entry. */
export function passwordIn(netrc: string, names: readonly string[]): string | null {
  const words = netrc.replaceAll(/^\s*#.*$/gm, "").match(/"(?:[^"\\]|\\.)*"|\S+/g) ?? [];
  const found = new Map<string | null, string>(); // the default's name is null
  let machine: string | null | undefined;
  for (let i = 0; i < words.length; i++) {
    if (words[i] === "machine") machine = words[++i];
    else if (words[i] === "default") machine = null;
    else if (words[i] === "login" || words[i] === "account") i++;
    else if (words[i] === "password") {
      const password = words[++i];
      if (machine === undefined || password === undefined || found.has(machine)) continue;
      found.set(machine, password.replace(/^"(.*)"$/, "$1"));
    }
  }
  const name = names.find((name) => found.has(name)) ?? null;
  return found.get(name) ?? null;
}
