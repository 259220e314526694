// Data opened as training opens it, and the sentences that refuse it. Test helper.
import { assertThrows } from "@std/assert";
import type { Config } from "../../../core/settings/settings.ts";
import { loadAllReaders } from "../../../core/data/open/readers.ts";
import { openData } from "../../../core/data/open/open.ts";
import { UserError } from "../../../core/base/errors.ts";
import { settings } from "./tables/help.ts";

await loadAllReaders();

export function opened(data: Record<string, unknown>, model: Partial<Config["model"]> = {}) {
  const config = settings({
    data: { train_samples: 50, val_samples: 10, ...data } as Partial<Config["data"]>,
    model,
  });
  return openData(config.data, config.training, config.model);
}

export const refusedData = (data: Record<string, unknown>, model: Partial<Config["model"]> = {}): UserError =>
  assertThrows(() => opened(data, model), UserError);
