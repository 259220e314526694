import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { dirname, join } from "paths";
import { inProcess } from "../commands/helpers.ts";
import { COMMANDS } from "../../commands/mod.ts";
import { EXIT } from "../../core/base/errors.ts";
import { FORMATS } from "../../core/data/open/formats.ts";
import { DATA_KINDS, type DataKind } from "../../core/settings/formats.ts";
import { ALL_SETTINGS } from "../../core/settings/settings.ts";
import { SITE_NAMES } from "../../core/settings/sites.ts";
import { madeParts, withParts } from "../../scripts/site/made.ts";
import { wayToOwnImages } from "../../scripts/lib/effort.ts";
import { extensionPages, pagePaths } from "../../scripts/site/pages.ts";
import { uniqueAnchors } from "../../scripts/site/anchors.ts";
import { peer } from "../peer.ts";
import { type Block, blocksOf, commandsOf } from "./docs_blocks.ts";

const root = new URL("../../", import.meta.url).pathname;
const PAGES = [
  "README.md",
  ...pagesIn("docs"),
  ...pagesIn("docs/guides"),
  ...pagesIn("docs/reference"),
  ...extensionPages(),
];

const read = (page: string) => Deno.readTextFileSync(join(root, page));

function pagesIn(folder: string): string[] {
  const names = [...Deno.readDirSync(join(root, folder))].map(({ name }) => name).sort();
  return names.filter((name) => name.endsWith(".md")).map((name) => `${folder}/${name}`);
}

function required(name: string, what: string): string {
  const value = Deno.env.get(name);
  if (!value) throw new Error(`${name} is not set: it names ${what}. ./scripts/test sets it.`);
  return value;
}

function run(program: string, args: string[], cwd: string, env: Record<string, string> = {}) {
  return ended(new Deno.Command(program, { args, cwd, env, stdin: "null" }));
}

async function ended(command: Deno.Command) {
  const output = await command.output();
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  return { code: output.code, said: text(output.stdout) + text(output.stderr) };
}

/** A folder where `./hpctrain`, `./scripts/hpctrain` and `hpctrain` are the executable under test. */
async function inWorkplace(test: (folder: string) => Promise<void>): Promise<void> {
  const exe = Deno.realPathSync(required("HPCTRAIN_EXE", "the executable under test"));
  const folder = Deno.makeTempDirSync();
  try {
    Deno.mkdirSync(join(folder, "scripts"));
    for (const name of ["hpctrain", "scripts/hpctrain"]) Deno.symlinkSync(exe, join(folder, name));
    Deno.symlinkSync(join(root, "examples"), join(folder, "examples"));
    // The reader's own Python, with torch.
    const python = required("HPCTRAIN_PYTHON", "a Python that has torch");
    Deno.symlinkSync(dirname(dirname(python)), join(folder, ".venv"));
    await test(folder);
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
}

/** A block marked `runs` is a script, and runs as it stands. */
function execute(block: Block, folder: string) {
  if (block.language === "python") {
    return ended(peer(["-c", block.text], { cwd: folder, stdin: "null" }));
  }
  assertEquals(block.language, "sh", "only sh and python blocks can be run");
  const path = `${folder}:${Deno.env.get("PATH")}`;
  return run("bash", ["-euo", "pipefail", "-c", block.text], folder, { PATH: path });
}

/** What checks a command without doing it: `config` reads the flags of training, `--help` knows the others. */
function check(argv: string[]): string[] {
  if (argv[0] === "train" || argv[0]?.startsWith("-")) {
    return ["config", ...argv.slice(argv[0] === "train" ? 1 : 0)];
  }
  if (argv[0] === "sbatch" || argv[0] === "qsub") return [...argv, "--dry-run"];
  return argv.length === 0 ? [] : [argv[0], "--help"];
}

/** Pages and terminals break lines where they like. */
const inOneLine = (text: string): string => text.trim().replace(/\s+/g, " ");

/** How fast a machine is and what it has free differ each time, and the last digits of a trained number with the processor. */
const steady = (line: string): string =>
  line.trim().replace(/\d+ samples\/s/, "N samples/s").replace(/[\d.]+ [KMG]iB/, "N MiB")
    .replace(/\d\.\d{7,}/, (number) => Number(number).toPrecision(6));

/** A page shows some of the lines that a command prints, in their order. */
function assertPrinted(shown: string, printed: string): void {
  const lines = printed.split("\n").map(steady);
  let from = 0;
  for (const line of shown.trimEnd().split("\n").map(steady)) {
    const at = lines.indexOf(line, from);
    assert(at >= 0, `the page shows\n${line}\nand the command prints\n${printed}`);
    from = at + 1;
  }
}

/** A job script names the program that wrote it. */
const isScript = (words: string[]) => words[0] === "sbatch" || words[0] === "qsub";

for (const page of PAGES) {
  Deno.test(`the commands of ${page} do what it says`, async (t) => {
    await inWorkplace(async (folder) => {
      let heard = "";
      for (const block of blocksOf(read(page))) {
        if (block.mark.startsWith("fails: ")) {
          await t.step(`${page}:${block.line} fails as it says`, async () => {
            const { code, said } = await execute(block, folder);
            assertEquals(code, Number(block.mark.slice(7)), `${block.text}${said}`);
            heard = said;
          });
        } else if (block.mark === "said") {
          await t.step(`${page}:${block.line} is what was said`, () => {
            assertStringIncludes(inOneLine(heard), inOneLine(block.text));
          });
        } else if (block.mark.startsWith("file: ")) {
          Deno.writeTextFileSync(join(folder, block.mark.slice(6)), block.text);
        } else if (block.mark === "runs") {
          await t.step(`${page}:${block.line} runs`, async () => {
            const { code, said } = await execute(block, folder);
            assertEquals(code, 0, `${block.text}${said}`);
            heard = said;
          });
        } else if (block.mark === "printed") {
          await t.step(`${page}:${block.line} is what was printed`, () => assertPrinted(block.text, heard));
        } else if (block.language === "sh") {
          for (const { env, argv } of commandsOf(block.text)) {
            await t.step(
              `${page}:${block.line} hpctrain ${argv.join(" ")} is a good command line`,
              async () => {
                const words = check(argv);
                const { code, said } = isScript(words)
                  ? await run(join(folder, "hpctrain"), words, folder, env)
                  : await inProcess(words, { cwd: folder, env });
                assertEquals(code, 0, said);
              },
            );
          }
        }
      }
    });
  });
}

Deno.test("every link of the documentation leads to a file, and to a heading that is there", () => {
  const folders = ["docs", "docs/design", "docs/guides", "docs/reference", "bench/results"];
  const pages = ["README.md", "CHANGELOG.md", ...folders.flatMap(pagesIn), ...extensionPages()];
  for (const page of pages) {
    for (const [, target, anchor] of read(page).matchAll(/\]\(([^)#:]*)(?:#([^)]*))?\)/g)) {
      const file = target ? join(dirname(page), target) : page;
      assert(exists(join(root, file)), `${page} links to ${target}, which is not there`);
      if (anchor) {
        assert(anchorsOf(read(file)).includes(anchor), `${page} links to #${anchor}, which ${file} lacks`);
      }
    }
  }
});

Deno.test("a guide has 300 to 1000 words, and the list of pages leads to each of them", () => {
  const list = read("docs/manual.md");
  for (const page of pagesIn("docs/guides")) {
    const words = read(page).split(/\s+/).filter((word) => /\w/.test(word)).length;
    assert(words >= 300 && words <= 1000, `${page} has ${words} words`);
  }
  for (const page of [...pagesIn("docs"), ...pagesIn("docs/guides"), ...pagesIn("docs/reference")]) {
    const link = page.slice("docs/".length);
    assert(link === "manual.md" || list.includes(`](${link})`), `docs/manual.md has no link to ${page}`);
  }
});

Deno.test("from the README to a network trained on your own images it is ten minutes of reading and typing", () => {
  const efforts = wayToOwnImages(read).map(([, effort]) => effort);
  const minutes = efforts.reduce((sum, one) => sum + one.readingMinutes + one.typingMinutes, 0);
  assert(minutes < 10, `it takes ${minutes.toFixed(1)} minutes`);
});

Deno.test("the README's first lines say how new a libtorch has to be and what brings one, and its two commands are shown", () => {
  const page = read("README.md"), first = inOneLine(page.slice(0, page.indexOf("\n## ")));
  for (
    const said of ["PyTorch 2.10 or newer", "`hpctrain libtorch install`", "(docs/reference/libtorch.md)"]
  ) {
    assertStringIncludes(first, said);
  }
  const start = page.indexOf("\n## Two commands"), part = page.slice(start, page.indexOf("\n## ", start + 1));
  const shown = blocksOf(part).map(({ text }) => text.trim()).filter((text) => text.startsWith("./scripts/"));
  assertEquals(shown, ["./scripts/hpctrain", "./scripts/test"]);
  for (const script of shown) assert(exists(join(root, script)), script);
  const [filter, ...examples] = [...part.matchAll(/`\.\/scripts\/test\s+([\w/]+)`/g)].map(([, word]) => word);
  assertEquals(filter, "FILTER");
  assert(examples.length > 0);
  for (const part of examples) assert(testFiles("tests").some((file) => file.includes(part)), part);
});

Deno.test("each part that is made from declarations has a place, every declaration, and is not committed", async () => {
  const parts = await madeParts(), pages = pagePaths();
  const placed = pages.flatMap((page) =>
    [...read(page).matchAll(/^<!-- made: (.*?) -->$/gm)].map(([, name]) => name)
  );
  assertEquals(placed.sort(), [...parts.keys()].sort());
  const made = new Map(pages.map((page) => [page, withParts(read(page), parts)]));
  const page = (name: string) => made.get(`docs/${name}.md`)!;
  for (const { path } of ALL_SETTINGS) assertStringIncludes(page("settings"), `| \`${path}\``);
  for (const { name, load } of COMMANDS) {
    const { usage, examples } = await load();
    for (const said of [`### ${name}\n`, usage, ...examples]) {
      assertStringIncludes(page("reference/commands"), said);
    }
  }
  for (const [, part] of parts) {
    for (const path of pages) assert(!read(path).includes(part), `${path} has a made part`);
  }
});

Deno.test("the short lists that stand for made parts are complete: commands, exit codes, kinds of data, sites", () => {
  const commands = read("docs/reference/commands.md");
  for (const { name } of COMMANDS) assertStringIncludes(commands, `\`${name}\``);
  const codes = [...commands.matchAll(/^\| (\d+) /gm)].map(([, code]) => Number(code));
  // The last three are the shell's or the kernel's.
  assertEquals(codes, [...Object.values(EXIT), 130, 133, 137]);
  const data = read("docs/reference/data.md");
  for (const kind of Object.keys(DATA_KINDS) as DataKind[]) {
    const row = new RegExp(`^\\| \`${kind}\` .*$`, "m").exec(data)?.[0] ?? "";
    for (const ending of FORMATS[kind].endings) assertStringIncludes(row, `\`${ending}\``, kind);
    assert(row !== "", kind);
  }
  const sites = [...read("docs/clusters.md").matchAll(/^\| `([a-z]+)` /gm)].map(([, name]) => name);
  assertEquals(sites, [...SITE_NAMES]);
});

function testFiles(folder: string): string[] {
  return [...Deno.readDirSync(join(root, folder))].flatMap(({ name, isDirectory }) => {
    const path = `${folder}/${name}`;
    return isDirectory ? testFiles(path) : name.endsWith("_test.ts") ? [path] : [];
  });
}

function exists(path: string): boolean {
  try {
    return Deno.statSync(path) !== null;
  } catch {
    return false;
  }
}

function anchorsOf(markdown: string): string[] {
  const anchor = uniqueAnchors();
  return [...markdown.matchAll(/^#+ (.*)$/gm)].map(([, title]) => anchor(title));
}

Deno.test("a shell block's commands are found through comments, quotes, continued lines and variables", () => {
  const shell = `# hpctrain comment
./hpctrain --lr 1e-3   # set the rate
A_B=1 C=x=y hpctrain train \\
  --run-name "two words"
cd somewhere && ls
./scripts/hpctrain
`;
  assertEquals(commandsOf(shell), [
    { env: {}, argv: ["--lr", "1e-3"] },
    { env: { A_B: "1", C: "x=y" }, argv: ["train", "--run-name", "two words"] },
    { env: {}, argv: [] },
  ]);
});

Deno.test("blocks are found with language, line and mark", () => {
  const page = "text\n\n<!-- runs -->\n\n```sh\nls\n```\n\n```yaml\na: 1\n```\n";
  assertEquals(blocksOf(page), [
    { language: "sh", text: "ls\n", line: 5, mark: "runs" },
    { language: "yaml", text: "a: 1\n", line: 9, mark: "" },
  ]);
});
