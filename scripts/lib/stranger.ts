// Does the lines of the pages as one session of bash in a fresh clone, and times each block: scripts/stranger.
import { join } from "paths";
import { wayToOwnImages } from "./effort.ts";

const root = new URL("../../", import.meta.url).pathname;
const LIMIT_MINUTES = 10;

const home = Deno.makeTempDirSync({ prefix: "stranger-" }), clone = join(home, "clone");
try {
  const cloned = new Deno.Command("git", { args: ["clone", "--quiet", root, clone] }).outputSync();
  if (!cloned.success) throw new Error(new TextDecoder().decode(cloned.stderr));
  Deno.exitCode = report();
} finally {
  Deno.removeSync(home, { recursive: true });
}

function report(): number {
  const pages = wayToOwnImages((page) => Deno.readTextFileSync(join(clone, page)));
  let effort = 0, machine = 0;
  for (const [page, { readingMinutes, typingMinutes }] of pages) {
    effort += readingMinutes + typingMinutes;
    console.log(`${page}: ${minutes(readingMinutes)} of reading, ${minutes(typingMinutes)} of typing`);
  }
  const blocks = pages.flatMap(([, { blocks }]) => blocks), times = session(blocks.map(scriptOf));
  for (const [i, { text }] of blocks.entries()) {
    if (times[i] === undefined) return failed(text);
    machine += times[i];
    console.log(`${times[i].toFixed(1).padStart(7)} s  ${text.trim().split("\n")[0].slice(0, 90)}`);
  }
  for (const page of ["try/pets.html"]) Deno.statSync(join(home, page));
  console.log(
    `In all ${minutes(effort)} of reading and typing (at most ${LIMIT_MINUTES} minutes), and ${
      minutes(machine / 60)
    } ` +
      "in which the machine works.",
  );
  return effort < LIMIT_MINUTES ? 0 : 1;
}

function minutes(count: number): string {
  return `${count.toFixed(1)} minutes`;
}

function failed(text: string): number {
  console.error(
    `This block failed:\n${text}\nWhat it printed:\n${
      Deno.readTextFileSync(join(home, "said")).slice(-4000)
    }`,
  );
  return 1;
}

function scriptOf({ language, text }: { language: string; text: string }): string {
  return language === "python"
    ? `${Deno.env.get("HPCTRAIN_PYTHON")} - <<'PICTURES'\n${text}PICTURES\n`
    : text;
}

/** The seconds of each script, up to the one that failed. A shell keeps its folder and its path from one to the next. */
function session(scripts: readonly string[]): number[] {
  const said = join(home, "said"), times = join(home, "times");
  Deno.writeTextFileSync(times, "");
  const timed = scripts.map((text) =>
    `began=$EPOCHREALTIME\n${text}echo "$began $EPOCHREALTIME" >> ${times}\n`
  );
  const body = `exec > ${said} 2>&1\nset -e\ncd ${clone}\n${timed.join("")}`;
  new Deno.Command("bash", { args: ["-c", body], env: surroundings(), clearEnv: true, stdin: "null" })
    .outputSync();
  return Deno.readTextFileSync(times).trim().split("\n").filter(Boolean).map((line) => {
    const [began, ended] = line.split(" ").map(Number);
    return ended - began;
  });
}

/** Nothing of hpctrain's is known; where packages come from is the machine's own affair. */
function surroundings(): Record<string, string> {
  const env = Object.entries(Deno.env.toObject()).filter(([name]) => !/^(HPCTRAIN|DENO|XDG)_/.test(name));
  return { ...Object.fromEntries(env), HOME: home };
}
