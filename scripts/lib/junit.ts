// Reads the test results that `deno test --junit-path` writes.

export interface TestResult {
  file: string;
  name: string;
  seconds: number;
  outcome: "passed" | "failed" | "skipped";
  /** A failed test has said this. */
  why?: string;
}

/** A message with a diff or a log is long, and its first lines say most. */
const WHY_CHARACTERS = 3000;

const failure = (body: string): string =>
  unescape(/<(?:failure|error)\b[^>]*?(?:\/>|>([\s\S]*?)<\/(?:failure|error)>)/.exec(body)?.[1] ?? "").trim();

export function parseJunit(xml: string): TestResult[] {
  const cases = xml.matchAll(/<testcase\b([^>]*?)(?:\/>|>([\s\S]*?)<\/testcase>)/g);
  return [...cases].map(([, attributes, body = ""]) => {
    const attribute = (key: string) =>
      unescape(new RegExp(`\\b${key}="([^"]*)"`).exec(attributes)?.[1] ?? "");
    return {
      file: attribute("classname"),
      name: attribute("name"),
      seconds: Number(attribute("time")),
      outcome: /<(failure|error)\b/.test(body) ? "failed" : /<skipped\b/.test(body) ? "skipped" : "passed",
      why: failure(body).slice(0, WHY_CHARACTERS),
    };
  });
}

function unescape(text: string): string {
  const named: Record<string, string> = { lt: "<", gt: ">", quot: '"', apos: "'", amp: "&" };
  return text.replace(
    /&(?:#x([0-9a-f]+)|#(\d+)|(\w+));/gi,
    (all, hex, decimal, name) =>
      hex
        ? String.fromCodePoint(parseInt(hex, 16))
        : decimal
        ? String.fromCodePoint(+decimal)
        : named[name] ?? all,
  );
}
