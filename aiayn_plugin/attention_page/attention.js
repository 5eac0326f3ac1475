"use strict";

// The coordinates of the lines; the browser stretches them to the size of the panel.
const ROW = 24; // height of a word
const WIDTH = 200; // between the two columns of words
const SPREAD = 12; // height of the bundle of lines between two words
const MIN_WEIGHT = 0.02; // lines of smaller weights would be invisible
const MAX_LABELS = 40; // columns of the matrix; more would need too wide a matrix
const OPACITIES = 32; // one path per head and opacity, since fewer paths draw faster
// Line styles of heads 1 to 4, 5 to 8, and so on; the colours repeat after eight heads.
const DASHES = ["", "7 3", "2 3", "9 3 2 3", "14 4", "1 5", "9 3 2 3 2 3", "4 7"];
const MATRIX_COLOUR = "#3d7ebf"; // visible on a light and a dark page

const data = JSON.parse(document.getElementById("data").textContent);
const allHeads = Array.from({ length: data.heads }, (_, head) => head);
const view = {}; // sentence, kind, layer, heads, joined, apart: set by readFragment
let pinned = null; // the pinned word: { side, index }; null: none
let panels = [];

const $ = (id) => document.getElementById(id);
const sentence = () => data.sentences[view.sentence];
const colour = (head) => `var(--c${head % 8})`;
const selectedHeads = () => allHeads.filter((head) => view.heads.has(head));
const dashes = (head) => DASHES[Math.floor(head / 4) % DASHES.length];

function element(name, properties = {}, ...children) {
  const node = Object.assign(document.createElement(name), properties);
  node.append(...children);
  return node;
}

function svg(name, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

// ---- weights

// Returns the bytes of all weights of the kind that is shown, decoded when they are first needed.
function decodedWeights() {
  const { kind } = view;
  const decoded = (sentence().decoded ??= {});
  return (decoded[kind] ??= Uint8Array.from(atob(sentence().weights[kind]), (c) => c.charCodeAt(0)));
}

// Returns the words of both sides: [{ text, count, unknown, lang }] with their number of subwords.
function sides(joined = view.joined) {
  const names = { encoder: ["source", "source"], decoder: ["decoderInput", "decoderInput"],
    encoder_decoder: ["target", "source"] }[view.kind];
  return names.map((name) => {
    const lang = data.languages[name === "source" ? 0 : 1];
    const { words, subwords, unknown: isUnknown } = sentence();
    let next = 0;
    return (joined ? words[name] : subwords[name].map((text) => [text, 1])).map(([text, count]) => {
      const unknown = isUnknown[name].slice(next, (next += count)).includes(true);
      return { text, count, unknown, lang };
    });
  });
}

// Returns the weights of one head as they are shown, a row per word that attends.
function weights(head) {
  const bytes = decodedWeights();
  const [from, to] = sides(false).map((subwords) => subwords.length);
  const start = (view.layer * data.heads + head) * from * to;
  const rows = Array.from({ length: from }, (_, i) =>
    Array.from(bytes.subarray(start + i * to, start + (i + 1) * to), (byte) => byte / 255));
  return view.joined ? join(rows, ...sides()) : rows;
}

// Returns the weights between words: to a word the sum over its subwords, from it the mean.
// For example, if the last two subwords are one word on both sides, [[.2, .3, .5], [.4, .4, .2],
// [.2, .4, .4]] becomes [[.2, .8], [.3, .7]].
function join(rows, from, to) {
  const groups = (words, items) => {
    let next = 0;
    return words.map(({ count }) => items.slice(next, (next += count)));
  };
  const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);
  // Rounded weights may sum to more than 1.
  const summed = rows.map((row) => groups(to, row).map((weights) => Math.min(1, sum(weights))));
  return groups(from, summed).map((group) => mean(group.map((row) => [row]))[0]);
}

// Returns the elementwise mean of tables of one shape.
function mean(tables) {
  return tables[0].map((row, i) => row.map((_, j) =>
    tables.reduce((sum, table) => sum + table[i][j], 0) / tables.length));
}

// Returns the content word that attends most to a single word, on average over all heads; null if
// there is none. The page opens on it.
function clearestWord() {
  const [from, to] = sides();
  const table = mean(allHeads.map(weights));
  const isWord = ({ text }) => text !== "</s>" && /[\p{L}\p{N}]/u.test(text);
  const lengths = from.filter(isWord).map(({ text }) => text.length);
  // Function words are short.
  const isContent = (word) =>
    isWord(word) && word.text.length * lengths.length >= lengths.reduce((a, b) => a + b);
  const peaks = table.map((row, i) =>
    isContent(from[i]) ? Math.max(0, ...row.filter((_, j) => isWord(to[j]))) : 0);
  const peak = Math.max(...peaks);
  return peak > 0 ? { side: "from", index: peaks.indexOf(peak) } : null;
}

// ---- a panel: two columns of words, the lines between them, and the matrix of weights

function buildPanel(heads) {
  const [from, to] = sides();
  const panel = { heads, from, to, tables: heads.map(weights) };
  panel.mean = mean(panel.tables);
  const height = Math.max(from.length, to.length);
  panel.all = svg("g", { class: "all" });
  panel.one = svg("g");
  panel.svg = svg("svg", { class: "lines", viewBox: `0 0 ${WIDTH} ${ROW * height}`,
    preserveAspectRatio: "none", "aria-hidden": "true" }, panel.all, panel.one);
  drawLines(panel, panel.all, [...from.keys()], [...to.keys()]);
  panel.words = { from: wordList(panel, "from", from), to: wordList(panel, "to", to) };
  panel.matrix = buildMatrix(panel);
  const grid = element("div", { className: "grid" },
    element("div", { className: "side from", textContent: "word" }),
    element("div", { className: "side to", textContent: "attends to" }),
    panel.words.from.list, panel.svg, panel.words.to.list, panel.matrix);
  for (const [name, count] of [["rows", from.length], ["columns", to.length], ["height", height]])
    grid.style.setProperty(`--${name}`, count);
  panel.element = element("section", { className: "panel" },
    ...(view.apart ? [element("h2", {}, lineSample(heads[0]), headNames(heads))] : []), grid);
  return panel;
}

function headNames(heads) {
  const numbers = heads.map((head) => head + 1);
  if (heads.length === data.heads && heads.length > 1) return `all ${heads.length} heads`;
  return (heads.length === 1 ? "head " : "heads ") + numbers.join(", ");
}

// Replaces a group's lines by those between the given rows and columns.
function drawLines(panel, group, rows, columns) {
  group.replaceChildren();
  panel.heads.forEach((head, k) => {
    const offset = SPREAD * ((k + 0.5) / panel.heads.length - 0.5);
    const y = (index) => (index + 0.5) * ROW + offset;
    const paths = Array(OPACITIES + 1).fill("");
    for (const i of rows) for (const j of columns) {
      const weight = panel.tables[k][i][j];
      if (weight < MIN_WEIGHT) continue;
      paths[Math.ceil(weight * OPACITIES - 1e-9)] += `M0 ${y(i)}L${WIDTH} ${y(j)}`;
    }
    paths.forEach((d, opacity) => d && group.append(svg("path", {
      d, style: `stroke: ${colour(head)}`, "stroke-opacity": opacity / OPACITIES,
      "stroke-dasharray": dashes(head),
    })));
  });
}

function wordList(panel, side, words) {
  const buttons = words.map(({ text, unknown, lang }, index) => {
    const button = element("button", { type: "button", textContent: visible(text), title: text,
      dir: "auto", lang, tabIndex: index ? -1 : 0 });
    Object.assign(button.dataset, { side, index });
    button.classList.toggle("unknown", unknown);
    return button;
  });
  const list = element("ol", { className: `words ${side}` },
    ...buttons.map((button) => element("li", {}, button)));
  list.setAttribute("aria-label", side === "from" ? "words that attend" : "words attended to");
  return { list, buttons };
}

// ---- the matrix of a panel

function labels(name, words) {
  const list = element("div", { className: name },
    ...words.map(({ text, lang }) =>
      element("span", { textContent: visible(text), dir: "auto", lang })));
  list.setAttribute("aria-hidden", "true");
  return list;
}

function buildMatrix(panel) {
  panel.canvas = element("canvas", { tabIndex: 0 });
  panel.canvas.setAttribute("role", "application");
  panel.canvas.setAttribute("aria-label",
    `weights of ${headNames(panel.heads)}; arrow keys move between cells`);
  panel.cell = element("div", { className: "cell" });
  panel.position = null;
  drawMatrix(panel);
  // A tap on a touch screen clicks without moving the pointer.
  for (const type of ["pointermove", "click"]) panel.canvas.addEventListener(type, (event) => {
    const box = panel.canvas.getBoundingClientRect();
    readCell(panel, Math.floor((event.clientY - box.top) / box.height * panel.from.length),
      Math.floor((event.clientX - box.left) / box.width * panel.to.length));
  });
  panel.canvas.addEventListener("pointerleave", () => point(pinned));
  panel.canvas.addEventListener("blur", () => point(pinned));
  panel.canvas.addEventListener("focus", () => readCell(panel, ...(panel.position ?? [0, 0])));
  panel.canvas.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    if (!(event.key in step)) return;
    event.preventDefault();
    const [i, j] = panel.position ?? [0, 0];
    readCell(panel, i + step[event.key][0], j + step[event.key][1]);
    panel.cell.scrollIntoView({ block: "nearest", inline: "nearest" });
  });
  const areLabelled = panel.to.length <= MAX_LABELS;
  return element("div", { className: areLabelled ? "matrix" : "matrix dense" },
    ...(areLabelled ? [labels("columns", panel.to)] : []), labels("rows", panel.from),
    element("div", { className: "cells" }, panel.canvas, panel.cell));
}

// Draws a pixel per weight, which the browser enlarges.
function drawMatrix({ canvas, mean, from, to }) {
  Object.assign(canvas, { width: to.length, height: from.length });
  const context = canvas.getContext("2d");
  context.fillStyle = MATRIX_COLOUR;
  mean.forEach((row, i) => row.forEach((weight, j) => {
    context.globalAlpha = Math.sqrt(weight); // makes small weights visible
    context.fillRect(j, i, 1, 1);
  }));
}

function readCell(panel, i, j) {
  if (!(i in panel.from && j in panel.to)) return;
  panel.position = [i, j];
  highlight(panel, { from: i, to: j });
  const numbers = panel.heads.map((head, k) => `head ${head + 1} ${format(panel.tables[k][i][j])}`);
  if (panel.heads.length > 1) numbers.unshift(`mean ${format(panel.mean[i][j])}`);
  showReadout(quoted(panel.from[i]), " → ", quoted(panel.to[j]), `: ${numbers.join(", ")}`);
}

// ---- pointing at a word

const format = (weight) => weight.toFixed(2);
// A quoted word; <bdi> isolates its writing direction.
const quoted = ({ text, lang }) => element("bdi", { textContent: `“${visible(text)}”`, lang });
const showReadout = (...parts) => $("readout").replaceChildren(...parts);

// Returns a text, or the code points of its characters if all are invisible.
function visible(text) {
  if (/[^\p{C}\p{Z}\p{M}]/u.test(text)) return text;
  return [...text].map((c) => `U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`)
    .join(" ");
}

// Returns the words of a side of a sentence without the end symbol, separated by spaces.
function textOf({ words }, side) {
  return words[side].slice(0, -1).map(([text]) => visible(text)).join(" ");
}

function point(word) {
  for (const panel of panels) {
    tint(panel, word);
    if (word === null) panel.one.replaceChildren();
    else if (word.side === "from")
      drawLines(panel, panel.one, [word.index], [...panel.to.keys()]);
    else drawLines(panel, panel.one, [...panel.from.keys()], [word.index]);
    panel.svg.classList.toggle("pointing", word !== null);
  }
  showReadout(...(word === null || !panels.length ? [] : describe(word)));
}

// Highlights a word on one side, on both or on none: { from: 2 }, { from: 2, to: 4 } or {}. Frames
// its row or column of the matrix, or the cell of both words.
function highlight(panel, indices) {
  for (const side of ["from", "to"]) panel.words[side].buttons.forEach((button, index) =>
    button.classList.toggle("pointed", indices[side] === index));
  const start = (side) => `${100 * (indices[side] ?? 0) / panel[side].length}%`;
  const size = (side) => (side in indices ? `${100 / panel[side].length}%` : "100%");
  panel.cell.hidden = Object.keys(indices).length === 0;
  Object.assign(panel.cell.style,
    { left: start("to"), width: size("to"), top: start("from"), height: size("from") });
}

// Highlights a word, and tints the words on the other side by their weights.
function tint(panel, word) {
  highlight(panel, word ? { [word.side]: word.index } : {});
  for (const side of ["from", "to"]) panel.words[side].buttons.forEach((button, index) => {
    const weight = word === null || word.side === side ? 0
      : side === "to" ? panel.mean[word.index][index] : panel.mean[index][word.index];
    const tint = weight < MIN_WEIGHT ? "0" : format(weight);
    if (button.tint === tint) return; // most words do not change, and setting a style is slow
    button.tint = tint;
    button.style.setProperty("--weight", tint);
  });
}

// Returns the panels that are in view: all, or on a phone the one that was swiped to.
function panelsInView() {
  const { scrollLeft, scrollWidth, clientWidth } = $("panels");
  if (scrollWidth <= clientWidth) return panels;
  return [panels[Math.round(scrollLeft / (scrollWidth - clientWidth) * (panels.length - 1))]];
}

// Returns the nodes of a sentence with a word's largest weights, averaged over the heads in view.
function describe({ side, index }) {
  const inView = panelsInView();
  const heads = inView.flatMap((panel) => panel.heads);
  const table = mean(inView.map((panel) => panel.mean));
  const { from, to } = panels[0];
  const pairs = (side === "from" ? to : from).map((other, k) =>
    ({ other, weight: side === "from" ? table[index][k] : table[k][index] }));
  const best = pairs.sort((a, b) => b.weight - a.weight).slice(0, 3)
    .filter(({ weight }, rank) => rank === 0 || weight >= MIN_WEIGHT)
    .flatMap(({ other, weight }, rank) => [["", ", then ", ", "][Math.min(rank, 2)], quoted(other),
      ` (${format(weight)})`]);
  const [before, after] = {
    encoder: ["To encode ", ", the encoder"],
    decoder: ["After reading ", ", the decoder"],
    encoder_decoder: ["To predict ", ", the decoder"],
  }[view.kind];
  return [...(side === "from" ? [before, quoted(from[index]), `${after} attends most to `]
    : [quoted(to[index]), " is attended to most by "]), ...best,
    heads.length > 1 ? `, averaged over ${heads.length} heads.` : ` in ${headNames(heads)}.`];
}

const wordAt = (target) => {
  const button = target.closest?.(".words button");
  return button && { side: button.dataset.side, index: Number(button.dataset.index) };
};

function listen(area) {
  area.addEventListener("pointerover", (event) => {
    const word = wordAt(event.target);
    if (word) point(word);
  });
  area.addEventListener("pointerout", (event) => {
    const onto = event.relatedTarget && wordAt(event.relatedTarget);
    if (wordAt(event.target) && !onto) point(pinned);
  });
  area.addEventListener("focusin", (event) => {
    const word = wordAt(event.target);
    if (word && event.target.matches(":focus-visible")) point(word);
  });
  area.addEventListener("focusout", (event) => {
    if (wordAt(event.target)) point(pinned);
  });
  area.addEventListener("click", (event) => {
    const word = wordAt(event.target);
    if (!word) return;
    const isPinned = pinned?.side === word.side && pinned.index === word.index;
    pin(isPinned ? null : word);
  });
  area.addEventListener("keydown", moveFocus);
}

function moveFocus(event) {
  const word = wordAt(event.target);
  if (!word) return;
  const panel = panels.find(({ element }) => element.contains(event.target));
  const { buttons } = panel.words[word.side];
  const other = panel.words[word.side === "from" ? "to" : "from"].buttons;
  const next = {
    ArrowDown: buttons[word.index + 1],
    ArrowUp: buttons[word.index - 1],
    Home: buttons[0],
    End: buttons.at(-1),
    ArrowLeft: word.side === "to" && other[Math.min(word.index, other.length - 1)],
    ArrowRight: word.side === "from" && other[Math.min(word.index, other.length - 1)],
  };
  if (!(event.key in next)) return;
  event.preventDefault();
  if (!next[event.key]) return;
  const list = next[event.key].closest(".words");
  for (const button of list.querySelectorAll("button")) button.tabIndex = -1;
  next[event.key].tabIndex = 0; // where Tab returns to
  next[event.key].focus();
}

// ---- the page

// Shows the view and the state of its controls.
function show() {
  const heads = selectedHeads();
  const groups = heads.length === 0 ? [] : view.apart ? heads.map((head) => [head]) : [heads];
  const scrolled = panels.map(({ matrix }) => matrix.scrollLeft);
  panels = groups.map(buildPanel);
  $("panels").replaceChildren(...panels.map((panel) => panel.element));
  panels.forEach(({ matrix }, k) => { matrix.scrollLeft = scrolled[k] ?? 0; });
  const [source, target] = ["source", "target"].map((side, i) =>
    element("bdi", { textContent: textOf(sentence(), side), lang: data.languages[i] }));
  $("text").replaceChildren(source, " → ", target);
  $("shown").textContent = `${data.kinds[view.kind]}, layer ${data.layers[view.layer]}, ` +
    (heads.length ? headNames(heads) : "no head selected");
  for (const button of $("heads").querySelectorAll("[data-head]"))
    button.setAttribute("aria-pressed", view.heads.has(Number(button.dataset.head)));
  $("sentence").value = view.sentence;
  for (const name of ["kind", "layer"])
    document.querySelector(`[name=${name}][value="${view[name]}"]`).checked = true;
  for (const name of ["joined", "apart"]) $(name).checked = view[name];
  markPinned();
  point(pinned);
  $("fragment").textContent = fragment();
}

// Writes the view to the URL.
function saveView() {
  $("fragment").textContent = fragment();
  history.replaceState(null, "", fragment());
}

// Changes the view of the same words.
function change(values) {
  Object.assign(view, values);
  show();
  saveView();
}

// Changes the view to different words.
function choose(values) {
  Object.assign(view, values);
  if (pinned) pinned = clearestWord(); // its index belongs to the previous words
  change({});
}

// Pins a word; null unpins it.
function pin(word) {
  pinned = word;
  markPinned();
  point(pinned);
  saveView();
}

// Tells screen readers which word is pinned.
function markPinned() {
  for (const { words } of panels) for (const side of ["from", "to"])
    words[side].buttons.forEach((button, index) => button.setAttribute("aria-pressed",
      pinned?.side === side && pinned.index === index));
}

function radios(box, name, labels, changed) {
  labels.forEach(([value, text]) => {
    const input = element("input", { type: "radio", name, value });
    input.addEventListener("change", () => changed(value));
    box.append(element("label", {}, input, ` ${text}`));
  });
}

function lineSample(head) {
  return svg("svg", { class: "sample", viewBox: "0 0 24 9", "aria-hidden": "true" }, svg("path", {
    d: "M0 4.5H24", style: `stroke: ${colour(head)}`, "stroke-width": 4,
    "stroke-dasharray": dashes(head) }));
}

function headButtons() {
  for (const head of allHeads) {
    const button = element("button", { type: "button" }, lineSample(head), String(head + 1));
    button.dataset.head = head;
    button.setAttribute("aria-label", `head ${head + 1}`);
    button.addEventListener("click", (event) => {
      if (event.shiftKey) view.heads = new Set([head]);
      else if (!view.heads.delete(head)) view.heads.add(head);
      change({});
    });
    $("heads").append(button);
  }
  for (const [text, heads] of [["all", allHeads], ["none", []]]) {
    const button = element("button", { type: "button", textContent: text, className: "some" });
    button.addEventListener("click", () => change({ heads: new Set(heads) }));
    $("heads").append(button);
  }
}

// Returns the URL fragment that selects the current view.
function fragment() {
  const values = new URLSearchParams({
    sentence: view.sentence + 1,
    kind: view.kind,
    layer: data.layers[view.layer],
    heads: selectedHeads().map((head) => head + 1),
    joined: Number(view.joined),
    apart: Number(view.apart),
    word: "",
  });
  if (pinned) {
    const { side, index } = pinned;
    const same = indicesOf(side, textAt(side, index));
    values.set("word", textAt(side, index));
    if (side === "to") values.set("side", side);
    if (same[0] !== index) values.set("number", same.indexOf(index) + 1);
  }
  return `#${values}`.replaceAll("%2C", ",");
}

const wordsOn = (side) => sides()[side === "from" ? 0 : 1];
const textAt = (side, index) => wordsOn(side)[index].text;
// Returns the positions of a word, which may be repeated.
const indicesOf = (side, text) =>
  wordsOn(side).flatMap((word, index) => (word.text === text ? [index] : []));

// Sets the view from the URL, such as attention.html#sentence=2&kind=decoder&layer=5&heads=1,5
// &word=making. Missing and invalid values leave the default.
function readFragment() {
  const values = new URLSearchParams(location.hash.slice(1));
  const index = Number(values.get("sentence")) - 1;
  view.sentence = index in data.sentences ? index : 0;
  const kind = (values.get("kind") ?? "").replace("-", "_"); // as in --kind encoder-decoder
  view.kind = Object.hasOwn(data.kinds, kind) ? kind : "encoder_decoder";
  const layer = data.layers.indexOf(Number(values.get("layer")));
  view.layer = layer >= 0 ? layer : data.layers.length - 1;
  const heads = values.get("heads")?.split(",").filter(Boolean).map((head) => Number(head) - 1);
  view.heads = new Set(heads?.every((head) => head in allHeads) ? heads : allHeads);
  for (const name of ["joined", "apart"]) view[name] = (values.get(name) ?? "1") === "1";
  const side = values.get("side") === "to" ? "to" : "from";
  const word = indicesOf(side, values.get("word"))[(values.get("number") ?? 1) - 1];
  pinned = word !== undefined ? { side, index: word } : values.has("word") ? null : clearestWord();
}

function start() {
  data.sentences.forEach((each, number) => $("sentence").append(
    element("option", { value: number, textContent: `${number + 1}. ${textOf(each, "source")}` })));
  $("sentence").addEventListener("change", (event) =>
    choose({ sentence: Number(event.target.value) }));
  radios($("kinds"), "kind", Object.entries(data.kinds), (kind) => choose({ kind }));
  radios($("layers"), "layer", data.layers.map((layer, i) => [i, layer]),
    (layer) => change({ layer })); // keeps the pinned word
  headButtons();
  $("about").textContent = data.about;
  if (data.home) $("about").append(" · ", element("a", { href: data.home,
    textContent: "translate another sentence" }));
  $("join").hidden = !data.sentences.some(({ subwords, words }) =>
    Object.keys(subwords).some((side) => subwords[side].length !== words[side].length));
  $("joined").addEventListener("change", (event) => choose({ joined: event.target.checked }));
  $("apart").addEventListener("change", (event) => change({ apart: event.target.checked }));
  $("settings").open = innerWidth > 600; // on a phone, the attention comes first
  listen($("panels"));
  const describeHeadsInView = () => point(pinned);
  $("panels").addEventListener("scroll", describeHeadsInView); // a phone, swiped
  addEventListener("resize", describeHeadsInView); // or rotated
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") pin(null);
  });
  addEventListener("hashchange", () => {
    readFragment();
    show();
  });
  readFragment();
  show();
}

start();
