// Chooses libtorch and begins to load it early: loading takes as long as the rest of the start.
import { findLibtorch, type Libtorch, noLibtorchSentence } from "../../ffi/libraries/find.ts";
import { loadBeside } from "../../ffi/preload.ts";
import type { Config } from "../settings/settings.ts";
import { UserError } from "../base/errors.ts";

type Chosen = Pick<Config, "environment">;

let begun: { readonly wanted: string; readonly libtorch: Libtorch; readonly loaded: Promise<void> } | null =
  null;

export function libtorchOfRun({ environment }: Chosen): Libtorch {
  if (begun?.wanted === environment.libtorch) return begun.libtorch;
  // The finder reads HPCTRAIN_LIBTORCH by itself, and names it.
  const explicit = environment.libtorch === Deno.env.get("HPCTRAIN_LIBTORCH") ? "" : environment.libtorch;
  const { chosen, rejected } = findLibtorch({ explicit: explicit || undefined });
  if (!chosen) throw new UserError("environment", noLibtorchSentence(rejected));
  return chosen;
}

/** A failure is found again where it matters. */
export function beginLoading(config: Chosen): void {
  if (begun) return;
  try {
    const libtorch = libtorchOfRun(config);
    begun = { wanted: config.environment.libtorch, libtorch, loaded: loadBeside(libtorch).catch(() => {}) };
  } catch {
    // Whoever opens libtorch reports that there is none.
  }
}

/** A process must not end before. */
export async function loaded(): Promise<void> {
  await begun?.loaded;
}
