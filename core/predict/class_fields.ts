// Classes on a grid: whole numbers whose attributes say what each means, and how probable they are.
import { ARRAYS, type ClassicAttributes, type ClassicType } from "../data/writers/netcdf.ts";
import { type GridTarget, listOf } from "../data/arrays/grid.ts";
import { elementsOf, type PredictionColumn } from "./columns.ts";
import { kept, memberAxis } from "./coordinates.ts";
import type { GridJob, PredictionAxis, PredictionField } from "./fields.ts";

/** Null where the columns are not on the grid. */
export function ofClasses(
  named: (name: string) => PredictionColumn | null,
  { elements, dimensions }: Pick<PredictionField, "elements" | "dimensions">,
  { grid, masked, ignored, classes }: GridJob,
): PredictionField[] | null {
  const [one] = grid.targets, names = classes!, fill = -1;
  const [label, target, likeliest, all, members] = [
    "label",
    "target",
    "probability",
    "probabilities",
    "members",
  ]
    .map(named);
  const fits = (column: PredictionColumn | null, parts = 1) =>
    !column || elementsOf(column) === parts * elements;
  if (!label || ![label, target, likeliest].every((column) => fits(column)) || !fits(all, names.length)) {
    return null;
  }
  const type = names.length <= 127 ? "i8" : names.length <= 32_767 ? "i16" : "i32";
  const about = { type, axes: [], dimensions, elements, fill } as const;
  const own = { ...kept(one, grid, about), ...flagsOf(one, names, type) };
  /** Points without a class in `truth` are missing. */
  const read = (
    type: ClassicType,
    column: PredictionColumn,
    truth: PredictionColumn | null,
    missing: number,
  ): PredictionField["values"] => {
    const parts = elementsOf(column) / elements;
    return (from, count) => {
      const numbers = column.read(from, count);
      const known = truth === column ? numbers : truth?.read(from, count);
      const made = new ARRAYS[type](numbers);
      for (let i = 0; known && i < made.length; i++) {
        const seen = known[Math.floor(i / (parts * elements)) * elements + i % elements];
        if (!(seen >= 0) || seen === ignored) made[i] = missing;
      }
      return made;
    };
  };
  const truth = masked ? target : null, { name } = one, shown = all ?? likeliest;
  const shares = { ...about, type: "f32", fill: NaN } as const;
  return [
    { ...about, name, attributes: own, values: read(type, label, truth, fill) },
    ...(shown
      ? [{
        ...shares,
        name: `${name}_probability`,
        axes: shown === all ? [classAxis(own)] : [],
        elements: elementsOf(shown),
        attributes: {
          ...kept(placing(one), grid, shares),
          long_name: shown === all ? "probability of each class" : `probability of the class in ${name}`,
          units: "1",
        },
        values: read("f32", shown, truth, NaN),
      }]
      : []),
    ...(members && elementsOf(members) === members.shape[1] * names.length * elements
      ? [{
        ...shares,
        name: `${name}_members`,
        axes: [memberAxis(members), classAxis(own)],
        elements: elementsOf(members),
        attributes: {
          ...kept(placing(one), grid, shares),
          long_name: "probability of each class by each member",
          units: "1",
        },
        values: read("f32", members, truth, NaN),
      }]
      : []),
    ...(target
      ? [{ ...about, name: `${name}_target`, attributes: own, values: read(type, target, target, fill) }]
      : []),
  ];
}

/** Only the attributes that say where something lies, and not what it is. */
const placing = (one: GridTarget): GridTarget => ({
  ...one,
  attributes: new Map([...one.attributes].filter(([key]) => /^(coordinates|grid_mapping)$/.test(key))),
});

const classAxis = ({ flag_values, flag_meanings }: ClassicAttributes): PredictionAxis => {
  const values = typeof flag_values === "string" ? [] : flag_values.values;
  const numbers = { type: values.every(Number.isInteger) ? "i32" : "f64", values } as const;
  return {
    ...{ name: "class", values },
    attributes: { long_name: "class", flag_values: numbers, flag_meanings },
  };
};

/** Classes have the data's own meanings, where it has some, or else their names. */
function flagsOf(
  { attributes }: GridTarget,
  classes: readonly string[],
  type: ClassicType,
): ClassicAttributes {
  const values = attributes.get("flag_values"), meanings = listOf(attributes, "flag_meanings");
  const words = classes.map((name, i) => {
    const own = typeof values === "object" ? meanings[values.indexOf(i)] : undefined;
    return own ?? (name.trim().replaceAll(/\s+/g, "_") || `class_${i}`);
  });
  return { flag_values: { type, values: words.map((_, i) => i) }, flag_meanings: words.join(" ") };
}
