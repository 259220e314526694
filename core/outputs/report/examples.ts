// Examples of what a model makes of its samples: pictures with their class, numbers predicted over true ones, and
// a text in which each token is as dark as it was surprising.
import { formatPlural, formatValue } from "../../base/format.ts";
import type { DiagnosedOutput, Diagnostics, Example, TextExample } from "../../run/diagnostics.ts";
import { type Html, markup } from "./html.ts";
import { scatterFigure } from "./map.ts";
import { shortValue } from "./measures.ts";

/** Null where a run keeps no such examples. */
export function examplesSection(found: Diagnostics): Html | null {
  const { examples = [], texts = [], task } = found;
  const body = texts.length > 0
    ? textExamples(texts)
    : examples.length === 0
    ? null
    : task === "regression"
    ? numberExamples(found, examples)
    : classExamples(found, examples);
  return body && markup`<section id="examples"><h2>Examples</h2>${body}</section>`;
}

// Classes.

function classExamples({ names, step }: Diagnostics, examples: readonly Example[]): Html {
  const name = (k: number) => names[k] ?? String(k);
  const isWrong = ({ target, prediction }: Example) => target[0] !== prediction[0];
  const wrong = examples.filter(isWrong).length;
  return markup`<p class="faint">${
    formatPlural(examples.length, "sample")
  } of the validation set, at step ${step}: ${
    wrong > 0
      ? "the surest mistakes first, then what was right but least sure."
      : "the least sure first; all are right."
  }</p>
<div class="cards">${
    examples.map((example) => {
      const [truth] = example.target, [taken] = example.prediction;
      const sure = example.probability === null ? "" : ` ${Math.round(100 * example.probability)}%`;
      return markup`<figure class="card${isWrong(example) && " wrong"}">${
        pictureOf(example, `${example.name}: ${name(truth)}`)
      }<figcaption><b>${name(truth)}</b>${
        isWrong(example)
          ? markup`<span class="bad">✗ taken for ${name(taken)}${sure}</span>`
          : markup`<span class="good">✓ right${sure}</span>`
      }</figcaption></figure>`;
    })
  }</div>`;
}

const pictureOf = ({ image }: Example, text: string): Html | null =>
  image !== null && /^[A-Za-z0-9+/=]+$/.test(image)
    ? markup`<img alt="${text}" src="data:image/png;base64,${image}">`
    : null;

// Numbers.

const MOST_SCATTERS = 8, MOST_PICTURES = 3;

function numberExamples(found: Diagnostics, examples: readonly Example[]): Html {
  const { outputs, step, samples } = found;
  const count = examples[0].target.length;
  const about = (k: number) => outputs[k] ?? { target: String(k), units: "", lead: null };
  const scatters = Array.from({ length: Math.min(count, MOST_SCATTERS) }, (_, k) => {
    const [x, y] = [examples.map(({ target }) => target[k]), examples.map(({ prediction }) => prediction[k])];
    const title = nameOf(about(k)), off = x.map((value, i) => Math.abs(y[i] - value)).sort((a, b) => a - b);
    const middle = off[off.length >> 1];
    return scatterFigure({
      ...{ title, units: about(k).units, x, y },
      caption: `${title}: half of ${x.length} predictions are within ${shortValue(middle)} of the truth`,
    });
  });
  const pictures = examples.filter(({ image }) => image !== null).slice(0, MOST_PICTURES);
  return markup`<p class="faint">${examples.length} of ${
    formatPlural(samples, "validation sample")
  }, at step ${step}. On the dashed line a prediction is right.</p><div class="numbers">${scatters}${
    pictures.length > 0 &&
    markup`<div class="cards">${
      pictures.map((example) =>
        markup`<figure class="card">${pictureOf(example, example.name)}<figcaption>${
          numbersTable(example, about)
        }</figcaption></figure>`
      )
    }</div>`
  }</div>`;
}

/** Targets without a name have a number. */
function nameOf({ target, lead }: DiagnosedOutput): string {
  const name = /^\d+$/.test(target) ? `target ${target}` : target;
  return lead === null ? name : `${name} +${lead}`;
}
const MOST_ROWS = 4;

const numbersTable = ({ target, prediction }: Example, about: (k: number) => DiagnosedOutput): Html =>
  markup`<table><thead><tr><td></td><th scope="col">true</th><th scope="col">predicted</th></tr></thead><tbody>${
    target.slice(0, MOST_ROWS).map((value, k) =>
      markup`<tr><th scope="row">${nameOf(about(k))}</th><td class="number">${
        shortValue(value)
      }</td><td class="number">${shortValue(prediction[k])}</td></tr>`
    )
  }</tbody></table>`;

// Texts.

const BYTES = 256;

/** Where no tokenizer is known, bytes are letters, and larger vocabularies numbers with a space after each. */
function lettersOf({ tokens, guesses, words }: TextExample): (token: number) => string {
  if (words) return (token) => Object.hasOwn(words, token) ? String(words[token]) : `${token} `;
  const bytes = [...tokens, ...guesses].every((token) => token < BYTES);
  return (token) => bytes ? String.fromCharCode(token) : `${token} `;
}

function textExamples(texts: readonly TextExample[]): Html {
  const all = texts.flatMap(({ tokens, guesses }) => tokens.map((token, i) => token === guesses[i]));
  const right = all.filter((one) => one).length / Math.max(1, all.length);
  return markup`<p class="faint">Windows of the validation set. The stronger its background, the less probable a token was to the model. Its first guess is right at ${
    (100 * right).toFixed(0)
  }% of these places; other guesses are underlined.</p>${
    texts.map((text) => {
      const letters = lettersOf(text);
      return markup`<div class="two"><div><h3 class="sample">The text</h3><p class="text">${
        text.tokens.map((token, i) =>
          markup`<span class="o${surprise(text.probabilities[i])}" title="${
            formatValue(text.probabilities[i])
          }, first guess “${letters(text.guesses[i])}”">${letters(token)}</span>`
        )
      }</p></div><div><h3 class="sample">First guesses, each given all before it</h3><p class="text">${
        text.guesses.map((guess, i) =>
          guess === text.tokens[i] ? letters(guess) : markup`<span class="wrong">${letters(guess)}</span>`
        )
      }</p></div></div>`;
    })
  }`;
}

/** From 0 to 10: each step is a bit, so that a probability of a thousandth is the darkest. */
const surprise = (probability: number): number =>
  Math.max(0, Math.min(10, Math.round(-Math.log2(Math.max(probability, 1e-9)))));
