// The journals of a search, for other programs: each is told what the folder of the trials says, and how runs do.
import { PARTS, type Parts } from "../../parts.ts";
import type { TrialEvaluation } from "./metric.ts";
import type { SearchSweep } from "./trials.ts";

export interface SearchJournal {
  /** "Optuna's journal". */
  readonly title: string;
  /** `evaluations` are of some trials, by their number. */
  tell(
    folder: string,
    sweep: SearchSweep,
    evaluations?: ReadonlyMap<number, readonly TrialEvaluation[]>,
  ): Promise<void>;
}

const JOURNALS: Parts<{ readonly journal: SearchJournal }> = PARTS.journals;

/** `lost` hears of a journal that could not be written: a run is not lost for it. */
export async function tellJournals(
  about: Parameters<SearchJournal["tell"]>,
  lost: (title: string, cause: unknown) => void,
): Promise<void> {
  for (const { load } of Object.values(JOURNALS)) {
    const { journal } = await load();
    await journal.tell(...about).catch((cause) => lost(journal.title, cause));
  }
}
