// Reads a question from a page as a person does, line by line, and checks that each line is visible. Parses the original values back from
// the displayed text.
import assert from "node:assert/strict";

/** A wide screen and a phone. Both are low, so that the end is out of view when the page opens. */
export const SIZES = [
  { width: 1200, height: 420 },
  { width: 390, height: 420 },
];

/** The elements that a page may use around the lines. */
const OURS = new Set(
  "ARTICLE P A DIV SPAN H1 H2 H3 SECTION FORM INPUT LABEL TEXTAREA BUTTON KBD DETAILS SUMMARY FIELDSET LEGEND CODE STRONG SELECT OPTION TABLE COLGROUP COL THEAD TBODY TR TH TD DEL INS".split(" "),
);
const LINES = new Set(["DIV", "H1", "H2", "H3"]);

/** Opens the question at a size. Checks that nothing approves it before its end was in view. */
export async function openAt(page, call, size) {
  await page.setViewportSize(size);
  await page.goto(`/questions/${call.question.id}`);
  const early = await page.evaluate(() => ({
    below: document.querySelector(".answers").getBoundingClientRect().top > innerHeight - (document.querySelector(".bar")?.offsetHeight ?? 0),
    isEnough: document.querySelector("details.details") !== null,
    ready: "ready" in document.querySelector("article").dataset,
    buttons: [...document.querySelectorAll("form[data-approves] button")].map((button) => button.disabled),
  }));
  // Only a card that says everything may fit on the screen. Even then it must have been there for a while.
  assert.ok((early.below || early.isEnough) && !early.ready, "its end is in view at once");
  assert.ok(early.buttons.length > 0 && early.buttons.every(Boolean), "a yes before the end was in view");
  const details = page.locator("details.details");
  if (await details.count()) await details.evaluate((one) => (one.open = true));
}

/** Reads the question on the page to its end. Compares it with the lines that, according to the server, a person must see. */
export async function readInFull(page, view) {
  const seen = await page.evaluate(look);
  assert.deepEqual(seen.wrong, [], "something cannot be seen");
  assert.deepEqual(
    seen.lines.map(({ gutter, text, classes }) => ({ text: gutter + text, gutter: [...gutter].length, role: classes.split(" ")[1] })),
    view.lines.map(({ text, gutter, role }) => ({ text, gutter, role })),
    "the lines are those of the one renderer",
  );
  for (const { tag, parts } of seen.lines) {
    assert.ok(LINES.has(tag), tag);
    assert.deepEqual(parts, ["SPAN.gutter", "SPAN.text"], "a line is two cells of text and nothing else");
  }
  assert.deepEqual(seen.tags.filter((tag) => !OURS.has(tag)), [], "something became markup");
  for (const text of seen.texts) onlyOurs(text);
  return seen.lines;
}

/** Checks that no character is invisible or moves others. */
export function onlyOurs(text) {
  const strange = text.match(/[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Cs}\p{Zl}\p{Zp}]/gu)?.filter((c) => c !== "\n" && c !== "\t") ?? [];
  assert.deepEqual(strange.map((c) => `U+${c.codePointAt(0).toString(16)}`), [], `in ${JSON.stringify(text)}`);
}

/** Runs in the page. Returns the lines, and the problems with their visibility. */
function look() {
  const wrong = [];
  const page = document.documentElement;
  const width = page.clientWidth;
  // A person scrolls what is behind the bar at the bottom into view.
  const bottom = innerHeight - (document.querySelector(".bar")?.offsetHeight ?? 0);
  if (page.scrollWidth > width) wrong.push(`the page is ${page.scrollWidth} wide, of ${width}`);

  const rgb = (text) => text.match(/[\d.]+/g).map(Number);
  const paper = (at) => {
    for (; at; at = at.parentElement) {
      const [r, g, b, alpha = 1] = rgb(getComputedStyle(at).backgroundColor);
      if (alpha === 1) return [r, g, b];
    }
    return [255, 255, 255];
  };
  const light = (colour) => {
    const [r, g, b] = colour.slice(0, 3).map((one) => (one / 255 <= 0.04045 ? one / 255 / 12.92 : ((one / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => {
    const [low, high] = [light(a), light(b)].sort((x, y) => x - y);
    return (high + 0.05) / (low + 0.05);
  };
  const segments = new Intl.Segmenter("en", { granularity: "grapheme" });

  const cell = (within) => {
    const style = getComputedStyle(within);
    const text = within.textContent;
    const say = (what) => wrong.push(`${what}: ${text.slice(0, 60)}`);
    if (!text.trim()) return;
    for (let at = within; at; at = at.parentElement) {
      const { opacity, visibility, display, filter, transform, clipPath } = getComputedStyle(at);
      if (opacity !== "1" || visibility !== "visible" || display === "none") say("hidden");
      if (filter !== "none" || transform !== "none" || clipPath !== "none") say("distorted");
    }
    if (within.scrollWidth > within.clientWidth || within.scrollHeight > within.clientHeight) say(`clipped, ${within.scrollWidth} of ${within.clientWidth}`);
    if (contrast(rgb(style.color), paper(within)) < 4.5) say("its colour is too close to the background's");
    if (parseFloat(style.fontSize) < 11) say("too small");

    const [node] = within.childNodes;
    const range = document.createRange();
    const box = (index, length) => {
      range.setStart(node, index);
      range.setEnd(node, index + length);
      return range.getBoundingClientRect();
    };
    let before;
    for (const { segment, index } of segments.segment(text)) {
      if (!segment.trim()) continue;
      let rect = box(index, segment.length);
      if (rect.top < 0 || rect.bottom > bottom) {
        scrollBy({ top: rect.top - bottom / 2, behavior: "instant" });
        rect = box(index, segment.length);
      }
      const [left, top] = [rect.left + scrollX, rect.top + scrollY];
      if (rect.width < 2 || rect.height < 8) say(`nothing to see of ${JSON.stringify(segment)}`);
      if (rect.left < 0 || rect.right > width + 0.5) say(`${JSON.stringify(segment)} is beyond the edge`);
      // Each segment is further right in the same row, or further down.
      const below = before && top >= before.top + before.height / 2;
      if (before && !below && (left <= before.left || top < before.top - before.height / 2)) say(`${JSON.stringify(segment)} is out of order`);
      before = { left, top, height: rect.height };
      const hit = document.elementFromPoint(Math.min(rect.left + rect.width / 2, width - 1), rect.top + rect.height / 2);
      if (hit !== within) say(`${JSON.stringify(segment)} is covered by ${hit?.outerHTML.slice(0, 60)}`);
    }
  };

  const lines = [...document.querySelectorAll(".sheet > *")].map((line) => {
    line.scrollIntoView({ block: "center", behavior: "instant" });
    if (line.getBoundingClientRect().height < 10) wrong.push(`no height: ${line.textContent}`);
    for (const part of line.children) cell(part);
    const parts = [...line.childNodes].map((part) => {
      const plain = [...part.childNodes].every((node) => node.nodeType === Node.TEXT_NODE);
      return plain && part.nodeType === Node.ELEMENT_NODE ? `${part.tagName}.${part.className}` : part.nodeName;
    });
    const [gutter, text] = [...line.children].map((part) => part.textContent);
    return { tag: line.tagName, classes: line.className, gutter, text, parts };
  });
  // Only the page itself scrolls. Otherwise its end could be in view while the end of the question is not.
  for (let at = document.querySelector(".sheet"); at !== document.body; at = at.parentElement) {
    if (at.scrollHeight > at.clientHeight) wrong.push(`${at.tagName} is higher than what is seen of it`);
  }
  for (const side of document.querySelectorAll(".scroll")) {
    if (side.scrollWidth > side.clientWidth) wrong.push("what is side by side is beyond the edge");
  }
  const article = document.querySelector("article");
  const all = [...document.querySelectorAll("*")];
  return {
    lines,
    wrong,
    tags: [...new Set([article, ...article.querySelectorAll("*")].map(({ tagName }) => tagName))],
    texts: [document.title, document.body.textContent, ...all.flatMap((one) => [...one.attributes].map(({ value }) => value))],
  };
}

/** Returns the part of a question below a heading. */
export function part(lines, heading) {
  const at = lines.findIndex(({ tag, text }) => tag.startsWith("H") && text.startsWith(heading));
  assert.ok(at >= 0, `no ${heading}`);
  const rest = lines.slice(at + 1);
  const end = rest.findIndex(({ tag }) => tag.startsWith("H"));
  return (end < 0 ? rest : rest.slice(0, end)).map(row);
}

export const row = ({ gutter, text }) => gutter + text;

/** Parses the arguments back from the lines. */
export function readArguments(lines) {
  const rows = part(lines, "Arguments, in full").map((text) => {
    assert.ok(text.startsWith("  │ "), text);
    return text.slice(4).trim();
  });
  const value = readValue(rows.shift(), rows);
  assert.deepEqual(rows, [], "more than one value");
  return value;
}

function readValue(text, rows) {
  if (text === "{}") return {};
  if (text === "[]") return [];
  if (text === "{") {
    const map = {};
    for (let item = rows.shift(); item !== "}"; item = rows.shift()) {
      const at = item.indexOf(": ");
      map[item.slice(0, at)] = readValue(item.slice(at + 2), rows);
    }
    return map;
  }
  if (text === "[") {
    const items = [];
    for (let item = rows.shift(); item !== "]"; item = rows.shift()) items.push(readValue(item, rows));
    return items;
  }
  if (text.startsWith("text, ")) {
    const lines = [];
    while (rows[0]?.includes("┃")) {
      const [number, line] = [rows[0].slice(0, rows[0].indexOf("┃")), rows.shift().replace(/^[^┃]*┃ ?/u, "")];
      if (number.includes("–")) {
        const times = Number(/the same line (\d+) more/.exec(line)[1]);
        lines.push(...Array(times).fill(lines.at(-1)));
      } else {
        lines.push(readBack(line));
      }
    }
    return lines.join("\n") + (text.includes("no newline at the end") ? "" : "\n");
  }
  if (text.startsWith("“")) return readBack(text.slice(1, text.lastIndexOf("”")));
  return JSON.parse(text);
}

/** Parses a text back from its displayed form. */
function readBack(shown) {
  return shown.replaceAll(/⇥|⟨([^⟩]*)⟩/gu, (mark, inside) => (mark === "⇥" ? "\t" : readMark(inside)));
}

const NAMED = { space: " ", tab: "\t", NUL: "\0", BEL: "\x07", BS: "\b", LF: "\n", CR: "\r", ESC: "\x1b", DEL: "\x7f" };

function readMark(inside) {
  const run = /^rtl (.*) rtl$/u.exec(inside);
  if (run) return run[1];
  const words = inside.split(" ");
  const times = words.length === 2 && words[1].startsWith("×") ? Number(words.pop().slice(1)) : 1;
  const point = (word) => {
    assert.match(word, /^U\+[0-9A-F]+$/, `⟨${inside}⟩`);
    return String.fromCodePoint(parseInt(word.slice(2), 16));
  };
  const one = words.length > 1 ? words.slice(1).map(point).join("") : (NAMED[words[0]] ?? point(words[0]));
  return one.repeat(times);
}
