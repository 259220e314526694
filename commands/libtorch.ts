// `hpctrain libtorch`: its flags and its help. commands/run/libtorch.ts is loaded when it runs.
import type { Command } from "./mod.ts";

export const command: Command = {
  usage: "hpctrain libtorch list | install [VERSION] | use DIR",
  examples: ["hpctrain libtorch list"],
  ownHelp: true,
  words: ["list", "install", "use", "--json", "--if-missing", "--quiet"],
  run: async (argv) => await (await import("./run/libtorch.ts")).libtorch(argv),
};
