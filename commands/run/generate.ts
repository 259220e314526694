// `hpctrain generate CHECKPOINT --prompt TEXT`: a language model writes on.
import { openCheckpoint } from "../../core/checkpoint/open.ts";
import { parseOptions, splitOwnOptions } from "../../core/settings/options.ts";
import { resolveSettings } from "../../core/settings/resolve.ts";
import type { Config } from "../../core/settings/settings.ts";
import { environmentLines } from "../../core/settings/environment.ts";
import { clean } from "../../core/base/terminal.ts";
import { EXIT, UserError } from "../../core/base/errors.ts";
import { formatDuration, formatPlural, formatRate } from "../../core/base/format.ts";
import { Utf8 } from "../../core/data/text/utf8.ts";
import { decode, type Tokenizer } from "../../core/data/text/tokenizer.ts";
import { checkPrompt, generate, type Generation } from "../../core/predict/generate.ts";
import { openLanguageModel } from "../../core/predict/language_model.ts";
import { asUserError, openDevice } from "../../core/train/device.ts";
import { savedConfig } from "../../core/train/resume.ts";
import { withUserCode } from "../user_code.ts";
import { OPTIONS, SETTINGS, USAGE } from "../generate.ts";

type Options = ReturnType<typeof parseOptions<typeof OPTIONS>>["options"];

export async function generateText(argv: string[]): Promise<number> {
  const { own, rest } = splitOwnOptions(argv, OPTIONS);
  const { options } = parseOptions(own, OPTIONS, USAGE);
  const request = { argv: rest, env: Deno.env.toObject(), positionals: 1, usage: USAGE, takes: SETTINGS };
  const { positionals: [path] } = resolveSettings(request);
  if (path === undefined) {
    throw new UserError("usage", `Which checkpoint should write? Usage: ${USAGE}`);
  }
  const numbers = numbersIn(options);
  const resolved = await withUserCode(resolveSettings({ ...request, checkpoint: savedConfig(path) }));
  for (const line of environmentLines(resolved)) console.error(line);
  const { config } = resolved;
  try {
    const { device } = openDevice(config);
    using file = openCheckpoint(path);
    const { decoder, tokenizer } = openLanguageModel(file, config, device, options.tokenizer);
    const prompt = await promptOf(options);
    const tokens = tokensOf(prompt, tokenizer, path);
    checkPrompt(tokens, decoder);
    const { quiet, json } = config.output;
    const print = openPrinter(tokenizer, numbers.count === 1 && !json);
    if (!quiet) print.text(prompt);
    const made = generate(decoder, { ...numbers, prompt: tokens, end: tokenizer.end, take: print.token });
    print.end();
    report({ path, prompt, promptTokens: tokens.length }, made, tokenizer, config.output);
    return EXIT.done;
  } catch (error) {
    throw asUserError(error);
  }
}

function numbersIn(options: Options) {
  const number = (name: keyof Options & string, usual: number, least: number, most: number, whole = true) => {
    const text = options[name];
    if (text === undefined) return usual;
    const value = Number(text);
    if (text !== "" && value >= least && value <= most && (!whole || Number.isInteger(value))) return value;
    const limits = most === Infinity ? `from ${least} on` : `from ${least} to ${most}`;
    throw new UserError(
      "usage",
      `--${name} takes a ${whole ? "whole " : ""}number ${limits}, but got "${text}".`,
    );
  };
  return {
    most: number("max-tokens", 200, 0, 1e9),
    temperature: number("temperature", 0.8, 0, 100, false),
    topK: number("top-k", 200, 0, 1e9),
    topP: number("top-p", 1, 0, 1, false),
    seed: number("seed", 1, 0, Number.MAX_SAFE_INTEGER),
    count: number("count", 1, 1, 4096),
  };
}

async function promptOf(options: Options): Promise<string> {
  const { prompt, "prompt-file": file } = options;
  if (prompt !== undefined && file !== undefined) {
    throw new UserError("usage", "--prompt and --prompt-file both give the text: leave one of them out.");
  }
  if (prompt !== undefined) return prompt;
  if (file === undefined && Deno.stdin.isTerminal()) return "";
  const from = file ?? "-", what = from === "-" ? "Standard input" : from;
  try {
    const bytes = from === "-" ? await new Response(Deno.stdin.readable).bytes() : await Deno.readFile(from);
    const utf8 = new Utf8(what), text = utf8.decode(bytes);
    utf8.end();
    return text;
  } catch (cause) {
    if (cause instanceof UserError) throw cause;
    const why = cause instanceof Deno.errors.NotFound ? "is not there" : "can't be read";
    throw new UserError(
      "usage",
      `${what} ${why}: name a file of text with --prompt-file, or give --prompt.`,
      { cause },
    );
  }
}

/** Without a prompt a text begins where another has ended. */
function tokensOf(prompt: string, tokenizer: Tokenizer, path: string): number[] {
  const tokens = [...tokenizer.encode(prompt, true)];
  if (tokens.length > 0) return tokens;
  if (tokenizer.end !== null) return [tokenizer.end];
  const [line] = tokenizer.encode("\n");
  if (line !== undefined) return [line];
  throw new UserError("usage", `${path} needs a text to write on from: give --prompt TEXT.`);
}

/** Tokens become text as they come: some characters are in several tokens. */
function openPrinter(tokenizer: Tokenizer, on: boolean) {
  const decoder = new TextDecoder(), encoder = new TextEncoder();
  const write = (text: string) => {
    const bytes = encoder.encode(safe(text));
    for (let done = 0; done < bytes.length;) done += Deno.stdout.writeSync(bytes.subarray(done));
  };
  return {
    text: (text: string) => on ? write(text) : undefined,
    token: (_: number, token: number) =>
      on ? write(decoder.decode(tokenizer.bytesOf(token), { stream: true })) : undefined,
    end: () => on ? write(decoder.decode() + "\n") : undefined,
  };
}

/** Nothing that a model writes may steer a terminal. */
const safe = (text: string): string => Deno.stdout.isTerminal() ? clean(text) : text;

function report(
  request: { readonly path: string; readonly prompt: string; readonly promptTokens: number },
  { texts, seconds, tokensPerSecond }: Generation,
  tokenizer: Tokenizer,
  { json, quiet }: Config["output"],
): void {
  const written = texts.map(({ tokens, stopped }) => ({ text: decode(tokenizer, tokens), tokens, stopped }));
  if (json) {
    return console.log(JSON.stringify({
      checkpoint: request.path,
      prompt: request.prompt,
      prompt_tokens: request.promptTokens,
      texts: written,
      seconds,
      tokens_per_second: tokensPerSecond,
    }));
  }
  if (texts.length > 1) {
    written.forEach(({ text }, i) => {
      console.log(`--- ${i + 1} of ${texts.length}\n${safe((quiet ? "" : request.prompt) + text)}`);
    });
  }
  if (quiet) return;
  const count = texts.reduce((sum, { tokens }) => sum + tokens.length, 0);
  console.error(
    `${formatPlural(count, "token")} in ${formatDuration(seconds)} (${
      formatRate(tokensPerSecond)
    } tokens/s).`,
  );
}
