// `hpctrain libtorch`: its flags and its help. commands/run/libtorch.ts is loaded when it runs.
import type { Command } from "./mod.ts";

export const command: Command = {
  usage:
    "hpctrain libtorch list | install [VERSION | --cuda | FILE.tar | mpich] [--arch ARCH] | bundle FILE.tar | use DIR",
  examples: [
    "hpctrain libtorch list",
    "hpctrain libtorch install --cuda",
    "hpctrain libtorch bundle libtorch.tar",
  ],
  ownHelp: true,
  words: ["list", "install", "bundle", "use", "--cuda", "--arch", "--json", "--if-missing", "--quiet"],
  run: async (argv) => await (await import("./run/libtorch.ts")).libtorch(argv),
};
