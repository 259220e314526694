// Writes a corpus as a folder of tokens: train.bin, val.bin, the tokenizer, and tokens.json, which says what they are.
import { basename, join } from "../../../deps/path.ts";
import { UserError } from "../../base/errors.ts";
import { makeFolder, type Put, reading, tidy, writeNew, writeText } from "../../base/new_file.ts";
import { type CorpusOptions, type TextPiece, textPieces } from "./corpus.ts";
import { divide, type Division, Survey } from "./split.ts";
import type { Tokenizer } from "./tokenizer.ts";
import { PARTS, type Parts } from "../../parts.ts";
import { CHARACTERS, Characters } from "./characters.ts";
import { ABOUT, type About, openTokenizer, type PartAbout } from "./open.ts";

export interface TextPlan extends Omit<CorpusOptions, "cuts"> {
  readonly files: readonly string[];
  readonly out: string;
  /** "bytes", "characters" (all that the texts have) or a file; a number learns a vocabulary of that size from the documents to train with. */
  readonly tokenizer: string | number;
  readonly pattern?: string;
  /** Names of special tokens in the text are those tokens. */
  readonly special: boolean;
  readonly share: number;
  readonly seed: number;
  progress(doing: string, characters: number, total: number): void;
}

export interface Packed extends About {
  readonly by: Division["by"];
}

export async function packText(plan: TextPlan): Promise<Packed> {
  const { out, tokenizer: named } = plan;
  const characters = named === "characters" ? new Characters() : null;
  const given = typeof named === "string" && !characters ? openTokenizer(named, plan.pattern) : null;
  const cuts = given?.cuts ?? true;
  refuseFull(out);
  const survey = new Survey();
  for await (const piece of all(plan, cuts)) {
    survey.add(piece);
    characters?.add(piece.text);
  }
  const total = survey.lengths.reduce((sum, length) => sum + length, 0);
  if (total === 0) {
    throw new UserError("data", `${listed(plan.files)}: there is no text in it, so nothing to pack.`);
  }
  const division = divide(survey, plan.share, plan.seed);
  makeFolder(out);
  tidy(out);
  const tokenizer = given ?? characters?.tokenizer() ?? await learned(plan, survey, division, total);
  const file = await keepTokenizer(plan, tokenizer);
  const parts = await encodeAll(plan, { survey, division, total }, tokenizer);
  const about: About = {
    version: 1,
    tokenizer: file,
    ...(plan.pattern !== undefined && { pattern: plan.pattern }),
    vocabulary: tokenizer.vocabulary,
    end: tokenizer.end,
    ...parts,
  };
  await writeText(join(out, ABOUT), aboutText(about));
  return { ...about, by: division.by };
}

const aboutText = (about: About): string => JSON.stringify(about, null, 2) + "\n";

/** Bytes need no file. */
async function keepTokenizer(
  { out, tokenizer: named }: TextPlan,
  { name, table }: Tokenizer,
): Promise<string> {
  if (named === "bytes" || typeof named === "number") return name;
  if (table !== undefined) {
    await writeText(join(out, CHARACTERS), table);
    return CHARACTERS;
  }
  const from = name === "tokenizer.json" && !named.endsWith(".json") ? join(named, name) : named;
  const kept = name.endsWith(".json") ? "tokenizer.json" : basename(name);
  await writeText(join(out, kept), reading(from, () => Deno.readTextFileSync(from)));
  return kept;
}

async function* all({ files, field, separator, piece }: TextPlan, cuts: boolean): AsyncGenerator<TextPiece> {
  for (const file of files) yield* textPieces(file, { field, separator, cuts, piece });
}

interface Surveyed {
  readonly survey: Survey;
  readonly division: Division;
  /** Characters. */
  readonly total: number;
}

/** The words of texts, from which a vocabulary is learnt. */
export interface Vocabulary {
  add(text: string): void;
  /** The text of a tokenizer.json with so many tokens. */
  learn(size: number): string;
}

const LEARNERS: Parts<{ vocabulary(): Vocabulary }> = PARTS.vocabularies;

async function emptyVocabulary(): Promise<Vocabulary> {
  const [learner] = Object.values(LEARNERS);
  if (learner) return (await learner.load()).vocabulary();
  throw new UserError(
    "usage",
    "This hpctrain is built without learning a vocabulary (--train-tokenizer): name one with --tokenizer FILE.",
  );
}

async function learned(
  plan: TextPlan,
  survey: Survey,
  division: Division,
  total: number,
): Promise<Tokenizer> {
  const words = await emptyVocabulary();
  let done = 0;
  for await (const { text, validates } of divided(plan, true, { survey, division, total })) {
    if (!validates) words.add(text);
    plan.progress("Counting words", done += text.length, total);
  }
  const path = join(plan.out, "tokenizer.json");
  await writeText(path, words.learn(plan.tokenizer as number));
  return openTokenizer(path);
}

interface Divided extends TextPiece {
  readonly validates: boolean;
}

/** A piece over the place where a document's end begins to validate becomes two. */
async function* divided(
  plan: TextPlan,
  cuts: boolean,
  { survey: { hashes, lengths }, division }: Surveyed,
): AsyncGenerator<Divided> {
  let document = 0, at = 0;
  for await (const piece of all(plan, cuts)) {
    const { text, ends } = piece;
    if (document >= lengths.length) throw changed(plan.files);
    if (division.by !== "ends") {
      yield { ...piece, validates: division.by === "documents" && division.held.has(hashes[document]) };
    } else {
      const cut = Math.floor(lengths[document] * (1 - division.share)) - at;
      if (cut <= 0) yield { ...piece, validates: true };
      else if (cut >= text.length) yield { ...piece, validates: false };
      else {
        const place = betweenWords(text, cut);
        yield { text: text.slice(0, place), ends: false, validates: false };
        yield { text: text.slice(place), ends, validates: true };
      }
    }
    at = ends ? 0 : at + text.length;
    if (ends) document++;
  }
}

function betweenWords(text: string, from: number): number {
  const space = text.slice(from, from + 256).search(/\s/);
  if (space >= 0) return from + space;
  const code = text.charCodeAt(from);
  return code >= 0xdc00 && code < 0xe000 ? from + 1 : from; // not within a character
}

const listed = (files: readonly string[]) => files.slice(0, 3).join(", ") + (files.length > 3 ? ", ..." : "");

const changed = (files: readonly string[]) =>
  new UserError(
    "data",
    `${listed(files)} was changed while it was packed: pack it again when it is whole.`,
  );

async function encodeAll(
  plan: TextPlan,
  known: Surveyed,
  tokenizer: Tokenizer,
): Promise<{ train: PartAbout; val: PartAbout | null }> {
  const { out, special } = plan;
  const wide = tokenizer.vocabulary > 65536;
  const train = new Part(wide), val = new Part(wide);
  const encode = async (putTrain: Put, putVal: Put | null) => {
    train.put = putTrain;
    val.put = putVal;
    let done = 0;
    for await (const { text, ends, validates } of divided(plan, tokenizer.cuts, known)) {
      const part = validates ? val : train;
      part.add(tokenizer.encode(text, special), text);
      if (ends) part.end(tokenizer.end);
      plan.progress("Packing", done += text.length, known.total);
    }
    train.flush();
    val.flush();
  };
  const trainPath = join(out, "train.bin"), valPath = join(out, "val.bin");
  await writeNew(trainPath, async (putTrain) => {
    if (known.division.by === "nothing") await encode(putTrain, null);
    else await writeNew(valPath, (putVal) => encode(putTrain, putVal));
  });
  return { train: train.about(), val: known.division.by === "nothing" ? null : val.about() };
}

const BUFFER = 1 << 18;

/** Collects tokens and writes many at once. */
class Part {
  put: Put | null = null;
  readonly #buffer: Uint16Array<ArrayBuffer> | Uint32Array<ArrayBuffer>;
  #held = 0;
  #tokens = 0;
  #bytes = 0;
  #documents = 0;

  constructor(wide: boolean) {
    this.#buffer = wide ? new Uint32Array(BUFFER) : new Uint16Array(BUFFER);
  }

  add(tokens: Uint32Array, text: string): void {
    this.#bytes += byteLength(text);
    this.#write(tokens);
  }

  end(token: number | null): void {
    this.#documents++;
    if (token !== null) this.#write(Uint32Array.of(token));
  }

  #write(tokens: Uint32Array): void {
    this.#tokens += tokens.length;
    for (let i = 0; i < tokens.length;) {
      const count = Math.min(BUFFER - this.#held, tokens.length - i);
      this.#buffer.set(tokens.subarray(i, i + count), this.#held);
      this.#held += count;
      i += count;
      if (this.#held === BUFFER) this.flush();
    }
  }

  flush(): void {
    const { buffer, BYTES_PER_ELEMENT: width } = this.#buffer;
    if (this.#held > 0) this.put?.(new Uint8Array(buffer, 0, this.#held * width));
    this.#held = 0;
  }

  about(): PartAbout {
    return { documents: this.#documents, tokens: this.#tokens, bytes: this.#bytes };
  }
}

/** The text has so many as UTF-8. */
function byteLength(text: string): number {
  let bytes = text.length;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code > 0x7f) bytes += code > 0x7ff && (code < 0xd800 || code > 0xdfff) ? 2 : 1;
  }
  return bytes;
}

function refuseFull(out: string): void {
  let names: string[];
  try {
    names = [...Deno.readDirSync(out)].map(({ name }) => name).filter((name) => !name.startsWith("."));
  } catch (cause) {
    if (cause instanceof Deno.errors.NotFound) return;
    if (!(cause instanceof Deno.errors.NotADirectory)) throw cause;
    throw new UserError(
      "usage",
      `${out} is a file, and a corpus is packed into a folder: name a new folder as the last word.`,
      { cause },
    );
  }
  // A pack that was ended early has left its tokenizer.
  if (names.every((name) => name === "tokenizer.json" || name === CHARACTERS || name.endsWith(".tiktoken"))) {
    return;
  }
  throw new UserError(
    "usage",
    `${out} is not empty (${names.sort().slice(0, 3).join(", ")}${
      names.length > 3 ? ", ..." : ""
    }): name a new folder ` +
      "for the packed text.",
  );
}
