// `hpctrain report` of a data set.
import { detect, isNamedAsData } from "../../core/data/open/formats.ts";
import { withPreview } from "../../core/data/open/preview.ts";
import { UserError } from "../../core/base/errors.ts";
import { dataPage } from "../../core/outputs/report/data_page.ts";

export function isData(word: string): boolean {
  try {
    return word !== "" && detect(word) !== "synthetic";
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    return isNamedAsData(word); // then the error is about data that is not there
  }
}

export const pageOfData = async (path: string, kind: string): Promise<string> =>
  await withPreview(path, kind, (preview) => dataPage(preview, Date.now() / 1000));
