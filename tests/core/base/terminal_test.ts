// deno-lint-ignore-file no-control-regex
// Text of files and of servers on its way to a terminal: nothing in it steers the terminal, whatever prints it.
import { assert, assertEquals, assertNotMatch, assertStringIncludes } from "@std/assert";
import { join } from "paths";
import { clean, cleanButColours, cleanConsole } from "../../../core/base/terminal.ts";
import { escaped } from "../../../core/outputs/report/html.ts";
import { openConsole } from "../../../core/run/console.ts";
import { openScreen } from "../../../core/outputs/watch/terminal.ts";
import { inTemp, ROOT, run } from "../../integration/program.ts";

/** Escapes, bells, controls of one byte, marks of direction, characters without a width. */
const HOSTILE = "a\x1b]0;title\x07\x1b[2J\x9b31m\u202eevil\u2066\u200b\ufeff\u{e0041}\rz";
const HARM =
  /[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\u{e0000}-\u{e007f}]/u;

Deno.test("what can't be seen is written out; words of all scripts, accents and ends of lines stay", () => {
  assertEquals(
    clean(HOSTILE),
    "a\\x1b]0;title\\x07\\x1b[2J\\u009b31m\\u202eevil\\u2066\\u200b\\ufeff\\udb40\\udc41\\x0dz",
  );
  const plain = "Température é ü 温度 حرارة\n\tnext — “line” 👍";
  assertEquals(clean(plain), plain);
  assertEquals(cleanButColours("\x1b[31mred\x1b[0m \x1b[2J"), "\x1b[31mred\x1b[0m \\x1b[2J");
});

Deno.test("JSON stays the same JSON when it is printed", () => {
  const text = JSON.stringify({ [HOSTILE]: HOSTILE + "\x7f" }, null, 2);
  assertNotMatch(clean(text), HARM);
  assertEquals(JSON.parse(clean(text)), JSON.parse(text));
});

Deno.test("console, a run's lines, the screen of watch and a report's page are clean", () => {
  const out: string[] = [];
  const to = Object.fromEntries(
    ["log", "error", "warn", "info", "debug"].map((
      name,
    ) => [name, (...parts: unknown[]) => out.push(parts.join(" "))]),
  ) as unknown as Console;
  cleanConsole(to);
  to.log(HOSTILE, { name: HOSTILE });
  to.error(new Error(HOSTILE));
  const write = (text: string) => void out.push(text);
  const story = openConsole({
    quiet: false,
    json: true,
    isTerminal: false,
    write,
    writeError: write,
    onLine: write,
  });
  const plain = openConsole({
    quiet: false,
    json: false,
    isTerminal: false,
    write,
    writeError: write,
    onLine: write,
  });
  for (const { line, final, warn } of [story, plain]) for (const say of [line, final, warn]) say(HOSTILE);
  story.event(JSON.stringify({ HOSTILE }));
  assertNotMatch(
    escaped(HOSTILE),
    /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/,
  );
  assert(out.length > 12);
  for (const text of out) assertNotMatch(text.replace(/\r(?=\n|$)/g, ""), HARM);
  const drawn: string[] = [];
  const screen = openScreen((text) => drawn.push(text));
  screen.draw([HOSTILE]);
  assertStringIncludes(drawn.join(""), clean(HOSTILE));
});

/** What writes to a terminal without console, and what it writes there. */
const WRITERS: Readonly<Record<string, string>> = {
  "core/base/terminal.ts": "the door itself",
  "core/run/console.ts": "clean",
  "core/ranks/launch/supervise.ts": "clean",
  "core/outputs/watch/terminal.ts": "clean",
  "commands/run/logs.ts": "clean",
  "commands/run/generate.ts": "clean",
  "core/base/progress.ts": "numbers",
  "commands/run/sync_wandb.ts": "numbers",
  "ffi/library.ts": "libtorch's own warnings",
};

function sources(folder: string): string[] {
  return [...Deno.readDirSync(folder)].flatMap(({ name, isDirectory }) =>
    isDirectory ? sources(join(folder, name)) : name.endsWith(".ts") ? [join(folder, name)] : []
  );
}

Deno.test("there is no way to the terminal past the one that cleans", () => {
  const found = new Map<string, string>();
  for (const folder of ["core", "extensions", "commands", "ffi"]) {
    for (const path of sources(join(ROOT, folder))) {
      const source = Deno.readTextFileSync(path);
      if (/Deno\.(stdout|stderr)(?!\.isTerminal)|\/dev\/(tty|stdout|stderr)/.test(source)) {
        found.set(path.slice(ROOT.length).replace(/^\//, ""), source);
      }
    }
  }
  assertEquals([...found.keys()].sort(), Object.keys(WRITERS).sort());
  for (const [path, what] of Object.entries(WRITERS)) {
    if (what === "clean") assert(/import \{[^}]*\bclean/.test(found.get(path)!), path);
  }
  // A thread of ours that prints has a console of its own.
  for (const thread of ["core/ranks/control/thread.ts", "core/run/writer/thread.ts"]) {
    assert(/^cleanConsole\(\);/m.test(Deno.readTextFileSync(join(ROOT, thread))), thread);
  }
  const main = Deno.readTextFileSync(join(ROOT, "main.ts"));
  const begun = main.slice(main.indexOf("if (import.meta.main)"));
  assert(
    /^if \(import\.meta\.main\) \{\s*cleanConsole\(\);/.test(begun),
    "console is cleaned before anything else",
  );
});

Deno.test("names in files, of files and of runs reach no terminal as they are", () =>
  inTemp(async (cwd) => {
    const name = HOSTILE.replaceAll("/", "");
    const weird = `w${name}.csv`;
    Deno.writeTextFileSync(join(cwd, weird), `${name},y\n1,2\n3,4\n5,6\n`);
    Deno.mkdirSync(join(cwd, "logs", `r${name}`), { recursive: true });
    const event = (kind: string, more: unknown) => JSON.stringify({ t: 1, kind, ...more as object });
    Deno.writeTextFileSync(
      join(cwd, "logs", `r${name}`, "events.jsonl"),
      [event("run", { name, run: name }), event("warning", { text: name, message: name })].join("\n") + "\n",
    );
    const header = JSON.stringify({
      [name]: { dtype: "F32", shape: [1], data_offsets: [0, 4] },
      __metadata__: { note: name },
    });
    const bytes = new TextEncoder().encode(header);
    const file = new Uint8Array(8 + bytes.length + 4);
    new DataView(file.buffer).setBigUint64(0, BigInt(bytes.length), true);
    file.set(bytes, 8);
    Deno.writeFileSync(join(cwd, "t.safetensors"), file);
    const asked = [
      ["status", join("logs", `r${name}`)],
      ["watch", join("logs", `r${name}`), "--once"],
      ["inspect", weird],
      ["inspect", "t.safetensors"],
      ["inspect", "t.safetensors", "--json"],
      ["convert", "t.safetensors", "o.pt", "--prefix", "nothing"],
      ["bench", "scaling", join("logs", `r${name}`)],
      ["--data-path", weird, "--targets", `no${name}`, "--epochs", "1"],
      ["--data-path", `gone${name}.npz`, "--epochs", "1"],
      [`--no-such-flag${name}`],
      [`${name}`],
    ];
    for (const words of asked) {
      const { stdout, stderr } = await run(words, { cwd });
      assert(stdout.length + stderr.length > 0, String(words));
      assertNotMatch(stdout, HARM, `${JSON.stringify(words)}: ${JSON.stringify(stdout)}`);
      assertNotMatch(stderr, HARM, `${JSON.stringify(words)}: ${JSON.stringify(stderr)}`);
    }
  }));
