// Reads Prometheus's text format as its documentation defines it, and refuses everything else. Test helper.

export interface Sample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

const NAME = /^[a-zA-Z_:][a-zA-Z0-9_:]*/,
  LABEL = /^([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(,|\})/;

/** The samples of each name. A name has one TYPE before its samples, which follow one another. */
export function readPrometheus(text: string): Record<string, Sample[]> {
  if (!text.endsWith("\n")) throw new Error("the last line has no end");
  const found: Record<string, Sample[]> = {};
  let typed = "";
  for (const line of text.slice(0, -1).split("\n")) {
    if (line.startsWith("# HELP ")) continue;
    const type = /^# TYPE (\S+) (gauge|counter)$/.exec(line);
    if (type) {
      if (type[1] in found) throw new Error(`a second TYPE of ${type[1]}`);
      typed = type[1];
      found[typed] = [];
      continue;
    }
    const name = NAME.exec(line)?.[0] ?? "";
    if (name === "" || name !== typed) throw new Error(`no sample of ${typed}: ${line}`);
    let rest = line.slice(name.length);
    const labels: Record<string, string> = {};
    if (rest.startsWith("{")) {
      for (rest = rest.slice(1);;) {
        const label = LABEL.exec(rest);
        if (label === null) throw new Error(`a label is wrong: ${rest}`);
        labels[label[1]] = label[2].replaceAll(/\\(.)/g, (_, sign) => sign === "n" ? "\n" : sign);
        rest = rest.slice(label[0].length);
        if (label[3] === "}") break;
      }
    }
    const value = /^ ([+-]?(?:\d[\d.]*(?:e[+-]?\d+)?|Inf)|NaN)$/.exec(rest);
    if (value === null) throw new Error(`no number: ${line}`);
    found[name].push({ labels, value: Number(value[1].replace("Inf", "Infinity")) });
  }
  return found;
}
