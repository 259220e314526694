// This part of the site runs in a browser: the search, light and dark, and the list of pages on a phone.
const root = document.documentElement;
const up = root.dataset.up ?? "";

// Light or dark is the system's choice until the button is pressed.
const dark = matchMedia("(prefers-color-scheme: dark)");
const remembered = () => {
  try {
    return localStorage.getItem("theme");
  } catch {
    return null; // some browsers keep nothing for files
  }
};
const show = (theme) => root.dataset.theme = theme;
if (remembered()) show(remembered());
document.querySelector(".theme").addEventListener("click", () => {
  const now = root.dataset.theme ?? (dark.matches ? "dark" : "light");
  const theme = now === "dark" ? "light" : "dark";
  show(theme);
  try {
    localStorage.setItem("theme", theme);
  } catch {
    // the choice then lasts for this page
  }
});

// On a phone the list of pages is closed until it is asked for.
if (matchMedia("(max-width: 900px)").matches) document.querySelector("nav details").open = false;

const box = document.querySelector("input[type=search]");
const results = document.querySelector(".results");

/** The rows are loaded when the box is first used: a script, because a page from a disk may not fetch. */
let loading;
const rows = () =>
  loading ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = `${up}search.js`;
    script.onload = () => resolve(globalThis.hpctrainPages);
    script.onerror = reject;
    document.head.append(script);
  });

/** "early_stopping" and "early-stopping" are two words. */
const plain = (text) => text.toLowerCase().replaceAll(/[-_]+/g, " ");

/** Every word must occur; titles count more than text. */
function scoreOf([, page, section, text], words) {
  let score = 0;
  for (const word of words) {
    const found = [[section, 9], [page, 5], [text, 1]].filter(([where]) => plain(where).includes(word));
    if (found.length === 0) return 0;
    score += found.reduce((sum, [, weight]) => sum + weight, 0);
  }
  return score;
}

function excerpt(text, words) {
  const at = Math.max(0, plain(text).indexOf(words[0]) - 50);
  return `${at > 0 ? "… " : ""}${text.slice(at, at + 130)}${text.length > at + 130 ? " …" : ""}`;
}

async function search() {
  const words = plain(box.value).split(/\s+/).filter((word) => word !== "");
  if (words.length === 0) return void (results.hidden = true);
  const found = (await rows())
    .map((row) => ({ row, score: scoreOf(row, words) }))
    .filter(({ score }) => score > 0)
    .sort((a, b) => b.score - a.score)
    .slice(0, 12);
  results.replaceChildren(...found.map(({ row: [address, page, section, text] }) => {
    const item = document.createElement("li"), link = document.createElement("a");
    const title = document.createElement("b"), line = document.createElement("span");
    link.href = up + address;
    title.textContent = page === section ? page : `${page}: ${section}`;
    line.textContent = excerpt(text, words);
    link.append(title, line);
    item.append(link);
    return item;
  }));
  if (found.length === 0) results.innerHTML = "<li>Nothing has all of these words.</li>";
  results.hidden = false;
}

box.addEventListener("input", search);
box.form.addEventListener("submit", (event) => {
  event.preventDefault();
  results.querySelector("a")?.click();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== box) {
    event.preventDefault();
    box.focus();
  }
  if (event.key === "Escape") results.hidden = true;
});
document.addEventListener("click", ({ target }) => {
  if (!box.form.contains(target)) results.hidden = true;
});

// A block of code is copied as a whole.
for (const block of document.querySelectorAll("pre")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(block.querySelector("code").innerText);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Not allowed here";
    }
    setTimeout(() => button.textContent = "Copy", 1500);
  });
  const frame = document.createElement("div");
  frame.className = "code";
  block.replaceWith(frame);
  frame.append(block, button);
}

root.dataset.ready = "";
