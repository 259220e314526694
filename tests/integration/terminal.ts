// A real terminal of any size, on a tmux of the test's own.
import { join } from "paths";
import { inTemp } from "./program.ts";

const TMUX = Deno.env.get("HPCTRAIN_TMUX") || null;
const needsTmux = TMUX ? "" : " (needs the tmux that HPCTRAIN_TMUX names)";

export interface Terminal {
  /** What is on the screen, a string a line; with its colours where they are asked for. */
  screen(colours?: boolean): Promise<string[]>;
  /** All that was printed, a string a line, wherever the terminal had to break it. */
  printed(): Promise<string[]>;
  /** Until a line of the screen has this. */
  shows(part: string | RegExp): Promise<string[]>;
  resize(width: number, height: number): Promise<void>;
  press(key: string): Promise<void>;
}

let terminals = 0;

/** Runs a command of a shell in a terminal of this size, on a tmux of the test's own. */
export async function inTerminal(
  cwd: string,
  { command, width, height, env = {} }: {
    command: string;
    width: number;
    height: number;
    env?: Record<string, string>;
  },
  body: (terminal: Terminal) => Promise<void>,
): Promise<void> {
  const socket = join(cwd, `tmux-${++terminals}`);
  const tmux = async (...args: string[]) => {
    const { code, stdout, stderr } = await new Deno.Command(TMUX!, {
      args: ["-S", socket, "-f", "/dev/null", ...args],
      cwd,
      env: { LANG: "C.UTF-8", LC_ALL: "C.UTF-8", TERM: "xterm-256color", ...env },
    }).output();
    if (code !== 0) throw new Error(new TextDecoder().decode(stderr));
    return new TextDecoder().decode(stdout);
  };
  const size = ["-x", String(width), "-y", String(height)];
  await tmux("new-session", "-d", ...size, `${command}; echo "left with $?"; exec cat`);
  const terminal: Terminal = {
    async screen(colours = false) {
      return (await tmux("capture-pane", "-p", ...(colours ? ["-e"] : []))).replace(/\n$/, "").split("\n");
    },
    async printed() {
      return (await tmux("capture-pane", "-p", "-J", "-S", "-")).split("\n").map((line) => line.trimEnd());
    },
    async shows(part) {
      const has = (line: string) => typeof part === "string" ? line.includes(part) : part.test(line);
      for (const end = performance.now() + 30_000;;) {
        const lines = await terminal.screen();
        if (lines.some(has)) return lines;
        if (performance.now() > end) throw new Error(`never showed ${part}:\n${lines.join("\n")}`);
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    },
    async resize(width, height) {
      await tmux("resize-window", "-x", String(width), "-y", String(height));
    },
    async press(key) {
      await tmux("send-keys", key);
    },
  };
  try {
    await body(terminal);
  } finally {
    await tmux("kill-server").catch(() => {});
  }
}

export function terminalTest(name: string, body: (cwd: string) => Promise<void>): void {
  Deno.test({ name: `${name}${needsTmux}`, ignore: !TMUX, fn: () => inTemp(body) });
}
