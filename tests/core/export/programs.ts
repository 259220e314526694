// Models of the zoo as programs, which a reader in Python opens and answers with. Test helper.
import { assert, assertEquals } from "@std/assert";
import { join } from "paths";
import { UserError } from "../../../core/base/errors.ts";
import { type RecordedModel, recordModel } from "../../../core/export/recorded.ts";
import { forward, type Model } from "../../../core/models/model.ts";
import { normal } from "../../../core/models/nn/init.ts";
import { noGrad } from "../../../ffi/autograd.ts";
import { readBytes } from "../../../ffi/make.ts";
import { randint, randn } from "../../../ffi/ops.ts";
import { scope, type Tensor } from "../../../ffi/tensor.ts";
import { useLibtorch } from "../../libtorch.ts";
import { forked } from "../../peer.ts";
import { CASES, type ZooCase } from "../models/zoo_cases.ts";

useLibtorch();

/** Neither 2 nor 3, with which models are recorded. */
const SAMPLES = 5;

/** Writes each model as a program with the answers that it gives here, for a reader to repeat. */
function lay(
  folder: string,
  write: (path: string, model: Model, shape: readonly number[], made: ZooCase) => void,
): void {
  let laid = 0;
  for (const made of TESTED) {
    scope(() => {
      const model = made.make(), { shape, below } = made.input, sample = shape.slice(1);
      for (const [, p] of model.root.namedParameters()) if (p.shape.length > 1) normal(p, 0, 0.1);
      const path = join(folder, String(laid));
      write(path, model, sample, made);
      const input = below === undefined
        ? randn([SAMPLES, ...sample])
        : randint(0, below, [SAMPLES, ...sample], "i64");
      const output = noGrad(() => forward(model, input)) as Tensor;
      Deno.writeFileSync(`${path}.in`, readBytes(input));
      Deno.writeFileSync(`${path}.out`, readBytes(output));
      Deno.writeTextFileSync(
        `${path}.json`,
        JSON.stringify({
          title: made.title,
          input: input.shape,
          output: output.shape,
          whole: below !== undefined,
        }),
      );
      laid++;
    });
  }
}

/** What a reader of programs in a folder says of each: its largest difference, against the largest answer. */
function read(python: string | undefined, program: URL, folder: string): Record<string, number> {
  assert(python, "./scripts/test names the Pythons that read programs (scripts/lib/environments.sh)");
  const { success, stdout, stderr } = forked(python, [program.pathname, folder]).outputSync();
  assert(success, new TextDecoder().decode(stderr));
  return JSON.parse(new TextDecoder().decode(stdout).split("\n").findLast((line) => line.startsWith("{"))!);
}

/** Those of many alike are left out. */
const MORE =
  /resnet(34|50|101)|unet [23] times|[35] times halved on 181|channels last|volumes with|wide mlp|8x8|small maps|vit on 13/;
const TESTED = CASES.filter(({ title }) =>
  !MORE.test(title) || title.endsWith("on 7 x 9 with circular beyond the borders")
);

export interface ProgramKind {
  /** It is given a folder of programs. */
  readonly reader: URL;
  /** The variable that names the Python which has what it imports. */
  readonly python: string;
  /** Titles of models that have no such form. */
  readonly refused: RegExp;
  readonly most: number;
  write(path: string, title: string, model: Model, recorded: RecordedModel): void;
}

export function testPrograms(what: string, { reader, python, refused, most, write }: ProgramKind): void {
  Deno.test(`each model of the zoo is ${what} as libtorch does here, with any number of samples`, () => {
    const folder = Deno.makeTempDirSync();
    try {
      const not: string[] = [];
      lay(folder, (path, model, shape, { title, input }) => {
        const facts = { input: { shape, dtype: input.below === undefined ? "f32" : "i64" } } as const;
        try {
          recordModel(model, facts, (recorded) => write(path, title, model, recorded));
        } catch (error) {
          if (!(error instanceof UserError)) throw error;
          not.push(title);
        }
      });
      assertEquals(not.filter((title) => !refused.test(title)), []);
      const differences = read(Deno.env.get(python), reader, folder);
      const written = TESTED.map(({ title }) => title).filter((title) => !not.includes(title));
      assertEquals(Object.keys(differences).sort(), written.sort());
      for (const [title, difference] of Object.entries(differences)) {
        assert(difference < most, `${title}: ${difference}`);
      }
    } finally {
      Deno.removeSync(folder, { recursive: true });
    }
  });
}
