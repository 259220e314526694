// sync-wandb with a stand-in server. Test helper.
import { run } from "./program.ts";
import type { WandbServer } from "./wandb_server.ts";

export const syncs = (
  cwd: string,
  server: WandbServer,
  flags: string[] = [],
  env: Record<string, string> = {},
) => run(["sync-wandb", ...flags], { cwd, env: { HOME: cwd, ...server.env, ...env } });
