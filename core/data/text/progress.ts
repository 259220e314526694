// The line that tells how far the packing of text is.
import { openLiveLine } from "../progress.ts";

export function openTextProgress(quiet: boolean) {
  const { update, clear } = openLiveLine({ quiet });
  return {
    clear,
    update: (doing: string, characters: number, total: number) =>
      update(() =>
        `${doing}: ${Math.floor(100 * characters / total)}% of ${(total / 1e6).toFixed(1)} million characters`
      ),
  };
}
