// The forms of a recorded model beside .pt2, which are extensions: the ending of the file names one.
import type { Model } from "../models/model.ts";
import { PARTS, type Parts } from "../parts.ts";
import type { RecordedModel } from "./recorded.ts";

export interface ProgramForm {
  /** `notes` are for those who use the file: what is left to them. */
  write(path: string, model: Model, recorded: RecordedModel, notes: Readonly<Record<string, string>>): void;
  /** How Python opens such a file. */
  inPython(path: string): string;
}

const FORMS: Parts<{ readonly form: ProgramForm }> = PARTS.programs;

/** Null where the ending names none. */
export async function formOf(path: string): Promise<ProgramForm | null> {
  const ending = Object.keys(FORMS).find((ending) => path.toLowerCase().endsWith(`.${ending}`));
  return ending === undefined ? null : (await FORMS[ending].load()).form;
}
