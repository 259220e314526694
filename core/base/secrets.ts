// Keeps secrets out of what is printed and written: which names are a secret's, and texts, command lines and settings without
// the values of those. What a run is told by people is shared with people; only the script of a job, which others can't read,
// has such a value.

export const HIDDEN = "***";

/** Parts of names: WANDB_API_KEY, private_token, X-Amz-Signature, PGPASSWORD. */
const SECRET =
  /^(.*(token|key|pwd|jwt|signature)|auth|authorization|sig|sas)$|passw|passphrase|secret|credential/;
/** A name that ends so tells where a secret is, or is of another kind: --key-file, --token-type. */
const ABOUT = /^(file|path|dir|folder|type|kind|size|sock)$/;

/** "api_key" and "--apiKey", and not "tokens" or "tokenizer". */
export function isSecretName(name: string): boolean {
  const parts = name.split(/[^A-Za-z0-9]+|(?<=[a-z0-9])(?=[A-Z])/).filter((part) => part !== "")
    .map((part) => part.toLowerCase());
  return parts.some((part) => SECRET.test(part)) && !ABOUT.test(parts.at(-1) ?? "");
}

/** A text for people, without passwords of addresses and values of secrets' names. */
export function withoutSecrets(text: string): string {
  return text
    .replace(/([a-z][\w+.-]*:\/\/)([^\s"'<>]+)/gi, (_, scheme, rest) => scheme + withoutUser(rest))
    .replace(
      /([A-Za-z_][\w.-]*)=(?!\$[({\w])([^\s"'&;]+|"[^"]*"|'[^']*')/g,
      (pair, name, _, at, text) => isOfPath(text.slice(0, at), name) ? pair : hidden(name, pair, `${name}=`),
    )
    .replace(/(--?[A-Za-z][\w-]*)(\s+)[^\s"'-][^\s"']*/g, (pair, name, gap) => hidden(name, pair, name + gap))
    .replace(
      /\b([A-Za-z]+(?:-[A-Za-z]+)+|Authorization)(:\s*)(?:(?:Bearer|Basic|Token)\s+)?[^\s"']+/gi,
      (pair, name, colon) => hidden(name, pair, name + colon),
    );
}

const hidden = (name: string, pair: string, before: string): string =>
  isSecretName(name) ? before + HIDDEN : pair;

/**
 * A folder's name may have a number in it, as "runs/sig=0.8": a run that goes on needs the path as it is. In an address
 * whatever has a secret's name is one.
 */
function isOfPath(before: string, name: string): boolean {
  const word = /[^\s"']*$/.exec(before)![0];
  if (word.includes("://")) return false;
  return word.endsWith("/") || name === "sig";
}

/** A password in what follows "://" may hold any character, so the last @ that can be its end is taken for it. */
function withoutUser(rest: string): string {
  const end = rest.search(/[/?#]/), at = (end < 0 ? rest : rest.slice(0, end)).lastIndexOf("@");
  if (at >= 0) return `${HIDDEN}${rest.slice(at)}`;
  const begins = /^[^/?#]*:(?!\d*([/?#]|$))/.test(rest), last = rest.lastIndexOf("@"); // no port follows: a password does
  return begins && last >= 0 ? `${HIDDEN}${rest.slice(last)}` : rest;
}

/** These give a job a variable. */
const OF_JOB = /^(--env=|(--set=)?cluster\.env=)/;

/** The words of a command line. Each variable that a job is given is hidden, whatever its name. */
export const commandWithoutSecrets = (words: readonly string[]): string[] =>
  words.map((word, i) => {
    const before = words[i - 1] ?? "";
    const [start] = before === "--env" ? [""] : OF_JOB.exec(word) ?? [];
    if (start !== undefined) return start + withoutValue(word.slice(start.length));
    return isSecretFlag(before) && !word.startsWith("--") ? HIDDEN : withoutSecretIn(word);
  });

const isSecretFlag = (word: string): boolean => /^--?[A-Za-z][\w.-]*$/.test(word) && isSecretName(word);

/** It makes "NAME=***" of "NAME=VALUE". */
export const withoutValue = (pair: string): string =>
  pair.includes("=") ? `${pair.slice(0, pair.indexOf("="))}=${HIDDEN}` : pair;

/** In one word what follows a secret's name is its value to the end, with blanks and quotes: "--set=x.api_key=a b". */
function withoutSecretIn(word: string): string {
  for (let at = word.indexOf("="); at >= 0; at = word.indexOf("=", at + 1)) {
    const name = /[A-Za-z_][\w.-]*$/.exec(word.slice(0, at))?.[0] ?? "";
    if (isSecretName(name) && !isOfPath(word.slice(0, at - name.length), name)) {
      return withoutSecrets(word.slice(0, at)) + `=${HIDDEN}`;
    }
  }
  return withoutSecrets(word);
}

/** The values of a tree of plain data, as settings are. */
export function valuesWithoutSecrets<T>(tree: T): T {
  if (typeof tree === "string") return withoutSecretIn(tree) as T;
  if (Array.isArray(tree)) return tree.map(valuesWithoutSecrets) as T;
  if (tree === null || typeof tree !== "object") return tree;
  return Object.fromEntries(
    Object.entries(tree).map(([name, value]) => [name, valuesWithoutSecrets(value)]),
  ) as T;
}
