"use strict";
// The page of the service. Text is only ever inserted as text, never as markup.
const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);

$("title").textContent = document.title;
$("source").textContent = data.source;
const [sourceLang, targetLang] = data.codes;
$("text").lang = sourceLang;
$("about").textContent = [
  data.model,
  ...(data.pairs ? [`trained on ${data.pairs} sentence pairs`] : []),
  ...(data.corpora.length ? [`corpora: ${data.corpora.join(", ")}`] : []),
].join(" · ");
$("example").textContent =
  `curl ${new URL("translate", location.href)} -H 'Content-Type: application/json' \\\n` +
  `  -d '{"text": "…"}'`;

/** Show a line above the translations: the time taken, or an error. */
function showStatus(line, isError = false) {
  $("status").textContent = line;
  $("status").classList.toggle("error", isError);
}

function element(name, className, text) {
  return Object.assign(document.createElement(name), { className, textContent: text });
}

/** An element with text from the user or model, in its language and direction. */
function sentenceElement(name, className, text, lang) {
  return Object.assign(element(name, className, text), { lang, dir: "auto" });
}

function listItem(sentence, translation) {
  const item = document.createElement("li");
  const link = element("a", "attention", "show attention");
  link.href = `attention?text=${encodeURIComponent(sentence)}`;
  link.target = "_blank";
  link.rel = "noopener";
  const score = element("span", "faint", `score ${translation.score.toFixed(2)}`);
  const details = element("div", "details", "");
  details.append(score, link);
  item.append(sentenceElement("div", "source", sentence, sourceLang),
    sentenceElement("div", "translation", translation.text, targetLang), details);
  return item;
}

async function translate(sentences) {
  const start = performance.now();
  const response = await fetch("translate", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ text: sentences }),
  });
  const isJson = response.headers.get("Content-Type") === "application/json";
  const answer = isJson ? await response.json() : { error: `HTTP status ${response.status}: try again` };
  if (!response.ok) throw new Error(answer.error);
  $("translations").replaceChildren(
    ...answer.translations.map((translation, i) => listItem(sentences[i], translation)));
  showStatus(`translated in ${((performance.now() - start) / 1000).toFixed(2)} s`);
}

/** While a request is running, further ones are ignored. A disabled button would lose the focus. */
let busy = false;

function setBusy(value) {
  busy = value;
  $("translate").setAttribute("aria-disabled", value);
}

$("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const sentences = $("text").value.split("\n").map((line) => line.trim()).filter(Boolean);
  if (busy) return;
  if (!sentences.length) return showStatus("no text: type a sentence", true);
  setBusy(true);
  showStatus("translating …");
  try {
    await translate(sentences);
  } catch (error) {
    // fetch fails with a TypeError, whose message depends on the browser and gives no reason.
    showStatus(error instanceof TypeError ? "the service does not respond" : error.message, true);
  }
  setBusy(false);
});

$("examples").hidden = !data.examples.length;
for (const sentence of data.examples) {
  const button = sentenceElement("button", "example", sentence, sourceLang);
  button.type = "button";
  button.addEventListener("click", () => {
    if (busy) return;
    $("text").value = sentence;
    $("form").requestSubmit();
  });
  $("examples").append(button);
}

$("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) $("form").requestSubmit();
});
