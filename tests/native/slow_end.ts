// A process whose libraries take their time to end: see slow_end.c. Test helper.
import { build } from "./double.ts";

/** What a program is to be started with. */
export function slowEnd(folder: string, seconds: number): Record<string, string> {
  return {
    LD_PRELOAD: build("slow_end.c", `${folder}/slow_end.so`),
    SLOW_END: folder,
    SLOW_END_MS: String(1000 * seconds),
  };
}

/** How many processes are within the end of their libraries, or through it. */
export const endsBegun = (folder: string): number =>
  [...Deno.readDirSync(folder)].filter(({ name }) => name.startsWith("begun-")).length;
